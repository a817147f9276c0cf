// Package limits compiles the limits of PodPolicies into one ValidatingAdmissionPolicy, which the API server evaluates in-process, so that they hold
// while the webhook is away. It is pure: policies go in, the objects come out, and with them which limits of each policy were compiled, and why others were not.
//
// The rule is soundness: the compiled policy never refuses a pod that defaulting.Validate allows. A limit that can't be expressed exactly in CEL is left
// to the webhook as a whole. There are no parameters: constants are baked in, so that the API server waits for no informer of parameters
// (kubernetes/kubernetes#122658, #141367). No MutatingAdmissionPolicy is made (#142181).
//
// They ask for a right of the webhook's account, with which they end. An API server that starts admits nothing before it has read the policies, but waits for no Roles and RoleBindings
// (SetReadyFunc in k8s.io/apiserver/pkg/admission/plugin/policy/generic/plugin.go, 0.36.3, pkg/kubeapiserver/authorizer/config.go, 1.36.3): until it has these, which is before it says that it is ready,
// the limits hold no pod of those whom it lets in all the same, system:masters above all.
//
// The validating webhook is called for every pod all the same. A match condition that skips the call where the limits make it needless can't be
// sound: an API server gets webhook configurations, rights and admission policies by watches of their own, each may be stale, and nothing tells which version it
// evaluates. So it is unknown when a condition could rely on a policy that has changed. And the webhook checks more than limits: the pod's priority against its
// class, and what Podgrace recorded in the pod against the policies (docs/performance.md has all of it).
//
// Most pods keep the limits. Those of which this shows at once are let go by a match condition, which is all that they cost the API server (keeps.go).
//
// CEL's || absorbs an error if the other side is true. So each limit comes before the conditions of its policy, "within || !matches": if a condition
// fails to evaluate, a pod within the limit is allowed and another is refused, which is what the webhook does.
package limits
