package main

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/podgrace/podgrace/e2e/chaos/plan"
	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/e2e/kind"
	"github.com/podgrace/podgrace/e2e/podgrace"
)

// programs are one program of this version and of another one. All else, such as its rights and what the API server asks it, is of this version: so it is in the middle of an upgrade, whose manifests
// are applied before the first replica is replaced, and of a rollback of the program alone.
type programs struct {
	current, other string // paths
	version        string // of the other one: its commit
}

// buildPrograms compiles some of the programs of cmd, of the other version, and says where that of this version is to be. Of what the two have in common Go's cache has all.
func buildPrograms(ctx context.Context, dir string, names ...string) (map[string]programs, error) {
	version, err := otherVersion(ctx)
	if err != nil {
		return nil, err
	}
	sources := filepath.Join(dir, "other")
	if err := kind.ExportCommit(ctx, version, sources); err != nil {
		return nil, err
	}
	all := map[string]programs{}
	for _, name := range names {
		p := programs{current: filepath.Join(dir, "bin", name), other: filepath.Join(dir, "bin", name+"-other"), version: version}
		if err := cluster.GoBuildOf(ctx, sources, p.other, "cmd/"+name); err != nil {
			return nil, err
		}
		all[name] = p
	}
	return all, os.RemoveAll(sources)
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
func (r *replica) swapped(p programs) (to string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.program, to = p.instead(r.program)
	return to
}

// instead is the other one of the two, and which version that is.
func (p programs) instead(of string) (program, version string) {
	if of == p.current {
		return p.other, "other version, " + p.version
	}
	return p.current, "current version"
}
