// Package v1alpha1 holds the types of the group podgrace.dev.
//
// PodPolicy says how the pods that it matches are ranked (PriorityClass), spread (topology spread constraints) and
// stopped (grace period), what the node keeps for them, and which removals are refused. Sections come in two sorts:
//
//   - defaults, for what the user left open: the heaviest matching policy that has the section gives them;
//   - limits, for everybody: all matching policies count, and the strictest wins.
//
// Enforcement is the JSON of the annotation by which admission tells the node what was decided.
//
// Rules that CEL can see are markers on the types, so that the API server refuses a bad policy. The same rules hold for
// policies read from files (package defaulting compiles both the same way).
//
// +kubebuilder:object:generate=true
// +groupName=podgrace.dev
package v1alpha1
