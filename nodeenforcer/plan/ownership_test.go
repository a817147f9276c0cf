package plan_test

import (
	"testing"

	"gotest.tools/v3/golden"

	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgroupfile"
	"github.com/podgrace/podgrace/nodeenforcer/plan"
)

// TestOwnershipMarkdown keeps the page fresh.
func TestOwnershipMarkdown(t *testing.T) {
	golden.Assert(t, plan.OwnershipMarkdown(), "../../../docs/nodeenforcer-files.md")
}

// TestOwnershipConsistent: a rule that is ours is nobody else's, and no file has two rules under one condition.
func TestOwnershipConsistent(t *testing.T) {
	type key struct {
		file      string
		level     plan.Level
		version   cgroupfile.Version
		driver    plan.Driver
		condition plan.Condition
	}
	seen := map[key]bool{}
	for _, r := range plan.Ownership {
		if (r.Owner == plan.Nobody) != (r.When == plan.Ours) {
			t.Errorf("%s at %s: owner %s, written %s", r.File, r.Level, r.Owner, r.When)
		}
		if r.File == "" || r.Level == "" || r.Value == "" || r.Source == "" || r.When == "" {
			t.Errorf("incomplete: %+v", r)
		}
		for _, v := range []cgroupfile.Version{cgroupfile.V1, cgroupfile.V2} {
			for _, d := range []plan.Driver{plan.Cgroupfs, plan.Systemd} {
				if r.Version != 0 && r.Version != v || r.Driver != "" && r.Driver != d {
					continue
				}
				k := key{r.File, r.Level, v, d, r.Condition}
				if seen[k] {
					t.Errorf("two rules for %+v", k)
				}
				seen[k] = true
				if found, ok := plan.RuleFor(r.File, r.Level, v, d, r.Condition); !ok || found != r {
					t.Errorf("RuleFor(%+v) = %+v, %v", k, found, ok)
				}
			}
		}
	}
}
