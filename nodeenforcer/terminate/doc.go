// Package terminate terminates pods, each as its kind of eviction promises: through the API server if it answers, by signals and cgroup.kill
// if it does not.
//
// Next is the whole decision: a State, the time and an Event go in, a State and Actions come out. It is pure, and its time is monotonic, so
// that no jump of the wall clock shortens a grace period. Terminator performs the actions and feeds their results back; Recorder gets every
// step, for log and metrics. The State's rules are in state.go (requests, ends, what is observed of the pod), call.go (requests to the API
// server) and local.go (what is done on the node); victim.go performs the actions.
//
// Soft: an Eviction with the pod's UID and min(policy's maximum, pod's own) as grace period. If a disruption budget forbids it (429) the
// attempt ends without harm: the caller chooses another victim and may ask again after Retry-After. 404, and 409 for another UID, mean that
// the pod is gone. What the API server refuses otherwise (4xx) ends the attempt just so, of a hard eviction too: the pod is let be, and nothing is done
// on the node. One that is busy (429) is asked again when it says. Other failures are retried until SoftPatience. A soft eviction never signals or kills by itself.
//
// Hard: memory.high of the pod's cgroup is set to its usage, so that the pod stops growing (the kernel throttles by every ancestor's
// memory.high, so the pod's own is enough). A DELETE follows at once, with the hard grace period and the pod's UID. It is no Eviction, because
// the kubelet's own hard evictions do not respect budgets either. The condition DisruptionTarget is set first, as the kubelet and the
// Eviction API do, so that a Job's podFailurePolicy sees a disruption; only the kubelet writes the phase Failed. Then the kubelet stops the
// pod, preStop hooks included. The local sequence begins once the kubelet's whole time and a margin have passed, or after Patience if there is no
// API server: the stop signal to each container's main process, sidecars last, the promised grace period of at least
// 2 s, then cgroup.kill.
//
// Only containers are killed, never the sandbox: when a sandbox is dead the kubelet tears down the network and recreates the pod, which is
// more work for a node under pressure and ends no process sooner. A container that the kubelet restarts is stopped again, with its full grace
// period, after a back-off that doubles.
//
// No preStop hook runs locally: one that execs would have to go through the runtime, and the kubelet may be running it already. So while the
// API server answers, the local sequence waits for the kubelet's whole time. memory.high throttles a preStop hook as well: the kernel delays
// every process of the cgroup that allocates memory, by how far the cgroup is above the limit, and not only those that grow
// (mm/memcontrol.c calculate_high_delay). So only a hard eviction contains the pod. It raises the limit in instalments (Slack) once the API
// server has accepted the deletion, because the kubelet starts the hooks then, and not before. The bound is on the sum: a process that grows
// may use some of it, and is throttled again when it is used up.
//
// A pod without hooks is frozen before it is contained (frost.go says why), until a stop signal waits in one of its main processes, or its time is over. Never one that somebody may be stopping.
//
// State does not survive a restart of the agent. What the API server accepted goes on without the agent. A pod that was signalled and not
// killed exits or lives on, and gets a full sequence if it is chosen again. What can be left behind is memory.high of a pod that lives on: it is in
// the Ledger, and Recover restores it, as soon as that can be done; and a pod that is frozen, which Recover thaws before anything else is known.
package terminate
