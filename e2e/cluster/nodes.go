package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// heartbeatInterval is the kubelet's own; the node lifecycle controller gives up after about 50 s without one.
const heartbeatInterval = 10 * time.Second

// AddNode makes a ready Node that the scheduler binds pods to, though no kubelet serves it: its pods stay
// Pending, and a deleted one stays Terminating. It returns when nothing but the given taints is on the node.
// The node has no address, so that nobody tries to reach it.
func (c *Cluster) AddNode(ctx context.Context, name string, labels map[string]string, taints ...corev1.Taint) error {
	node := fakeNode(name, labels, taints, metav1.Now())
	if _, err := c.client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("adding node %s: %w", name, err)
	}
	c.mu.Lock()
	c.added = append(c.added, name)
	c.mu.Unlock()
	if err := c.StartHeartbeat(ctx, name); err != nil {
		return err
	}
	// Admission gives each new node the taint not-ready, which the node lifecycle controller takes away.
	if !c.options.ControllerManager {
		if err := c.setTaints(ctx, name, taints); err != nil {
			return err
		}
	}
	return Until(ctx, "node "+name+" to lose the taint not-ready", func(ctx context.Context) (bool, error) {
		node, err := c.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		return err == nil && !slices.ContainsFunc(node.Spec.Taints, isNotReady), err
	}, c.children()...)
}

// heartbeat is that of one node. ended is closed once no renewal of it is under way any more.
type heartbeat struct {
	stop  context.CancelFunc
	ended chan struct{}
}

// StopHeartbeat stops renewing the node's lease, as a partition does, and returns when no renewal is under way: one that were stored
// afterwards would be a sign of life. With a controller manager the node becomes Unknown and is tainted unreachable after its grace period.
func (c *Cluster) StopHeartbeat(name string) {
	c.mu.Lock()
	was, ok := c.heartbeats[name]
	delete(c.heartbeats, name)
	c.mu.Unlock()
	if ok {
		was.stop()
		<-was.ended // without the lock: the API server may be slow
	}
}

// StartHeartbeat creates the node's lease, if it does not exist, and renews it until StopHeartbeat or Stop. With a controller manager it also reports the node ready again, as a kubelet does.
func (c *Cluster) StartHeartbeat(ctx context.Context, name string) error {
	err := Until(ctx, "the lease of node "+name, func(ctx context.Context) (bool, error) {
		_, err := c.client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Create(ctx, nodeLease(name), metav1.CreateOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil // the API server makes that namespace a moment after it is ready
		}
		if apierrors.IsAlreadyExists(err) { // of a node of this name that is gone
			return true, nil
		}
		return err == nil, err
	})
	if err != nil {
		return err
	}
	beating, cancel := context.WithCancel(context.WithoutCancel(ctx))
	now := heartbeat{stop: cancel, ended: make(chan struct{})}
	c.mu.Lock()
	defer c.mu.Unlock()
	before, ok := c.heartbeats[name]
	c.heartbeats[name] = now
	go func() {
		defer close(now.ended)
		if ok { // whoever waits for this one's end waits for that one's as well
			before.stop()
			<-before.ended
		}
		c.beat(beating, name)
	}()
	return nil
}

