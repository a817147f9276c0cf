// Command demo starts a real control plane with Podgrace's real webhook, applies the examples, and prints what each pod
// asked for, what it got, and why; and of a pod that no node takes why it is pending. Where this machine can be a node, one of
// the nodes has a kubelet and a node enforcer, and it prints what is in the kernel's files of its pods. It stays until it is
// interrupted, or ends by itself with DEMO_EXIT=1.
package main
