// Package vm tests the volume lock with a real kubelet, in a virtual machine, and a CSI driver that others wrote: that of Kubernetes' own storage tests, which attaches nothing
// (e2e/kubernetes/csidriver). All volumes are one export of the machine's own kernel. The second node is scripted: it says what a kubelet says of volumes, and what it mounts is mounted in the
// machine as well, apart from the kubelet's. In one test it is another machine with a kubelet of its own, which can be paused. Pods append their names to one file, so that it tells who wrote when.
package vm
