package controllers_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/policy"
	"github.com/podgrace/podgrace/webhook"
	"github.com/podgrace/podgrace/webhook/controllers"
)

// The guard is armed where a policy needs it, nobody has switched it off, and a replica answers; it stays so while none does.
func TestArming(t *testing.T) {
	const namespace = "ours"
	us := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: "podgrace-webhook"}
	removal := func(action v1alpha1.RemovalAction) *v1alpha1.PodPolicy {
		return &v1alpha1.PodPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: v1alpha1.PodPolicySpec{Removal: &v1alpha1.RemovalSection{ForceDelete: action}}}
	}
	unread := removal(v1alpha1.RemovalDeny)
	unread.Spec.Match = &v1alpha1.PodMatch{NamespaceSelector: &v1alpha1.LabelSelector{MatchExpressions: []v1alpha1.LabelSelectorRequirement{{Key: "a", Operator: "in"}}}}
	deaf := errors.New("nobody answers")
	for name, tc := range map[string]struct {
		policy   *v1alpha1.PodPolicy
		fixed    policy.Policies
		armed    bool
		off      string
		answered error
		want     bool
		state    controllers.GuardState
		fails    bool
		blind    bool
	}{
		"no policy":                          {state: controllers.GuardIdle},
		"no policy any more":                 {armed: true, state: controllers.GuardIdle},
		"a policy that allows":               {policy: removal(v1alpha1.RemovalAllow), armed: true, state: controllers.GuardIdle},
		"a policy that denies":               {policy: removal(v1alpha1.RemovalDeny), want: true, state: controllers.GuardArmed},
		"a policy that warns":                {policy: removal(v1alpha1.RemovalWarn), want: true, state: controllers.GuardArmed},
		"a policy that denies by default":    {policy: removal(""), want: true, state: controllers.GuardArmed},
		"a policy of which namespaces":       {policy: unread, want: true, state: controllers.GuardArmed}, // can't be read
		"a policy from a file":               {fixed: policy.InForce([]v1alpha1.PodPolicy{*removal(v1alpha1.RemovalDeny)}), want: true, state: controllers.GuardArmed},
		"no policy in the files":             {policy: removal(v1alpha1.RemovalDeny), fixed: policy.Policies{}, armed: true, state: controllers.GuardIdle},
		"armed already, and nobody answers":  {policy: removal(v1alpha1.RemovalDeny), armed: true, answered: deaf, want: true, state: controllers.GuardArmed},
		"the API server has not seen it":     {policy: removal(v1alpha1.RemovalDeny), want: true, blind: true, state: controllers.GuardWaiting},
		"nobody answers yet":                 {policy: removal(v1alpha1.RemovalDeny), answered: deaf, state: controllers.GuardWaiting, fails: true},
		"switched off":                       {policy: removal(v1alpha1.RemovalDeny), armed: true, off: "off", state: controllers.GuardSwitchedOff},
		"switched off, nobody has the right": {policy: removal(v1alpha1.RemovalDeny), off: "off", state: controllers.GuardSwitchedOff},
		"a word that switches nothing":       {policy: removal(v1alpha1.RemovalDeny), off: "no", want: true, state: controllers.GuardArmed},
	} {
		t.Run(name, func(t *testing.T) {
			binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: controllers.GuardBinding}, RoleRef: rbacv1.RoleRef{Kind: "Role", Name: "podgrace-guard"}}
			if tc.armed {
				binding.Subjects = []rbacv1.Subject{us}
			}
			if tc.off != "" {
				binding.Annotations = map[string]string{controllers.AnnotationGuard: tc.off}
			}
			objects := []client.Object{binding}
			if tc.policy != nil {
				objects = append(objects, tc.policy)
			}
			kube := fake.NewClientBuilder().WithScheme(webhook.NewScheme()).WithObjects(objects...).Build()
			var state controllers.GuardState
			now := testclock.NewFakePassiveClock(time.Now())
			a := &controllers.Arming{
				Right: controllers.GuardRight, Client: kube, Live: kube, Namespace: namespace, Fixed: tc.fixed, Tell: func(s controllers.GuardState) { state = s }, Clock: now,
				Answered: func(context.Context) error { return tc.answered }, Judges: func(context.Context) (bool, error) { return !tc.blind, nil },
			}
			for range 2 { // a lull apart
				if _, err := a.Reconcile(t.Context(), reconcile.Request{}); (err != nil) != tc.fails || tc.fails && !errors.Is(err, deaf) {
					t.Fatal(err)
				}
				now.SetTime(now.Now().Add(10 * time.Second))
			}
			if err := kube.Get(t.Context(), client.ObjectKeyFromObject(binding), binding); err != nil {
				t.Fatal(err)
			}
			var want []rbacv1.Subject
			if tc.want {
				want = []rbacv1.Subject{us}
			}
			if diff := cmp.Diff(want, binding.Subjects); diff != "" || state != tc.state {
				t.Errorf("state %s, want %s; who has the right: %s", state, tc.state, diff)
			}
		})
	}
}

