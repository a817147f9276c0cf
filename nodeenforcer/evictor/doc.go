// Package evictor is the loop that keeps a node from running out. It measures (pressure), looks at what the pods use as soon as a
// threshold is met, has the choice made (eviction) and asks for the end of those who were chosen (terminate). Begin with Evictor.Run;
// relieve.go is what one threshold leads to, usage.go what a pod's cgroup says, and disk.go and diskusage.go have what is another
// matter with disks: only the kubelet knows who fills them, late, and they are not free as soon as a pod is over.
package evictor
