// Package vm tests the volume lock with a real kubelet, in a virtual machine, and a CSI driver that others wrote: that of Kubernetes' own storage tests, which attaches nothing
// (e2e/kubernetes/csidriver). The second node is scripted: it does what a kubelet does for the lock, no more.
package vm