// Limits that fail closed are armed by any policy, of what section ever, and by nothing else of the guard's.
func TestArmingLimits(t *testing.T) {
	us := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "ours", Name: "podgrace-webhook"}}
	deaf := errors.New("nobody answers")
	allows := &v1alpha1.PodPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: v1alpha1.PodPolicySpec{Removal: &v1alpha1.RemovalSection{ForceDelete: v1alpha1.RemovalAllow}}}
	limits := &v1alpha1.PodPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: v1alpha1.PodPolicySpec{GracePeriod: &v1alpha1.GracePeriodSection{MaxSeconds: new(int64(60))}}}
	for name, tc := range map[string]struct {
		policy   *v1alpha1.PodPolicy
		before   []rbacv1.Subject
		off      string
		answered error
		want     []rbacv1.Subject
	}{
		"no policy":                    {},
		"no policy any more":           {before: us},
		"limits":                       {policy: limits, want: us},
		"no limits":                    {policy: allows, want: us},
		"nobody answers yet":           {policy: limits, answered: deaf},
		"nobody answers any more":      {policy: limits, before: us, answered: deaf, want: us},
		"switched off":                 {policy: limits, before: us, off: controllers.GuardOff},
		"no policy, nobody answers":    {answered: deaf},
		"the right of another account": {policy: limits, before: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "ours", Name: "default"}}, want: us},
	} {
		t.Run(name, func(t *testing.T) {
			binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "ours", Name: controllers.LimitsBinding, Annotations: map[string]string{controllers.AnnotationGuard: tc.off}}, Subjects: tc.before}
			guard := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "ours", Name: controllers.GuardBinding}}
			objects := []client.Object{binding, guard}
			if tc.policy != nil {
				objects = append(objects, tc.policy)
			}
			kube := fake.NewClientBuilder().WithScheme(webhook.NewScheme()).WithObjects(objects...).Build()
			now := testclock.NewFakePassiveClock(time.Now())
			a := &controllers.Arming{
				Right: controllers.LimitsRight, Client: kube, Live: kube, Namespace: "ours", Clock: now,
				Answered: func(context.Context) error { return tc.answered }, Judges: func(context.Context) (bool, error) { return true, nil },
			}
			for range 2 { // a lull apart
				if _, err := a.Reconcile(t.Context(), reconcile.Request{}); err != nil && !errors.Is(err, deaf) {
					t.Fatal(err)
				}
				now.SetTime(now.Now().Add(10 * time.Second))
			}
			for _, o := range []client.Object{binding, guard} {
				if err := kube.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(tc.want, binding.Subjects); diff != "" || len(guard.Subjects) > 0 {
				t.Errorf("the guard's: %v; who has the right: %s", guard.Subjects, diff)
			}
		})
	}
}

