package controllers

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
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

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/policy"
)

const (
	// InForce is the Role, in Podgrace's namespace, by which the API server asks the webhook (Asked), and the RoleBinding that gives it to InForceAccount.
	InForce = "podgrace-in-force"
	// InForceAccount is the service account for which match conditions check the rights of InForce. It does not exist: nothing may ever act by it.
	InForceAccount = "podgrace-in-force"
	// AnnotationGuard on the Role, with the value GuardOff, switches off all that fails closed.
	AnnotationGuard = "podgrace.dev/guard"
	// GuardOff is the value of AnnotationGuard that has an effect.
	GuardOff = "off"
	// ArmingVerb is the verb of the rights.
	ArmingVerb = "judge"

	// account is the webhook's service account.
	account = "podgrace-webhook"
)

// GuardState is what the removal guard is doing.
type GuardState string

// The states of the removal guard.
const (
	// GuardIdle: there is no policy, so that the API server asks nothing.
	GuardIdle GuardState = "Idle"
	// GuardWaiting: there is a policy, and it is not in force yet. Until it is, nothing is refused.
	GuardWaiting GuardState = "Waiting"
	// GuardArmed: the policies are in force. The API server refuses removals about which it gets no answer if a policy that denies guards them.
	GuardArmed GuardState = "Armed"
	// GuardSwitchedOff: a person switched off all that fails closed, by AnnotationGuard.
	GuardSwitchedOff GuardState = "Off"
)

// InForceCache restricts a cache to the Role or the RoleBinding InForce, which is all that the webhook may watch.
func InForceCache(namespace string) cache.ByObject {
	return cache.ByObject{Namespaces: map[string]cache.Config{namespace: {}}, Field: fields.OneTermEqualSelector(metav1.ObjectNameField, InForce)}
}

// Arming writes into the Role InForce what the API server asks the webhook about (Asked): nothing without a policy, and nothing new before a replica has
// answered the API server. Match conditions check these rights (deploy/webhook/configurations.yaml). A GitOps tool or an upgrade does not reset the rules,
// because no manifest has them. They end with Podgrace's namespace, and a person can remove them while no replica runs. The leader runs it.
type Arming struct {
	Client client.Client
	// Live reads the Role, its RoleBinding, and the policies before anything is taken away. A cache may be stale, and is empty if the
	// CustomResourceDefinition is gone.
	Live client.Reader
	// Namespaces reads the Namespaces of the cluster.
	Namespaces client.Reader
	// Namespace that Podgrace runs in.
	Namespace string
	// Exempt are the namespaces that no policy is for.
	Exempt policy.Exempt
	// Fixed are policies from files; nil: those of the cluster count.
	Fixed policy.Policies
	// Answered returns nil if the API server has just got an answer from a replica (func Answered).
	Answered func(context.Context) error
	// Acts reports whether the API server acts by a version of the Role's rules (ActsBy).
	Acts  func(ctx context.Context, version string) (bool, error)
	Clock clock.PassiveClock
	// Tell reports the state after each reconcile. May be nil.
	Tell func(GuardState)

	lessSince time.Time
	outcome   atomic.Pointer[outcome]
}

// outcome is the state after a reconcile, and the generations of the policies that existed then by UID.
type outcome struct {
	state    GuardState
	policies map[types.UID]int64
}

// disarmDelay is how long rights that no policy needs any more are kept, so that a policy that is deleted and recreated stays in force.
const disarmDelay = 10 * time.Second

// For returns the state of the guard for a policy: armed only after a reconcile that saw this policy. From then on the guard is not disarmed before the
// policy is deleted.
func (a *Arming) For(policy types.UID) GuardState {
	o := a.outcome.Load()
	if o == nil {
		return GuardWaiting
	}
	if _, ok := o.policies[policy]; !ok && o.state != GuardSwitchedOff {
		return GuardWaiting
	}
	return o.state
}

