// Package nodeenforcer makes a node keep what admission decided. Run has the list of what runs: a source that knows the node (state), the
// Agent, which makes rounds over its cgroups (plan what should be, drift what differs, repair the rounds, cgroup the kernel's files), the
// loop that under pressure (pressure, evictor) chooses victims (eviction) and has them stopped with the grace that they were promised
// (terminate), and what is told of it all (status). report prints the plan.
package nodeenforcer
