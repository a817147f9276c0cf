// Package drift compares a node's cgroups with their plan. It is pure: the tree of package plan and what was read (Have) come in; what
// differs (Drift) and what is to be written (Operation) go out.
//
// Diff decides by the plan's owners and by the mode what is written, and orders the operations so that no limit or protection is exceeded in
// between (order.go). A repair is held back while the file's owner may be about to write it (Settling), and a file that another writer keeps
// reverting is given up (Rivals).
package drift
