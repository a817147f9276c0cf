package certs

import (
	"bytes"
	"context"
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	acadmission "k8s.io/client-go/applyconfigurations/admissionregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ConfigurationName is the name of both webhook configurations.
const ConfigurationName = "podgrace"

// fieldOwner owns caBundle in the webhook configurations, what the leader writes into the Secret, and nothing else.
const fieldOwner = client.FieldOwner("podgrace-cabundle")

// configurations are the webhook configurations that exist; nil is one that does not.
type configurations struct {
	mutating   *admissionregistrationv1.MutatingWebhookConfiguration
	validating *admissionregistrationv1.ValidatingWebhookConfiguration
}

func readConfigurations(ctx context.Context, c client.Reader) (*configurations, error) {
	m, v := &admissionregistrationv1.MutatingWebhookConfiguration{}, &admissionregistrationv1.ValidatingWebhookConfiguration{}
	for _, o := range []client.Object{m, v} {
		if err := c.Get(ctx, types.NamespacedName{Name: ConfigurationName}, o); client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("read %T %s: %w", o, ConfigurationName, err)
		}
	}
	found := &configurations{}
	if m.Name != "" {
		found.mutating = m
	}
	if v.Name != "" {
		found.validating = v
	}
	return found, nil
}

// clients are what the webhooks are called by.
func (c *configurations) clients() []*admissionregistrationv1.WebhookClientConfig {
	return append(c.mutatingClients(), c.validatingClients()...)
}

func (c *configurations) mutatingClients() (all []*admissionregistrationv1.WebhookClientConfig) {
	if c.mutating == nil {
		return nil
	}
	for i := range c.mutating.Webhooks {
		all = append(all, &c.mutating.Webhooks[i].ClientConfig)
	}
	return all
}

func (c *configurations) validatingClients() (all []*admissionregistrationv1.WebhookClientConfig) {
	if c.validating == nil {
		return nil
	}
	for i := range c.validating.Webhooks {
		all = append(all, &c.validating.Webhooks[i].ClientConfig)
	}
	return all
}

// carry reports whether the caBundle of every webhook is this. Where there is no webhook nobody has to trust it.
func (c *configurations) carry(want []byte) bool { return carry(c.clients(), want) }

func carry(clients []*admissionregistrationv1.WebhookClientConfig, want []byte) bool {
	for _, have := range clients {
		if !bytes.Equal(have.CABundle, want) {
			return false
		}
	}
	return true
}

// present are the CAs of ours that the caBundle of some webhook has.
func (c *configurations) present() []Authority {
	var all [][]Authority
	for _, have := range c.clients() {
		all = append(all, parseAuthorities(have.CABundle))
	}
	return union(all...)
}

// write writes caBundle where it differs, and says into how many configurations. Only those that were read are written: a newer
// one is a conflict (apierrors.IsConflict), lest a leader that was replaced without noticing puts back an old caBundle.
func (c *configurations) write(ctx context.Context, kube client.Client, want []byte) (written int, err error) {
	for _, one := range []struct {
		clients []*admissionregistrationv1.WebhookClientConfig
		apply   func([]byte) runtime.ApplyConfiguration
	}{
		{c.mutatingClients(), c.mutatingWith},
		{c.validatingClients(), c.validatingWith},
	} {
		if carry(one.clients, want) {
			continue
		}
		err := kube.Apply(ctx, one.apply(want), fieldOwner, client.ForceOwnership)
		if apierrors.IsNotFound(err) || apierrors.IsInvalid(err) {
			continue // it was deleted in between: server-side apply refuses to make half of one
		}
		if err != nil {
			return written, fmt.Errorf("write caBundle of %s: %w", ConfigurationName, err)
		}
		written++
	}
	return written, nil
}

func (c *configurations) mutatingWith(ca []byte) runtime.ApplyConfiguration {
	want := acadmission.MutatingWebhookConfiguration(ConfigurationName).WithResourceVersion(c.mutating.ResourceVersion)
	for _, w := range c.mutating.Webhooks {
		want.WithWebhooks(acadmission.MutatingWebhook().WithName(w.Name).WithClientConfig(acadmission.WebhookClientConfig().WithCABundle(ca...)))
	}
	return want
}

func (c *configurations) validatingWith(ca []byte) runtime.ApplyConfiguration {
	want := acadmission.ValidatingWebhookConfiguration(ConfigurationName).WithResourceVersion(c.validating.ResourceVersion)
	for _, w := range c.validating.Webhooks {
		want.WithWebhooks(acadmission.ValidatingWebhook().WithName(w.Name).WithClientConfig(acadmission.WebhookClientConfig().WithCABundle(ca...)))
	}
	return want
}
