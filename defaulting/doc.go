// Package defaulting decides how a pod is ranked, spread and stopped. It is pure: a pod, the policies that match it and
// what is known about the cluster go in, changes, warnings and denials come out. The webhooks, the offline review and
// the tests all call it, so that they can't disagree.
//
// How a pod is decided about:
//
//	policies := policy.Compile(...)               once a policy: selectors and CEL are compiled, invalid parts named
//	effective := For(policies, request)           which policies match, and what they require together; those that select by PriorityClass follow in priority.go
//	facts := ...                                  the caller looks up what effective.Needs() names
//	result := effective.Apply(request, facts)     on CREATE, before the API server's last defaults
//	result := effective.Validate(request, facts)  on CREATE, on the final pod
//
// Applying twice changes nothing: the API server may call a webhook again after others changed the pod (reinvocation),
// and the in-tree admission plugins run a second time after any change of ours.
//
// Rules stand in one ordered slice (apply.go), one a file.
package defaulting
