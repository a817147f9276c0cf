// Package schema makes JSON schemas of the files that people write, PodPolicy, NodePolicy and PolicySuite, for editors and for programs that
// check manifests. Those of the policies come from the CustomResourceDefinitions, that of suites from the types that they are read into:
//
//	go test ./deploy/schema -update
//
// The names of the files are those that kubeconform looks for: -schema-location 'deploy/schema/{{.Group}}/{{.ResourceKind}}_{{.ResourceAPIVersion}}.json'.
package schema
