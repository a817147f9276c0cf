package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/defaulting/limits"
	"github.com/podgrace/podgrace/e2e/suite"
	"github.com/podgrace/podgrace/policy"
	"github.com/podgrace/podgrace/webhook"
)

// exceptionGround is a policy with a minimum of 20 s and the people around it: a tenant with every right in the namespace, and an engineer who may grant.
type exceptionGround struct {
	*ground
	policy           *v1alpha1.PodPolicy
	tenant, engineer client.Client
	grantedBy        string
}

func newExceptionGround(t *testing.T) *exceptionGround {
	t.Helper()
	s := shared.Get(t)
	g := &exceptionGround{ground: &ground{Suite: s, namespace: s.Namespace(t)}}
	g.policy = s.Policy(t, g.namespace, v1alpha1.PodPolicySpec{GracePeriod: &v1alpha1.GracePeriodSection{DefaultSeconds: new(int64(45)), MinSeconds: new(int64(20)), MaxSeconds: new(int64(60))}})
	tenant, engineer := g.namespace+"-tenant", g.namespace+"-engineer"
	s.Grant(t, rbacv1.UserKind, tenant, g.namespace, rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}})
	s.Bind(t, rbacv1.UserKind, engineer, "", "podgrace-exceptions-granter")
	as := func(user string) client.Client {
		config := rest.CopyConfig(s.Config)
		config.Impersonate = rest.ImpersonationConfig{UserName: user}
		c, err := client.New(config, client.Options{Scheme: webhook.NewScheme()})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	g.tenant, g.engineer, g.grantedBy = as(tenant), as(engineer), engineer
	return g
}

// asks makes an exception from the minimum, by the tenant.
func (g *exceptionGround) asks(t *testing.T, name string, until time.Duration) *v1alpha1.PolicyException {
	t.Helper()
	x := &v1alpha1.PolicyException{
		ObjectMeta: metav1.ObjectMeta{Namespace: g.namespace, Name: name},
		Spec: v1alpha1.PolicyExceptionSpec{
			Policy: g.policy.Name, Limits: []v1alpha1.LiftedLimit{v1alpha1.LiftMinSeconds}, PodSelector: v1alpha1.SetAsLabelSelector(map[string]string{"app": "batch"}),
			Reason: "the vendor's image stops at once", Owner: "team batch", Until: time.Now().Add(until).UTC().Format(time.RFC3339),
		},
	}
	if err := g.tenant.Create(t.Context(), x); err != nil {
		t.Fatal(err)
	}
	return x
}

func (g *exceptionGround) patchGrant(ctx context.Context, c client.Client, x *v1alpha1.PolicyException, by string, generation int64, options ...client.SubResourcePatchOption) error {
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"grant": v1alpha1.Grant{By: by, UID: x.UID, Generation: generation}}})
	if err != nil {
		return err
	}
	return c.Status().Patch(ctx, x.DeepCopy(), client.RawPatch(types.MergePatchType, patch), options...)
}

func (g *exceptionGround) grant(t *testing.T, x *v1alpha1.PolicyException) {
	t.Helper()
	if err := g.patchGrant(t.Context(), g.engineer, x, g.grantedBy, x.Generation); err != nil {
		t.Fatal(err)
	}
}

// state waits for what the leader says of it.
func (g *exceptionGround) state(t *testing.T, x *v1alpha1.PolicyException, reason string) {
	t.Helper()
	suite.Eventually(t, "exception "+x.Name+": "+reason, func(ctx context.Context) (bool, error) {
		err := g.Client.Get(ctx, client.ObjectKeyFromObject(x), x)
		c := meta.FindStatusCondition(x.Status.Conditions, v1alpha1.ConditionInForce)
		if c == nil || c.Reason != reason || c.ObservedGeneration != x.Generation {
			return false, err
		}
		return (c.Status == metav1.ConditionTrue) == (reason == v1alpha1.ReasonInForce), err
	})
}

func batch(p *corev1.Pod) { p.Labels = map[string]string{"app": "batch"} }

