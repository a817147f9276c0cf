// Package policy compiles PodPolicies and PolicyExceptions and says what they mean: which pods a policy matches (match.go, conditions.go), which pods it protects from
// removal (protection.go, record.go, removal.go), which of its limits an exception lifts (exception.go), and what an author should know of a policy (remarks.go). It is
// pure. defaulting decides what follows for a pod that is created, and guard whether a removal is safe; both name the rule that decided by a Reason.
package policy
