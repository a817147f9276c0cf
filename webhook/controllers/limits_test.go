package controllers_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/defaulting/limits"
	"github.com/podgrace/podgrace/policy"
	"github.com/podgrace/podgrace/policy/policytest"
	"github.com/podgrace/podgrace/webhook"
	"github.com/podgrace/podgrace/webhook/controllers"
)

var limited = types.NamespacedName{Name: limits.Name}

func minimum(name string, seconds int64) *v1alpha1.PodPolicy {
	p := policytest.PodPolicy(name, policytest.MinGrace(seconds))
	p.UID, p.Generation = types.UID(name), 1
	return p
}

// stored are both objects as the API server has them; nil where it has them not.
func stored(t *testing.T, kube client.Client) (*admissionregistrationv1.ValidatingAdmissionPolicy, *admissionregistrationv1.ValidatingAdmissionPolicyBinding) {
	t.Helper()
	p, b := &admissionregistrationv1.ValidatingAdmissionPolicy{}, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{}
	if err := kube.Get(t.Context(), limited, p); apierrors.IsNotFound(err) {
		p = nil
	} else if err != nil {
		t.Fatal(err)
	}
	if err := kube.Get(t.Context(), limited, b); apierrors.IsNotFound(err) {
		b = nil
	} else if err != nil {
		t.Fatal(err)
	}
	return p, b
}

func reconcileLimits(t *testing.T, l *controllers.Limits) {
	t.Helper()
	if _, err := l.Reconcile(t.Context(), reconcile.Request{}); err != nil {
		t.Fatal(err)
	}
}

// wantStored compares what is stored with what the policies become.
func wantStored(t *testing.T, kube client.Client, want limits.Compiled) {
	t.Helper()
	p, b := stored(t, kube)
	if p == nil || b == nil {
		t.Fatalf("stored are %v and %v", p, b)
	}
	if diff := cmp.Diff([]any{want.Policy.Spec, want.Policy.Labels, want.Binding.Spec}, []any{p.Spec, p.Labels, b.Spec}); diff != "" {
		t.Error(diff)
	}
}

