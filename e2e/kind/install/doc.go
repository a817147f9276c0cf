// Package install holds the tests of Podgrace as its users get it: the images, the manifests of deploy with kustomize and with
// Helm, a Service, both certificate modes, an upgrade from the previous version while pods come and go, and its removal.
//
// By default there are two installations, with a smoke test of each webhook and kind of decision. PODGRACE_ALL=1 has five, and two of them run the tests of other packages as
// well (suites_test.go). PODGRACE_ALL=combinations has every combination.
//
// The previous version is the last commit where the work tree has changes, else the one before; PODGRACE_UPGRADE_FROM names
// another.
package install
