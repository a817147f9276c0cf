package main

import (
	"context"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

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
