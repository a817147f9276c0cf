// Package graceperiod computes how long a pod gets to stop, as the API server and the kubelet do. It is pure. The removal
// guard, the defaults at admission, explain and the node enforcer share it, so that they can't disagree.
//
// The API server decides the pod's grace period at DELETE (Delete). The kubelet decides each container's when it stops it
// (Container): preStop hooks run first, all at once, and their time comes out of it.
package graceperiod
