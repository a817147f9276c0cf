package webhook_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/policy"
	"github.com/podgrace/podgrace/policy/policytest"
	"github.com/podgrace/podgrace/webhook"
)

var noon = time.Date(2026, time.June, 1, 12, 0, 0, 0, time.UTC)

// Of what nobody granted only what its status tells is kept: who may ask for exceptions can ask for many, and for large ones.
func TestUngrantedExceptionsAreKeptSmall(t *testing.T) {
	var transform toolscache.TransformFunc
	for kind, options := range webhook.CacheOptions().ByObject {
		if _, ok := kind.(*unstructured.Unstructured); ok {
			transform = options.Transform
		}
	}
	for name, granted := range map[string]bool{"granted": true, "asked": false} {
		x := exception(name)
		x.Spec.AllPods, x.Spec.PodSelector = false, v1alpha1.SetAsLabelSelector(map[string]string{"app": strings.Repeat("a", 63)})
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
	}
}

// exception from the minimum of policy p in shop, granted, until an hour after noon.
func exception(name string, change ...func(*v1alpha1.PolicyException)) *v1alpha1.PolicyException {
	x := &v1alpha1.PolicyException{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "PolicyException"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name), Generation: 1},
		Spec:       v1alpha1.PolicyExceptionSpec{Policy: "p", Limits: []v1alpha1.LiftedLimit{v1alpha1.LiftMinSeconds}, AllPods: true, Reason: "r", Owner: "team shop", Until: "2026-06-01T13:00:00Z"},
		Status:     v1alpha1.PolicyExceptionStatus{Grant: &v1alpha1.Grant{By: "eve", UID: types.UID(name), Generation: 1}},
	}
	for _, c := range change {
		c(x)
	}
	return x
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

func ungranted(x *v1alpha1.PolicyException) { x.Status.Grant = nil }

// The store has what was granted, until its end by the clock; what can't be decoded stops nothing.
func TestExceptionStore(t *testing.T) {
	clock := testclock.NewFakePassiveClock(noon)
	store := webhook.NewExceptionStore(clock, logr.Discard())
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
	bad := untyped(t, exception("bad"))
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
	a, b := exception("a"), exception("b", ungranted)
	informer.Add(untyped(t, b))
	check("not granted")
	informer.Add(untyped(t, a))
	check("granted", "a")
	granted := exception("b")
	informer.Update(untyped(t, b), untyped(t, granted))
	check("both", "a", "b")
	edited := exception("a", func(x *v1alpha1.PolicyException) { x.Generation = 2 })
	informer.Update(untyped(t, a), untyped(t, edited))
	check("edited since", "b")
	informer.Update(untyped(t, edited), untyped(t, a))
	informer.Delete(untyped(t, granted))
	check("deleted", "a")
	if got := store.InForce("mall"); len(got) > 0 {
		t.Errorf("in another namespace: %v", got)
	}
	clock.SetTime(noon.Add(time.Hour))
	check("ended")
}

