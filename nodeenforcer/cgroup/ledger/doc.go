// Package ledger is the node enforcer's memory of what files of cgroups held before it wrote them, for what is to be taken back later:
// perhaps by the next process, after a crash, but never after a restart of the machine, which cgroups don't outlive either.
package ledger
