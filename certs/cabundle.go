package certs

import (
	"bytes"
	"context"
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	acadmission "k8s.io/client-go/applyconfigurations/admissionregistration/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// ConfigurationName is the name of both webhook configurations.
const ConfigurationName = "podgrace"

// fieldOwner owns caBundle in the webhook configurations, and nothing else.
const fieldOwner = client.FieldOwner("podgrace-cabundle")

// CABundle writes the self-managed CA into the webhook configurations, and again whenever somebody empties it. It is the
// leader's.
type CABundle struct {
	Client    client.Client
	Namespace string
}

// SetUp adds the controller to the manager. Its cache must hold Secrets of the namespace only.
func (c *CABundle) SetUp(mgr ctrl.Manager) error {
	named := func(name string) builder.WatchesOption {
		return builder.WithPredicates(predicate.NewPredicateFuncs(func(o client.Object) bool { return o.GetName() == name }))
	}
	always := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: ConfigurationName}}}
	})
	err := ctrl.NewControllerManagedBy(mgr).Named("cabundle").
		Watches(&corev1.Secret{}, always, named(SecretName)).
		Watches(&admissionregistrationv1.MutatingWebhookConfiguration{}, always, named(ConfigurationName)).
		Watches(&admissionregistrationv1.ValidatingWebhookConfiguration{}, always, named(ConfigurationName)).
		Complete(c)
	if err != nil {
		return fmt.Errorf("set up the caBundle controller: %w", err)
	}
	return nil
}

// Reconcile writes the CA into both configurations, where they exist and differ.
func (c *CABundle) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	var secret corev1.Secret
	if err := c.Client.Get(ctx, types.NamespacedName{Namespace: c.Namespace, Name: SecretName}, &secret); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err) // its creation is an event
	}
	ca := secret.Data[corev1.TLSCertKey]
	if len(ca) == 0 {
		return reconcile.Result{}, nil
	}
	if err := c.mutating(ctx, ca); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{}, c.validating(ctx, ca)
}

func (c *CABundle) mutating(ctx context.Context, ca []byte) error {
	var have admissionregistrationv1.MutatingWebhookConfiguration
	if err := c.Client.Get(ctx, types.NamespacedName{Name: ConfigurationName}, &have); err != nil {
		return client.IgnoreNotFound(err)
	}
	want := acadmission.MutatingWebhookConfiguration(ConfigurationName)
	stale := false
	for i := range have.Webhooks {
		w := &have.Webhooks[i]
		stale = stale || !bytes.Equal(w.ClientConfig.CABundle, ca)
		want.WithWebhooks(acadmission.MutatingWebhook().WithName(w.Name).WithClientConfig(acadmission.WebhookClientConfig().WithCABundle(ca...)))
	}
	if !stale {
		return nil
	}
	return applied(c.Client.Apply(ctx, want, fieldOwner, client.ForceOwnership))
}

func (c *CABundle) validating(ctx context.Context, ca []byte) error {
	var have admissionregistrationv1.ValidatingWebhookConfiguration
	if err := c.Client.Get(ctx, types.NamespacedName{Name: ConfigurationName}, &have); err != nil {
		return client.IgnoreNotFound(err)
	}
	want := acadmission.ValidatingWebhookConfiguration(ConfigurationName)
	stale := false
	for i := range have.Webhooks {
		w := &have.Webhooks[i]
		stale = stale || !bytes.Equal(w.ClientConfig.CABundle, ca)
		want.WithWebhooks(acadmission.ValidatingWebhook().WithName(w.Name).WithClientConfig(acadmission.WebhookClientConfig().WithCABundle(ca...)))
	}
	if !stale {
		return nil
	}
	return applied(c.Client.Apply(ctx, want, fieldOwner, client.ForceOwnership))
}

// applied passes over a configuration that was deleted in between: server-side apply then refuses to make half of one.
func applied(err error) error {
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsInvalid(err) {
		return nil
	}
	return fmt.Errorf("write caBundle: %w", err)
}
