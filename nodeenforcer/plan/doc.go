// Package plan computes the cgroup tree of a node as it should be. It is pure: pods, the node and its NodePolicy come in, values as the
// kernel's files hold them go out.
//
// Build gives the Tree: kubepods, the QoS levels, pods and containers, for cgroup v1 or v2 and for the names of the cgroupfs or
// the systemd driver. The table in ownership.go says of every file who writes it and when. What of the tree is to be written is package
// drift's matter.
package plan
