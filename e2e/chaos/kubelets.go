package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/e2e/cluster"
)

// How long the containers of these pods take.
const (
	stopsWithin  = 2 * time.Second // after they are told to stop
	jobsRunFor   = time.Second
	kubeletsWait = 10 * time.Second // for an answer of the API server
)

// kubelet does of a node what the real one does (v1.36.3), with a kubelet's rights: containers of pods that are bound to the node start; those of one that is deleting stop, and only then it reports that
// they have, and deletes the pod for good; those of one that is gone stop, too. While it is cut off it hears and says nothing, and the containers go on as they were.
type kubelet struct {
	node   string
	kube   client.Client
	pods   corev1listers.PodLister // as a watch tells of them, like a kubelet's
	copies *copies

	// Of run alone.
	knows map[types.UID]*container

	mu   sync.Mutex
	cut  bool
	last error // why it could not write what it had to
}

// container stands for those of one pod.
type container struct {
	copy   podCopy
	stops  time.Time // zero: nobody told it to
	ended  bool
	said   bool // that it runs
	killed bool // told to stop because its pod is gone
}

// newKubelet is that of a node.
func newKubelet(c *cluster.Cluster, node string, pods corev1listers.PodLister, copies *copies) (*kubelet, error) {
	config, err := c.User("system:node:"+node, "system:nodes")
	if err != nil {
		return nil, err
	}
	config = rest.CopyConfig(config)
	config.Timeout = kubeletsWait
	kube, err := client.New(config, client.Options{})
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	return &kubelet{node: node, kube: kube, pods: pods, copies: copies, knows: map[types.UID]*container{}}, nil
}

// run works until the context ends.
func (k *kubelet) run(ctx context.Context) {
	for ctx.Err() == nil {
		began := time.Now()
		k.endContainers()
		if !k.isCut() {
			err := k.sync(ctx)
			k.mu.Lock()
			k.last = err
			k.mu.Unlock()
		}
		select {
		case <-ctx.Done():
		case <-time.After(max(cluster.Pause(time.Since(began)), 100*time.Millisecond)):
		}
	}
}

func (k *kubelet) isCut() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.cut
}

// setCut cuts it off, or lets it speak again.
func (k *kubelet) setCut(is bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.cut = is
}

// failing is why it could not write what it had to, when it tried last.
func (k *kubelet) failing() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.last
}

// endContainers ends those whose time has come, also while it is cut off.
func (k *kubelet) endContainers() {
	for uid, c := range k.knows {
		if !c.ended && !c.stops.IsZero() && time.Now().After(c.stops) {
			c.ended = true
			k.copies.end(uid)
		}
	}
}

// sync does what is to do of each pod. What fails is tried again.
func (k *kubelet) sync(ctx context.Context) error {
	all, err := k.pods.List(labels.Everything())
	if err != nil {
		return err
	}
	var errs []error
	there := map[types.UID]bool{}
	for _, p := range all {
		if p.Spec.NodeName == k.node {
			there[p.UID] = true
			errs = append(errs, ignoreGone(k.syncPod(ctx, p)))
		}
	}
	for uid, c := range k.knows {
		if there[uid] {
			continue
		}
		if c.ended {
			delete(k.knows, uid)
		} else if !c.killed {
			c.killed = true
			c.stopWithin(stopsWithin)
		}
	}
	return errors.Join(errs...)
}

func (c *container) stopWithin(most time.Duration) {
	if c.stops.IsZero() {
		c.stops = time.Now().Add(time.Duration(rand.Int64N(int64(most)))) //nolint:gosec // containers stop when they do: it is no part of the plan
	}
}

// ignoreGone: the pod is gone, or another one has its name.
func ignoreGone(err error) error {
	if isMoot(err) {
		return nil
	}
	return err
}

func (k *kubelet) syncPod(ctx context.Context, p *corev1.Pod) error {
	owner := metav1.GetControllerOf(p)
	c := k.knows[p.UID]
	if c == nil {
		if p.DeletionTimestamp != nil || p.Status.Phase != corev1.PodPending {
			return k.finish(ctx, p) // it never started here
		}
		c = &container{copy: podCopy{uid: p.UID, namespace: p.Namespace, name: p.Name, node: k.node, only: p.Namespace == guardedNamespace && owner != nil && owner.Kind == "StatefulSet"}}
		k.knows[p.UID] = c
		k.copies.start(c.copy)
		if owner != nil && owner.Kind == "Job" {
			c.stopWithin(jobsRunFor)
		}
	}
	if p.DeletionTimestamp != nil {
		c.stopWithin(stopsWithin)
	}
	switch {
	case c.ended:
		return k.finish(ctx, p)
	case !c.said || !isReady(p): // the node lifecycle controller writes that a silent node's pods are not ready
		if err := k.patch(ctx, p, cluster.RunningStatus()); err != nil {
			return err
		}
		c.said = true
	}
	return nil
}

// isReady reports whether the API server has it that a pod is ready.
func isReady(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue })
}

// finish reports that a pod's containers have ended, and deletes it for good where somebody deleted it.
func (k *kubelet) finish(ctx context.Context, p *corev1.Pod) error {
	if p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed {
		if err := k.patch(ctx, p, corev1.PodStatus{Phase: corev1.PodSucceeded}); err != nil {
			return err
		}
	}
	if p.DeletionTimestamp == nil {
		return nil
	}
	return k.kube.Delete(ctx, p, client.GracePeriodSeconds(0), client.Preconditions{UID: &p.UID})
}

// patch writes the status of this very pod.
func (k *kubelet) patch(ctx context.Context, p *corev1.Pod, status corev1.PodStatus) error {
	fields, err := cluster.MergePatch("status", status)
	if err != nil {
		return err
	}
	text, err := withUID(fields, p)
	if err != nil {
		return err
	}
	return k.kube.Status().Patch(ctx, p.DeepCopy(), text)
}

// withUID adds to a merge patch whom it is for: another pod may have the name by then.
func withUID(patch client.Patch, p *corev1.Pod) (client.Patch, error) {
	text, err := patch.Data(p)
	if err != nil {
		return nil, err
	}
	return client.RawPatch(patch.Type(), append(fmt.Appendf(nil, `{"metadata":{"uid":%q},`, p.UID), text[1:]...)), nil
}
