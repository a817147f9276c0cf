package lookup

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/wait"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/podgrace/podgrace/defaulting/topology"
)

// WatchNodes returns the nodes of the cluster, kept by events, and a function that reports whether those that exist now are among them. It
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

// DefaultRequestTimeout is the API server's default for how long a request can take (k8s.io/apiserver/pkg/server/config.go RequestTimeout, 0.36.3).
const DefaultRequestTimeout = time.Minute

// Holds records since when each Node has had finalizers without interruption, as far as this replica's informer has seen. One goroutine writes, many
// read.
type Holds struct {
	// RequestTimeout is the API server's --request-timeout; 0: DefaultRequestTimeout.
	RequestTimeout time.Duration
	// Clock may be nil: the real one.
	Clock clock.PassiveClock

	mu sync.Mutex
	of map[string]hold // by the Node's name
}

type hold struct {
	uid     types.UID
	version string
	since   time.Time // zero: it has no finalizer
}

// set records a Node's current state.
func (h *Holds) set(n *corev1.Node) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := hold{uid: n.UID, version: n.ResourceVersion}
	if before := h.of[n.Name]; IsHeld(n) {
		if now.since = before.since; before.uid != n.UID || before.since.IsZero() {
			now.since = h.now()
		}
	}
	if h.of == nil {
		h.of = map[string]hold{}
	}
	h.of[n.Name] = now
}

func (h *Holds) delete(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.of, name)
}

func (h *Holds) now() time.Time {
	if h.Clock == nil {
		return time.Now()
	}
	return h.Clock.Now()
}

// From is when the Node will have had finalizers for longer than a request can take. It waits for up to a second until the informer has seen this version of the
// Node; if it has not, they count as added now.
func (h *Holds) From(ctx context.Context, n *corev1.Node) time.Time {
	timeout := h.RequestTimeout
	if timeout == 0 {
		timeout = DefaultRequestTimeout
	}
	since := h.now()
	_ = wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, time.Second, true, func(context.Context) (bool, error) {
		h.mu.Lock()
		defer h.mu.Unlock()
		known := h.of[n.Name]
		if known.uid != n.UID || !notOlder(known.version, n.ResourceVersion) {
			return false, nil
		}
		if !known.since.IsZero() {
			since = known.since
		}
		return true, nil
	})
	return since.Add(timeout)
}

// notOlder compares resource versions (KEP-5504).
func notOlder(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order >= 0
}

// IsHeld reports whether finalizers keep a Node that is deleted. Two finalizers do not count: a DELETE removes them by itself, as its propagationPolicy says
// (k8s.io/apiserver/pkg/registry/generic/registry/store.go deletionFinalizersForGarbageCollection, 0.36.3).
func IsHeld(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Finalizers, func(f string) bool {
		return f != metav1.FinalizerOrphanDependents && f != metav1.FinalizerDeleteDependents
	})
}
