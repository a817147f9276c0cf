// Package cgroup reads and writes the kernel's cgroups: v1 files, v2 files, and systemd units by D-Bus. All of them are a Tree,
// and all pass the one conformance suite in cgrouptest, beside an in-memory fake.
//
// It decides nothing: what to write, and whether, its callers say. It writes only what differs, distinguishes a cgroup that is gone from
// one that is idle, and never creates or removes a cgroup.
//
// Start reading at hierarchy.go, which has the file operations that v1 and v2 share and where they find out that a cgroup is
// gone; processes.go has how far it looks below one; systemd.go has how a write is made to last, bus.go the connection that it takes. usage.go reads what eviction decides by,
// proc.go what is in /proc: oom_score_adj, and the machine's limits.
//
// github.com/containerd/cgroups/v3 (v3.1.3) is not used. Of what it could do here: Mode looks at /sys/fs/cgroup only, which a
// DaemonSet has elsewhere; cgroup2's Stat returns zeros for a cgroup that is gone, and reads a dozen files where a decision needs
// two; cgroup1's Update makes a deleted cgroup again; both write without looking whether anything differs, cannot read single
// files back, and have no way to set properties by D-Bus; EventChan can't be closed; and cgroup2's Kill falls back to numbers of
// processes that may be others' by then, after one look at the list.
package cgroup