// SetUp adds the controller to the manager, whose cache must be restricted by InForceCache.
func (a *Arming) SetUp(mgr ctrl.Manager) error {
	only := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: a.key()}}
	})
	b := ctrl.NewControllerManagedBy(mgr).Named("arming").Watches(&rbacv1.Role{}, only).Watches(&rbacv1.RoleBinding{}, only).Watches(&corev1.Namespace{}, only)
	if a.Fixed == nil {
		b = b.Watches(&v1alpha1.PodPolicy{}, only)
	}
	// Retries are frequent while no replica answers, because nothing is in force until one does.
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](200*time.Millisecond, 5*time.Second)
	if err := b.WithOptions(controller.Options{RateLimiter: limiter}).Complete(a); err != nil {
		return fmt.Errorf("set up the controller that puts policies in force: %w", err)
	}
	return nil
}

func (a *Arming) key() types.NamespacedName {
	return types.NamespacedName{Namespace: a.Namespace, Name: InForce}
}

// Reconcile writes the Role if it differs from what the policies need.
func (a *Arming) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	all, generations, err := a.policies(ctx, a.Client)
	if err != nil {
		return reconcile.Result{}, err
	}
	want, err := a.asked(ctx, all)
	if err != nil {
		return reconcile.Result{}, err
	}
	state, after, err := a.reach(ctx, want)
	if state == GuardWaiting && err == nil && a.wasArmed(generations) {
		state = "" // only a namespace came or went, and until the API server has seen that its pods are judged by entries that fail open
	}
	if state == "" { // unknown: the last state stays, because an API server that does not answer must not disarm anything
		return reconcile.Result{RequeueAfter: after}, err
	}
	a.outcome.Store(&outcome{state, generations})
	if a.Tell != nil {
		a.Tell(state)
	}
	return reconcile.Result{RequeueAfter: after}, err
}

// wasArmed reports whether the guard was armed for these policies before.
func (a *Arming) wasArmed(policies map[types.UID]int64) bool {
	o := a.outcome.Load()
	return o != nil && o.state == GuardArmed && maps.Equal(o.policies, policies)
}

// policies returns the policies in force, and their generations by UID.
func (a *Arming) policies(ctx context.Context, from client.Reader) (policy.Policies, map[types.UID]int64, error) {
	if a.Fixed != nil {
		return a.Fixed, nil, nil
	}
	var list v1alpha1.PodPolicyList
	if err := from.List(ctx, &list); err != nil {
		return nil, nil, fmt.Errorf("list PodPolicies: %w", err)
	}
	generations := map[types.UID]int64{}
	for i := range list.Items {
		generations[list.Items[i].UID] = list.Items[i].Generation
	}
	return policy.InForce(list.Items), generations, nil
}

// asked is AskedOf for the namespaces of the cluster.
func (a *Arming) asked(ctx context.Context, all policy.Policies) (Asked, error) {
	var list corev1.NamespaceList
	if err := a.Namespaces.List(ctx, &list); err != nil {
		return Asked{}, fmt.Errorf("list Namespaces: %w", err)
	}
	namespaces := make([]policy.Namespace, len(list.Items))
	for i := range list.Items {
		namespaces[i] = policy.Namespace{Name: list.Items[i].Name, Labels: list.Items[i].Labels}
	}
	return AskedOf(all, namespaces, a.Exempt), nil
}

// reach writes the Role as the policies require, and returns the state that it is in and when to reconcile again. An empty state is unknown.
func (a *Arming) reach(ctx context.Context, want Asked) (state GuardState, after time.Duration, err error) {
	role, state, err := a.read(ctx)
	if err != nil {
		return state, 0, err
	}
	state = GuardArmed
	have, next := AskedBy(role.Rules), want
	switch {
	case role.Annotations[AnnotationGuard] == GuardOff:
		state, next = GuardSwitchedOff, want.open()
	case !want.Admissions:
		state = GuardIdle
	}
	if state != GuardSwitchedOff {
		if next, after, err = a.less(ctx, have, want); err != nil {
			return "", 0, err
		}
	}
	if !have.covers(next) {
		if err := a.Answered(ctx); err != nil {
			if state != GuardSwitchedOff {
				state = GuardWaiting
			}
			return state, 0, fmt.Errorf("policies are not in force yet: %w", err)
		}
	}
	if err := a.write(ctx, role, next); err != nil {
		return "", 0, err
	}
	if len(next.Rules()) == 0 {
		return state, after, nil
	}
	switch acts, err := a.Acts(ctx, next.version()); {
	case err != nil:
		return "", 0, err
	case !acts: // its authorizer has not seen the Role yet
		if state == GuardArmed {
			state = GuardWaiting
		}
		return state, 100 * time.Millisecond, nil
	}
	return state, after, nil
}

