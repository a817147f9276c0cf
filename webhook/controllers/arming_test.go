package controllers_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
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

// on returns a policy with an action on unsafe removals in the namespaces with a team; "": in all namespaces.
func on(team string, action v1alpha1.RemovalAction) *v1alpha1.PodPolicy {
	p := &v1alpha1.PodPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "p", Generation: 1}, Spec: v1alpha1.PodPolicySpec{Removal: &v1alpha1.RemovalSection{ForceDelete: action}}}
	if team != "" {
		p.Spec.Match = &v1alpha1.PodMatch{NamespaceSelector: &v1alpha1.LabelSelector{MatchLabels: map[string]v1alpha1.LabelValue{"team": v1alpha1.LabelValue(team)}}}
	}
	return p
}

// arsenal is a cluster with two namespaces and the manifest's Role and RoleBinding, and what arms there.
type arsenal struct {
	*controllers.Arming
	kube  client.WithWatch
	clock *testclock.FakePassiveClock
	// deaf: no replica answers the API server. blind: the API server has not seen the Role yet.
	deaf  error
	blind bool
	state controllers.GuardState
}

func newArsenal(t *testing.T, objects ...client.Object) *arsenal {
	t.Helper()
	meta := metav1.ObjectMeta{Namespace: "ours", Name: controllers.InForce}
	objects = append(objects, &rbacv1.Role{ObjectMeta: meta}, &rbacv1.RoleBinding{ObjectMeta: meta, Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "ours", Name: controllers.InForceAccount}}})
	for name, team := range map[string]string{"shop": "till", "bank": "vault", "kube-system": "till", "ours": "till"} {
		objects = append(objects, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelMetadataName: name, "team": team}}})
	}
	a := &arsenal{kube: fake.NewClientBuilder().WithScheme(webhook.NewScheme()).WithObjects(objects...).Build(), clock: testclock.NewFakePassiveClock(time.Now())}
	a.Arming = &controllers.Arming{
		Client: a.kube, Live: a.kube, Namespaces: a.kube, Namespace: "ours", Exempt: policy.ExemptIn("ours"), Clock: a.clock, Tell: func(s controllers.GuardState) { a.state = s },
		Answered: func(context.Context) error { return a.deaf }, Acts: func(context.Context, string) (bool, error) { return !a.blind, nil },
	}
	return a
}

// reconcile returns what the API server asks then.
func (a *arsenal) reconcile(t *testing.T) (controllers.Asked, reconcile.Result, error) {
	t.Helper()
	result, err := a.Reconcile(t.Context(), reconcile.Request{})
	return controllers.AskedBy(a.role(t).Rules), result, err
}

func (a *arsenal) role(t *testing.T) *rbacv1.Role {
	t.Helper()
	role := &rbacv1.Role{}
	if err := a.kube.Get(t.Context(), client.ObjectKey{Namespace: "ours", Name: controllers.InForce}, role); err != nil {
		t.Fatal(err)
	}
	return role
}

// give writes the rules, and the annotation that switches off.
func (a *arsenal) give(t *testing.T, asked controllers.Asked, off string) {
	t.Helper()
	role := a.role(t)
	role.Rules = asked.Rules()
	if off != "" {
		role.Annotations = map[string]string{controllers.AnnotationGuard: off}
	}
	if err := a.kube.Update(t.Context(), role); err != nil {
		t.Fatal(err)
	}
}

// What policies want, what a policy that denies in one namespace or in all closes.
var (
	warned   = controllers.Asked{Admissions: true, Removals: true, Limits: true}
	inShop   = controllers.Asked{Admissions: true, Removals: true, Limits: true, Nodes: true, Guarded: controllers.Closed{Names: []string{"shop"}}}
	inAll    = controllers.Asked{Admissions: true, Removals: true, Limits: true, Nodes: true, Guarded: controllers.Closed{Names: []string{"bank", "shop"}}}
	admitted = controllers.Asked{Admissions: true, Limits: true}
)

