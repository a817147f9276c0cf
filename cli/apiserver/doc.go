// Package apiserver does to a request, offline, what the API server does around Podgrace's webhooks, so that an answer given
// without a cluster is the one that a cluster gives:
//
//	Default              what decoding sets in a pod or a workload that the user left out
//	MergeMatchLabelKeys  what it writes into a pod's selectors between the mutating and the validating webhooks
//	Webhooks             which of our webhooks it calls for a request, by the rules and match conditions as shipped
//	Policies             what our ValidatingAdmissionPolicies, which run in the API server itself, say of a request
//
// The in-tree Priority plugin is defaulting.ResolvePriority. Kubernetes' own defaulting can't be imported (the module
// k8s.io/kubernetes is none to depend on), so it is written here again; e2e/oracle/fidelity compares the two on random pods.
// Rules, selectors and CEL are evaluated by the API server's own packages.
//
// Everything is a function of its arguments. What they do not say is unknown: it is judged on the safe side and named.
package apiserver
