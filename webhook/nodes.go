package webhook

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/podgrace/podgrace/defaulting/topology"
)

// WatchNodes returns the nodes of the cluster, kept by events, and a function that says whether those that exist now are among them. It
// tells holds of them.
func WatchNodes(ctx context.Context, informers cache.Informers, holds *Holds) (nodes *topology.Nodes, hasSynced func() bool, err error) {
	informer, err := informers.GetInformer(ctx, &corev1.Node{}, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, nil, fmt.Errorf("watch Nodes: %w", err)
	}
	nodes = topology.New()
	set := func(object any) {
		if n, ok := object.(*corev1.Node); ok {
			nodes.Set(n)
			holds.set(n)
		}
	}
	registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    set,
		UpdateFunc: func(_, now any) { set(now) },
		DeleteFunc: func(object any) {
			if key, err := toolscache.DeletionHandlingMetaNamespaceKeyFunc(object); err == nil { // an error is of what has no metadata
				nodes.Delete(key)
				holds.delete(key)
			}
		},
	})
	if err != nil {
		return nil, nil, fmt.Errorf("watch Nodes: %w", err)
	}
	return nodes, registration.HasSynced, nil
}
