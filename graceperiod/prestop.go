package graceperiod

import (
	"regexp"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

// Stoppable returns the containers that run until the pod is stopped: the main ones, and the init containers that
// restart always (sidecars).
func Stoppable(pod *corev1.Pod) []*corev1.Container {
	all := make([]*corev1.Container, 0, len(pod.Spec.Containers)+len(pod.Spec.InitContainers))
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; IsSidecar(c) {
			all = append(all, c)
		}
	}
	for i := range pod.Spec.Containers {
		all = append(all, &pod.Spec.Containers[i])
	}
	return all
}

// IsSidecar says whether an init container is one that restarts always, and so runs beside the main ones.
func IsSidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// MaxPreStop is the longest known sleep in seconds, a week, as in PodPolicy: beyond it arithmetic could overflow.
const MaxPreStop = int64(7 * 24 * 3600)

// What an exec of exactly sleep N looks like. The digits of each pattern are the seconds.
const (
	// operand of sleep: no sign, no fraction, no unit but seconds.
	operand = `([0-9]+)s?`
	// beforeOperand is what a script that sleeps begins with.
	beforeOperand = `[ \t\n]*(?:exec[ \t]+)?(?:(?:/usr)?/bin/)?sleep[ \t]+`
	// onlySleeps is the whole script of a shell that only sleeps.
	onlySleeps = beforeOperand + operand + `[ \t]*;?[ \t\n]*`
)

var sleepSeconds, shellSleep = regexp.MustCompile(`^` + operand + `$`), regexp.MustCompile(`^` + onlySleeps + `$`)

// sleepers are the programs that sleep, shells those that run a script, by all the paths they are known by.
var (
	sleepers = paths("sleep")
	shells   = paths("sh", "bash", "dash", "ash")
)

func paths(names ...string) (all []string) {
	for _, name := range names {
		all = append(all, name, "/bin/"+name, "/usr/bin/"+name)
	}
	return all
}

// PreStop returns how many seconds a hook takes, where that can be known: a sleep action, or an exec of exactly sleep N,
// directly or through a shell.
func PreStop(h *corev1.LifecycleHandler) (took int64, known bool) {
	switch {
	case h.Sleep != nil:
		return h.Sleep.Seconds, h.Sleep.Seconds >= 0 && h.Sleep.Seconds <= MaxPreStop
	case h.Exec == nil:
		return 0, false
	}
	var argument string
	switch command := h.Exec.Command; {
	case len(command) == 2 && slices.Contains(sleepers, command[0]):
		if m := sleepSeconds.FindStringSubmatch(command[1]); m != nil {
			argument = m[1]
		}
	case len(command) == 3 && slices.Contains(shells, command[0]) && command[1] == "-c":
		if m := shellSleep.FindStringSubmatch(command[2]); m != nil {
			argument = m[1]
		}
	}
	n, err := strconv.ParseInt(argument, 10, 64)
	return n, err == nil && n >= 0 && n <= MaxPreStop
}
