// Package input finds what is to be reviewed: files, folders and streams, whose objects package manifest reads.
//
//	walk.go       paths become files; ignore.go: not those; leftout.go: how it is said
//	helm.go       a chart becomes manifests, by the user's own helm; kustomize.go: a kustomization, by kustomize's library
//	plugin.go     which of its generators, transformers and validators are kustomize's own
package input