// beat renews a lease until the context ends.
func (c *Cluster) beat(ctx context.Context, name string) {
	ticker := time.NewTicker(cmp.Or(c.options.NodeGrace/5, heartbeatInterval))
	defer ticker.Stop()
	for ctx.Err() == nil {
		c.renew(context.WithoutCancel(ctx), name) // else what the client gives up may be stored all the same, later
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// renew renews a lease once. A missed renewal is not an error: the next one follows within the grace period. An API server that does not
// answer is given up as a kubelet gives it up (cmd/kubelet/app/server.go heartbeatClientConfig.Timeout, 1.36.3).
func (c *Cluster) renew(ctx context.Context, name string) {
	ctx, cancel := context.WithTimeout(ctx, heartbeatInterval)
	defer cancel()
	leases := c.client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	if lease, err := leases.Get(ctx, name, metav1.GetOptions{}); err == nil {
		lease.Spec.RenewTime = nodeLease(name).Spec.RenewTime
		_, _ = leases.Update(ctx, lease, metav1.UpdateOptions{})
	}
	if c.options.ControllerManager {
		c.reportReady(ctx, name)
	}
}

// reportReady replaces the conditions that the node lifecycle controller made Unknown, as it does for every node when the API server was away for the grace period. That controller never makes them
// known again: a kubelet does (pkg/kubelet/kubelet_node_status.go tryUpdateNodeStatus, 1.36.3). As with the lease, the next round tries again.
func (c *Cluster) reportReady(ctx context.Context, name string) {
	node, err := c.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return
	}
	unknown, now := false, metav1.Now()
	for i := range node.Status.Conditions {
		was := &node.Status.Conditions[i]
		if was.Reason != "NodeStatusUnknown" {
			continue
		}
		unknown = true
		if was.Type == corev1.NodeReady {
			*was = condition(was.Type, corev1.ConditionTrue, "KubeletReady", now)
		} else {
			*was = condition(was.Type, corev1.ConditionFalse, "KubeletHasNoPressure", now)
		}
	}
	if unknown {
		_, _ = c.client.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{})
	}
}

// setTaints does what no controller is there to do.
func (c *Cluster) setTaints(ctx context.Context, name string, taints []corev1.Taint) error {
	return c.patchNode(ctx, name, map[string]any{"spec": map[string]any{"taints": taints}})
}

// patchNode merges fields into a Node. A kubelet writes the same object, so that an update would conflict.
func (c *Cluster) patchNode(ctx context.Context, name string, fields map[string]any) error {
	patch, err := json.Marshal(fields)
	if err != nil {
		return fmt.Errorf("patching node %s: %w", name, err)
	}
	if _, err := c.client.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("patching node %s: %w", name, err)
	}
	return nil
}

func isNotReady(taint corev1.Taint) bool { return taint.Key == corev1.TaintNodeNotReady }

func nodeLease(name string) *coordinationv1.Lease {
	now, seconds := metav1.NowMicro(), int32(40)
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: corev1.NamespaceNodeLease},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &name, LeaseDurationSeconds: &seconds, RenewTime: &now},
	}
}

// fakeNode is a ready node of 8 CPUs and 32 GiB with the labels that every kubelet sets.
func fakeNode(name string, labels map[string]string, taints []corev1.Taint, now metav1.Time) *corev1.Node {
	resources := corev1.ResourceList{
		corev1.ResourceCPU:              resource.MustParse("8"),
		corev1.ResourceMemory:           resource.MustParse("32Gi"),
		corev1.ResourcePods:             resource.MustParse("110"),
		corev1.ResourceEphemeralStorage: resource.MustParse("100Gi"),
	}
	all := map[string]string{corev1.LabelHostname: name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64"}
	maps.Copy(all, labels)
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: all},
		Spec:       corev1.NodeSpec{Taints: taints},
		Status: corev1.NodeStatus{
			Capacity:    resources,
			Allocatable: resources,
			Conditions: []corev1.NodeCondition{
				condition(corev1.NodeReady, corev1.ConditionTrue, "KubeletReady", now),
				condition(corev1.NodeMemoryPressure, corev1.ConditionFalse, "KubeletHasSufficientMemory", now),
				condition(corev1.NodeDiskPressure, corev1.ConditionFalse, "KubeletHasNoDiskPressure", now),
				condition(corev1.NodePIDPressure, corev1.ConditionFalse, "KubeletHasSufficientPID", now),
			},
			NodeInfo: corev1.NodeSystemInfo{OperatingSystem: "linux", Architecture: "amd64", BootID: "boot-" + name},
		},
	}
}

func condition(kind corev1.NodeConditionType, status corev1.ConditionStatus, reason string, now metav1.Time) corev1.NodeCondition {
	return corev1.NodeCondition{Type: kind, Status: status, Reason: reason, LastHeartbeatTime: now, LastTransitionTime: now}
}
