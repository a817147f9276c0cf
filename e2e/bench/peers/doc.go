// Package peers compares what admission costs by Podgrace and by others that can give a pod the same fields: nothing, policies that the API server
// evaluates itself, a bare webhook, Podgrace's mutating webhook alone, Podgrace as it is installed, Kyverno and Gatekeeper (testdata has the policy in
// the words of each).
//
// All of them run beside one real API server, each for a namespace of its own that nobody else's configuration selects, so that they take turns in
// short rounds without anything being switched. A pod that comes back without the policy's fields, or one that differs from the others' pods, voids the
// run. Three things are measured: how much longer a dry-run create takes than in the namespace without admission, in the same round; what the API server
// itself says that admission took; and what the webhooks do alone, asked again what the API server asked them in this run.
//
// The load comes from this process on the same cores. A machine that others use too slows all sides alike: only ratios of paired rounds mean anything.
package peers
