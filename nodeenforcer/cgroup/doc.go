// Package cgroup reads and writes the kernel's cgroups: v1 files, v2 files, and systemd units by D-Bus. All of them are a Tree,
// and all pass the one conformance suite in cgrouptest, beside an in-memory fake.
//
// It decides nothing: what to write, and whether, its callers say. It writes only what differs, distinguishes a cgroup that is gone from
// one that is idle, and never creates or removes a cgroup.
//
// Start reading at hierarchy.go, which has the file operations that v1 and v2 share and where they find out that a cgroup is
// gone; processes.go has how far it looks below one; systemd.go has how a write is made to last, bus.go the connection that it takes. usage.go reads what eviction decides by, statistics.go what people ask for,
// freeze.go stops what is contained, proc.go what is in /proc: oom_score_adj, and the machine's limits.
//
// github.com/containerd/cgroups/v3 (v3.1.3) reads the statistics (statistics.go): which counters there are, how they are printed and what of them is in which version
// is the field's knowledge, and well kept there. It is loaded with the mountpoint that is given, and nothing of it is asked before it is known that the cgroup is
// there: it returns zeros for one that is gone, and for a controller that is not enabled. It logs by logrus what it can't parse.
//
// What is by hand, and why not by it:
//   - What decides reads what it needs (usage.go). Stat reads a dozen files more: of a cgroup of v1 0.21 ms and 50 KB of garbage where memory alone is 0.045 ms and
//     4 KB (go test -C e2e ./node/cgroupv1 -bench 'V1/(Stat|ReadMemory)'), and each step of an eviction reads 500 pods.
//   - Freezing (freeze.go): cgroup2's returns as soon as cgroup.freeze holds what was written, which is at once, and not when the processes have stopped; cgroup1's writes
//     FROZEN each millisecond until it has come, without an end and without a context, and would freeze again what was thawed meanwhile.
//   - Mode looks at /sys/fs/cgroup only, which a DaemonSet has elsewhere: Detect looks at the mountpoint.
//   - Writes: both versions write without looking whether anything differs, cannot read single files back, and have no way to set properties by D-Bus; cgroup1's Update makes
//     a deleted cgroup again, cgroup2's NewManager and NewChild make cgroups and enable controllers on the kubelet's.
//   - Kill: cgroup2's falls back to numbers of processes that may be others' by then, after one look at the list.
//   - Events: EventChan can't be closed; PSI triggers it does not have.
package cgroup
