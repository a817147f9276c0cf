package report

import (
	"strings"
	"testing"

	"github.com/podgrace/podgrace/cli/review"
	"github.com/podgrace/podgrace/internal/manifest"
)

// What a repository has a hundred times is no wall of text.
func TestRemarksAreShort(t *testing.T) {
	r := remarked("no")
	one := r.Repeated[0]
	for range 9 {
		one.Sources = append(one.Sources, manifest.Source{File: "more.yaml", Line: 7})
	}
	r.Repeated = []review.Repeated{one, one, one, one, one}
	lines := Remarks(r)
	last := lines[len(lines)-1]
	if strings.Count(last, "Deployment shop/calm (a.yaml:1, no:3, stdin and 9 more)") != 3 || !strings.HasSuffix(last, ") and 2 more") {
		t.Error(last)
	}
}
