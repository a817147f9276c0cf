package controller

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/fencing"
	"github.com/podgrace/podgrace/fencing/agents"
)

// LiveAgents gives agents as their FenceAgents and Secrets are now, read from the API server itself: a password that was changed, and an agent that was recreated, count at
// once.
type LiveAgents struct {
	Live client.Reader
	// Client writes what agents make by which others act.
	Client client.Client
	// Namespace of the Secrets that FenceAgents name.
	Namespace string
}

// Agent implements Agents.
func (a LiveAgents) Agent(ctx context.Context, fence *v1alpha1.Fence, target v1alpha1.FenceTargetAgent) (fencing.Agent, error) {
	var agent v1alpha1.FenceAgent
	if err := a.Live.Get(ctx, types.NamespacedName{Name: target.Name}, &agent); err != nil {
		return nil, fmt.Errorf("read FenceAgent %s: %w", target.Name, err)
	}
	if agent.UID != target.UID {
		return nil, fmt.Errorf("FenceAgent %s was made anew since the fence was decided: it may be another one", target.Name)
	}
	return agents.New(&agent, agents.Options{Credentials: a.credentials, Storage: agents.Storage{Live: a.Live, Client: a.Client, Fence: fence, Target: target}})
}

func (a LiveAgents) credentials(ctx context.Context, name string) (map[string][]byte, error) {
	var secret corev1.Secret
	if err := a.Live.Get(ctx, types.NamespacedName{Namespace: a.Namespace, Name: name}, &secret); err != nil {
		return nil, fmt.Errorf("read Secret %s/%s: %w", a.Namespace, name, err)
	}
	return secret.Data, nil
}
