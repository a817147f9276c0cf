// Package input reads what is to be reviewed: documents of YAML and JSON from files, folders and streams, each with the file and
// line that it came from. It reads as kubectl does (sigs.k8s.io/yaml, k8s.io/apimachinery's unstructured lists), and where kubectl
// gives up or silently drops something, it says what is wrong and goes on.
//
//	walk.go       paths become files; ignore.go: not those; leftout.go: how it is said
//	helm.go       a chart becomes manifests, by the user's own helm; kustomize.go: a kustomization, by kustomize's library
//	source.go     a file's bytes, as far as they are needed, with line numbers
//	split.go      a stream becomes documents: YAML between separators, JSON values one after the other
//	yaml.go       a YAML document becomes objects; convert.go, members.go, scalar.go: as JSON; yamlerror.go: what is wrong, and where
//	json.go       a JSON value becomes objects, a list item by item as it is read
//	head.go       what every object must have
package input
