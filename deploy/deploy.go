// Package deploy holds the manifests by which Podgrace is installed.
package deploy

import _ "embed"

// PodPolicyCRD is the CustomResourceDefinition of PodPolicy, generated from api/v1alpha1.
//
//go:embed crds/podgrace.dev_podpolicies.yaml
var PodPolicyCRD []byte

// NodePolicyCRD is the CustomResourceDefinition of NodePolicy, generated from api/v1alpha1.
//
//go:embed crds/podgrace.dev_nodepolicies.yaml
var NodePolicyCRD []byte

// PolicyExceptionCRD is the CustomResourceDefinition of PolicyException, generated from api/v1alpha1.
//
//go:embed crds/podgrace.dev_policyexceptions.yaml
var PolicyExceptionCRD []byte

// WebhookConfigurations are what the API server calls Podgrace for: a MutatingWebhookConfiguration and a
// ValidatingWebhookConfiguration, YAML documents.
//
//go:embed webhook/configurations.yaml
var WebhookConfigurations []byte

// AdmissionPolicies are the ValidatingAdmissionPolicies that the API server evaluates itself, each with its binding, YAML
// documents.
//
//go:embed webhook/policies.yaml
var AdmissionPolicies []byte
