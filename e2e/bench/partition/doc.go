// Package partition times what becomes of a StatefulSet of one with a ReadWriteOnce volume whose node is cut off, from then until its pod runs on another node: with Kubernetes alone, which does
// nothing about it for as long as anybody looks; with a person who types `kubectl podgrace confirm` as soon as that is let through, and what it says to type next; and with the fencer, by the
// FencePolicy of examples/fencing with the mode Fence.
//
// API server, controller manager and scheduler are real and have their own defaults, pods too: a grace period of 50 s until a node that is not heard of is unreachable, and 300 s until its pods are
// deleted. Webhook, fencer and command are the real programs; Podgrace is installed after Kubernetes was watched alone. Nodes are Node objects whose Leases are renewed until they are cut off: what
// a kubelet and a CSI driver say is said at once (kubelets.go), and a machine is off as soon as its BMC is told. Pulling images, mounting and a real machine's power are not in the times
// (make demo-fencing has those).
package partition
