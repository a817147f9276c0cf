// Package repair reconciles a node's cgroups in rounds: it plans them (plan), reads their files (cgroup), compares (drift) and writes what
// differs, as the mode allows. Values that a policy asked for are restored to what they were once no policy asks for them. Begin with
// Enforcer.Round. Lock lets one enforcer of a node write at a time.
package repair
