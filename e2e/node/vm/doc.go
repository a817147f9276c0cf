// Package vm tests, on the node of e2e/vm, that it is what it says: a node with cgroup v2 and systemd whose
// kubelet writes what facts about kubelets say, on which a workload can be brought under memory pressure, and from
// which nothing reaches the host.
package vm
