package certs

import (
	"context"
	"fmt"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/podgrace/podgrace/internal/kube"
)

// CABundle writes the self-managed CA into the webhook configurations, and again whenever somebody empties it; and it replaces
// the CA, step by step. It is the leader's.
type CABundle struct {
	Client    client.Client
	Namespace string
	Timing    Timing
	Clock     clock.PassiveClock
	Events    events.EventRecorder
}

// SetUp adds the controller to the manager. Its cache must hold Secrets of the namespace only.
func (c *CABundle) SetUp(mgr ctrl.Manager) error {
	named := func(name string) builder.WatchesOption {
		return builder.WithPredicates(predicate.NewPredicateFuncs(func(o client.Object) bool { return o.GetName() == name }))
	}
	always := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: ConfigurationName}}}
	})
	err := ctrl.NewControllerManagedBy(mgr).Named("cabundle").WithOptions(controller.Options{RateLimiter: kube.Retries()}).
		Watches(&corev1.Secret{}, always, named(SecretName)).
		Watches(&admissionregistrationv1.MutatingWebhookConfiguration{}, always, named(ConfigurationName)).
		Watches(&admissionregistrationv1.ValidatingWebhookConfiguration{}, always, named(ConfigurationName)).
		Complete(c)
	if err != nil {
		return fmt.Errorf("set up the caBundle controller: %w", err)
	}
	return nil
}

// Reconcile takes the next step, if it is time for one, and then writes the CAs into both configurations, where they exist and
// differ. The Secret comes first: what is in it, the next leader writes too. A write that meets a newer version is given up,
// since the event of that one is on its way.
func (c *CABundle) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	log := ctrl.LoggerFrom(ctx)
	var secret corev1.Secret
	err := c.Client.Get(ctx, types.NamespacedName{Namespace: c.Namespace, Name: SecretName}, &secret)
	if apierrors.IsNotFound(err) { // its creation is an event
		log.Info("CA Secret is missing; a replica creates a new one", "secret", SecretName)
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("read Secret %s: %w", SecretName, err)
	}
	state, err := readState(&secret)
	if err != nil { // cert-manager's authority, in every replica, mends it
		log.Error(err, "CA Secret is invalid; a replica creates a new CA", "secret", SecretName)
		return reconcile.Result{}, nil
	}
	found, err := readConfigurations(ctx, c.Client)
	if err != nil {
		return reconcile.Result{}, err
	}
	state, after, err := c.step(ctx, &secret, state, found)
	if err == nil {
		err = c.publish(ctx, &secret, state, found)
	}
	if apierrors.IsConflict(err) {
		return reconcile.Result{}, nil
	}
	return reconcile.Result{RequeueAfter: after}, err
}

// step decides, and stores the state that follows.
func (c *CABundle) step(ctx context.Context, secret *corev1.Secret, state State, found *configurations) (State, time.Duration, error) {
	observed := Observed{Now: c.Clock.Now(), Carried: found.carry(bundle(state.Trusted())), Present: found.present()}
	decision := Decide(state, observed, c.Timing)
	if decision.Step == Wait && secret.Annotations[AnnotationPhase] == string(state.Phase()) {
		return state, decision.After, nil
	}
	if decision.Step == Wait { // somebody took keys out of the Secret, or it is new
		decision.Step, decision.Why = Note, "the Secret told of another phase"
	}
	var next Pair
	if decision.Step == Begin {
		var err error
		if next, err = newPair(observed.Now, c.Timing.CA); err != nil {
			return state, 0, err
		}
	}
	state = state.After(decision.Step, observed, next)
	if err := c.Client.Update(ctx, writeState(secret, state), fieldOwner); err != nil {
		return state, 0, fmt.Errorf("store step %s of the CA in Secret %s: %w", decision.Step, secret.Name, err)
	}
	ctrl.LoggerFrom(ctx).Info("CA rotation step", "step", decision.Step, "why", decision.Why, "phase", state.Phase(), "ca", state.Current.ID, "trusted", len(state.Trusted()))
	c.tell(secret, state, decision)
	return state, 0, nil
}

// publish writes caBundle.
func (c *CABundle) publish(ctx context.Context, secret *corev1.Secret, state State, found *configurations) error {
	written, err := found.write(ctx, c.Client, bundle(state.Trusted()))
	if written > 0 {
		ctrl.LoggerFrom(ctx).Info("wrote caBundle", "configurations", written, "cas", len(state.Trusted()))
		c.Events.Eventf(secret, nil, corev1.EventTypeNormal, "CABundleWritten", "Publish", "caBundle of %d webhook configurations has %d CAs now", written, len(state.Trusted()))
	}
	return err
}

// tell writes the Event of a step that an administrator may want to know of.
func (c *CABundle) tell(secret *corev1.Secret, state State, d Decision) {
	kind, reason, then := corev1.EventTypeNormal, "", ""
	switch d.Step {
	case Begin:
		reason, then = "CAReplacementBegan", fmt.Sprintf("old and next CA are published for %s, then the next one signs", c.Timing.Settle)
	case Swap:
		reason, then = "CAReplaced", fmt.Sprintf("the next CA signs now; the old one stays trusted for %s, until its last leaf has ended", c.Timing.retire())
	case Keep:
		kind, reason, then = corev1.EventTypeWarning, "CALost", fmt.Sprintf("the new CA is published beside the old; replicas serve the leaves that they have for %s", c.Timing.Settle)
	case Drop:
		reason, then = "CARetired", fmt.Sprintf("caBundle has %d CA", len(state.Trusted()))
	default:
		return
	}
	c.Events.Eventf(secret, nil, kind, reason, string(d.Step), "%s; %s", d.Why, then)
}
