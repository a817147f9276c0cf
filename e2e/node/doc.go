// Package node tests Podgrace on a real node: a kubelet with containerd and runc on this host.
package node
