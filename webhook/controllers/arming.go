package controllers

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/policy"
)

const (
	// GuardBinding is the RoleBinding, in Podgrace's namespace, by which the webhook's account has the right that arms the guard.
	GuardBinding = "podgrace-guard"
	// AnnotationGuard on that RoleBinding, with the value GuardOff, keeps the guard disarmed.
	AnnotationGuard = "podgrace.dev/guard"
	// GuardOff is the value of AnnotationGuard that has an effect.
	GuardOff = "off"
	// ArmingVerb is the verb of the rights that arm.
	ArmingVerb = "judge"
	// ArmingResource is the resource of the right that arms the guard, of the group podgrace.dev.
	ArmingResource = "removals"
	// LimitsBinding is the RoleBinding by which it has the right that arms limits that fail closed.
	LimitsBinding = "podgrace-limits-fail-closed"

	// account is the webhook's service account.
	account = "podgrace-webhook"
)

// Right is what arms something that fails closed: the verb ArmingVerb on Resource, in Podgrace's namespace.
type Right struct {
	// Binding is the RoleBinding by which the webhook's account has it.
	Binding string
	// Resource of the group podgrace.dev.
	Resource string

	what   string
	needed func(policy.Policies) bool
}

// GuardRight arms the removal guard.
var GuardRight = Right{Binding: GuardBinding, Resource: ArmingResource, what: "removal guard", needed: func(all policy.Policies) bool { return all.RemovalOfAll().Guards() }}

// LimitsRight arms limits that fail closed (deploy/components/limits-fail-closed). Any policy needs it: entries that fail closed are called for nothing without it, and also hold what no limit is,
// such as annotations that a pod may not give itself. It is given where they fail open, too, where nobody asks for it: who has them fail closed later finds them armed.
var LimitsRight = Right{Binding: LimitsBinding, Resource: "limits", what: "limits that fail closed", needed: func(all policy.Policies) bool { return len(all) > 0 }}

// GuardState is what the removal guard is doing.
type GuardState string

// The states of the removal guard.
const (
	// GuardIdle: no policy denies or warns about removals, so that the API server does not call the webhook for them.
	GuardIdle GuardState = "Idle"
	// GuardWaiting: a policy denies or warns, and the guard is not armed yet. Until it is, nothing is refused.
	GuardWaiting GuardState = "Waiting"
	// GuardArmed: the guard fails closed. The API server refuses removals about which it gets no answer.
	GuardArmed GuardState = "Armed"
	// GuardSwitchedOff: somebody switched it off by AnnotationGuard.
	GuardSwitchedOff GuardState = "Off"
)

// Cache restricts a cache to the RoleBinding of the right, which is all that the webhook may watch.
func (r Right) Cache(namespace string) cache.ByObject {
	return cache.ByObject{Namespaces: map[string]cache.Config{namespace: {}}, Field: fields.OneTermEqualSelector(metav1.ObjectNameField, r.Binding)}
}

// Arming arms what fails closed, the removal guard or limits, when a policy needs it and a replica has answered the API server, and disarms it with the last such policy.
// It is armed by a right of the webhook's account, for which the match conditions of its webhooks ask
// (deploy/webhook/configurations.yaml): a right is no field of a manifest that a GitOps tool or an upgrade would set back, it ends with Podgrace's
// namespace, and a person can take it away while no replica runs. It is the leader's.
type Arming struct {
	// Right is what arms.
	Right  Right
	Client client.Client
	// Live reads the RoleBinding, and the policies before the guard is disarmed: a cache may not have seen yet what was written a moment ago, and is
	// empty, too, where the CustomResourceDefinition is gone.
	Live client.Reader
	// Namespace that Podgrace runs in.
	Namespace string
	// Fixed are policies from files; nil: those of the cluster count.
	Fixed policy.Policies
	// Answered returns nil if the API server has just got an answer from a replica (func Answered).
	Answered func(context.Context) error
	// Judges says whether the API server has seen that the webhook's account has the right (Right.Judges).
	Judges func(context.Context) (bool, error)
	Clock  clock.PassiveClock
	// Tell reports the state after each reconcile. May be nil.
	Tell func(GuardState)

	idleSince time.Time
	outcome   atomic.Pointer[outcome]
}

