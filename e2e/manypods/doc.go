// Package manypods tests a node that is full of pods, on a real kernel: the plan of 500 pods is applied in one round and read back, and
// many of the pods go while a round writes. e2e/node/cgroupv1 runs it on this host's cgroup v1, e2e/vm/kernel in a virtual machine
// with v2.
package manypods
