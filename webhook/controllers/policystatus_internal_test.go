package controllers

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// What a later version's CustomResourceDefinition lets through is told by its path.
func TestUnknownFieldsOfAPolicy(t *testing.T) {
	for name, test := range map[string]struct {
		spec map[string]any
		want []string
	}{
		"none":         {map[string]any{"gracePeriod": map[string]any{"minSeconds": int64(5)}}, nil},
		"two":          {map[string]any{"surge": true, "gracePeriod": map[string]any{"minSeconds": int64(5), "later": map[string]any{"x": int64(1)}}}, []string{"spec.gracePeriod.later", "spec.surge"}},
		"another type": {map[string]any{"gracePeriod": "long"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			p := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "podgrace.dev/v1alpha1", "kind": "PodPolicy", "metadata": map[string]any{"name": "p"}, "spec": test.spec}}
			if diff := cmp.Diff(test.want, unknownFieldsOf(p)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
