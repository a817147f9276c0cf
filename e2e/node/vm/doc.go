// Package vm runs the suite of the node enforcer on the node of e2e/vm, with cgroup v2, the systemd driver and a kubelet of its own, and has
// more tests, of what takes the whole machine: pressure on memory and disk, a partition, a clock that jumps. The enforcer is there as it is
// deployed: as the DaemonSet of deploy/nodeenforcer, with no more rights than that gives it.
package vm