// raised says what becomes of a pod's grace period of 5: with the webhook it is raised to 20, but for an exception.
func (g *exceptionGround) raised(t *testing.T, want int64, change func(*corev1.Pod)) {
	t.Helper()
	suite.Eventually(t, fmt.Sprintf("a grace period of %d", want), func(ctx context.Context) (bool, error) {
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: g.namespace, Name: "tried"},
			Spec:       corev1.PodSpec{TerminationGracePeriodSeconds: new(int64(5)), Containers: []corev1.Container{{Name: "c", Image: "localhost/none:1"}}},
		}
		change(p)
		if err := g.Client.Create(ctx, p, client.DryRunAll); err != nil {
			return false, err
		}
		return *p.Spec.TerminationGracePeriodSeconds == want, nil
	})
}

// An exception lifts nothing before it is granted, then a limit for the pods that it selects; an edit voids the grant; and it ends by itself.
func TestExceptions(t *testing.T) {
	g := newExceptionGround(t)
	x := g.asks(t, "batch", time.Hour)
	g.state(t, x, v1alpha1.ReasonNotGranted)
	g.raised(t, 20, batch)
	g.grant(t, x)
	g.state(t, x, v1alpha1.ReasonInForce)
	if x.Status.Grant == nil || x.Status.Grant.By != g.grantedBy {
		t.Errorf("the leader's status has the grant %+v", x.Status.Grant)
	}
	g.raised(t, 5, batch)
	g.raised(t, 20, func(*corev1.Pod) {})

	x.Spec.PodSelector, x.Spec.AllPods = nil, true // wider than what was granted
	if err := g.tenant.Update(t.Context(), x); err != nil {
		t.Fatal(err)
	}
	g.state(t, x, v1alpha1.ReasonChanged)
	g.raised(t, 20, batch)
	g.grant(t, x)
	g.state(t, x, v1alpha1.ReasonInForce)
	g.raised(t, 5, func(*corev1.Pod) {})
	if err := g.tenant.Delete(t.Context(), x); err != nil {
		t.Fatal(err)
	}
	g.raised(t, 20, batch)

	short := g.asks(t, "short", 5*time.Second)
	g.grant(t, short)
	g.state(t, short, v1alpha1.ReasonEnded)
	g.raised(t, 20, batch)
}

