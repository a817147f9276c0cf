// Package policyfile reads PodPolicies and NodePolicies from YAML where no API server does it: for the webhook's --policy, and for the
// review of policies. It applies the very schema and CEL rules of the CustomResourceDefinition, by the API server's own
// code, and is strict: an unknown field is an error. Every error names file and line.
package policyfile
