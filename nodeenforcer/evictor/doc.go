// Package evictor is the loop that keeps a node from running out of memory, processes and disk. It measures (pressure), reads what the
// pods use as soon as a threshold is met, has victims chosen (eviction) and asks for their termination (terminate). Begin with
// Evictor.Run; relieve.go is what follows from one threshold that is met, stall.go who waits where processes stall on memory, and disk.go is what is different with disks: only the
// kubelet knows which pod fills them, it knows late, and the space is not free as soon as a pod has ended.
package evictor
