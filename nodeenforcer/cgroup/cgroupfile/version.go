package cgroupfile

// Version is the kernel's cgroup version: which files there are, and what they are called.
type Version int

// The versions. A hybrid machine, whose unified hierarchy has no controllers, is V1, as it is for the kubelet.
const (
	V1 Version = 1
	V2 Version = 2
)
