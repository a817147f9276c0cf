package controllers

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	acadmission "k8s.io/client-go/applyconfigurations/admissionregistration/v1"
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
)

const (
	// actorsCondition is the match condition that the leader writes.
	actorsCondition = "not-an-allowed-actor"
	// actorsOwner owns that condition and nothing else.
	actorsOwner = client.FieldOwner("podgrace-actors")
	// removalSuffix marks the webhooks of the removal guard.
	removalSuffix = ".removal.podgrace.dev"
	// openPrefix begins the names of those that judge where nothing fails closed.
	openPrefix = "open-"
	// enforcerRemoval is the webhook that keeps node enforcers to the pods of their own nodes. No allowed actor is exempt from it.
	enforcerRemoval = "enforcer" + removalSuffix
)

// AllowedActors writes the actors that the policies allow by name into the match conditions of the removal guard, so that
// the API server lets them pass also while the webhook is away: a cloud controller must be able to remove a dead node then. A
// match condition holds in every namespace, so it has only the actors that all policies allow which the entry is for (actorsOf). The webhook allows others
// if the policies of the namespace say so. The leader runs it.
type AllowedActors struct {
	Client client.Client
	// Configuration is the name of the ValidatingWebhookConfiguration.
	Configuration string
}

// SetUp adds the controller to the manager.
func (a *AllowedActors) SetUp(mgr ctrl.Manager) error {
	all := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: a.Configuration}}}
	})
	err := ctrl.NewControllerManagedBy(mgr).Named("allowed-actors").WithOptions(controller.Options{RateLimiter: kube.Retries()}).
		Watches(&v1alpha1.PodPolicy{}, all).
		Watches(&admissionregistrationv1.ValidatingWebhookConfiguration{}, all,
			builder.WithPredicates(predicate.NewPredicateFuncs(func(o client.Object) bool { return o.GetName() == a.Configuration }))).
		Complete(a)
	if err != nil {
		return fmt.Errorf("set up the controller of allowed actors: %w", err)
	}
	return nil
}

// Reconcile writes the condition where it differs.
func (a *AllowedActors) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	var list v1alpha1.PodPolicyList
	if err := a.Client.List(ctx, &list); err != nil {
		return reconcile.Result{}, fmt.Errorf("list PodPolicies: %w", err)
	}
	var have admissionregistrationv1.ValidatingWebhookConfiguration
	if err := a.Client.Get(ctx, types.NamespacedName{Name: a.Configuration}, &have); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	ofAll := policy.InForce(list.Items).RemovalOfAll()
	configuration, stale := acadmission.ValidatingWebhookConfiguration(a.Configuration), false
	for _, w := range have.Webhooks {
		if !takesActors(w.Name) {
			continue
		}
		want := actorsExpression(actorsOf(ofAll, w.Name))
		hook := acadmission.ValidatingWebhook().WithName(w.Name)
		if want != "" {
			hook.WithMatchConditions(acadmission.MatchCondition().WithName(actorsCondition).WithExpression(want))
		}
		configuration.WithWebhooks(hook)
		stale = stale || conditionOf(w.MatchConditions, actorsCondition) != want
	}
	if !stale {
		return reconcile.Result{}, nil
	}
	err := a.Client.Apply(ctx, configuration, actorsOwner, client.ForceOwnership)
	if err != nil && !apierrors.IsNotFound(err) {
		return reconcile.Result{}, fmt.Errorf("write the allowed actors: %w", err)
	}
	return reconcile.Result{}, nil
}

// RenderActors writes the match condition for allowed actors into a configuration from a file, as the leader does in a cluster. ofAll is what all policies
// say of removals.
func RenderActors(configuration *admissionregistrationv1.ValidatingWebhookConfiguration, ofAll policy.Removal) {
	for i := range configuration.Webhooks {
		w := &configuration.Webhooks[i]
		if !takesActors(w.Name) {
			continue
		}
		if expression := actorsExpression(actorsOf(ofAll, w.Name)); expression != "" {
			w.MatchConditions = append(w.MatchConditions, admissionregistrationv1.MatchCondition{Name: actorsCondition, Expression: expression})
		}
	}
}

// actorsOf returns the actors that an entry lets pass without a call. What fails closed lets those pass that all policies which deny allow: a policy that only
// warns must not hold up a cloud controller while the webhook is down.
func actorsOf(ofAll policy.Removal, entry string) []string {
	if failsOpen(entry) {
		return ofAll.ActorsOfAll()
	}
	return ofAll.ActorsOfDenying()
}

// failsOpen reports whether an entry of the removal guard fails open.
func failsOpen(entry string) bool {
	return strings.HasPrefix(entry, openPrefix) || strings.HasPrefix(entry, "confirmed-") || entry == "detach"+removalSuffix
}

// takesActors reports whether a webhook has the match condition for allowed actors.
func takesActors(name string) bool {
	return strings.HasSuffix(name, removalSuffix) && name != enforcerRemoval
}

// ByLeader reports whether a match condition of an entry that validates is the leader's, as it writes it.
func ByLeader(entry string, c admissionregistrationv1.MatchCondition) bool {
	return c.Name == actorsCondition && takesActors(entry) && actorsShape.MatchString(c.Expression)
}

// conditionOf is the expression of the match condition with a name; empty: there is none.
func conditionOf(conditions []admissionregistrationv1.MatchCondition, name string) string {
	for _, c := range conditions {
		if c.Name == name {
			return c.Expression
		}
	}
	return ""
}

// actorsShape is how actorsExpression writes: names, and nothing that could leave out more.
var actorsShape = regexp.MustCompile(`^!\(request\.userInfo\.username in \["([^"\\]|\\.)*"(, "([^"\\]|\\.)*")*\]\)$`)

// actorsExpression is the CEL expression that is false for the actors; empty where there are none.
func actorsExpression(actors []string) string {
	if len(actors) == 0 {
		return ""
	}
	quoted := make([]string, 0, len(actors))
	for _, actor := range slices.Sorted(slices.Values(actors)) {
		quoted = append(quoted, strconv.QuoteToASCII(actor)) // CEL has Go's escapes
	}
	return "!(request.userInfo.username in [" + strings.Join(quoted, ", ") + "])"
}
