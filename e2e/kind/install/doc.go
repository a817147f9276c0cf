// Package install holds the tests of Podgrace as its users get it: the images, the manifests of deploy with kustomize and with
// Helm, a Service, both certificate modes, an upgrade from the previous version while pods come and go, and its removal.
//
// The previous version is the last commit where the work tree has changes, else the one before; PODGRACE_UPGRADE_FROM names
// another.
package install
