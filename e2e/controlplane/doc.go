// Package controlplane tests Podgrace with the real controllers and the real scheduler: pods that controllers make, on
// nodes without a kubelet.
package controlplane
