package docs_test

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/podgrace/podgrace/api/v1alpha1"
)

// The accounts that the page says to name are those of the examples, which a suite holds.
func TestActorsAreThoseOfTheExamples(t *testing.T) {
	files, err := filepath.Glob("../examples/actors/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var have []string
	for _, file := range files {
		var p v1alpha1.PodPolicy
		if text := readPage(t, file); strings.Contains(text, "kind: PodPolicy") {
			if err := yaml.UnmarshalStrict([]byte(text), &p); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			have = append(have, p.Spec.Removal.AllowedActors...)
		}
	}
	_, refused, _ := strings.Cut(readPage(t, "actors.md"), "## Who is refused without one")
	var want []string
	for _, m := range regexp.MustCompile("`((?:system:serviceaccount|eks):[^`]+)`").FindAllStringSubmatch(refused, -1) {
		want = append(want, m[1])
	}
	slices.Sort(have)
	slices.Sort(want)
	if have, want = slices.Compact(have), slices.Compact(want); !slices.Equal(have, want) {
		t.Errorf("the examples allow %q, the page names %q", have, want)
	}
	if len(want) == 0 {
		t.Error("the page names nobody")
	}
}
