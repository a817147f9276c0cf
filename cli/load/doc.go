// Package load is how commands read manifests, policies and what is known of the cluster: from files, folders and commits, stdin and, where
// one is named, the cluster itself. Commands that judge the same manifests by it judge the same objects. How files become documents
// is package cli/input's; what is here are the flags, and what is wrong with what they name.
package load
