package controllers

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/internal/kube"
	"github.com/podgrace/podgrace/policy"
	"github.com/podgrace/podgrace/webhook/exceptions"
)

// ExceptionStatus reports in the status of each PolicyException whether it was granted and is in force. The leader runs it.
type ExceptionStatus struct {
	Client client.Client
	// Exceptions reads them from an informer.
	Exceptions client.Reader
	Clock      clock.PassiveClock
}

// SetUp adds the controller to the manager.
func (s *ExceptionStatus) SetUp(mgr ctrl.Manager) error {
	err := ctrl.NewControllerManagedBy(mgr).Named("policyexception-status").WithOptions(controller.Options{RateLimiter: kube.Retries()}).
		For(exceptions.New()).
		Watches(&v1alpha1.PodPolicy{}, handler.EnqueueRequestsFromMapFunc(s.from), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Complete(s)
	if err != nil {
		return fmt.Errorf("set up the status controller of exceptions: %w", err)
	}
	return nil
}

// from returns requests for the exceptions from a policy.
func (s *ExceptionStatus) from(ctx context.Context, policy client.Object) (requests []reconcile.Request) {
	all, err := exceptions.List(ctx, s.Exceptions)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "the status of exceptions may be stale", "podPolicy", policy.GetName())
		return nil
	}
	for i := range all {
		if name, _, _ := unstructured.NestedString(all[i].Object, "spec", "policy"); name == policy.GetName() {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&all[i])})
		}
	}
	return requests
}

// Reconcile writes an exception's status where it is stale, and requeues for the time at which the exception ends.
func (s *ExceptionStatus) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	u := exceptions.New()
	if err := s.Exceptions.Get(ctx, req.NamespacedName, u); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	a, now := exceptions.Read(u), s.Clock.Now()
	var have v1alpha1.PolicyExceptionStatus
	var from []v1alpha1.PodPolicy
	if a.Object != nil {
		have = a.Object.Status
		var p v1alpha1.PodPolicy
		switch err := s.Client.Get(ctx, client.ObjectKey{Name: a.Object.Spec.Policy}, &p); {
		case err == nil:
			from = append(from, p)
		case !apierrors.IsNotFound(err):
			return reconcile.Result{}, fmt.Errorf("read PodPolicy %s: %w", a.Object.Spec.Policy, err)
		}
	}
	var result reconcile.Result
	if a.Compiled != nil {
		result.RequeueAfter = untilNextEnd(policy.Exceptions{a.Compiled}, now)
	}
	want := exceptionStatus(&a, have, policy.InForce(from), now)
	if a.Object != nil && equality.Semantic.DeepEqual(have, want) {
		return result, nil
	}
	return result, s.write(ctx, &a, want)
}

// exceptionStatus is what the exception's status should be.
func exceptionStatus(a *exceptions.Exception, have v1alpha1.PolicyExceptionStatus, policies policy.Policies, now time.Time) v1alpha1.PolicyExceptionStatus {
	want := v1alpha1.PolicyExceptionStatus{Grant: have.Grant, ObservedGeneration: a.Generation, Conditions: slices.Clone(have.Conditions)}
	if a.Err != nil {
		reason := v1alpha1.ReasonInvalidSpec
		if a.Object != nil && len(policy.UnreadFieldsOf(a.Object)) > 0 {
			reason = v1alpha1.ReasonFieldsUnread
		}
		setCondition(&want.Conditions, a.Generation, v1alpha1.ConditionGranted, false, reason, "it can't be read")
		setCondition(&want.Conditions, a.Generation, v1alpha1.ConditionInForce, false, reason, "it lifts nothing: "+a.Err.Error())
		return want
	}
	x := a.Compiled
	switch {
	case x.GrantedBy != "":
		setCondition(&want.Conditions, a.Generation, v1alpha1.ConditionGranted, true, v1alpha1.ReasonGranted, "by "+x.GrantedBy)
	case x.Voided != nil:
		setCondition(&want.Conditions, a.Generation, v1alpha1.ConditionGranted, false, v1alpha1.ReasonChanged, fmt.Sprintf("%s granted generation %d, this is generation %d", x.Voided.By, x.Voided.Generation, a.Generation))
	default:
		setCondition(&want.Conditions, a.Generation, v1alpha1.ConditionGranted, false, v1alpha1.ReasonNotGranted, "nobody has granted it")
	}
	reason, message := x.State(policies, now)
	setCondition(&want.Conditions, a.Generation, v1alpha1.ConditionInForce, reason == v1alpha1.ReasonInForce, reason, message)
	return want
}

// write applies the status without the grant, which another field manager owns. If the exception was deleted and created again meanwhile, the new one has the
// old one's status until its own event is reconciled: the API server does not check a UID when a status is applied (k8s.io/apiextensions-apiserver
// pkg/registry/customresource/status_strategy.go PrepareForUpdate, 0.36.3). What is in force is decided by the grant alone.
func (s *ExceptionStatus) write(ctx context.Context, a *exceptions.Exception, status v1alpha1.PolicyExceptionStatus) error {
	status.Grant = nil
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&status)
	if err != nil {
		return fmt.Errorf("status of PolicyException %s: %w", a.NamespacedName, err)
	}
	u := exceptions.New()
	u.Object["status"] = content
	u.SetNamespace(a.Namespace)
	u.SetName(a.Name)
	err = s.Client.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(u), statusOwner, client.ForceOwnership)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write the status of PolicyException %s: %w", a.NamespacedName, err)
	}
	return nil
}

// untilNextEnd is how long it is until the next of them ends; 0: all have ended.
func untilNextEnd(exceptions policy.Exceptions, now time.Time) time.Duration {
	if next, ok := exceptions.NextEnd(now); ok {
		return next.Sub(now)
	}
	return 0
}

// setCondition is meta.SetStatusCondition in few words.
func setCondition(all *[]metav1.Condition, generation int64, kind string, is bool, reason, message string) {
	c := metav1.Condition{Type: kind, ObservedGeneration: generation, Status: metav1.ConditionFalse, Reason: reason, Message: message}
	if is {
		c.Status = metav1.ConditionTrue
	}
	meta.SetStatusCondition(all, c)
}
