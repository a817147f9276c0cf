// Package kube has what the programs share to read a cluster: informers that keep only the fields that are read, how soon controllers retry, and the versions of Kubernetes that Podgrace supports.
package kube
