package main

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/podgrace/podgrace/e2e/chaos/plan"
	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/e2e/kind"
	"github.com/podgrace/podgrace/e2e/podgrace"
)

// programs are the webhook of this version and of another one. All else, such as its rights and what the API server asks it, is of this version: so it is in the middle of an upgrade, whose manifests
// are applied before the first replica is replaced, and of a rollback of the program alone.
type programs struct {
	current, other string // paths
	version        string // of the other one: its commit
}

// buildPrograms compiles the other one. Of what the two have in common Go's cache has all.
func buildPrograms(ctx context.Context, dir string) (p programs, err error) {
	p = programs{current: filepath.Join(dir, "bin", "webhook"), other: filepath.Join(dir, "bin", "webhook-other")}
	if p.version, err = otherVersion(ctx); err != nil {
		return p, err
	}
	sources := filepath.Join(dir, "other")
	if err := kind.ExportCommit(ctx, p.version, sources); err != nil {
		return p, err
	}
	return p, errors.Join(cluster.GoBuildOf(ctx, sources, p.other, "cmd/webhook"), os.RemoveAll(sources))
}

// otherVersion is the last release that the current commit has behind it, where the clone knows one; else the version that the upgrade in kind begins with. PODGRACE_UPGRADE_FROM names another one.
func otherVersion(ctx context.Context) (string, error) {
	root, err := cluster.ModuleRoot()
	if err != nil {
		return "", err
	}
	if os.Getenv("PODGRACE_UPGRADE_FROM") == "" {
		if release, err := (cluster.Command{Dir: root}).Run(ctx, "git", "describe", "--tags", "--abbrev=0", "--match=v*", "HEAD^"); err == nil {
			return release, nil
		}
	}
	return kind.PreviousCommit(ctx)
}

// swap has a replica be of the other version than it was. The two replicas of a storm may be of one version, or of two.
func (l *lab) swap(r *replica) (mend func(context.Context) error, err error) {
	to := r.swapped(l.replicas.programs)
	l.counts.add("replicas that were replaced by the "+to, 1)
	mend = func(ctx context.Context) error {
		if err := r.again(); err != nil {
			return err
		}
		return l.turnTo(ctx, r)
	}
	return mend, r.stop((*podgrace.Webhook).Stop)
}

// turnsWithin is how long a replica that was just started is waited for, until somebody turns to it.
const turnsWithin = 10 * time.Second

// turnTo has the API server ask a replica once it is ready: it keeps its connections, and would ask the other one for as long as that is well. If the replica is not ready in time, as where the control
// plane is away, it asks whom it likes.
func (l *lab) turnTo(ctx context.Context, r *replica) error {
	w := r.process()
	if err := cluster.UntilWithin(ctx, turnsWithin, "the replica to be ready", func(ctx context.Context) (bool, error) {
		return status(ctx, w.HealthURL+"/readyz") == http.StatusOK, nil
	}); err != nil {
		return ctx.Err()
	}
	if err := l.replicas.service.To(w.URL); err != nil { // until the next probe
		return err
	}
	l.replicas.service.Cut()
	l.attack(ctx, plan.Operation{Do: plan.ForceProtected})
	return nil
}

// swapped has the next process be of the other version, and returns which one that is.
func (r *replica) swapped(p programs) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.program == p.current {
		r.program = p.other
		return "other version, " + p.version
	}
	r.program = p.current
	return "current version"
}
