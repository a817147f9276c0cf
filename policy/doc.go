// Package policy makes PodPolicies and PolicyExceptions ready to decide with, and says for what they hold: which pods a policy matches (match.go, conditions.go), which it
// protects from removal (protection.go, record.go, removal.go), and which of its limits an exception lifts (exception.go). It is pure. What follows for a pod that is
// created is decided in defaulting, and whether a removal is safe in guard; both say why by a Reason.
package policy
