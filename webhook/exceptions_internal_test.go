package webhook

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

func aPlea(name string, generation int64, grant map[string]any) *unstructured.Unstructured {
	u := exceptionKind()
	u.SetNamespace("shop")
	u.SetName(name)
	u.SetUID(types.UID(name))
	u.SetGeneration(generation)
	_ = unstructured.SetNestedField(u.Object, "p", "spec", "policy")
	if grant != nil {
		_ = unstructured.SetNestedMap(u.Object, grant, "status", "grant")
	}
	return u
}

// Limits are compiled anew only for what may change which exceptions are in force: a tenant's edits of what nobody granted cost nothing.
func TestGrantChanged(t *testing.T) {
	eve, joe := map[string]any{"by": "eve", "generation": int64(1)}, map[string]any{"by": "joe", "generation": int64(1)}
	told := aPlea("x", 1, eve)
	_ = unstructured.SetNestedField(told.Object, int64(1), "status", "observedGeneration")
	for name, tc := range map[string]struct {
		was, is *unstructured.Unstructured
		want    bool
	}{
		"asked":                        {is: aPlea("x", 1, nil)},
		"edited before it was granted": {was: aPlea("x", 1, nil), is: aPlea("x", 2, nil)},
		"withdrawn":                    {was: aPlea("x", 1, nil)},
		"there with its grant":         {is: aPlea("x", 1, eve), want: true},
		"granted":                      {was: aPlea("x", 1, nil), is: aPlea("x", 1, eve), want: true},
		"granted by another":           {was: aPlea("x", 1, eve), is: aPlea("x", 1, joe), want: true},
		"revoked":                      {was: aPlea("x", 1, eve), is: aPlea("x", 1, nil), want: true},
		"edited after":                 {was: aPlea("x", 1, eve), is: aPlea("x", 2, eve), want: true},
		"another object":               {was: aPlea("x", 1, eve), is: aPlea("y", 1, eve), want: true},
		"deleted after":                {was: aPlea("x", 1, eve), want: true},
		"its conditions written":       {was: aPlea("x", 1, eve), is: told},
	} {
		t.Run(name, func(t *testing.T) {
			var got bool
			switch {
			case tc.was == nil:
				got = grantChanged.Create(event.CreateEvent{Object: tc.is})
			case tc.is == nil:
				got = grantChanged.Delete(event.DeleteEvent{Object: tc.was})
			default:
				got = grantChanged.Update(event.UpdateEvent{ObjectOld: tc.was, ObjectNew: tc.is})
			}
			if got != tc.want {
				t.Errorf("%t", got)
			}
		})
	}
}
