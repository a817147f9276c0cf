// Package drift says how far a node's cgroups are from their plan, and how to get there. It is pure: the tree of package plan and what was read
// come in (Have), what differs goes out (Drift), with what is to be written (Operation).
//
// Diff follows from the plan's owners and from the mode, and gives the operations in an order in which no promise is broken on the way (order.go).
// What somebody else may be about to write is held back for a while (Settling), and what somebody else keeps reverting is given up (Rivals).
package drift
