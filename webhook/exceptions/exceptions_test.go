package exceptions_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/policy/policytest"
	"github.com/podgrace/podgrace/webhook"
	"github.com/podgrace/podgrace/webhook/exceptions"
	"github.com/podgrace/podgrace/webhook/lookup"
)

// Of what nobody granted only what its status tells is kept: who may ask for exceptions can ask for many, and for large ones.
func TestUngrantedExceptionsAreKeptSmall(t *testing.T) {
	var transform toolscache.TransformFunc
	for kind, options := range lookup.CacheOptions().ByObject {
		if _, ok := kind.(*unstructured.Unstructured); ok {
			transform = options.Transform
		}
	}
	for name, granted := range map[string]bool{"granted": true, "asked": false} {
		x := policytest.NamedException(name)
		x.Spec.AllPods, x.Spec.PodSelector = false, v1alpha1.SetAsLabelSelector(map[string]string{"app": strings.Repeat("a", 63)})
		x.ManagedFields = []metav1.ManagedFieldsEntry{{APIVersion: v1alpha1.GroupVersion.String(), FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:users":{}}}`)}}
		x.Spec.Reason, x.Annotations = strings.Repeat("r", 1000), map[string]string{"a": strings.Repeat("a", 1000)}
		if !granted {
			x.Status.Grant = nil
		}
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(x)
		if err != nil {
			t.Fatal(err)
		}
		kept, err := transform(&unstructured.Unstructured{Object: content})
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(kept)
		if err != nil {
			t.Fatal(err)
		}
		if small := len(text) < 500; small == granted || strings.Contains(string(text), "annotations") {
			t.Errorf("%s: %d bytes are kept: %s", name, len(text), text)
		}
		if err := exceptions.Read(kept.(*unstructured.Unstructured)).Err; (err != nil) != granted { // what is not read of it matters once it was granted
			t.Errorf("%s: that a field is not read: %v", name, err)
		}
	}
}

// The store has what was granted, until its end by the clock; what can't be decoded stops nothing.
func TestExceptionStore(t *testing.T) {
	clock := testclock.NewFakePassiveClock(policytest.Noon)
	store := exceptions.NewStore(clock, logr.Discard())
	informers := &informertest.FakeInformers{Scheme: webhook.NewScheme()}
	if _, err := store.Watch(t.Context(), informers); err != nil {
		t.Fatal(err)
	}
	kind := &unstructured.Unstructured{}
	kind.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("PolicyException"))
	informer, err := informers.FakeInformerFor(t.Context(), kind)
	if err != nil {
		t.Fatal(err)
	}
	check := func(step string, want ...string) {
		t.Helper()
		var got []string
		for _, x := range store.InForce("shop") {
			got = append(got, x.Name)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", step, got, want)
		}
	}
	bad := untyped(t, policytest.NamedException("bad"))
	for _, change := range []func(){
		func() { bad.Object["spec"] = "none" },
		func() { bad.Object["spec"] = map[string]any{"until": int64(3)} },
		func() {
			bad.Object["status"] = map[string]any{"conditions": []any{map[string]any{"lastTransitionTime": "yesterday"}}}
		},
	} {
		change()
		informer.Add(bad)
		check("not decoded")
	}
	a, b := policytest.NamedException("a"), policytest.NamedException("b", policytest.Ungranted)
	informer.Add(untyped(t, b))
	check("not granted")
	informer.Add(untyped(t, a))
	check("granted", "a")
	granted := policytest.NamedException("b")
	informer.Update(untyped(t, b), untyped(t, granted))
	check("both", "a", "b")
	edited := policytest.NamedException("a", func(x *v1alpha1.PolicyException) { x.Generation = 2 })
	informer.Update(untyped(t, a), untyped(t, edited))
	check("edited since", "b")
	informer.Update(untyped(t, edited), untyped(t, a))
	informer.Delete(untyped(t, granted))
	check("deleted", "a")
	if got := store.InForce("mall"); len(got) > 0 {
		t.Errorf("in another namespace: %v", got)
	}
	clock.SetTime(policytest.Noon.Add(time.Hour))
	check("ended")
}

func untyped(t *testing.T, object any) *unstructured.Unstructured {
	t.Helper()
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	if err := json.Unmarshal(text, &u.Object); err != nil {
		t.Fatal(err)
	}
	return u
}

func policyException(name string, generation int64, grant map[string]any) *unstructured.Unstructured {
	u := exceptions.New()
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

// Limits are compiled again only for what may change which exceptions are in force: a tenant's edits of what nobody granted cost nothing.
func TestGrantChanged(t *testing.T) {
	eve, joe := map[string]any{"by": "eve", "generation": int64(1)}, map[string]any{"by": "joe", "generation": int64(1)}
	told := policyException("x", 1, eve)
	_ = unstructured.SetNestedField(told.Object, int64(1), "status", "observedGeneration")
	for name, tc := range map[string]struct {
		was, is *unstructured.Unstructured
		want    bool
	}{
		"asked":                        {is: policyException("x", 1, nil)},
		"edited before it was granted": {was: policyException("x", 1, nil), is: policyException("x", 2, nil)},
		"withdrawn":                    {was: policyException("x", 1, nil)},
		"there with its grant":         {is: policyException("x", 1, eve), want: true},
		"granted":                      {was: policyException("x", 1, nil), is: policyException("x", 1, eve), want: true},
		"granted by another":           {was: policyException("x", 1, eve), is: policyException("x", 1, joe), want: true},
		"revoked":                      {was: policyException("x", 1, eve), is: policyException("x", 1, nil), want: true},
		"edited after":                 {was: policyException("x", 1, eve), is: policyException("x", 2, eve), want: true},
		"another object":               {was: policyException("x", 1, eve), is: policyException("y", 1, eve), want: true},
		"deleted after":                {was: policyException("x", 1, eve), want: true},
		"its conditions written":       {was: policyException("x", 1, eve), is: told},
	} {
		t.Run(name, func(t *testing.T) {
			var got bool
			switch {
			case tc.was == nil:
				got = exceptions.GrantChanged.Create(event.CreateEvent{Object: tc.is})
			case tc.is == nil:
				got = exceptions.GrantChanged.Delete(event.DeleteEvent{Object: tc.was})
			default:
				got = exceptions.GrantChanged.Update(event.UpdateEvent{ObjectOld: tc.was, ObjectNew: tc.is})
			}
			if got != tc.want {
				t.Errorf("%t", got)
			}
		})
	}
}
