package controllers

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/defaulting"
	"github.com/podgrace/podgrace/defaulting/limits"
	"github.com/podgrace/podgrace/internal/kube"
	"github.com/podgrace/podgrace/policy"
	"github.com/podgrace/podgrace/webhook/exceptions"
	"github.com/podgrace/podgrace/webhook/lookup"
)

// limitsOwner is the field manager of the compiled limits.
const limitsOwner = client.FieldOwner("podgrace-limits")

// LimitsCache restricts a cache to the two objects that the webhook may watch.
func LimitsCache() cache.ByObject {
	return cache.ByObject{Field: fields.OneTermEqualSelector(metav1.ObjectNameField, limits.Name)}
}

// CompileLimits compiles policies and the exceptions in force into a ValidatingAdmissionPolicy.
func CompileLimits(policies policy.Policies, exceptions policy.Exceptions, exempt policy.Exempt, globalDefault string) limits.Compiled {
	return limits.Compile(policies, limits.Cluster{Exempt: exempt, ServiceAccount: account, GlobalDefault: globalDefault, Exceptions: exceptions})
}

// Limits reconciles the compiled limits of all policies in the API server, where they hold while the webhook is away: it writes the ValidatingAdmissionPolicy and its
// binding, reverts changes by others, and deletes them with the last policy that has limits. They are in force only while the webhook's account has a right in
// Podgrace's namespace (RoleBinding podgrace-limits), so that they end with the installation. The leader runs it.
type Limits struct {
	Client client.Client
	// Exempt are the namespaces that no policy is for, Podgrace's own among them.
	Exempt policy.Exempt
	// Off: they are deleted.
	Off bool
	// Fixed are policies from files; nil: those of the cluster count.
	Fixed policy.Policies
	// Exceptions reads them from an informer. nil: there are none.
	Exceptions client.Reader
	// Answered returns nil if the API server has just got an answer from a replica (func webhook.Answered). The first time the limits are bound only then: bounds
	// of the grace period refuse what the webhook would have moved, so that where API servers never reach it no such pod would be created. nil: they are bound at once.
	Answered func(context.Context) error
	// Clock tells when exceptions end.
	Clock clock.PassiveClock

	outcome atomic.Pointer[map[types.UID]compiledLimits]
}

// compiledLimits says which of a policy's limits were compiled.
type compiledLimits struct {
	generation int64
	extent     string
	message    string
}

// SetUp adds the controller to the manager, whose cache must be restricted by LimitsCache.
func (l *Limits) SetUp(mgr ctrl.Manager) error {
	only := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: limits.Name}}}
	})
	b := ctrl.NewControllerManagedBy(mgr).Named("limits").WithOptions(controller.Options{RateLimiter: kube.Retries()}).
		Watches(&admissionregistrationv1.ValidatingAdmissionPolicy{}, only).
		Watches(&admissionregistrationv1.ValidatingAdmissionPolicyBinding{}, only).
		Watches(&schedulingv1.PriorityClass{}, only) // messages name the globalDefault
	if l.Fixed == nil {
		b = b.Watches(&v1alpha1.PodPolicy{}, only, builder.WithPredicates(predicate.GenerationChangedPredicate{})) // not for changes of the status
	}
	if l.Exceptions != nil {
		b = b.Watches(exceptions.New(), only, builder.WithPredicates(exceptions.GrantChanged))
	}
	if err := b.Complete(l); err != nil {
		return fmt.Errorf("set up the controller of compiled limits: %w", err)
	}
	return nil
}

// Condition is the condition Compiled of a policy at a generation; nil: it has no limits on pods. false: its limits have not been written yet.
func (l *Limits) Condition(policy types.UID, generation int64) (condition *metav1.Condition, known bool) {
	all := l.outcome.Load()
	if all == nil {
		return nil, false
	}
	c, ok := (*all)[policy]
	switch {
	case !ok || c.generation != generation:
		return nil, false
	case c.extent == "":
		return nil, true
	}
	condition = &metav1.Condition{Type: v1alpha1.ConditionCompiled, ObservedGeneration: generation, Status: metav1.ConditionFalse, Reason: c.extent, Message: c.message}
	if c.extent == v1alpha1.ReasonFull {
		condition.Status = metav1.ConditionTrue
	}
	return condition, true
}

