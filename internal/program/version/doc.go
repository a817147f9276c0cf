// Package version says which Podgrace this program is: for its --version, the first line of its log, its requests to the API server
// and the metric podgrace_build_info.
//
// The build names the version (Makefile and Dockerfile, by the linker's -X). A program that was built without it (go install, go build
// in a clone) has what Go itself wrote into it.
//
// k8s.io/component-base/version is not for this: the value that its -X sets is the version of Kubernetes to the API server's libraries,
// which are in these programs too (compatibility/version.go, 0.36.3), and it reads nothing of what Go wrote. Prometheus' own
// collector (client_golang collectors/version) reads the commit there, but not the version of the module.
package version
