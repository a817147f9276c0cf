package schedulertest

import (
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Case is a cluster and a pod that has no node yet.
type Case struct {
	Nodes []*corev1.Node
	// Pods are those of the nodes, and others that wait for one.
	Pods    []*corev1.Pod
	Objects []client.Object
	Pod     *corev1.Pod
}

// Namespace of the pods.
const Namespace = "shop"