// Reconcile writes both objects where they differ from what the policies say.
func (l *Limits) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	policies, uids, err := l.policies(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	var classes schedulingv1.PriorityClassList
	if err := l.Client.List(ctx, &classes); err != nil {
		return reconcile.Result{}, fmt.Errorf("list PriorityClasses: %w", err)
	}
	exceptions, again, err := l.exceptions(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	compiled := CompileLimits(policies, exceptions, l.Exempt, globalDefaultOf(classes.Items))
	if l.Off {
		compiled.Policy, compiled.Binding = nil, nil
	}
	waiting, err := l.waits(ctx, compiled)
	switch {
	case err != nil:
		return reconcile.Result{}, err
	case waiting != nil:
		again = answerAgain
	default:
		err = l.keep(ctx, compiled)
	}
	if apierrors.IsConflict(err) {
		return reconcile.Result{}, nil // the informer's event is still to come
	}
	outcome := map[types.UID]compiledLimits{}
	for name, uid := range uids {
		v := compiled.Verdicts[name]
		c := compiledLimits{uid.generation, v.Extent(), v.Message()}
		switch {
		case c.extent == "":
		case l.Off:
			c.extent, c.message = v1alpha1.ReasonNo, "switched off (--compile-limits=false): its limits hold by the webhook alone"
		case waiting != nil:
			c.extent, c.message = v1alpha1.ReasonLimitsWaiting, "not yet: no replica of the webhook has answered the API server, which would refuse pods for what the webhook gives them"
		case err != nil:
			c.extent, c.message = v1alpha1.ReasonNo, "it could not be written: "+string(apierrors.ReasonForError(err))
		}
		outcome[uid.uid] = c
	}
	l.outcome.Store(&outcome)
	return reconcile.Result{RequeueAfter: again}, err
}

// answerAgain is how long after no replica answered it is tried again. Until one does nothing is held by the API server alone.
const answerAgain = 2 * time.Second

// waits returns why limits that are not there yet are not written now either. What somebody deleted of them is put back at once: one of both objects is left.
func (l *Limits) waits(ctx context.Context, want limits.Compiled) (why, err error) {
	if want.Policy == nil || l.Answered == nil {
		return nil, nil
	}
	for _, o := range []client.Object{&admissionregistrationv1.ValidatingAdmissionPolicyBinding{}, &admissionregistrationv1.ValidatingAdmissionPolicy{}} {
		if err := l.Client.Get(ctx, types.NamespacedName{Name: limits.Name}, o); !apierrors.IsNotFound(err) {
			return nil, err
		}
	}
	return l.Answered(ctx), nil
}

// exceptions returns those in force, and when to reconcile again because one ends. The compiled expression ends it on time by itself; reconciling again only
// keeps the stored policy short.
func (l *Limits) exceptions(ctx context.Context) (policy.Exceptions, time.Duration, error) {
	if l.Exceptions == nil {
		return nil, 0, nil
	}
	granted, err := exceptions.Granted(ctx, l.Exceptions)
	if err != nil {
		return nil, 0, err
	}
	now := l.Clock.Now()
	inForce := granted.InForce(now)
	return inForce, untilNextEnd(inForce, now), nil
}

// identified is a policy as it was read.
type identified struct {
	uid        types.UID
	generation int64
}

// policies returns those that count, and the objects of the cluster that they are, by name.
func (l *Limits) policies(ctx context.Context) (policy.Policies, map[string]identified, error) {
	if l.Fixed != nil {
		return l.Fixed, nil, nil
	}
	var list v1alpha1.PodPolicyList
	if err := l.Client.List(ctx, &list); err != nil {
		return nil, nil, fmt.Errorf("list PodPolicies: %w", err)
	}
	there := map[string]identified{}
	for i := range list.Items {
		there[list.Items[i].Name] = identified{list.Items[i].UID, list.Items[i].Generation}
	}
	return policy.InForce(list.Items), there, nil
}

func globalDefaultOf(classes []schedulingv1.PriorityClass) string {
	byName := map[string]*schedulingv1.PriorityClass{}
	for i := range classes {
		byName[classes[i].Name] = &classes[i]
	}
	if class := defaulting.GlobalDefaultOf(byName); class != nil {
		return class.Name
	}
	return ""
}

// keep writes the policy before its binding and deletes it after, so that a binding never names a policy that does not exist.
func (l *Limits) keep(ctx context.Context, want limits.Compiled) error {
	havePolicy, haveBinding := &admissionregistrationv1.ValidatingAdmissionPolicy{}, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{}
	for _, o := range []client.Object{havePolicy, haveBinding} {
		if err := l.Client.Get(ctx, types.NamespacedName{Name: limits.Name}, o); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("read %s %s: %w", lookup.KindOf(o), limits.Name, err)
		}
	}
	if want.Policy == nil {
		return errors.Join(l.remove(ctx, haveBinding), l.remove(ctx, havePolicy))
	}
	err := l.write(ctx, havePolicy, want.Policy, func() bool {
		same := equality.Semantic.DeepEqual(havePolicy.Spec, want.Policy.Spec)
		havePolicy.Spec = want.Policy.Spec
		return same
	})
	if err != nil {
		return err
	}
	return l.write(ctx, haveBinding, want.Binding, func() bool {
		same := equality.Semantic.DeepEqual(haveBinding.Spec, want.Binding.Spec)
		haveBinding.Spec = want.Binding.Spec
		return same
	})
}

