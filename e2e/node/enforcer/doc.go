// Package enforcer is the suite of the node enforcer beside a real kubelet, on two grounds: this host, with cgroup v1 and the cgroupfs driver
// (e2e/node/host), and a node in a virtual machine, with cgroup v2 and systemd (e2e/node/vm), which has more tests of its own: of what
// takes the whole machine, as pressure does.
package enforcer
