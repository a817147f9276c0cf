// Package kubernetes pins Kubernetes 1.35 as the module above pins the version that all other tests run on.
package kubernetes
