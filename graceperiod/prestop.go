package graceperiod

import (
	"regexp"
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

// Stoppable returns the containers that run until the pod is stopped: the main ones, and the init containers that
// restart always (sidecars).
func Stoppable(pod *corev1.Pod) []*corev1.Container {
	all := make([]*corev1.Container, 0, len(pod.Spec.Containers)+len(pod.Spec.InitContainers))
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			all = append(all, c)
		}
	}
	for i := range pod.Spec.Containers {
		all = append(all, &pod.Spec.Containers[i])
	}
	return all
}

// maxPreStop is the longest known sleep in seconds, a week, as in PodPolicy: beyond it arithmetic could overflow.
const maxPreStop = int64(7 * 24 * 3600)

// sleepSeconds is the operand of sleep: no sign, no fraction, no unit but seconds.
var sleepSeconds = regexp.MustCompile(`^([0-9]+)s?$`)

// shellSleep is the whole script of a shell that only sleeps.
var shellSleep = regexp.MustCompile(`^[ \t\n]*(?:exec[ \t]+)?(?:(?:/usr)?/bin/)?sleep[ \t]+([0-9]+)s?[ \t]*;?[ \t\n]*$`)

// PreStop returns how many seconds a hook takes, where that can be known: a sleep action, or an exec of exactly sleep N,
// directly or through a shell.
func PreStop(h *corev1.LifecycleHandler) (took int64, known bool) {
	switch {
	case h.Sleep != nil:
		return h.Sleep.Seconds, h.Sleep.Seconds >= 0 && h.Sleep.Seconds <= maxPreStop
	case h.Exec == nil:
		return 0, false
	}
	var argument string
	switch command := h.Exec.Command; {
	case len(command) == 2 && isProgram(command[0], "sleep"):
		if m := sleepSeconds.FindStringSubmatch(command[1]); m != nil {
			argument = m[1]
		}
	case len(command) == 3 && isProgram(command[0], "sh", "bash", "dash", "ash") && command[1] == "-c":
		if m := shellSleep.FindStringSubmatch(command[2]); m != nil {
			argument = m[1]
		}
	}
	n, err := strconv.ParseInt(argument, 10, 64)
	return n, err == nil && n >= 0 && n <= maxPreStop
}

func isProgram(path string, names ...string) bool {
	for _, name := range names {
		if path == name || path == "/bin/"+name || path == "/usr/bin/"+name {
			return true
		}
	}
	return false
}