// read returns the Role. If it or its RoleBinding does not give the rights, that is an error, with the state GuardWaiting.
func (a *Arming) read(ctx context.Context) (*rbacv1.Role, GuardState, error) {
	role, binding := &rbacv1.Role{}, &rbacv1.RoleBinding{}
	for kind, o := range map[string]client.Object{"Role": role, "RoleBinding": binding} {
		if err := a.Live.Get(ctx, a.key(), o); err != nil {
			state := GuardState("")
			if apierrors.IsNotFound(err) {
				state = GuardWaiting
			}
			return nil, state, fmt.Errorf("no policy is in force: read %s %s: %w", kind, a.key(), err)
		}
	}
	if !slices.Contains(binding.Subjects, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: a.Namespace, Name: InForceAccount}) {
		return nil, GuardWaiting, fmt.Errorf("no policy is in force: RoleBinding %s does not name the service account %s", a.key(), InForceAccount)
	}
	return role, GuardArmed, nil
}

// less returns what to ask if the policies want less than before: the same for disarmDelay, and after that what a live read of the policies still needs.
func (a *Arming) less(ctx context.Context, have, want Asked) (next Asked, after time.Duration, err error) {
	if want.covers(have) {
		a.lessSince = time.Time{}
		return want, 0, nil
	}
	if a.lessSince.IsZero() {
		a.lessSince = a.Clock.Now()
	}
	if rest := disarmDelay - a.Clock.Since(a.lessSince); rest > 0 {
		return want.or(have), rest, nil
	}
	all, _, err := a.policies(ctx, a.Live)
	if err != nil {
		return Asked{}, 0, fmt.Errorf("policies stay in force as before: %w", err)
	}
	live, err := a.asked(ctx, all)
	if err != nil {
		return Asked{}, 0, err
	}
	if !want.covers(live) { // the informer has not seen it yet
		return want.or(live), time.Second, nil
	}
	a.lessSince = time.Time{}
	return want, 0, nil
}

// write sets the rules of the Role. A conflict is an error, so that it is reconciled again.
func (a *Arming) write(ctx context.Context, role *rbacv1.Role, next Asked) error {
	changed := role.DeepCopy()
	changed.Rules = next.Rules()
	if equality.Semantic.DeepEqual(changed.Rules, role.Rules) {
		return nil
	}
	if err := a.Client.Patch(ctx, changed, client.MergeFromWithOptions(role, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("write Role %s: %w", a.key(), err)
	}
	ctrl.LoggerFrom(ctx).Info("changed what the API server asks", "admissions", next.Admissions, "removals", next.Removals, "failClosed", next.Closes(), "guardedNamespaces", len(next.Guarded.Names), "allNamespaces", next.Guarded.All)
	return nil
}

// ReadAsked returns what the API server asks the webhook about by the Role in a namespace: nothing, if there is none.
func ReadAsked(ctx context.Context, live client.Reader, namespace string) (Asked, error) {
	var role rbacv1.Role
	if err := live.Get(ctx, types.NamespacedName{Namespace: namespace, Name: InForce}, &role); client.IgnoreNotFound(err) != nil {
		return Asked{}, fmt.Errorf("read what the API server asks: %w", err)
	}
	return AskedBy(role.Rules), nil
}

// ActsBy asks the API server whether InForceAccount has the right on a version of the Role's rules.
func ActsBy(kube client.Client, namespace string) func(context.Context, string) (bool, error) {
	return func(ctx context.Context, version string) (bool, error) {
		review := &authorizationv1.LocalSubjectAccessReview{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace},
			Spec: authorizationv1.SubjectAccessReviewSpec{
				User: "system:serviceaccount:" + namespace + ":" + InForceAccount, Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace},
				ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: namespace, Group: v1alpha1.GroupVersion.Group, Resource: resourceVersions, Name: version, Verb: ArmingVerb},
			},
		}
		if err := kube.Create(ctx, review); err != nil {
			return false, fmt.Errorf("ask the API server which policies are in force: %w", err)
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
		Help: "1 for the state of the removal guard: Armed (policies are in force), Idle (there is no policy), Waiting (no replica has answered the API server yet, so that nothing is refused) or Off (switched off). Reported by the leader only.",
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
