package plan_test

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgroupfile"
	"github.com/podgrace/podgrace/nodeenforcer/plan"
)

// TestOwnershipMarkdown keeps the page fresh.
func TestOwnershipMarkdown(t *testing.T) {
	const page = "../../docs/nodeenforcer-files.md"
	got := plan.OwnershipMarkdown()
	if *update {
		if err := os.WriteFile(page, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s is stale (-want +got; go test -update writes it):\n%s", page, diff)
	}
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