// outcome is the state after a reconcile, and the UIDs of the policies that existed then.
type outcome struct {
	state    GuardState
	policies map[types.UID]bool
}

// disarmDelay is how long no policy must need the right before it is taken away, so that a policy that is deleted and created again stays armed.
const disarmDelay = 10 * time.Second

// For returns the state of the guard for a policy: armed only after a reconcile that saw this policy. From then on the guard is not disarmed before the
// policy is deleted.
func (a *Arming) For(policy types.UID) GuardState {
	o := a.outcome.Load()
	if o == nil || o.state != GuardSwitchedOff && !o.policies[policy] {
		return GuardWaiting
	}
	return o.state
}

// SetUp adds the controller to the manager. bindings must be restricted by Right.Cache.
func (a *Arming) SetUp(mgr ctrl.Manager, bindings cache.Cache) error {
	only := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: a.binding()}}
	})
	b := ctrl.NewControllerManagedBy(mgr).Named(a.Right.Resource + "-arming").WatchesRawSource(source.Kind[client.Object](bindings, &rbacv1.RoleBinding{}, only))
	if a.Fixed == nil {
		b = b.Watches(&v1alpha1.PodPolicy{}, only)
	}
	// Retries are frequent while no replica answers, because nothing is held until one does.
	patience := workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](200*time.Millisecond, 5*time.Second)
	if err := b.WithOptions(controller.Options{RateLimiter: patience}).Complete(a); err != nil {
		return fmt.Errorf("set up the controller that arms the %s: %w", a.Right.what, err)
	}
	return nil
}

func (a *Arming) binding() types.NamespacedName {
	return types.NamespacedName{Namespace: a.Namespace, Name: a.Right.Binding}
}

// Reconcile arms or disarms.
func (a *Arming) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	all, there, err := a.policies(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	needed := a.Right.needed(all)
	if needed {
		a.idleSince = time.Time{}
	} else if a.idleSince.IsZero() {
		a.idleSince = a.Clock.Now()
	}
	state, after, err := a.reach(ctx, needed)
	if state == "" { // unknown: the last state stays, since an API server that does not answer must not disarm anything
		return reconcile.Result{}, err
	}
	a.outcome.Store(&outcome{state, there})
	if a.Tell != nil {
		a.Tell(state)
	}
	return reconcile.Result{RequeueAfter: after}, err
}

// policies returns the policies in force, and their UIDs.
func (a *Arming) policies(ctx context.Context) (policy.Policies, map[types.UID]bool, error) {
	if a.Fixed != nil {
		return a.Fixed, nil, nil
	}
	return policiesOf(ctx, a.Client)
}

func policiesOf(ctx context.Context, from client.Reader) (policy.Policies, map[types.UID]bool, error) {
	var list v1alpha1.PodPolicyList
	if err := from.List(ctx, &list); err != nil {
		return nil, nil, fmt.Errorf("list PodPolicies: %w", err)
	}
	there := map[types.UID]bool{}
	for i := range list.Items {
		there[list.Items[i].UID] = true
	}
	return policy.InForce(list.Items), there, nil
}

