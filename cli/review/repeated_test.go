package review

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/podgrace/podgrace/internal/manifest"
)

func TestRepeatedIn(t *testing.T) {
	pod := func(namespace, name, file string, line int) Result {
		return Result{Resource: manifest.Resource{APIVersion: "v1", Kind: "Pod", Namespace: namespace, Name: name}, Source: manifest.Source{File: file, Line: line}}
	}
	asked := func(line int) *manifest.Document {
		return &manifest.Document{File: "audit.jsonl", Line: line, APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}
	}
	results := []Result{
		pod("a", "once", "a.yaml", 1), pod("a", "p", "a.yaml", 9), pod("b", "p", "b.yaml", 1), pod("a", "", "a.yaml", 20), pod("a", "", "a.yaml", 30),
		pod("b", "p", "list.json", 1), pod("a", "p", "b.yaml", 9), pod("a", "asked", "audit.jsonl", 1), pod("a", "asked", "audit.jsonl", 2),
	}
	want := []Repeated{
		{results[1].Resource, []manifest.Source{{File: "a.yaml", Line: 9}, {File: "b.yaml", Line: 9}}},
		{results[2].Resource, []manifest.Source{{File: "b.yaml", Line: 1}, {File: "list.json", Line: 1}}},
	}
	if diff := cmp.Diff(want, RepeatedIn(results, []*manifest.Document{asked(1), asked(2)})); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
