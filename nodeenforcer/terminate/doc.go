// Package terminate ends one pod, or many at once, as their kind of eviction promises: by the API where that answers, by signals
// and cgroup.kill where it does not.
//
// Next is the whole decision: a State, the time and an Event go in, a State and Actions come out. It is pure, and its time is
// monotonic, so no jump of the wall clock shortens a grace period. Terminator runs the actions and feeds back what became of
// them; Recorder hears every step, and the caller makes events and metrics of it.
//
// Soft: an Eviction with the pod's UID and min(policy's maximum, pod's own) as grace period. A disruption budget that forbids it
// (429) ends the attempt without harm: the caller takes another victim and may ask again after Retry-After. 404, and 409 for
// another UID, mean that the pod is gone. All else is trouble with the API and is retried until SoftPatience. A soft eviction
// never signals or kills by itself.
//
// Hard: memory.high of the pod's cgroup is set to what it uses, so that it stops to grow (the kernel throttles by every
// ancestor's memory.high, so the pod's own is enough); a DELETE follows at once, with the hard grace period and the pod's UID.
// It is no Eviction, because the kubelet's own hard evictions do not ask a budget either, and it sets the condition
// DisruptionTarget first, as the kubelet and the Eviction API do, so that a Job's podFailurePolicy sees a disruption. The phase
// Failed is the kubelet's alone to write. From there the kubelet stops the pod, preStop hooks included. The local sequence
// begins when its whole time has passed and a margin, or after Patience where no DELETE can have been accepted: the stop signal to
// each container's main process, sidecars after the others, the promised grace period of at least 2 s, cgroup.kill.
//
// Only containers are killed, never the sandbox: the kubelet takes a dead sandbox for a reason to tear down the network and to
// build the pod anew, which is more work for a node under pressure and ends no process sooner. What the kubelet starts again is
// stopped again, with its full grace period, after a back-off that doubles.
//
// No preStop hook runs locally: hooks that exec would have to go through the runtime, and the kubelet may be running the same
// one. So where the API answers, the local sequence waits for the kubelet's whole time. memory.high also slows a preStop hook
// down: the kernel makes every process of the cgroup wait that takes memory, by how far the cgroup is over, and not by who grows
// (mm/memcontrol.c calculate_high_delay). So only a hard eviction contains, and it loosens the limit by instalments (Slack) once
// the API server has let the pod go, because then, and not before, the kubelet starts the hooks. The bound is on the sum: what
// grows may take of it, and is held again when it is spent.
//
// After a crash of the agent all this is forgotten. What the API accepted goes on without us; a pod that got its signal and was
// not killed exits or lives, and gets a full sequence if it is chosen again. What can be left behind is memory.high of a pod
// that is not evicted any more: the Ledger knows of it, and Recover undoes it.
package terminate
