// Package cluster runs a real Kubernetes on this machine for tests and demos: etcd, kube-apiserver,
// kube-controller-manager, kube-scheduler and, where the machine allows it, a kubelet with containerd.
// It needs Linux and no registry: every program that somebody needs is built from the Go modules that
// e2e/kubernetes/go.mod pins, once per version, into the user's cache folder.
//
// Start gives a control plane on loopback. What acts in it is up to Options: a bare API server for tests of
// admission, or the controllers and the scheduler too. Nodes come in two kinds. AddNode makes a Node object
// whose lease we renew, so that the scheduler binds to it though nothing runs there; StopHeartbeat turns it
// into a node behind a partition. StartKubelet starts a real node, whose pods run, stop and have cgroups.
//
// Every program started here is a child that the kernel kills when we die, however we die. What a kernel
// keeps beyond that (mounts, a bridge, cgroups, the runtime's shims) is found again by its fixed names, and
// the next StartKubelet removes it before it starts.
//
// Start reading at cluster.go; binaries.go finds or builds the programs, buildprogress.go reports how far that is,
// pki.go issues client certificates, nodes.go has the nodes that are objects only, kubelet.go the real one.
package cluster
