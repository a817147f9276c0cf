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

// FencePolicyCRD is the CustomResourceDefinition of FencePolicy, generated from api/v1alpha1.
//
//go:embed crds/fencer/podgrace.dev_fencepolicies.yaml
var FencePolicyCRD []byte

// FenceAgentCRD is the CustomResourceDefinition of FenceAgent, generated from api/v1alpha1.
//
//go:embed crds/fencer/podgrace.dev_fenceagents.yaml
var FenceAgentCRD []byte

// FenceCRD is the CustomResourceDefinition of Fence, generated from api/v1alpha1.
//
//go:embed crds/fencer/podgrace.dev_fences.yaml
var FenceCRD []byte

// FenceReceiptCRD is the CustomResourceDefinition of FenceReceipt, generated from api/v1alpha1.
//
//go:embed crds/podgrace.dev_fencereceipts.yaml
var FenceReceiptCRD []byte

// VolumeLockCRD is the CustomResourceDefinition of VolumeLock, generated from api/v1alpha1.
//
//go:embed crds/volumelock/podgrace.dev_volumelocks.yaml
var VolumeLockCRD []byte

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

// FencingPolicies are those about fences and receipts, which are installed with AdmissionPolicies.
//
//go:embed webhook/fencing.yaml
var FencingPolicies []byte

// VolumeLockPolicies are those about VolumeLocks, which are installed with the component volumelock.
//
//go:embed components/volumelock/policies.yaml
var VolumeLockPolicies []byte