func TestAskedOf(t *testing.T) {
	unread := on("", v1alpha1.RemovalDeny)
	unread.Spec.Match = &v1alpha1.PodMatch{NamespaceSelector: &v1alpha1.LabelSelector{MatchExpressions: []v1alpha1.LabelSelectorRequirement{{Key: "a", Operator: "in"}}}}
	limits := &v1alpha1.PodPolicy{Spec: v1alpha1.PodPolicySpec{GracePeriod: &v1alpha1.GracePeriodSection{MaxSeconds: new(int64(60))}}}
	many := make([]policy.Namespace, 10_001)
	for i := range many {
		many[i].Name = fmt.Sprintf("ns-%d", i)
	}
	two := []policy.Namespace{{Name: "shop", Labels: map[string]string{"team": "till"}}, {Name: "bank", Labels: map[string]string{"team": "vault"}}, {Name: "kube-system"}}
	for name, tc := range map[string]struct {
		policies   []v1alpha1.PodPolicy
		namespaces []policy.Namespace
		want       controllers.Asked
	}{
		"no policy":                       {nil, two, controllers.Asked{}},
		"limits":                          {[]v1alpha1.PodPolicy{*limits}, two, admitted},
		"allows":                          {[]v1alpha1.PodPolicy{*on("", v1alpha1.RemovalAllow)}, two, admitted},
		"warns":                           {[]v1alpha1.PodPolicy{*on("", v1alpha1.RemovalWarn)}, two, warned},
		"denies in one":                   {[]v1alpha1.PodPolicy{*on("till", v1alpha1.RemovalDeny)}, two, inShop},
		"denies in one, warns in another": {[]v1alpha1.PodPolicy{*on("till", v1alpha1.RemovalDeny), *on("vault", v1alpha1.RemovalWarn)}, two, inShop},
		"denies by default":               {[]v1alpha1.PodPolicy{*on("", "")}, two, inAll},
		"denies in unread namespaces":     {[]v1alpha1.PodPolicy{*unread}, two, inAll},
		"denies where there is none yet":  {[]v1alpha1.PodPolicy{*on("new", v1alpha1.RemovalDeny)}, two, controllers.Asked{Admissions: true, Removals: true, Limits: true, Nodes: true}},
		"more than a Role has names":      {[]v1alpha1.PodPolicy{*on("", "")}, many, controllers.Asked{Admissions: true, Removals: true, Limits: true, Nodes: true, Guarded: controllers.Closed{All: true}}},
	} {
		t.Run(name, func(t *testing.T) {
			got := controllers.AskedOf(policy.InForce(tc.policies), tc.namespaces, policy.ExemptIn("ours"))
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(got, controllers.AskedBy(got.Rules())); diff != "" {
				t.Errorf("read from its rules it is something else: %s", diff)
			}
			for _, ns := range append(slices.Clone(two), policy.Namespace{Name: "ns-7"}) {
				if allows := got.Allows(controllers.ResourceGuardedNamespaces, ns.Name); allows != (tc.want.Guarded.All || slices.Contains(tc.want.Guarded.Names, ns.Name)) {
					t.Errorf("removals in %s fail closed: %t", ns.Name, allows)
				}
			}
		})
	}
}

