package cluster

import (
	"context"
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// What stands in for a kubelet has these in common.

// AttachByController has the attach/detach controller look after the volumes of a node, as kubelets say of themselves.
func (c *Cluster) AttachByController(ctx context.Context, node string) error {
	return c.patchNode(ctx, node, map[string]any{"metadata": map[string]any{"annotations": map[string]string{"volumes.kubernetes.io/controller-managed-attach-detach": "true"}}})
}

// MergePatch is a merge patch of one part of an object, such as its status.
func MergePatch(part string, fields any) (client.Patch, error) {
	text, err := json.Marshal(map[string]any{part: fields})
	return client.RawPatch(types.MergePatchType, text), err
}

// RunningStatus is that of a pod that has just started.
func RunningStatus() corev1.PodStatus {
	return corev1.PodStatus{Phase: corev1.PodRunning, StartTime: new(metav1.Now()), Conditions: []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}, {Type: corev1.PodReady, Status: corev1.ConditionTrue},
	}}
}

// AttachedTo reports whether the attach/detach controller has a volume as attached to a node.
func AttachedTo(node *corev1.Node, volume corev1.UniqueVolumeName) bool {
	return slices.ContainsFunc(node.Status.VolumesAttached, func(a corev1.AttachedVolume) bool { return a.Name == volume })
}
