// Package state has the state of a node: its Node object, its NodePolicy, its pods, the kubelet's configuration, and the machine. A Source
// provides it and notifies of changes: Cluster watches the API server and reads from the kubelet, with a checkpoint on disk for a start
// without either; Fixed is read from files (ReadPods, ReadNode). Begin with State.
package state
