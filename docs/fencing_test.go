package docs_test

import (
	"strings"
	"testing"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/fencing"
)

// Whoever reads a condition, or the message of a Fence, finds its reason on the page.
func TestReasonsOfFencingAreTold(t *testing.T) {
	page := readPage(t, "fencing.md")
	for _, r := range fencing.Reasons() {
		if r.Help != "" && !strings.Contains(page, "| `"+r.Code+"` | "+r.Short+" |\n") {
			t.Errorf("fencing.md lacks the row | `%s` | %s |", r.Code, r.Short)
		}
	}
	for _, phase := range []v1alpha1.FencePhase{v1alpha1.FenceWaiting, v1alpha1.FenceDecided, v1alpha1.FenceActing, v1alpha1.FenceVerified, v1alpha1.FenceReleased, v1alpha1.FenceOver} {
		if !strings.Contains(page, "\n| "+string(phase)+" | ") {
			t.Errorf("fencing.md lacks phase %s", phase)
		}
	}
}
