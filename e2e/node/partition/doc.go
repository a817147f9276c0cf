// Package partition tests on a real node that a pod is not run twice while its kubelet is away: in a rollout, in the middle
// of a termination, and when the namespace is deleted. A witness looks all the time, at the processes of the node and at the
// pods of the API server; see witness_test.go.
package partition
