// Package vmenforcer tests the node enforcer as it is deployed: as the DaemonSet of deploy/nodeenforcer, with no more rights than
// that gives it, on a node with cgroup v2, the systemd driver and a kubelet of its own.
package vmenforcer
