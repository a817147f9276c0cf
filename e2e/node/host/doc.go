// Package host runs the suite of the node enforcer beside a real kubelet on this host, under cgroup v1 and the cgroupfs driver.
package host
