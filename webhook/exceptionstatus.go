package webhook

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/defaulting"
)

// ExceptionStatus tells in each PolicyException's status whether it was granted and is in force. It is the leader's.
type ExceptionStatus struct {
	Client client.Client
	// Exceptions reads them from an informer.
	Exceptions client.Reader
	Clock      clock.PassiveClock
}

// SetUp adds the controller to the manager.
func (s *ExceptionStatus) SetUp(mgr ctrl.Manager) error {
	all := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: "all"}}}
	})
	err := ctrl.NewControllerManagedBy(mgr).Named("policyexception-status").
		Watches(exceptionKind(), all).
		Watches(&v1alpha1.PodPolicy{}, all, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Complete(s)
	if err != nil {
		return fmt.Errorf("set up the status controller of exceptions: %w", err)
	}
	return nil
}

// Reconcile writes the status of every exception that differs from what is true, and comes again when the next one ends.
func (s *ExceptionStatus) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	all, err := ReadExceptions(ctx, s.Exceptions)
	if err != nil {
		return reconcile.Result{}, err
	}
	var list v1alpha1.PodPolicyList
	if err := s.Client.List(ctx, &list); err != nil {
		return reconcile.Result{}, fmt.Errorf("list PodPolicies: %w", err)
	}
	policies, now := inForceOf(list.Items), s.Clock.Now()
	var errs []error
	for i := range all {
		a := &all[i]
		var have v1alpha1.PolicyExceptionStatus
		if a.Object != nil {
			have = a.Object.Status
		}
		want := a.status(have, policies, now)
		if a.Object == nil || !equality.Semantic.DeepEqual(have, want) {
			errs = append(errs, s.write(ctx, a, want))
		}
	}
	return reconcile.Result{RequeueAfter: untilNextEnd(compiledOf(all), now)}, errors.Join(errs...)
}

// status is what is true of the exception.
func (a *Asked) status(have v1alpha1.PolicyExceptionStatus, policies defaulting.Policies, now time.Time) v1alpha1.PolicyExceptionStatus {
	want := v1alpha1.PolicyExceptionStatus{Grant: have.Grant, ObservedGeneration: a.Generation, Conditions: slices.Clone(have.Conditions)}
	if a.Err != nil {
		setCondition(&want.Conditions, a.Generation, v1alpha1.ConditionGranted, false, v1alpha1.ReasonInvalidSpec, "it can't be read")
		setCondition(&want.Conditions, a.Generation, v1alpha1.ConditionInForce, false, v1alpha1.ReasonInvalidSpec, "it lifts nothing: "+a.Err.Error())
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

// write leaves the grant alone, which is not the leader's. Of an exception that was deleted and made anew meanwhile it tells what was true of the other,
// until that one is read, a moment later: the API server does not hold a status to a UID (k8s.io/apiextensions-apiserver
// pkg/registry/customresource/status_strategy.go PrepareForUpdate, 0.36.3). What is in force is decided by the grant alone.
func (s *ExceptionStatus) write(ctx context.Context, a *Asked, status v1alpha1.PolicyExceptionStatus) error {
	status.Grant = nil
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&status)
	if err != nil {
		return fmt.Errorf("status of PolicyException %s: %w", a.NamespacedName, err)
	}
	u := exceptionKind()
	u.Object["status"] = content
	u.SetNamespace(a.Namespace)
	u.SetName(a.Name)
	err = s.Client.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(u), statusOwner, client.ForceOwnership)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write the status of PolicyException %s: %w", a.NamespacedName, err)
	}
	return nil
}

// untilNextEnd is how long it is until the next of them ends; 0: none does.
func untilNextEnd(exceptions defaulting.Exceptions, now time.Time) time.Duration {
	if next, there := exceptions.NextEnd(now); there {
		return next.Sub(now)
	}
	return 0
}
