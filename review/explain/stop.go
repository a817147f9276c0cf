package explain

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/podgrace/podgrace/console"
	"github.com/podgrace/podgrace/graceperiod"
)

// stops are the pod's containers as the kubelet stops them together, in its order: preStop hooks all at once, then SIGTERM to the main
// containers; each sidecar waits for them and for those after it, as long as there is time (killContainer, waitForTurn,
// pkg/kubelet/kuberuntime/kuberuntime_container.go and kuberuntime_termination_order.go, 1.36.3).
func stops(pod *corev1.Pod) (out []Stop) {
	period := graceperiod.Pod(pod, nil)
	main := len(pod.Spec.Containers)
	all := graceperiod.Stoppable(pod)
	sidecars := slices.Clone(all[:len(all)-main])
	slices.Reverse(sidecars)
	for _, c := range all[len(all)-main:] {
		out = append(out, stopOf(pod, c, 0, period))
	}
	for i, c := range sidecars {
		out = append(out, stopOf(pod, c, i+1, period))
	}
	return out
}

func stopOf(pod *corev1.Pod, c *corev1.Container, turn int, period int64) Stop {
	s := graceperiod.Container(pod, c, graceperiod.Deleted, &period)
	out := Stop{Container: c.Name, Turn: turn, PreStop: hookText(c.Lifecycle), KillAfterSeconds: s.PreStop + s.AfterTerm}
	if !s.PreStopUnknown {
		out.TermAfterSeconds, out.LeftSeconds = new(s.PreStop), new(s.AfterTerm)
	}
	if s.PreStopUnknown || turn > 0 {
		// All of the period may go before SIGTERM; then the floor is left.
		out.KillAfterSeconds = s.Total + graceperiod.ContainerFloor
	}
	return out
}

// maxCommand is how much of a command is shown, in characters.
const maxCommand = 40

func hookText(l *corev1.Lifecycle) string {
	if l == nil || l.PreStop == nil {
		return ""
	}
	switch h := l.PreStop; {
	case h.Sleep != nil:
		return "sleep " + seconds(h.Sleep.Seconds)
	case h.Exec != nil:
		return console.Shorten(console.Fold("exec "+strings.Join(h.Exec.Command, " ")), maxCommand)
	case h.HTTPGet != nil:
		return console.Shorten(console.Fold(fmt.Sprintf("GET %s on port %s", h.HTTPGet.Path, h.HTTPGet.Port.String())), maxCommand)
	case h.TCPSocket != nil:
		return "opens a TCP connection, which does nothing"
	}
	return "empty"
}
