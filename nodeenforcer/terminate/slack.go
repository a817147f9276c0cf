package terminate

import (
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/podgrace/podgrace/internal/pod/graceperiod"
)

const (
	// execNeed is the slack for a hook that execs. Before the hook does anything, the runtime starts it through a program of its own in the
	// container's cgroup (runc init, about 10 MiB) and then a shell. execNeed is twice what these two use, because the container's other
	// processes go on growing and take a share of it.
	execNeed = int64(32 << 20)
	// answerNeed is the slack for a hook that sends a request to the container: what a server uses to answer it.
	answerNeed = int64(4 << 20)
	// instalments are how many steps the slack is given in: at ten looks a second, enough for the second of a hard eviction and its start.
	instalments = 16
	// leftShare: the hooks of one pod get at most a quarter of the memory that the node has left.
	leftShare = 4
	// slackUnit is a multiple of every page size, so that a value reads back as it was written.
	slackUnit = int64(64 << 10)
)

// Slack returns by how many bytes a contained pod may grow once it is being deleted. Its preStop hooks need that memory to start: they run
// in the cgroup that memory.high throttles. Hooks that only sleep need none. left is how much memory the node has left, in bytes; less
// than 0: unknown.
func Slack(pod *corev1.Pod, left int64) int64 {
	need := int64(0)
	for i := range pod.Spec.Containers {
		need += hookNeed(&pod.Spec.Containers[i])
	}
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; graceperiod.IsSidecar(c) {
			need += hookNeed(c)
		}
	}
	if left >= 0 {
		need = min(need, left/leftShare)
	}
	return need / slackUnit * slackUnit
}

// stopNeed is how much a pod that was frozen may grow when it goes on: what handling a stop signal takes. It does not wait for that at memory.high: the kernel's
// delay grows with the square of the excess, and by some percent of the limit it is none (mm/memcontrol.c calculate_high_delay, Linux 6.12).
const stopNeed = int64(8 << 20)

// room is stopNeed, or the share of what the node has left.
func room(left int64) int64 {
	if left >= 0 {
		return min(stopNeed, left/leftShare) / slackUnit * slackUnit
	}
	return stopNeed
}

// freezable reports whether a pod may be frozen. One with a hook may not, of whatever kind: the hook runs in its containers, or has them do their work for some time yet, from the moment
// that the kubelet knows of the deletion, and we may know of that later. Nor may one that somebody has deleted: it is being stopped.
func freezable(pod *corev1.Pod) bool {
	hook := func(c corev1.Container) bool { return c.Lifecycle != nil && c.Lifecycle.PreStop != nil }
	return pod.DeletionTimestamp == nil && !slices.ContainsFunc(pod.Spec.Containers, hook) && !slices.ContainsFunc(pod.Spec.InitContainers, hook)
}

func hookNeed(c *corev1.Container) int64 {
	switch {
	case c.Lifecycle == nil || c.Lifecycle.PreStop == nil:
		return 0
	case c.Lifecycle.PreStop.Exec != nil:
		return execNeed
	case c.Lifecycle.PreStop.HTTPGet != nil, c.Lifecycle.PreStop.TCPSocket != nil:
		return answerNeed
	}
	return 0
}

// looser is the next memory.high of a contained pod that uses so many bytes: its usage and one instalment of the slack. It is never higher
// than the value that contained the pod (first) plus the whole slack, nor than the value from before the containment (was: bytes, or
// max). It is empty if the present value (wrote) is as high already. done: the limit will not be raised again.
func looser(was, first, wrote string, usage, slack int64) (to string, done bool) {
	begin, err := strconv.ParseInt(first, 10, 64)
	held, err2 := strconv.ParseInt(wrote, 10, 64)
	if err != nil || err2 != nil {
		return "", true
	}
	bound := begin + slack
	if limit, err := strconv.ParseInt(was, 10, 64); err == nil {
		bound = min(bound, limit)
	}
	high := min(usage+max(slack/instalments/slackUnit*slackUnit, slackUnit), bound)
	if high <= held {
		return "", held >= bound
	}
	return strconv.FormatInt(high, 10), high >= bound
}
