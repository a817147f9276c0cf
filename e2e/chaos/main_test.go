package main

import (
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/podgrace/podgrace/e2e/chaos/plan"
	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/e2e/cluster/clustertest"
	"github.com/podgrace/podgrace/e2e/suite"
)

// brief is some minutes of what the command does for an hour, by a plan that is always the same: the last two rounds of an era, since after the last one all replicas may be ended.
var brief = options{round: 6, rounds: 2, storm: 50 * time.Second, seed: 58815, drills: "refusals,outage", node: true}

// Its rounds have each fault.
func TestBriefHasEachFault(t *testing.T) {
	has := map[plan.Fault]bool{}
	for number := range brief.rounds {
		for _, s := range plan.Draw(brief.seed, brief.round+number, plan.Options{Storm: brief.storm}).Steps {
			has[s.Fault] = true
		}
	}
	for _, f := range plan.Faults() {
		if !has[f] {
			t.Errorf("%s does not happen: take another seed", f)
		}
	}
}

func TestChaos(t *testing.T) {
	if os.Getenv(suite.KubeconfigVariable) != "" {
		t.Skip("it breaks no cluster that somebody else may need")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Minute) // the first run on a machine builds Kubernetes
	defer cancel()
	_, unmet := cluster.Binaries(ctx, os.Stderr, cluster.Options{ControllerManager: true, Scheduler: true}.Programs()...)
	clustertest.Require(t, unmet)
	var out strings.Builder
	err := run(ctx, brief, &out, os.Stderr)
	t.Log(out.String())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"nothing was violated", "seed=58815", "drills, of refusals", "drills, of outage"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it does not say %q", want)
		}
	}
	if never := neverMade(out.String()); len(never) > 0 {
		t.Errorf("these faults were not made: %v", never)
	}
}

// neverMade are the faults of which a report says neither that they happened nor that they could not be made, because of what else was away.
func neverMade(report string) []plan.Fault {
	return slices.DeleteFunc(plan.Faults(), func(f plan.Fault) bool {
		return regexp.MustCompile(`(?m)^(` + string(f) + ` +|faults that could not be made: ` + string(f) + `: )[1-9]`).MatchString(report)
	})
}

func TestNeverMade(t *testing.T) {
	c := newCounts()
	for _, f := range plan.Faults() {
		switch f {
		case plan.CutNode:
		case plan.StartKubelet:
			c.add("faults that could not be made: "+string(f), 1)
		default:
			c.fault(f, time.Second)
		}
	}
	var out strings.Builder
	if err := c.report(&out); err != nil {
		t.Fatal(err)
	}
	if never := neverMade(out.String()); len(never) != 1 || never[0] != plan.CutNode {
		t.Errorf("%v of\n%s", never, out.String())
	}
}

// A CA is asked for until somebody answers. Where nobody does that is no fault that was made, and the run goes on.
func TestReplaceCA(t *testing.T) {
	l, answers := scripted(), 0
	l.kube = fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
		if answers--; answers == 0 {
			return nil
		}
		return errors.New("nobody is there")
	}}).Build()
	if err := l.replaceCA(t.Context(), time.Millisecond); !errors.Is(err, errNotMade) || !strings.Contains(err.Error(), "nobody is there") {
		t.Errorf("nobody answers: %v", err)
	}
	answers = 3
	if err := l.happen(t.Context(), time.Now(), plan.Step{Fault: plan.ReplaceCA}); err != nil || answers != 0 || l.counts.faults[plan.ReplaceCA] != 1 {
		t.Errorf("the third time somebody answers: %v, %v", err, l.counts.faults)
	}
}

func TestOptions(t *testing.T) {
	read := func(args ...string) (options, error) {
		o := defaults()
		f := flag.NewFlagSet("chaos", flag.ContinueOnError)
		o.AddFlags(f)
		if err := f.Parse(args); err != nil {
			t.Fatal(err)
		}
		return o, o.Validate()
	}
	o, err := read("-only=kill-etcd,cut-node", "-seed=3", "-time=1m")
	if !o.another(7, time.Minute-1) || o.another(0, time.Minute) {
		t.Error("a round begins after the time, or none within it")
	}
	if o := (options{time: time.Minute, rounds: 2}); !o.another(1, time.Hour) || o.another(2, 0) {
		t.Error("there are not as many rounds as were asked for")
	}
	if err != nil || o.seed != 3 || len(o.faults()) != 2 || o.faults()[1] != plan.CutNode {
		t.Errorf("%+v, %v", o, err)
	}
	for _, bad := range []string{"-only=kill-everything", "-time=0s", "-storm=-1s", "-round=-1", "-rounds=-1"} {
		name, _, _ := strings.Cut(bad, "=")
		if _, err := read(bad); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// What the weather says holds an operation up, and no longer than it did.
func TestWeather(t *testing.T) {
	w, began := &weather{}, time.Now().Add(-time.Hour)
	of := []plan.Scope{plan.ControlPlane}
	end := w.begin(plan.ControlPlane)
	if w.quietSince(began, of).Equal(began) {
		t.Error("what is hit now holds nothing up")
	}
	end()
	if since := w.quietSince(began, of); since.Equal(began) || since.After(time.Now()) {
		t.Errorf("quiet since %s", since)
	}
	if !w.quietSince(began, []plan.Scope{plan.Replica}).Equal(began) {
		t.Error("what hit something else holds it up")
	}
	later := time.Now().Add(time.Hour)
	if !w.quietSince(later, of).Equal(later) {
		t.Error("what was mended before it began holds it up")
	}
}

// Faults that follow each other closely are one spell.
func TestSpell(t *testing.T) {
	w := &weather{}
	if !w.spellOf(plan.ControlPlane).IsZero() {
		t.Error("nothing was hit yet")
	}
	end := w.begin(plan.ControlPlane)
	first := w.spellOf(plan.ControlPlane)
	end()
	w.begin(plan.ControlPlane)()
	if again := w.spellOf(plan.ControlPlane); first.IsZero() || again != first {
		t.Errorf("the next fault has a spell of its own, %s after %s", again, first)
	}
	w.ended[plan.ControlPlane] = time.Now().Add(-spellEnds - time.Second)
	w.begin(plan.Kubelet)
	if !w.spellOf(plan.ControlPlane).Equal(first) {
		t.Error("it is of what hit something else")
	}
	if w.begin(plan.ControlPlane); !w.spellOf(plan.ControlPlane).After(first) {
		t.Error("a fault long after is of the same spell")
	}
}

// A run tells of a violation with the plan's steps that were near it.
func TestViolated(t *testing.T) {
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	l := &lab{progress: log, began: time.Now()}
	l.begin(plan.Round{Number: 3, Steps: []plan.Step{{Fault: plan.CutNode, Target: 2, For: time.Second}, {Fault: plan.KillEtcd, At: time.Hour}}})
	l.violated("two copies of %s", "db-0")
	found := l.found()
	if len(found) != 1 || !strings.Contains(found[0], "round 3") || !strings.Contains(found[0], "two copies of db-0") || !strings.Contains(found[0], "cut-node 2") || strings.Contains(found[0], "kill-etcd") {
		t.Errorf("%q", found)
	}
}
