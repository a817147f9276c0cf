// Package guests tests fencing on machines that are real but for their processors: nodes in QEMU with a kubelet, which are cut off, paused and powered off, behind BMCs that speak
// Redfish. What a pod does meanwhile is told by a witness: a disk of each machine on which the pod writes ten times a second who it is, and which the host reads whatever becomes of the
// machine.
package guests