// The limits follow the policies, whatever somebody makes of them, and go with the last policy that has any.
func TestLimitsAreKept(t *testing.T) {
	p := minimum("p", 10)
	writes := 0
	count := interceptor.Funcs{
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.UpdateOption) error {
			writes++
			return c.Update(ctx, o, options...)
		},
		Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, options ...client.ApplyOption) error {
			writes++
			return c.Apply(ctx, o, options...)
		},
	}
	basic := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "basic"}, GlobalDefault: true}
	kube := fake.NewClientBuilder().WithScheme(webhook.NewScheme()).WithObjects(p, basic).WithInterceptorFuncs(count).Build()
	exempt := policy.ExemptIn("ours")
	l := &controllers.Limits{Client: kube, Exempt: exempt}
	of := func(p *v1alpha1.PodPolicy) limits.Compiled {
		return controllers.CompileLimits(policytest.Compile(t, p), nil, exempt, "basic")
	}
	wantWrites := func(want int) {
		t.Helper()
		if writes != want {
			t.Errorf("%d writes, want %d", writes, want)
		}
		writes = 0
	}
	if _, known := l.Condition(p.UID, 1); known {
		t.Error("it says what it has not written")
	}

	reconcileLimits(t, l)
	wantStored(t, kube, of(p))
	wantWrites(2)
	if c, known := l.Condition(p.UID, 1); !known || c.Status != metav1.ConditionFalse || c.Reason != v1alpha1.ReasonPartly {
		t.Errorf("got %+v, %v", c, known)
	}
	reconcileLimits(t, l)
	wantWrites(0)

	havePolicy, haveBinding := stored(t, kube)
	havePolicy.Spec.MatchConditions = append(havePolicy.Spec.MatchConditions, admissionregistrationv1.MatchCondition{Name: "never", Expression: "false"})
	delete(havePolicy.Labels, "app.kubernetes.io/part-of")
	haveBinding.Spec.ValidationActions = []admissionregistrationv1.ValidationAction{admissionregistrationv1.Audit}
	for _, o := range []client.Object{havePolicy, haveBinding} {
		if err := kube.Update(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	writes = 0
	reconcileLimits(t, l)
	wantStored(t, kube, of(p))
	wantWrites(2)

	if err := kube.Delete(t.Context(), haveBinding); err != nil {
		t.Fatal(err)
	}
	reconcileLimits(t, l)
	wantStored(t, kube, of(p))
	wantWrites(1)

	p.Spec.GracePeriod.MinSeconds = new(int64(20))
	p.Generation = 2
	if err := kube.Update(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if _, known := l.Condition(p.UID, p.Generation); known {
		t.Error("it says of the new generation what was true of the old one")
	}
	writes = 0
	reconcileLimits(t, l)
	wantStored(t, kube, of(p))
	wantWrites(1)

	off := &controllers.Limits{Client: kube, Exempt: policy.ExemptIn("ours"), Off: true}
	reconcileLimits(t, off)
	if havePolicy, haveBinding := stored(t, kube); havePolicy != nil || haveBinding != nil {
		t.Error("switched off, and still there")
	}
	if c, known := off.Condition(p.UID, p.Generation); !known || c.Reason != v1alpha1.ReasonNo {
		t.Errorf("switched off: got %+v, %v", c, known)
	}

	reconcileLimits(t, l)
	if err := kube.Delete(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	reconcileLimits(t, l)
	if havePolicy, haveBinding := stored(t, kube); havePolicy != nil || haveBinding != nil {
		t.Error("no policy any more, and still there")
	}
}

// Where API servers have never reached a replica no pod is refused for what the webhook would have given it. Once bound, the limits stay while no replica answers.
func TestLimitsWaitForAnAnswer(t *testing.T) {
	p := &v1alpha1.PodPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "u", Generation: 1}, Spec: v1alpha1.PodPolicySpec{GracePeriod: &v1alpha1.GracePeriodSection{MinSeconds: new(int64(60))}}}
	kube := fake.NewClientBuilder().WithScheme(webhook.NewScheme()).WithObjects(p).Build()
	answer := errors.New("no replica")
	l := &controllers.Limits{Client: kube, Exempt: policy.ExemptIn("ours"), Answered: func(context.Context) error { return answer }}
	again, err := l.Reconcile(t.Context(), reconcile.Request{})
	if err != nil || again.RequeueAfter == 0 {
		t.Errorf("it does not try again: %+v, %v", again, err)
	}
	if havePolicy, haveBinding := stored(t, kube); havePolicy != nil || haveBinding != nil {
		t.Error("the API server judges by itself, and has no answer")
	}
	if c, known := l.Condition(p.UID, 1); !known || c.Status != metav1.ConditionFalse || c.Reason != v1alpha1.ReasonLimitsWaiting || !strings.Contains(c.Message, "no replica of the webhook has answered") {
		t.Errorf("got %+v, %v", c, known)
	}
	answer = nil
	reconcileLimits(t, l)
	want := controllers.CompileLimits(policytest.Compile(t, p), nil, policy.ExemptIn("ours"), "")
	wantStored(t, kube, want)
	answer = errors.New("it is away")
	reconcileLimits(t, l)
	wantStored(t, kube, want)
	for _, o := range []client.Object{&admissionregistrationv1.ValidatingAdmissionPolicyBinding{}, &admissionregistrationv1.ValidatingAdmissionPolicy{}} {
		o.SetName(limits.Name)
		if err := kube.Delete(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		reconcileLimits(t, l)
		wantStored(t, kube, want)
	}
	if c, known := l.Condition(p.UID, 1); !known || c.Reason != v1alpha1.ReasonPartly { // the probes of pods without number
		t.Errorf("got %+v, %v", c, known)
	}
}

// What the API server does not take is said, and tried again.
func TestLimitsThatAreRefused(t *testing.T) {
	p := minimum("p", 10)
	kube := fake.NewClientBuilder().WithScheme(webhook.NewScheme()).WithObjects(p).WithInterceptorFuncs(interceptor.Funcs{
		Apply: func(context.Context, client.WithWatch, runtime.ApplyConfiguration, ...client.ApplyOption) error {
			return apierrors.NewForbidden(admissionregistrationv1.Resource("validatingadmissionpolicies"), limits.Name, nil)
		},
	}).Build()
	l := &controllers.Limits{Client: kube, Exempt: policy.ExemptIn("ours")}
	if _, err := l.Reconcile(t.Context(), reconcile.Request{}); !apierrors.IsForbidden(err) {
		t.Errorf("got %v", err)
	}
	if c, known := l.Condition(p.UID, p.Generation); !known || c.Reason != v1alpha1.ReasonNo || c.Message != "it could not be written: Forbidden" {
		t.Errorf("got %+v, %v", c, known)
	}
}

// Policies from files are those of the webhook, and no object of the cluster is told of.
func TestLimitsFromFiles(t *testing.T) {
	fixed := policytest.Compile(t, minimum("f", 10))
	kube := fake.NewClientBuilder().WithScheme(webhook.NewScheme()).WithObjects(minimum("p", 20)).Build()
	reconcileLimits(t, &controllers.Limits{Client: kube, Exempt: policy.ExemptIn("ours"), Fixed: fixed})
	wantStored(t, kube, controllers.CompileLimits(fixed, nil, policy.ExemptIn("ours"), ""))
}

// While two replicas have different flags, the one that leads says what the API server leaves out; the next leader writes it again.
func TestLimitsLeaveOutWhatTheLeaderExcludes(t *testing.T) {
	exempt := policy.ExemptIn("ours")
	more, err := exempt.Excluding("calico-system", "openshift-*")
	if err != nil {
		t.Fatal(err)
	}
	p := minimum("p", 10)
	kube := fake.NewClientBuilder().WithScheme(webhook.NewScheme()).WithObjects(p).Build()
	for _, flag := range []policy.Exempt{exempt, more, exempt} {
		reconcileLimits(t, &controllers.Limits{Client: kube, Exempt: flag})
		wantStored(t, kube, controllers.CompileLimits(policytest.Compile(t, p), nil, flag, ""))
		have, _ := stored(t, kube)
		conditions := 0
		for _, c := range have.Spec.MatchConditions {
			if c.Name == policy.ExemptCondition {
				conditions++
			}
		}
		if want := len(flag.Excluded()) / 2; conditions != want || len(have.Spec.MatchConstraints.NamespaceSelector.MatchExpressions[0].Values) != 3+want {
			t.Errorf("with %q: %+v, %+v", flag.Excluded(), have.Spec.MatchConstraints.NamespaceSelector, have.Spec.MatchConditions)
		}
	}
}