// Who has every right in a namespace can't grant, in no way; and who may grant can't grant what was not seen, in another's name, or for ever.
func TestTenantCannotGrant(t *testing.T) {
	g := newExceptionGround(t)
	granted := &v1alpha1.PolicyExceptionStatus{Grant: &v1alpha1.Grant{By: g.grantedBy, Generation: 1}}
	x := g.asks(t, "batch", time.Hour)
	suite.InForce(t, "grant.podgrace.dev", func(ctx context.Context) error {
		return g.patchGrant(ctx, g.tenant, x, g.grantedBy, 1, client.DryRunAll)
	})
	made := x.DeepCopy()
	made.Name, made.ResourceVersion, made.UID, made.Status = "made", "", "", *granted
	if err := g.tenant.Create(t.Context(), made); err != nil {
		t.Fatal(err)
	}
	updated := x.DeepCopy()
	updated.Status = *granted
	suite.Eventually(t, "an update", func(ctx context.Context) (bool, error) {
		if err := g.tenant.Get(ctx, client.ObjectKeyFromObject(x), updated); err != nil {
			return false, err
		}
		updated.Status, updated.Labels = *granted, map[string]string{"updated": "yes"}
		err := g.tenant.Update(ctx, updated)
		return err == nil, nil
	})
	content, err := json.Marshal(map[string]any{"apiVersion": v1alpha1.GroupVersion.String(), "kind": "PolicyException", "metadata": map[string]any{"namespace": g.namespace, "name": "batch"}, "status": granted})
	if err != nil {
		t.Fatal(err)
	}
	applied := &unstructured.Unstructured{}
	if err := json.Unmarshal(content, &applied.Object); err != nil {
		t.Fatal(err)
	}
	spec, err := json.Marshal(x.Spec)
	if err != nil {
		t.Fatal(err)
	}
	var asked map[string]any
	if err := json.Unmarshal(spec, &asked); err != nil {
		t.Fatal(err)
	}
	applied.Object["spec"] = asked
	if err := g.tenant.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(applied.DeepCopy()), client.FieldOwner("tenant"), client.ForceOwnership); err != nil {
		t.Fatal(err)
	}
	wantForbidden := func(what string, err error, says string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", what, err)
		}
	}
	const lacks = "you need the verb except on PodPolicy"
	wantForbidden("a patch of the status", g.patchGrant(t.Context(), g.tenant, x, g.namespace+"-tenant", 1), lacks)
	wantForbidden("a patch in the name of who may", g.patchGrant(t.Context(), g.tenant, x, g.grantedBy, 1), lacks)
	onlyStatus := applied.DeepCopy()
	delete(onlyStatus.Object, "spec")
	wantForbidden("an apply of the status", g.tenant.Status().Apply(t.Context(), client.ApplyConfigurationFromUnstructured(onlyStatus), client.FieldOwner("tenant"), client.ForceOwnership), lacks)
	if err := g.Client.Get(t.Context(), client.ObjectKeyFromObject(x), updated); err != nil {
		t.Fatal(err)
	}
	updated.Status.Grant = granted.Grant
	wantForbidden("an update of the status", g.tenant.Status().Update(t.Context(), updated), "")
	for _, name := range []string{"batch", "made"} {
		if err := g.Client.Get(t.Context(), client.ObjectKey{Namespace: g.namespace, Name: name}, made); err != nil || made.Status.Grant != nil {
			t.Errorf("%s: %+v, %v", name, made.Status.Grant, err)
		}
	}
	g.raised(t, 20, batch)

	g.state(t, x, v1alpha1.ReasonNotGranted)
	if err := g.engineer.Get(t.Context(), client.ObjectKeyFromObject(x), x); err != nil {
		t.Fatal(err)
	}
	wantForbidden("what was not seen", g.patchGrant(t.Context(), g.engineer, x, g.grantedBy, x.Generation+1), "its spec is not what was seen")
	wantForbidden("in another's name", g.patchGrant(t.Context(), g.engineer, x, "somebody", x.Generation), "a grant names who grants")
	seen := *x.Spec.DeepCopy()
	x.Spec.Until = time.Now().Add(400 * 24 * time.Hour).UTC().Format(time.RFC3339)
	wantForbidden("more than a year", g.tenant.Update(t.Context(), x), "more than 366 days after this exception was created")
	x.Spec.Until = "2999-01-01T00:00:00Z"
	wantForbidden("more than a duration can hold", g.tenant.Update(t.Context(), x), "more than 366 days after this exception was created")
	for _, until := range []string{"2030-02-30T00:00:00Z", "2030-01-01T24:00:00Z", "2030-01-01 00:00:00", "2030-01-01T00:00:00.5Z", "tomorrow"} {
		x.Spec.Until = until
		wantForbidden(until, g.tenant.Update(t.Context(), x), "spec.until")
	}

	// While who may grant looks at it, the tenant puts another in its place, of the same generation.
	other := &v1alpha1.PolicyException{ObjectMeta: metav1.ObjectMeta{Namespace: x.Namespace, Name: x.Name}, Spec: seen}
	other.Spec.PodSelector, other.Spec.AllPods = nil, true
	if err := g.tenant.Delete(t.Context(), x.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	if err := g.tenant.Create(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	wantForbidden("another than was seen", g.patchGrant(t.Context(), g.engineer, x, g.grantedBy, other.Generation), "was deleted and recreated")
	g.raised(t, 20, batch)
}

// With the webhook away the compiled limits hold, and lift.
func TestExceptionsWhileAway(t *testing.T) {
	g := newExceptionGround(t)
	g.grant(t, g.asks(t, "batch", time.Hour))
	g.compiled(t, g.policy)
	restore := g.callAt(t, "https://localhost:1", nil)
	defer func() {
		restore()
		g.back(t)
	}()
	g.limited(t, "without an exception", 5, nil, "terminationGracePeriodSeconds is 5 but must be 20 (PodPolicy "+g.policy.Name+": minimum 20 s)")
	g.limited(t, "with one", 5, batch, "")
	if err := g.try(t.Context(), 61, batch); !suite.RefusedBy(err, limits.Name, "maximum 60 s") {
		t.Errorf("another limit: %v", err)
	}
}

// What is compiled ends at its second with nobody to end it: no leader knows these objects. Whatever a pod says of its own creation does not count.
func TestExceptionEndsWithoutALeader(t *testing.T) {
	s := shared.Get(t)
	g := &ground{Suite: s, namespace: s.Namespace(t)}
	pol, err := policy.Compile(&v1alpha1.PodPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "unknown-to-the-leader"},
		Spec: v1alpha1.PodPolicySpec{
			Match:       &v1alpha1.PodMatch{NamespaceSelector: v1alpha1.SetAsLabelSelector(map[string]string{corev1.LabelMetadataName: g.namespace})},
			GracePeriod: &v1alpha1.GracePeriodSection{MinSeconds: new(int64(20))},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	end := time.Now().Add(10 * time.Second).UTC().Truncate(time.Second)
	var inForce []*policy.Exception
	for name, until := range map[string]time.Time{"long": end.Add(time.Hour), "short": end} {
		x, err := policy.CompileException(&v1alpha1.PolicyException{
			ObjectMeta: metav1.ObjectMeta{Namespace: g.namespace, Name: name},
			Spec: v1alpha1.PolicyExceptionSpec{
				Policy: pol.Name, Limits: []v1alpha1.LiftedLimit{v1alpha1.LiftMinSeconds}, PodSelector: v1alpha1.SetAsLabelSelector(map[string]string{"app": name}), Until: until.Format(time.RFC3339),
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		inForce = append(inForce, x)
	}
	compiled := limits.Compile(policy.Policies{pol}, limits.Cluster{Exempt: policy.ExemptIn("podgrace-system"), ServiceAccount: "podgrace-webhook", Exceptions: policy.SortExceptions(inForce)})
	compiled.Policy.Name, compiled.Binding.Name, compiled.Binding.Spec.PolicyName = g.namespace, g.namespace, g.namespace
	s.Create(t, compiled.Policy)
	s.Create(t, compiled.Binding)

	of := func(app string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Labels = map[string]string{"app": app}
			p.CreationTimestamp = metav1.NewTime(end.Add(-time.Hour))
		}
	}
	const refused = "terminationGracePeriodSeconds is 5 but must be 20 (PodPolicy unknown-to-the-leader: minimum 20 s)"
	name := compiled.Policy.Name
	suite.InForce(t, name, func(ctx context.Context) error { return g.try(ctx, 5, nil) }, refused)
	if err := g.try(t.Context(), 5, of("long")); err != nil {
		t.Errorf("in force: %v", err)
	}
	before := 0
	suite.Eventually(t, "its end", func(ctx context.Context) (bool, error) {
		asked := time.Now()
		err := g.try(ctx, 5, of("short"))
		switch answered := time.Now(); {
		case err == nil && asked.Before(end):
			before++
			return false, nil
		case err == nil:
			t.Errorf("let through at %s, after its end at %s", asked, end)
		case !suite.RefusedBy(err, name, refused) || answered.Before(end):
			t.Errorf("at %s, its end is at %s: %v", answered, end, err)
		}
		return true, nil
	})
	t.Logf("let through %d times before its end", before)
	if err := g.try(t.Context(), 5, of("long")); err != nil {
		t.Errorf("still in force: %v", err)
	}
	applied := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"namespace": g.namespace, "name": "applied", "labels": map[string]any{"app": "short"}, "creationTimestamp": "2020-01-01T00:00:00Z"},
		"spec": map[string]any{"terminationGracePeriodSeconds": int64(5), "containers": []any{map[string]any{"name": "c", "image": "localhost/none:1"}}},
	}}
	err = g.Client.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(applied), client.FieldOwner("test"), client.DryRunAll)
	if !suite.RefusedBy(err, name, refused) {
		t.Errorf("an apply with a creation time of its own: %v", err)
	}
}
