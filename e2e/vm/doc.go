// Package vm runs machines of their own on this one: QEMU emulates the processor in software, so it runs where virtualization is not to
// be had; expect a tenth of the host's speed. What a test does to memory, to cgroups and to the kubelet it does to the machine, never to
// the host. Their kernel is Debian's for clouds (kernel.go), and they start from one initramfs with one init (initramfs.go, package init).
// One with a hardware watchdog (watchdog.go) has Debian's full kernel, since that for clouds lacks the driver.
//
// There are two kinds. A bare guest (guest.go) has no disk and no network: it runs a test binary, for what this machine's kernel can't
// give, cgroup v2 with all its controllers and PSI, boots in seconds and leaves nothing behind. The kernel speaks on the first serial port,
// which is shown only when something fails, the test binary on the second one, so that neither disturbs the other. The init ends the output
// with a line that has the exit code and that only it can know. Package kernel has the tests that are run so; e2e/node/guest runs them, and
// e2e/node/vm those that want systemd.
//
// A node (node.go) is a real one of Kubernetes: systemd, containerd with the systemd cgroup driver, and the kubelet that e2e/cluster builds,
// joined to a control plane of e2e/cluster on this machine.
//
// Its disk is made once for each set of inputs (image.go: Debian's packages by debootstrap from the mirror that apt uses, the kubelet, the
// files of files/, two images) and kept in the user's cache folder. A node writes to an overlay that is thrown away, and reads its own files
// (name, kubeconfig, kubelet's configuration, what the test gives it) from a second disk, which is a tar archive (seed.go).
//
// Its network is QEMU's user-mode one with restrict=on: nothing that it sends is routed to the host or beyond. There are three exceptions, all
// ends of which are on this machine: guestAPIServer is forwarded to the API server on the host's loopback, a port of the host's loopback to
// the node's shell, and the node's address, which is made local to the host, to its kubelet, so that logs, exec and metrics work. There is no
// default route, and no name server.
//
// Start reading at node.go; machine.go has QEMU's command line, shell.go what a test can do inside.
package vm
