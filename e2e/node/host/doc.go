// Package host has the tests on a real node, a kubelet with containerd and runc on this host, under cgroup v1 and the cgroupfs driver. One control plane and one kubelet serve all of
// them: the suites of e2e/node/enforcer, e2e/node/ordinary and e2e/node/partition, and what the kubelet itself does with a grace period and a static pod.
package host
