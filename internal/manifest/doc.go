// Package manifest reads objects of Kubernetes: documents of YAML and JSON, one or many in a file, alone or in lists, each with the file
// and the line that it came from. It reads as kubectl does (sigs.k8s.io/yaml, k8s.io/apimachinery's unstructured lists), and where kubectl
// gives up or silently drops something, it says what is wrong and goes on. All that reads manifests reads them with it: policies, the
// review and its suites, the node enforcer's plan of files.
//
//	manifest.go   Read, Document, Error: what a reader gives
//	folder.go     the files that a folder stands for
//	source.go     a file's bytes, as far as they are needed, with line numbers
//	split.go      a stream becomes documents: YAML between separators, JSON values one after the other
//	yaml.go       a YAML document becomes objects; yamlnode.go, yamlerror.go: what is wrong with it, and where
//	json.go       a JSON value becomes objects, a list item by item as it is read
//	head.go       what every object must have
//	fieldline.go  the line of a field; plainly.go: what a decoder says of it, for people
package manifest