// A pod that is let through by an exception has it in the warning, in the audit log and in the count, once.
func TestExceptionIsTold(t *testing.T) {
	e := newEngine(t, cluster(namespace("shop")), nil, minimum("p", 20))
	registry := prometheus.NewRegistry()
	e.Metrics = webhook.NewMetrics(registry, e.Policies.(*webhook.PolicyStore))
	x, err := policy.CompileException(exception("batch"))
	if err != nil {
		t.Fatal(err)
	}
	e.Lookup.Exceptions = func(string) policy.Exceptions { return policy.Exceptions{x}.InForce(noon) }
	short := strings.Replace(plainPod, `"terminationGracePeriodSeconds":30`, `"terminationGracePeriodSeconds":5`, 1)
	const warning = "PolicyException batch holds for this pod until 2026-06-01T13:00:00Z: it lifts gracePeriod.minSeconds of PodPolicy p (owner: team shop)"
	const audited = "shop/batch until 2026-06-01T13:00:00Z, granted by eve, owner team shop: gracePeriod.minSeconds of PodPolicy p"
	mutated := webhook.Handler(e.MutatePods).Handle(t.Context(), review(pods, short))
	if len(mutated.Patches) > 0 || !slices.Contains(mutated.Warnings, warning) || mutated.AuditAnnotations["exceptions"] != audited {
		t.Errorf("mutated: %+v", mutated)
	}
	validated := webhook.Handler(e.ValidatePods).Handle(t.Context(), review(pods, short))
	if !validated.Allowed || !slices.Contains(validated.Warnings, warning) || validated.AuditAnnotations["exceptions"] != audited {
		t.Errorf("validated: %+v", validated)
	}
	if got := webhook.Handler(e.ValidatePods).Handle(t.Context(), review(pods, plainPod)); slices.Contains(got.Warnings, warning) || got.AuditAnnotations["exceptions"] != "" {
		t.Errorf("where it makes no difference: %+v", got)
	}
	const count = `
# HELP podgrace_pod_exceptions_total Pods for which a PolicyException lifted a limit, by the exception's namespace and the PodPolicy whose limit it lifts. Dry runs are not counted.
# TYPE podgrace_pod_exceptions_total counter
podgrace_pod_exceptions_total{namespace="shop",policy="p"} 1
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(count), "podgrace_pod_exceptions_total"); err != nil {
		t.Error(err)
	}
}

// Who asks for an exception learns that it takes a grant, and what is wrong with it.
func TestValidateExceptions(t *testing.T) {
	e := newEngine(t, cluster(namespace("shop")), nil, minimum("p", 20))
	e.Clock = testclock.NewFakePassiveClock(noon)
	kind := metav1.GroupVersionKind{Group: v1alpha1.GroupVersion.Group, Version: "v1alpha1", Kind: "PolicyException"}
	const grant = "it lifts nothing before it is granted by who has the verb except on PodPolicy "
	for name, tc := range map[string]struct {
		change func(*v1alpha1.PolicyException)
		want   []string // what warnings begin with; nil: it is refused
	}{
		"fine":            {func(*v1alpha1.PolicyException) {}, []string{grant + "p: kubectl podgrace grant -n shop batch."}},
		"not granted":     {ungranted, []string{grant}},
		"ended":           {func(x *v1alpha1.PolicyException) { x.Spec.Until = "2026-06-01T12:00:00Z" }, []string{"it ended at", grant}},
		"no such policy":  {func(x *v1alpha1.PolicyException) { x.Spec.Policy = "q" }, []string{"it lifts nothing: there is no PodPolicy q", grant}},
		"nothing to lift": {func(x *v1alpha1.PolicyException) { x.Spec.Limits[0] = v1alpha1.LiftZeroGrace }, []string{"it lifts nothing: PodPolicy p has no removal.zeroGrace", grant}},
		"no time":         {func(x *v1alpha1.PolicyException) { x.Spec.Until = "soon" }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			x := exception("batch")
			tc.change(x)
			text, err := json.Marshal(x)
			if err != nil {
				t.Fatal(err)
			}
			got := webhook.Handler(e.ValidatePolicies).Handle(t.Context(), review(kind, string(text)))
			if got.Allowed != (tc.want != nil) || !slices.EqualFunc(got.Warnings, tc.want, strings.HasPrefix) {
				t.Errorf("%v %q %s", got.Allowed, got.Warnings, message(got))
			}
		})
	}
}

// The leader says of each exception whether it is granted and in force, leaves the grant alone, and comes again when the next one ends.
func TestExceptionStatus(t *testing.T) {
	clock := testclock.NewFakePassiveClock(noon)
	kube := fake.NewClientBuilder().WithScheme(webhook.NewScheme()).WithStatusSubresource(&v1alpha1.PolicyException{}).
		WithObjects(minimum("p", 20), exception("in-force"), exception("asked", ungranted), exception("edited", func(x *v1alpha1.PolicyException) { x.Generation = 2 })).Build()
	s := &webhook.ExceptionStatus{Client: kube, Exceptions: kube, Clock: clock}
	check := func(want map[string]string, again time.Duration) {
		t.Helper()
		for name, states := range want {
			result, err := s.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "shop", Name: name}})
			if err != nil || result.RequeueAfter != again {
				t.Errorf("%s: %+v, %v", name, result, err)
			}
			var x v1alpha1.PolicyException
			if err := kube.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: name}, &x); err != nil {
				t.Fatal(err)
			}
			granted, inForce := meta.FindStatusCondition(x.Status.Conditions, v1alpha1.ConditionGranted), meta.FindStatusCondition(x.Status.Conditions, v1alpha1.ConditionInForce)
			if granted == nil || inForce == nil {
				t.Fatalf("%s: %+v", name, x.Status)
			}
			if got := fmt.Sprintf("%s %s, %s %s", granted.Status, granted.Reason, inForce.Status, inForce.Reason); got != states {
				t.Errorf("%s: %s, want %s", name, got, states)
			}
			if (x.Status.Grant == nil) != (name == "asked") || x.Status.ObservedGeneration != x.Generation {
				t.Errorf("%s: %+v", name, x.Status)
			}
		}
	}
	check(map[string]string{"in-force": "True Granted, True InForce", "asked": "False NotGranted, False NotGranted", "edited": "False ChangedSince, False ChangedSince"}, time.Hour)
	clock.SetTime(noon.Add(time.Hour))
	check(map[string]string{"in-force": "True Granted, False Ended", "asked": "False NotGranted, False Ended"}, 0)
	if _, err := s.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "shop", Name: "gone"}}); err != nil {
		t.Error(err)
	}
}

// Exceptions in force are compiled with the limits that they lift, and taken out when they have ended.
func TestLimitsWithExceptions(t *testing.T) {
	clock := testclock.NewFakePassiveClock(noon)
	p := minimum("p", 20)
	kube := fake.NewClientBuilder().WithScheme(webhook.NewScheme()).WithObjects(p, exception("a"), exception("b", ungranted)).Build()
	l := &webhook.Limits{Client: kube, Namespace: "ours", Exceptions: kube, Clock: clock}
	policies := policytest.Compile(t, p)
	result, err := l.Reconcile(t.Context(), reconcile.Request{})
	if err != nil || result.RequeueAfter != time.Hour {
		t.Errorf("%+v, %v", result, err)
	}
	wantStored(t, kube, webhook.CompileLimits(policies, policytest.CompileExceptions(t, exception("a")), "ours", ""))
	clock.SetTime(noon.Add(time.Hour))
	reconcileLimits(t, l)
	wantStored(t, kube, webhook.CompileLimits(policies, nil, "ours", ""))
}
