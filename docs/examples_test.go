package docs_test

import (
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/policy/enforcement"
)

// What the examples' PodPolicies ask of nodes, their NodePolicy lets them have.
func TestExamplesAreEnforced(t *testing.T) {
	var nodes v1alpha1.NodePolicy
	if err := yaml.UnmarshalStrict([]byte(readPage(t, "../examples/node-enforcer/nodepolicy.yaml")), &nodes); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("../examples/*/policy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	asking := 0
	for _, file := range files {
		for document := range strings.SplitSeq(readPage(t, file), "\n---\n") {
			var p v1alpha1.PodPolicy
			if err := yaml.UnmarshalStrict([]byte(document), &p); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			if p.Spec.Node == nil {
				continue
			}
			asking++
			for _, o := range enforcement.Under(p.Spec.Node, &nodes.Spec) {
				if o.Why != "" {
					t.Errorf("%s: PodPolicy %s: %s %s becomes %q: %s", file, p.Name, o.Field, o.Asked, o.Got, o.Why)
				}
			}
		}
	}
	if asking < 3 {
		t.Errorf("%d examples have a node section", asking)
	}
}