// reach arms or disarms as the policies require, and returns the state that it is in and when to reconcile again. An empty state is unknown.
func (a *Arming) reach(ctx context.Context, needed bool) (state GuardState, after time.Duration, err error) {
	var binding rbacv1.RoleBinding
	if err := a.Live.Get(ctx, a.binding(), &binding); err != nil {
		if apierrors.IsNotFound(err) {
			state = GuardWaiting
		}
		return state, 0, fmt.Errorf("read RoleBinding %s, which arms the %s: %w", a.binding(), a.Right.what, err)
	}
	us := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: a.Namespace, Name: account}
	switch {
	case binding.Annotations[AnnotationGuard] == GuardOff:
		return GuardSwitchedOff, 0, a.write(ctx, &binding)
	case !needed:
		if rest := disarmDelay - a.Clock.Since(a.idleSince); rest > 0 {
			return GuardIdle, rest, nil
		}
		return a.disarm(ctx, &binding)
	case !slices.Contains(binding.Subjects, us):
		if err := a.Answered(ctx); err != nil {
			return GuardWaiting, 0, fmt.Errorf("not armed yet: the %s: %w", a.Right.what, err)
		}
		if err := a.write(ctx, &binding, us); err != nil {
			return GuardWaiting, 0, err
		}
	}
	switch judges, err := a.Judges(ctx); {
	case err != nil:
		return "", 0, err
	case !judges: // its authorizer has not seen the binding yet
		return GuardWaiting, 100 * time.Millisecond, nil
	}
	return GuardArmed, 0, nil
}

// disarm removes the right, after a live read has shown that there is no policy that needs it. If that read fails it stays.
func (a *Arming) disarm(ctx context.Context, binding *rbacv1.RoleBinding) (GuardState, time.Duration, error) {
	if a.Fixed == nil && len(binding.Subjects) > 0 {
		all, _, err := policiesOf(ctx, a.Live)
		if err != nil {
			return "", 0, fmt.Errorf("armed as before: the %s: %w", a.Right.what, err)
		}
		if a.Right.needed(all) {
			return GuardIdle, time.Second, nil // the informer has not seen it yet
		}
	}
	return GuardIdle, 0, a.write(ctx, binding)
}

// write sets the subjects of the RoleBinding. A conflict is an error, so that it is reconciled again.
func (a *Arming) write(ctx context.Context, binding *rbacv1.RoleBinding, subjects ...rbacv1.Subject) error {
	if len(subjects) == 0 && len(binding.Subjects) == 0 {
		return nil
	}
	changed := binding.DeepCopy()
	changed.Subjects = subjects
	err := a.Client.Patch(ctx, changed, client.MergeFromWithOptions(binding, client.MergeFromWithOptimisticLock{}))
	if err != nil {
		return fmt.Errorf("write RoleBinding %s: %w", a.binding(), err)
	}
	ctrl.LoggerFrom(ctx).Info(a.Right.what+" armed or disarmed", "armed", len(subjects) > 0)
	return nil
}

// Judges asks the API server whether this account has the right that arms.
func (r Right) Judges(kube client.Client, namespace string) func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: namespace, Group: v1alpha1.GroupVersion.Group, Resource: r.Resource, Verb: ArmingVerb,
		}}}
		if err := kube.Create(ctx, review); err != nil {
			return false, fmt.Errorf("ask whether it is armed, the %s: %w", r.what, err)
		}
		return review.Status.Allowed, nil
	}
}

// GuardMetric reports the state of the removal guard. Only the leader has it.
type GuardMetric struct{ state *prometheus.GaugeVec }

// NewGuardMetric registers the metric.
func NewGuardMetric(registry prometheus.Registerer) *GuardMetric {
	m := &GuardMetric{prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "podgrace_removal_guard",
		Help: "1 for the state of the removal guard: Armed, Idle (no policy denies or warns about removals), Waiting (no replica has answered the API server yet, so that nothing is refused) or Off (switched off). Reported by the leader only.",
	}, []string{"state"})}
	registry.MustRegister(m.state)
	return m
}

// Set reports a state.
func (m *GuardMetric) Set(state GuardState) {
	for _, s := range []GuardState{GuardIdle, GuardWaiting, GuardArmed, GuardSwitchedOff} {
		value := 0.0
		if s == state {
			value = 1
		}
		m.state.WithLabelValues(string(s)).Set(value)
	}
}

// Reset removes the metric, for a replica that has lost leadership.
func (m *GuardMetric) Reset() { m.state.Reset() }
