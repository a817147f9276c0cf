// Package vmnode runs a real Kubernetes node in a virtual machine: its own kernel with cgroup v2, systemd, containerd
// with the systemd cgroup driver, and the kubelet that e2e/cluster builds, joined to a control plane of e2e/cluster on
// this machine. What a test does to memory, to cgroups and to the kubelet it does to the guest, never to the host.
// QEMU emulates the processor in software, so it runs where virtualization is not to be had; expect a tenth of the
// host's speed.
//
// The disk is made once for each set of inputs (image.go: Debian's packages by debootstrap from the mirror that apt
// uses, the kubelet, the files of guest/, two images) and kept in the user's cache folder. A guest writes to an overlay
// that is thrown away, and reads its own files (name, kubeconfig, kubelet's configuration, what the test gives it) from
// a second disk, which is a tar archive (seed.go).
//
// The guest's network is QEMU's user-mode one with restrict=on: nothing that the guest sends is routed to the host or
// beyond. There are three exceptions, all ends of which are on this machine: guestAPIServer is forwarded to the API
// server on the host's loopback, a port of the host's loopback to the guest's shell, and the node's address, which is
// made local to the host, to the guest's kubelet, so that logs, exec and metrics work. There is no default route in
// the guest, and no name server.
//
// Start reading at node.go; machine.go has QEMU's command line, shell.go what a test can do inside.
package vmnode
