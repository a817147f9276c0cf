package enforcer

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/podgrace/podgrace/cli/nodeplan"
)

// What the plan says without any policy is what the kubelet, the runtime and systemd wrote: nothing drifts.
func planIsWhatTheKubeletWrote(t *testing.T, g *Ground) {
	ns := g.Namespace(t)
	pods := g.classes(ns)
	g.Running(t, pods...)
	plan := g.Plan(t)
	containers := 0
	for _, c := range plan.Cgroups {
		if c.Missing {
			t.Errorf("%s (%s %s) is planned and not there", c.Path, c.Pod, c.Container)
		}
		if c.Level == "container" && strings.HasPrefix(c.Pod, ns+"/") {
			containers++
		}
	}
	if containers != len(pods)+1 {
		t.Errorf("the plan has %d containers of this test, want %d", containers, len(pods)+1)
	}
	g.asPlanned(t, plan, "is planned")
}

// asPlanned fails for what is not as a plan says.
func (g *Ground) asPlanned(t *testing.T, plan nodeplan.NodePlan, why string) {
	t.Helper()
	for _, c := range plan.Cgroups {
		for name, have := range c.Drift {
			t.Errorf("%s of %s (%s %s) is %s, %s %s", name, c.Path, c.Pod, c.Container, have, c.Files[name], why)
		}
	}
	for _, p := range plan.Processes {
		if p.Drift != "" && (p.OOMScoreAdj >= 0 || !g.NoLowerOOM) {
			t.Errorf("oom_score_adj of %s %s is %s, %d %s", p.Pod, p.Container, p.Drift, p.OOMScoreAdj, why)
		}
	}
}

// nothingLost compares with a plan without a policy, which is what the kubelet, the runtime and systemd wrote, and then with the
// policy's.
func (g *Ground) nothingLost(t *testing.T) {
	t.Helper()
	file := g.File(t, "apiVersion: podgrace.dev/v1alpha1\nkind: NodePolicy\nmetadata: {name: none}\nspec: {}\n")
	files := 0
	for _, c := range g.Plan(t, "--policy="+file).Cgroups {
		files += len(c.Files)
		for name, have := range c.Drift {
			t.Errorf("%s of %s is %s: %s is lost", name, c.Path, have, c.Files[name])
		}
	}
	t.Logf("%d files are the kubelet's and the runtime's", files)
	g.asPlanned(t, g.Plan(t), "is what the policy asks for")
}

// NoDrift returns when every file is as it is planned.
func (g *Ground) NoDrift(t *testing.T) {
	t.Helper()
	g.Eventually(t, "no drift", func(context.Context) (bool, error) {
		for _, c := range g.Plan(t).Cgroups {
			if len(c.Drift) > 0 {
				return false, fmt.Errorf("%s: want %v, drift %v", c.Path, c.Files, c.Drift)
			}
		}
		return true, nil
	})
}
