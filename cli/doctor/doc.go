// Package doctor says what on a cluster would keep Podgrace from working, why, and what to do: before it is installed, and after. It is pure: a check is a
// function of a Snapshot, which package cli/doctor/collect reads from a cluster or from files.
//
//	doctor.go        Examine: the checks in their order, and what comes of them
//	scope.go         what is read of a cluster, and by which right
//	snapshot.go      what was read; what could not be read is in Unread and not fine
//	distribution.go  which Kubernetes it is, guessed, and what follows for an installation
//	actors.go        which controllers remove nodes and pods by themselves: the one list of them
//	kubernetes.go nodes.go network.go    the cluster
//	installation.go configurations.go policies.go leftovers.go    Podgrace in it
//	text.go          what a check has found, how severe it is, and the report for a person
package doctor