// Rules that are not the leader's ask for nothing.
func TestAskedByOtherRules(t *testing.T) {
	rule := func(change func(*rbacv1.PolicyRule)) []rbacv1.PolicyRule {
		r := controllers.Asked{Nodes: true}.Rules()[0]
		change(&r)
		return []rbacv1.PolicyRule{r}
	}
	for name, rules := range map[string][]rbacv1.PolicyRule{
		"another group":    rule(func(r *rbacv1.PolicyRule) { r.APIGroups = []string{"apps"} }),
		"another verb":     rule(func(r *rbacv1.PolicyRule) { r.Verbs = []string{"get"} }),
		"another resource": rule(func(r *rbacv1.PolicyRule) { r.Resources = []string{"pods"} }),
		"no resource":      rule(func(r *rbacv1.PolicyRule) { r.Resources = nil }),
	} {
		if got := controllers.AskedBy(rules); !cmp.Equal(got, controllers.Asked{}) {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// Policies are put in force once a replica answers, stay so while none does, and can be switched off.
func TestArming(t *testing.T) {
	deaf := errors.New("nobody answers")
	inForceOff := controllers.Asked{Admissions: true}
	for name, tc := range map[string]struct {
		policy *v1alpha1.PodPolicy
		fixed  policy.Policies
		before controllers.Asked
		off    string
		deaf   error
		blind  bool
		want   controllers.Asked
		state  controllers.GuardState
	}{
		"no policy":                            {state: controllers.GuardIdle},
		"no policy any more":                   {before: inAll, state: controllers.GuardIdle},
		"a policy that warns":                  {policy: on("", v1alpha1.RemovalWarn), want: warned, state: controllers.GuardArmed},
		"a policy that warns and denied":       {policy: on("", v1alpha1.RemovalWarn), before: inAll, want: warned, state: controllers.GuardArmed},
		"a policy that denies":                 {policy: on("till", v1alpha1.RemovalDeny), want: inShop, state: controllers.GuardArmed},
		"a policy that denies elsewhere":       {policy: on("till", v1alpha1.RemovalDeny), before: inAll, want: inShop, state: controllers.GuardArmed},
		"a policy from a file":                 {fixed: policy.InForce([]v1alpha1.PodPolicy{*on("", "")}), want: inAll, state: controllers.GuardArmed},
		"no policy in the files":               {policy: on("", ""), fixed: policy.Policies{}, before: inAll, state: controllers.GuardIdle},
		"in force already, and nobody answers": {policy: on("", ""), before: inAll, deaf: deaf, want: inAll, state: controllers.GuardArmed},
		"less, and nobody answers":             {policy: on("till", ""), before: inAll, deaf: deaf, want: inShop, state: controllers.GuardArmed},
		"more, and nobody answers":             {policy: on("", ""), before: inShop, deaf: deaf, want: inShop, state: controllers.GuardWaiting},
		"the API server has not seen it":       {policy: on("", ""), blind: true, want: inAll, state: controllers.GuardWaiting},
		"nobody answers yet":                   {policy: on("", ""), deaf: deaf, state: controllers.GuardWaiting},
		"switched off":                         {policy: on("", ""), before: inAll, off: "off", want: inForceOff, state: controllers.GuardSwitchedOff},
		"switched off by hand":                 {policy: on("", ""), off: "off", want: inForceOff, state: controllers.GuardSwitchedOff},
		"switched off, and nobody answers":     {policy: on("", ""), before: inAll, off: "off", deaf: deaf, want: inForceOff, state: controllers.GuardSwitchedOff},
		"a word that switches nothing":         {policy: on("", ""), off: "no", want: inAll, state: controllers.GuardArmed},
	} {
		t.Run(name, func(t *testing.T) {
			var objects []client.Object
			if tc.policy != nil {
				objects = append(objects, tc.policy)
			}
			a := newArsenal(t, objects...)
			a.Fixed, a.deaf, a.blind = tc.fixed, tc.deaf, tc.blind
			a.give(t, tc.before, tc.off)
			var got controllers.Asked
			for range 2 { // apart by the time for which rights are kept
				var err error
				if got, _, err = a.reconcile(t); err != nil && !errors.Is(err, deaf) {
					t.Fatal(err)
				}
				a.clock.SetTime(a.clock.Now().Add(10 * time.Second))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" || a.state != tc.state {
				t.Errorf("state %s, want %s; asked: %s", a.state, tc.state, diff)
			}
		})
	}
}

// A namespace that comes is guarded at once, and no policy is out of force meanwhile.
func TestArmingOfANewNamespace(t *testing.T) {
	a := newArsenal(t, on("till", ""))
	if got, _, err := a.reconcile(t); err != nil || !cmp.Equal(got, inShop) || a.For("p") != controllers.GuardArmed {
		t.Fatal(got, err)
	}
	if err := a.kube.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kiosk", Labels: map[string]string{"team": "till"}}}); err != nil {
		t.Fatal(err)
	}
	a.blind = true
	got, again, err := a.reconcile(t)
	if diff := cmp.Diff([]string{"kiosk", "shop"}, got.Guarded.Names); err != nil || diff != "" || a.For("p") != controllers.GuardArmed || again.RequeueAfter == 0 {
		t.Errorf("%s, asks again after %s, %v: %s", a.For("p"), again.RequeueAfter, err, diff)
	}
	changed := on("", "") // another generation is another policy
	if err := a.kube.Get(t.Context(), client.ObjectKey{Name: "p"}, changed); err != nil {
		t.Fatal(err)
	}
	changed.Spec.Match, changed.Generation = nil, 2
	if err := a.kube.Update(t.Context(), changed); err != nil {
		t.Fatal(err)
	}
	if _, _, err := a.reconcile(t); err != nil || a.For("p") != controllers.GuardWaiting {
		t.Errorf("%s, %v", a.For("p"), err)
	}
}

// A policy is recreated, as some tools change it: it stays in force meanwhile. A policy that has not been seen is not reported as in force.
func TestArmingOutlastsALull(t *testing.T) {
	first, second := on("till", ""), on("till", "")
	first.UID, second.UID = "first", "second"
	a := newArsenal(t, first)
	step := func(want controllers.Asked, states map[types.UID]controllers.GuardState) reconcile.Result {
		t.Helper()
		got, result, err := a.reconcile(t)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
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
	step(inShop, map[types.UID]controllers.GuardState{"first": controllers.GuardArmed, "second": controllers.GuardWaiting})
	if err := a.kube.Delete(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	if again := step(inShop, map[types.UID]controllers.GuardState{"second": controllers.GuardWaiting}); again.RequeueAfter != 10*time.Second {
		t.Errorf("it looks again after %s", again.RequeueAfter)
	}
	a.clock.SetTime(a.clock.Now().Add(9 * time.Second))
	step(inShop, nil)
	if err := a.kube.Create(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	step(inShop, map[types.UID]controllers.GuardState{"first": controllers.GuardWaiting, "second": controllers.GuardArmed})
	if err := a.kube.Delete(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	a.clock.SetTime(a.clock.Now().Add(2 * time.Second))
	step(inShop, nil) // the time begins again
	a.clock.SetTime(a.clock.Now().Add(10 * time.Second))
	step(controllers.Asked{}, nil)
}

// What can't be read changes nothing: an API server that does not answer, or a CustomResourceDefinition that is gone and with it every policy.
func TestArmingThatCanNotBeRead(t *testing.T) {
	away := errors.New("away")
	for name, tc := range map[string]struct {
		live       interceptor.Funcs
		namespaces interceptor.Funcs
		acts       error
		gone       bool // the policy, for the informer
	}{
		"the Role": {live: interceptor.Funcs{Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return away
		}}},
		"the right":      {acts: away},
		"the policies":   {gone: true, live: interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return away }}},
		"the namespaces": {namespaces: interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return away }}},
	} {
		t.Run(name, func(t *testing.T) {
			a := newArsenal(t, on("till", ""))
			if _, _, err := a.reconcile(t); err != nil || a.For("p") != controllers.GuardArmed {
				t.Fatalf("%s, %v", a.For("p"), err)
			}
			a.Live, a.Namespaces = interceptor.NewClient(a.kube, tc.live), interceptor.NewClient(a.kube, tc.namespaces)
			a.Acts = func(context.Context, string) (bool, error) { return true, tc.acts }
			if tc.gone {
				if err := a.kube.Delete(t.Context(), on("till", "")); err != nil {
					t.Fatal(err)
				}
				if _, _, err := a.reconcile(t); err != nil { // from now on less is needed
					t.Fatal(err)
				}
				a.clock.SetTime(a.clock.Now().Add(time.Minute))
			}
			got, _, err := a.reconcile(t)
			if diff := cmp.Diff(inShop, got); !errors.Is(err, away) || diff != "" {
				t.Errorf("%v: %s", err, diff)
			}
			if got := a.For("p"); !tc.gone && got != controllers.GuardArmed {
				t.Errorf("it says %s", got)
			}
		})
	}
}

// If the Role or its RoleBinding is missing or names another account, no policy is in force, and the status says so.
func TestArmingWithoutItsRole(t *testing.T) {
	for name, change := range map[string]func(*testing.T, *arsenal) error{
		"the Role is gone": func(t *testing.T, a *arsenal) error { return a.kube.Delete(t.Context(), a.role(t)) },
		"the RoleBinding is gone": func(t *testing.T, a *arsenal) error {
			return a.kube.Delete(t.Context(), &rbacv1.RoleBinding{ObjectMeta: a.role(t).ObjectMeta})
		},
		"another account": func(t *testing.T, a *arsenal) error {
			b := &rbacv1.RoleBinding{}
			if err := a.kube.Get(t.Context(), client.ObjectKeyFromObject(a.role(t)), b); err != nil {
				return err
			}
			b.Subjects[0].Name = "default"
			return a.kube.Update(t.Context(), b)
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := newArsenal(t, on("", ""))
			if err := change(t, a); err != nil {
				t.Fatal(err)
			}
			if _, err := a.Reconcile(t.Context(), reconcile.Request{}); err == nil || a.state != controllers.GuardWaiting {
				t.Errorf("state %s, %v", a.state, err)
			}
		})
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
