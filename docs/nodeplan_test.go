package docs_test

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

var (
	policyShown = regexp.MustCompile("(?s)```yaml\n(.*?)```\n")
	planShown   = regexp.MustCompile("(?s)```\n(nodeenforcer plan [^\n]*)\n```\n\n```\n(.*?)```\n")
)

// nodeenforcer.md shows what the command that it shows prints, by the policy that it shows. That the program changed go test's cache
// knows by TestLinks, which walks the whole repository.
func TestPlanIsAsShown(t *testing.T) {
	page := readPage(t, "nodeenforcer.md")
	policy, shown := policyShown.FindStringSubmatch(page), planShown.FindStringSubmatchIndex(page)
	if policy == nil || shown == nil {
		t.Fatal("nodeenforcer.md shows no policy, or no command with its plan")
	}
	fresh(t, "testdata/nodeplan/policy.yaml", policy[1])
	args := append([]string{"run", "-buildvcs=false", "../../../cmd/nodeenforcer"}, strings.Fields(page[shown[2]:shown[3]])[1:]...)
	plan := exec.CommandContext(t.Context(), "go", args...)
	plan.Dir, plan.Stderr = "testdata/nodeplan", os.Stderr
	printed, err := plan.Output()
	if err != nil {
		t.Fatal(err)
	}
	fresh(t, "nodeenforcer.md", page[:shown[4]]+string(printed)+page[shown[5]:])
}
