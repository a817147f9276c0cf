// Package kubernetes pins, in a module of its own, the Kubernetes of the test cluster, with the very dependencies that
// Kubernetes itself pins: its go.mod is the only place that names the version. Package e2e/cluster builds the programs
// that programs.go names.
package kubernetes
