// Package repair makes rounds over a node's cgroups: it plans them (plan), reads what is there (cgroup), compares (drift) and writes, as
// the mode allows, what differs. What a policy made it write is taken back when no policy asks for it any more. Begin with
// Enforcer.Round.
package repair
