package terminate

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

const (
	// execNeed is what a hook that execs takes before it does anything, twice, because what grows takes its share: the runtime starts
	// it through a program of its own in the container's cgroup (runc init, about 10 MiB until it becomes the hook), and a shell.
	execNeed = int64(32 << 20)
	// answerNeed is what a server takes to answer a hook's request.
	answerNeed = int64(4 << 20)
	// instalments of the slack: at ten looks a second they last for the second of a hard eviction, and its start.
	instalments = 16
	// leftShare of what the node has left is the most that one pod's hooks get of it.
	leftShare = 4
	// slackUnit is a multiple of every page size: what is written is what is read back.
	slackUnit = int64(64 << 10)
)

// Slack returns the bytes that a contained pod may grow by once it is being deleted, so that its preStop hooks can begin: they run in
// the cgroup that memory.high slows down. left is what the node has left of its memory in bytes; less than 0: not known. Hooks that
// only sleep need nothing.
func Slack(pod *corev1.Pod, left int64) int64 {
	need := int64(0)
	for i := range pod.Spec.Containers {
		need += hookNeed(&pod.Spec.Containers[i])
	}
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; isSidecar(c) {
			need += hookNeed(c)
		}
	}
	if left >= 0 {
		need = min(need, left/leftShare)
	}
	return need / slackUnit * slackUnit
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

// looser is the memory.high of a pod that uses so much: an instalment of the slack over that, no more than the whole slack over what
// it was contained to (first), nor than what it had before (was: bytes, or max). Empty where it has so much room already (wrote). done:
// there will be no more.
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