// A policy is recreated, as some tools change it: the guard stays armed meanwhile. One that has not been seen to be guarded is not said to be.
func TestArmingOutlastsALull(t *testing.T) {
	policy := func(uid types.UID) *v1alpha1.PodPolicy {
		return &v1alpha1.PodPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: uid}, Spec: v1alpha1.PodPolicySpec{Removal: &v1alpha1.RemovalSection{}}}
	}
	binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "ours", Name: controllers.GuardBinding}}
	kube := fake.NewClientBuilder().WithScheme(webhook.NewScheme()).WithObjects(binding, policy("first")).Build()
	now := testclock.NewFakePassiveClock(time.Now())
	a := &controllers.Arming{
		Right: controllers.GuardRight, Client: kube, Live: kube, Namespace: "ours", Clock: now,
		Answered: func(context.Context) error { return nil }, Judges: func(context.Context) (bool, error) { return true, nil },
	}
	step := func(armed bool, states map[types.UID]controllers.GuardState) reconcile.Result {
		t.Helper()
		result, err := a.Reconcile(t.Context(), reconcile.Request{})
		if err != nil {
			t.Fatal(err)
		}
		if err := kube.Get(t.Context(), client.ObjectKeyFromObject(binding), binding); err != nil {
			t.Fatal(err)
		}
		if got := len(binding.Subjects) > 0; got != armed {
			t.Errorf("armed %t", got)
		}
		for uid, want := range states {
			if got := a.For(uid); got != want {
				t.Errorf("of %s it says %s, want %s", uid, got, want)
			}
		}
		return result
	}
	if got := a.For("first"); got != controllers.GuardWaiting {
		t.Errorf("before it looked it says %s", got)
	}
	step(true, map[types.UID]controllers.GuardState{"first": controllers.GuardArmed, "second": controllers.GuardWaiting})
	if err := kube.Delete(t.Context(), policy("first")); err != nil {
		t.Fatal(err)
	}
	if again := step(true, map[types.UID]controllers.GuardState{"second": controllers.GuardWaiting}); again.RequeueAfter != 10*time.Second {
		t.Errorf("it looks again after %s", again.RequeueAfter)
	}
	now.SetTime(now.Now().Add(9 * time.Second))
	step(true, nil)
	if err := kube.Create(t.Context(), policy("second")); err != nil {
		t.Fatal(err)
	}
	step(true, map[types.UID]controllers.GuardState{"first": controllers.GuardWaiting, "second": controllers.GuardArmed})
	if err := kube.Delete(t.Context(), policy("second")); err != nil {
		t.Fatal(err)
	}
	now.SetTime(now.Now().Add(2 * time.Second))
	step(true, nil) // the lull begins anew
	now.SetTime(now.Now().Add(10 * time.Second))
	step(false, nil)
}

// What can't be read changes nothing: an API server that does not answer, or a CustomResourceDefinition that is gone and with it every policy.
func TestArmingThatCanNotBeRead(t *testing.T) {
	policy := &v1alpha1.PodPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "u"}, Spec: v1alpha1.PodPolicySpec{Removal: &v1alpha1.RemovalSection{}}}
	away := errors.New("away")
	for name, tc := range map[string]struct {
		live   interceptor.Funcs
		judges error
		gone   bool // the policy, for the informer
	}{
		"the binding": {live: interceptor.Funcs{Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return away
		}}},
		"the right":    {judges: away},
		"the policies": {gone: true, live: interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return away }}},
	} {
		t.Run(name, func(t *testing.T) {
			binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "ours", Name: controllers.GuardBinding}}
			kube := fake.NewClientBuilder().WithScheme(webhook.NewScheme()).WithObjects(binding, policy.DeepCopy()).Build()
			now := testclock.NewFakePassiveClock(time.Now())
			var judges error
			a := &controllers.Arming{
				Right: controllers.GuardRight, Client: kube, Live: kube, Namespace: "ours", Clock: now,
				Answered: func(context.Context) error { return nil }, Judges: func(context.Context) (bool, error) { return true, judges },
			}
			if _, err := a.Reconcile(t.Context(), reconcile.Request{}); err != nil || a.For("u") != controllers.GuardArmed {
				t.Fatalf("%s, %v", a.For("u"), err)
			}
			a.Live, judges = interceptor.NewClient(kube, tc.live), tc.judges
			if tc.gone {
				if err := kube.Delete(t.Context(), policy.DeepCopy()); err != nil {
					t.Fatal(err)
				}
				if _, err := a.Reconcile(t.Context(), reconcile.Request{}); err != nil { // the lull begins
					t.Fatal(err)
				}
				now.SetTime(now.Now().Add(time.Minute))
			}
			if _, err := a.Reconcile(t.Context(), reconcile.Request{}); !errors.Is(err, away) {
				t.Errorf("got %v", err)
			}
			if err := kube.Get(t.Context(), client.ObjectKeyFromObject(binding), binding); err != nil || len(binding.Subjects) != 1 {
				t.Errorf("disarmed: %v, %v", binding.Subjects, err)
			}
			if got := a.For("u"); !tc.gone && got != controllers.GuardArmed {
				t.Errorf("it says %s", got)
			}
		})
	}
}

