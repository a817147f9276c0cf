// Package cgroupv1 tests the tree of cgroup v1 on this host's own, in a cgroup of its own which it removes.
package cgroupv1
