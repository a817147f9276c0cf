// Package nodeenforcer enforces on a node what admission decided. Run has the list of what runs: the source of the node's state (state); the
// Agent, which reconciles the node's cgroups in rounds (plan: the desired tree; drift: what differs from it; repair: the rounds; cgroup:
// the kernel's files); the loop that evicts pods under pressure (pressure: thresholds; evictor: the loop; eviction: the victims; terminate:
// how a pod ends, with the grace period that it was promised); and the reports (status: Node, Events, metrics). report prints the plan.
package nodeenforcer