// The right of another account arms nothing, and is taken back.
func TestArmingByAnotherAccount(t *testing.T) {
	binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "ours", Name: controllers.GuardBinding}, Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "ours", Name: "default"}}}
	kube := fake.NewClientBuilder().WithScheme(webhook.NewScheme()).WithObjects(binding).Build()
	a := &controllers.Arming{
		Right: controllers.GuardRight, Client: kube, Live: kube, Namespace: "ours", Fixed: policy.InForce([]v1alpha1.PodPolicy{{Spec: v1alpha1.PodPolicySpec{Removal: &v1alpha1.RemovalSection{}}}}),
		Answered: func(context.Context) error { return nil }, Judges: func(context.Context) (bool, error) { return true, nil },
	}
	if _, err := a.Reconcile(t.Context(), reconcile.Request{}); err != nil {
		t.Fatal(err)
	}
	if err := kube.Get(t.Context(), client.ObjectKeyFromObject(binding), binding); err != nil || len(binding.Subjects) != 1 || binding.Subjects[0].Name != "podgrace-webhook" {
		t.Errorf("got %v, %v", binding.Subjects, err)
	}
}

// Who took the RoleBinding away has taken the guard away; it is said, and not that all is well.
func TestArmingWithoutItsBinding(t *testing.T) {
	kube := fake.NewClientBuilder().WithScheme(webhook.NewScheme()).Build()
	var state controllers.GuardState
	a := &controllers.Arming{Right: controllers.GuardRight, Client: kube, Live: kube, Namespace: "ours", Fixed: policy.InForce([]v1alpha1.PodPolicy{{Spec: v1alpha1.PodPolicySpec{Removal: &v1alpha1.RemovalSection{}}}}), Tell: func(s controllers.GuardState) { state = s }}
	if _, err := a.Reconcile(t.Context(), reconcile.Request{}); err == nil || state != controllers.GuardWaiting {
		t.Errorf("state %s, %v", state, err)
	}
}

// Exactly one state is 1, and none where this replica does not lead.
func TestGuardMetric(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := controllers.NewGuardMetric(registry)
	count := func() (n int) {
		n, err := testutil.GatherAndCount(registry, "podgrace_removal_guard")
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := count(); n != 0 {
		t.Errorf("%d series before it leads", n)
	}
	m.Set(controllers.GuardArmed)
	m.Set(controllers.GuardSwitchedOff)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, series := range families[0].GetMetric() {
		got[series.GetLabel()[0].GetValue()] = series.GetGauge().GetValue()
	}
	if diff := cmp.Diff(map[string]float64{"Armed": 0, "Idle": 0, "Waiting": 0, "Off": 1}, got); diff != "" {
		t.Error(diff)
	}
	m.Reset()
	if n := count(); n != 0 {
		t.Errorf("%d series after it led", n)
	}
}
