package load

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/cli/review"
	"github.com/podgrace/podgrace/cli/terminal"
	"github.com/podgrace/podgrace/webhook"
)

// state is that of the cluster that was named, or what every cluster has.
func (o *Options) state(ctx context.Context, t terminal.Terminal) (*review.State, error) {
	if !o.Live {
		return review.NewState(o.Further...), nil
	}
	reader, err := o.Client()
	if err != nil {
		return nil, err
	}
	state, err := review.FromCluster(ctx, reader, o.Further...)
	if err != nil {
		fmt.Fprintf(t.Err, "not all of the cluster can be read; what is missing counts as unknown:\n%v\n", err)
	}
	return state, nil
}

// clusterPolicies hold where no others are given.
func (o *Options) clusterPolicies(ctx context.Context, t terminal.Terminal) ([]*v1alpha1.PodPolicy, error) {
	reader, err := o.Client()
	if err != nil {
		return nil, err
	}
	policies, err := review.PoliciesOf(ctx, reader)
	if o.MayLackPolicies && meta.IsNoMatchError(err) {
		fmt.Fprintln(t.Err, "Podgrace is not installed in the cluster: no policy holds there")
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("no --policy was given, and the cluster's can't be read: %w", err)
	}
	return policies, nil
}

// TellUnread tells of policies of a cluster that can't be read whole. The answer is the webhook's all the same, as far as both are of one version.
func TellUnread(t terminal.Terminal, unread error) {
	if unread != nil {
		fmt.Fprintf(t.Err, "not all of the policies can be read; this is about what is in force of them:\n%v\n", unread)
	}
}

// Clientset reaches the cluster that was named, for what Client does not serve.
func (o *Options) Clientset() (kubernetes.Interface, error) {
	config, err := o.Kube.ToRESTConfig()
	if err != nil {
		return nil, terminal.UsageError{Err: fmt.Errorf("read the kubeconfig: %w", err)}
	}
	config.QPS, config.Burst = 50, 300 // as kubectl's
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("configure the client: %w", err)
	}
	return kube, nil
}

// Client reaches the cluster that was named.
func (o *Options) Client() (client.Client, error) {
	config, err := o.Kube.ToRESTConfig()
	if err != nil {
		return nil, terminal.UsageError{Err: fmt.Errorf("read the kubeconfig: %w", err)}
	}
	config.QPS, config.Burst = 50, 300 // as kubectl's
	reader, err := client.New(config, client.Options{Scheme: webhook.NewScheme()})
	if err != nil {
		return nil, fmt.Errorf("reach the cluster: %w", err)
	}
	return reader, nil
}
