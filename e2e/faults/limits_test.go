package faults

import (
	"context"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/defaulting/limits"
	"github.com/podgrace/podgrace/e2e/suite"
)

// Nobody answers: the limits hold all the same, in the webhook's words, and follow the policy; what somebody changes of them is put back. They end
// with the policy, and with the right of the webhook's account.
func TestLimitsHoldWhileAway(t *testing.T) {
	s := shared.Get(t)
	g := &ground{Suite: s, namespace: s.Namespace(t)}
	class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{GenerateName: "beyond-"}, Value: 7}
	s.Create(t, class)
	p := s.Policy(t, g.namespace, v1alpha1.PodPolicySpec{
		Priority:    &v1alpha1.PrioritySection{AllowedClassNames: []string{"allowed"}},
		GracePeriod: &v1alpha1.GracePeriodSection{DefaultSeconds: new(int64(45)), MinSeconds: new(int64(20)), MaxSeconds: new(int64(60)), PreStopMarginSeconds: new(int64(5))},
		Removal:     &v1alpha1.RemovalSection{ForceDelete: v1alpha1.RemovalAllow, Protect: v1alpha1.ProtectAll, ZeroGrace: v1alpha1.ZeroGraceDeny},
	})
	g.compiled(t, p)
	restore := g.callAt(t, "https://localhost:1", nil)
	defer func() {
		restore()
		g.back(t)
		if err := s.Client.Delete(context.Background(), p); err != nil {
			t.Error(err)
		}
		suite.Eventually(t, "the limits gone with the policy", func(ctx context.Context) (bool, error) {
			err := s.Client.Get(ctx, client.ObjectKey{Name: limits.Name}, &admissionregistrationv1.ValidatingAdmissionPolicy{})
			return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
		})
	}()

	const again = "Podgrace sets that itself; it was not called, or another webhook changed the pod after it. Set it to "
	g.limited(t, "below the minimum", 10, nil, "terminationGracePeriodSeconds is 10 but must be 20 (PodPolicy "+p.Name+": minimum 20 s). "+again+"20, or try again")
	for name, tc := range map[string]struct {
		grace  int64
		change func(*corev1.Pod)
		says   string // empty: nothing is refused
	}{
		"within":            {30, nil, ""},
		"above the maximum": {61, nil, "terminationGracePeriodSeconds is 61 but must be 60 (PodPolicy " + p.Name + ": maximum 60 s)"},
		"no grace":          {0, nil, "PodPolicy " + p.Name + " refuses that (PodPolicy " + p.Name + " protects all pods)"},
		"too little for preStop": {30, func(p *corev1.Pod) {
			p.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"/bin/sh", "-c", "sleep 28"}}}}
		}, "must be 33 (PodPolicy " + p.Name + ": preStop of container c takes 28 s plus a margin of 5 s)"},
		"too little for a preStop that takes longer": {30, func(p *corev1.Pod) {
			p.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"bash", "-ec", "sleep 0.5m && quit"}}}}
		}, "must be 35 (PodPolicy " + p.Name + ": preStop of container c takes at least 30 s plus a margin of 5 s)"},
		"a probe": {30, func(p *corev1.Pod) {
			p.Spec.Containers[0].LivenessProbe = &corev1.Probe{TerminationGracePeriodSeconds: new(int64(90)), ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"true"}}}}
		}, "terminationGracePeriodSeconds of livenessProbe of container c is 90 but must be 60 (PodPolicy " + p.Name + ": maximum 60 s)"},
		"a class": {30, func(p *corev1.Pod) { p.Spec.PriorityClassName = class.Name }, `PriorityClass "` + class.Name + `" is not allowed here: PodPolicy ` + p.Name + " allows allowed. Name one of these"},
	} {
		if err := g.try(t.Context(), tc.grace, tc.change); (err == nil) != (tc.says == "") || err != nil && !suite.RefusedBy(err, limits.Name, tc.says) {
			t.Errorf("%s: got %v, want %q", name, err, tc.says)
		}
	}

	edit := func(minimum *int64) {
		t.Helper()
		was := client.MergeFrom(p.DeepCopy()) // of any version: the leader writes the status meanwhile
		p.Spec.GracePeriod.MinSeconds = minimum
		if err := s.Client.Patch(t.Context(), p, was); err != nil {
			t.Fatal(err)
		}
	}
	edit(new(int64(25)))
	g.limited(t, "a stricter minimum", 22, nil, "minimum 25 s")
	edit(nil)
	g.limited(t, "no minimum", 10, nil, "")

	var policy admissionregistrationv1.ValidatingAdmissionPolicy
	if err := s.Client.Get(t.Context(), client.ObjectKey{Name: limits.Name}, &policy); err != nil {
		t.Fatal(err)
	}
	conditions := len(policy.Spec.MatchConditions)
	policy.Spec.MatchConditions = append(policy.Spec.MatchConditions, admissionregistrationv1.MatchCondition{Name: "never", Expression: "false"})
	if err := s.Client.Update(t.Context(), &policy); err != nil {
		t.Fatal(err)
	}
	suite.Eventually(t, "the policy put back", func(ctx context.Context) (bool, error) {
		err := s.Client.Get(ctx, client.ObjectKey{Name: limits.Name}, &policy)
		return len(policy.Spec.MatchConditions) == conditions, err
	})
	if err := s.Client.Delete(t.Context(), &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: limits.Name}}); err != nil {
		t.Fatal(err)
	}
	suite.Eventually(t, "the binding put back", func(ctx context.Context) (bool, error) {
		err := s.Client.Get(ctx, client.ObjectKey{Name: limits.Name}, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{})
		return err == nil, client.IgnoreNotFound(err)
	})
	g.limited(t, "put back", 61, nil, "maximum 60 s")

	var right rbacv1.RoleBinding
	if err := s.Client.Get(t.Context(), client.ObjectKey{Namespace: "podgrace-system", Name: "podgrace-limits"}, &right); err != nil {
		t.Fatal(err)
	}
	if err := s.Client.Delete(t.Context(), right.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	g.limited(t, "without the right", 61, nil, "")
	right.ResourceVersion, right.UID = "", ""
	if err := s.Client.Create(t.Context(), &right); err != nil {
		t.Fatal(err)
	}
	g.limited(t, "with it again", 61, nil, "maximum 60 s")
}

