// Package plan computes the desired cgroup tree of a node. It is pure: pods, the node and its NodePolicy come in, values as the kernel's files
// hold them go out.
//
// Build returns the Tree: kubepods, the QoS levels, pods and containers, for cgroup v1 or v2, with the names of the cgroupfs or the systemd
// driver. The table in ownership.go says who writes each file, and when. Package drift decides which values are written.
package plan