// write creates a missing object by server-side apply, since RBAC can restrict that to a name, and replaces one that differs by an update: an apply would leave
// what somebody else added, such as a match condition that is never true. mend sets the spec of the stored object and reports whether that was right already.
func (l *Limits) write(ctx context.Context, have, want client.Object, mend func() bool) error {
	if have.GetUID() == "" && have.GetResourceVersion() == "" {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(want)
		if err != nil {
			return fmt.Errorf("%s %s: %w", lookup.KindOf(want), limits.Name, err)
		}
		u := &unstructured.Unstructured{Object: content}
		unstructured.RemoveNestedField(u.Object, "status")
		unstructured.RemoveNestedField(u.Object, "metadata", "creationTimestamp")
		if err := l.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), limitsOwner, client.ForceOwnership); err != nil {
			return fmt.Errorf("create %s %s: %w", lookup.KindOf(want), limits.Name, err)
		}
		return nil
	}
	labels, same := have.GetLabels(), mend()
	if labels == nil {
		labels = map[string]string{}
	}
	for key, value := range want.GetLabels() {
		same = same && labels[key] == value
		labels[key] = value
	}
	if same {
		return nil
	}
	have.SetLabels(labels)
	if err := l.Client.Update(ctx, have, limitsOwner); err != nil {
		return fmt.Errorf("write %s %s: %w", lookup.KindOf(want), limits.Name, err)
	}
	return nil
}

// remove deletes an object, if it exists.
func (l *Limits) remove(ctx context.Context, o client.Object) error {
	if o.GetResourceVersion() == "" {
		return nil
	}
	if err := l.Client.Delete(ctx, o, client.Preconditions{UID: new(o.GetUID())}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete %s %s: %w", lookup.KindOf(o), limits.Name, err)
	}
	return nil
}

// setCompiled sets the condition Compiled in a status, or removes it.
func setCompiled(status *v1alpha1.PodPolicyStatus, condition *metav1.Condition) {
	if condition == nil {
		meta.RemoveStatusCondition(&status.Conditions, v1alpha1.ConditionCompiled)
		return
	}
	meta.SetStatusCondition(&status.Conditions, *condition)
}