// compiled returns when the policy's status says that its limits are the API server's own, but for those of huge pods.
func (g *ground) compiled(t *testing.T, p *v1alpha1.PodPolicy) {
	t.Helper()
	suite.Eventually(t, "the limits compiled", func(ctx context.Context) (bool, error) {
		err := g.Client.Get(ctx, client.ObjectKeyFromObject(p), p)
		c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionCompiled)
		return c != nil && c.ObservedGeneration == p.Generation && c.Reason == v1alpha1.ReasonPartly, err
	})
}

// try makes a pod, and keeps none.
func (g *ground) try(ctx context.Context, grace int64, change func(*corev1.Pod)) error {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: g.namespace, Name: "tried"},
		Spec:       corev1.PodSpec{TerminationGracePeriodSeconds: &grace, Containers: []corev1.Container{{Name: "c", Image: "localhost/none:1"}}},
	}
	if change != nil {
		change(p)
	}
	return g.Client.Create(ctx, p, client.DryRunAll)
}

// limited returns when the limits refuse a pod in these words, or let it through if there are none.
func (g *ground) limited(t *testing.T, what string, grace int64, change func(*corev1.Pod), says string) {
	t.Helper()
	begin := time.Now()
	try := func(ctx context.Context) error { return g.try(ctx, grace, change) }
	if says == "" {
		suite.OutOfForce(t, limits.Name, try)
	} else {
		suite.InForce(t, limits.Name, try, says)
	}
	t.Logf("%s: after %s", what, time.Since(begin).Round(time.Millisecond))
}
