// Package kubernetes pins Kubernetes 1.33 as the module above pins the version that all other tests run on.
package kubernetes
