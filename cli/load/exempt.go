package load

import (
	"context"
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/cli/review"
	"github.com/podgrace/podgrace/cli/terminal"
	"github.com/podgrace/podgrace/policy"
	"github.com/podgrace/podgrace/webhook/controllers"
)

// excluded are those of the flag.
func (o *Options) excluded() (policy.Exempt, error) {
	exempt, err := policy.ExemptIn(review.OwnNamespace).Excluding(o.ExcludeNamespaces...)
	if err != nil {
		return exempt, terminal.UsageError{Err: fmt.Errorf("--exclude-namespaces: %w", err)}
	}
	return exempt, nil
}

// Exempt are the namespaces that no policy is for: by the flag, or else as the cluster's webhook configuration has them, if a cluster is read. Who may not read that
// is told, and excludes none.
func (o *Options) Exempt(ctx context.Context, t terminal.Terminal) (policy.Exempt, error) {
	if !o.Live {
		return o.excluded()
	}
	reader, err := o.Client()
	if err != nil {
		return policy.Exempt{}, err
	}
	return o.ExemptOf(ctx, t, reader)
}

// ExemptOf is Exempt for a cluster.
func (o *Options) ExemptOf(ctx context.Context, t terminal.Terminal, reader client.Reader) (policy.Exempt, error) {
	exempt, err := o.excluded()
	if err != nil || o.ExcludeNamespaces != nil {
		return exempt, err
	}
	var configuration admissionregistrationv1.ValidatingWebhookConfiguration
	err = reader.Get(ctx, types.NamespacedName{Name: controllers.ConfigurationName}, &configuration)
	if apierrors.IsNotFound(err) { // Podgrace is not installed
		return exempt, nil
	}
	read := exempt
	if err == nil {
		read, err = controllers.ReadExempt(&configuration, exempt.Own())
	}
	if err != nil {
		fmt.Fprintf(t.Err, "which namespaces the cluster excludes can't be read (--exclude-namespaces names them): %v\n", err)
		return exempt, nil
	}
	return read, nil
}
