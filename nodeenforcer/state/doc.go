// Package state is what is known of a node: its Node object, its NodePolicy, its pods, the kubelet's configuration, and the machine
// that it is. A Source says it, anew whenever it changes: Cluster from the API server and the kubelet, with a checkpoint on disk for a
// start without either; Fixed from files (ReadPods, ReadNode). Begin with State.
package state
