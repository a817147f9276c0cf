// Package limits makes of the limits of PodPolicies one ValidatingAdmissionPolicy, which the API server judges by itself, so that they hold
// while the webhook is away. It is pure: policies go in, and the objects come out, with what of each policy was compiled and why not all.
//
// The rule is soundness: what is compiled never refuses a pod that defaulting.Validate lets go. A limit that can't be said exactly in CEL is left
// out as a whole, and stays the webhook's alone. There are no parameters: constants are baked in, so that the API server waits for nothing
// before it judges (kubernetes/kubernetes#122658, #141367). Nothing that changes pods is ever made (#142181).
//
// The validating webhook is called for every pod all the same. A match condition of it that says where the limits make the call needless can't be
// sound: an API server has webhook configurations and admission policies from two watches, either may be behind for as long as it likes, and nobody
// is told by which version it judges. So nobody can know when a condition may be in force that relies on a policy which has changed. And the
// call does more than limits: it holds each pod's priority against its class, and what Podgrace recorded in it against the policies.
//
// CEL's || absorbs an error beside what is true. So each limit stands before the conditions of its policy, "within || !matches": a condition
// that can't be evaluated leaves alone a pod that is within the limit, and refuses another, which is what the webhook does.
package limits
