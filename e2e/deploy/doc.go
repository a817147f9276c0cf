// Package deploy tests what Podgrace is installed by, on a real API server: kustomize's overlays and the Helm chart give the same
// objects; in whatever order these come and go, pods come and go too; each program has the rights that it needs and no others. It
// is a module of its own, for Helm's sake.
package deploy
