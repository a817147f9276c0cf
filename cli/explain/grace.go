package explain

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/internal/console"
	"github.com/podgrace/podgrace/internal/pod/graceperiod"
	"github.com/podgrace/podgrace/nodeenforcer/eviction"
	"github.com/podgrace/podgrace/policy"
	"github.com/podgrace/podgrace/policy/enforcement"
)

const gracePath = "/spec/terminationGracePeriodSeconds"

func grace(v *view) Grace {
	g := Grace{Seconds: graceperiod.Of(&v.pod.Spec), Source: v.graceSource(), Limits: v.graceLimits(), Delete: v.deleteNow(), Deadlines: v.in.Deadlines}
	pod := v.stored()
	g.Containers = stops(pod)
	for _, c := range g.Containers {
		g.LongestSeconds = max(g.LongestSeconds, c.KillAfterSeconds)
	}
	g.Others = slices.Concat(v.evictionGrace(pod), probes(pod), enough(g), v.heldUp())
	g.Pitfalls = append(pitfalls(pod, g), cutShort(g)...)
	return g
}

// stored is the pod with the grace period that the API server stores.
func (v *view) stored() *corev1.Pod {
	pod := *v.pod
	pod.Spec.TerminationGracePeriodSeconds = new(graceperiod.Of(&v.pod.Spec))
	return &pod
}

func (v *view) graceGiver() *policy.Policy {
	return v.giver(func(s *v1alpha1.PodPolicySpec) bool {
		return s.GracePeriod != nil && s.GracePeriod.DefaultSeconds != nil
	})
}

// graceSource says where the period is from. 30 can't be told from one that was not chosen: the API server writes it before anybody
// sees the pod.
func (v *view) graceSource() Source {
	have, giver := graceperiod.Of(&v.pod.Spec), v.graceGiver()
	if c := v.reviewed(gracePath); c != nil {
		return Source{OriginPolicy, nameOf(giver), c.Why}
	}
	given, why := v.graceOfUnset()
	switch {
	case v.created() && why != "" && have == given:
		return Source{OriginPodOrPolicy, nameOf(giver), why + "; or it is its own choice"}
	case have == graceperiod.Unset && v.declines(giver, v1alpha1.SectionGracePeriod):
		return Source{OriginCluster, giver.Name, "the API server's default, or its own choice: " + declined(giver)}
	case have == graceperiod.Unset && why != "" && have != given:
		return Source{OriginCluster, nameOf(giver), fmt.Sprintf("the API server's default; the policies give %s to pods like it, and were not there or not asked when it was made", seconds(given))}
	case have == graceperiod.Unset:
		return Source{OriginCluster, nameOf(giver), "the API server's default, or its own choice of the same, which can't be told apart"}
	case giver != nil:
		return v.chosen(giver, fmt.Sprintf("; PodPolicy %s gives %s only to pods that chose none", giver.Name, seconds(*giver.Spec.GracePeriod.DefaultSeconds)))
	}
	return v.chosen(nil, "")
}

// graceOfUnset is what today's policies give if the pod chose nothing, and why; no reason where they change nothing.
func (v *view) graceOfUnset() (given int64, why string) {
	p := v.recreated()
	p.Spec.TerminationGracePeriodSeconds = new(graceperiod.Unset)
	c := changed(v.apply(p), gracePath)
	if c == nil {
		return graceperiod.Unset, ""
	}
	given, _ = c.Value.(int64)
	return given, c.Why
}

// deleteNow is what a plain delete does.
func (v *view) deleteNow() string {
	pod := v.stored()
	if !v.created() {
		// It will have a node when it runs.
		pod.Spec.NodeName = or(pod.Spec.NodeName, "unknown")
	}
	d := graceperiod.Delete(pod, nil, v.in.Now)
	switch {
	case pod.DeletionTimestamp != nil && d.Pending:
		return fmt.Sprintf("It is being deleted already, with %s from the start; another delete changes nothing", seconds(d.Seconds))
	case pod.DeletionTimestamp != nil:
		return "It is being deleted already, by a force delete that was left half done: any delete completes it"
	case pod.Spec.NodeName == "":
		return "A delete removes it at once: it has no node yet"
	case graceperiod.Finished(pod):
		return fmt.Sprintf("A delete removes it at once: it has finished (%s)", pod.Status.Phase)
	case d.Force:
		return "Every plain delete is a force delete: it removes the object at once, and the processes may go on"
	}
	return fmt.Sprintf("A delete gives it %s, preStop included", seconds(d.Seconds))
}

// evictionGrace is how long an eviction under pressure leaves it.
func (v *view) evictionGrace(pod *corev1.Pod) []string {
	if why := eviction.Exempt(pod); why != "" {
		return nil
	}
	policy, by := (*v1alpha1.NodeEviction)(nil), "A hard eviction by the kubelet"
	if p := v.in.NodePolicy; p != nil && enforcement.Evicts(p) {
		policy, by = p.Eviction, "A hard eviction"
	}
	text := fmt.Sprintf("%s leaves it %s, preStop included, and at least %s after SIGTERM", by, seconds(eviction.Grace(pod, eviction.Hard, policy)), seconds(graceperiod.ContainerFloor))
	if policy != nil {
		text += fmt.Sprintf("; a soft one %s (NodePolicy %s)", seconds(eviction.Grace(pod, eviction.Soft, policy)), v.in.NodePolicyName)
	}
	return []string{text}
}

// enough names the deadlines that leave the pod its grace period.
func enough(g Grace) []string {
	var of []string
	for _, d := range g.Deadlines {
		if d.Seconds >= g.Seconds {
			of = append(of, fmt.Sprintf("%s: %s", d.Of, seconds(d.Seconds)))
		}
	}
	if len(of) == 0 {
		return nil
	}
	return []string{"Its grace period is within " + strings.Join(of, ", ")}
}

// cutShort names the deadlines that leave it less.
func cutShort(g Grace) (out []string) {
	for _, d := range g.Deadlines {
		if d.Seconds < g.Seconds {
			out = append(out, fmt.Sprintf("%s leaves it %s at most, and not its grace period of %s; %s, or lower the grace period", d.Of, seconds(d.Seconds), seconds(g.Seconds), d.Remedy))
		}
	}
	return out
}

// heldUp names the budgets that let nobody evict it now. Only who drains heeds them.
func (v *view) heldUp() (out []string) {
	for _, b := range v.in.Budgets {
		if b.Status.DisruptionsAllowed == 0 && b.Status.ObservedGeneration == b.Generation {
			out = append(out, fmt.Sprintf("PodDisruptionBudget %s allows no disruption now: a drain waits, and what does not wait any longer deletes the pod without asking it", b.Name))
		}
	}
	return out
}

// probes are the containers that a failed probe stops in another time than a delete.
func probes(pod *corev1.Pod) (out []string) {
	own := graceperiod.Of(&pod.Spec)
	for _, c := range graceperiod.Stoppable(pod) {
		for _, p := range []struct {
			name   string
			probe  *corev1.Probe
			reason graceperiod.Reason
		}{{"liveness", c.LivenessProbe, graceperiod.LivenessProbe}, {"startup", c.StartupProbe, graceperiod.StartupProbe}} {
			if p.probe == nil || p.probe.TerminationGracePeriodSeconds == nil {
				continue
			}
			s := graceperiod.Container(pod, c, p.reason, nil)
			text := fmt.Sprintf("A failed %s probe gives %s %s", p.name, c.Name, seconds(s.Total))
			if s.Total > own {
				text += ", longer than a delete"
			}
			out = append(out, text)
		}
	}
	return out
}

// pitfalls are what is wrong, or can go wrong, with the pod's own times.
func pitfalls(pod *corev1.Pod, g Grace) (out []string) {
	if g.Seconds == 0 {
		out = append(out, "a grace period of 0 makes every plain delete a force delete, that of a node which is cut off included")
	}
	var unknown []string
	for _, c := range graceperiod.Stoppable(pod) {
		if c.Lifecycle == nil || c.Lifecycle.PreStop == nil {
			continue
		}
		took, known := graceperiod.PreStop(c.Lifecycle.PreStop)
		least := graceperiod.AtLeast(c.Lifecycle.PreStop)
		switch {
		case !known && least >= g.Seconds && least > 0:
			out = append(out, fmt.Sprintf("preStop of %s takes at least %s, the whole grace period of %s: it is cut off, and %s are left after SIGTERM", c.Name, seconds(least), seconds(g.Seconds), seconds(graceperiod.ContainerFloor)))
		case !known:
			unknown = append(unknown, c.Name)
		case took >= g.Seconds:
			out = append(out, fmt.Sprintf("preStop of %s takes %s, the whole grace period of %s: it is cut off, and %s are left after SIGTERM", c.Name, seconds(took), seconds(g.Seconds), seconds(graceperiod.ContainerFloor)))
		case g.Seconds-took <= graceperiod.ContainerFloor:
			out = append(out, fmt.Sprintf("preStop of %s takes %s and leaves no more than %s to stop", c.Name, seconds(took), seconds(graceperiod.ContainerFloor)))
		}
	}
	if len(unknown) > 0 {
		out = append(out, fmt.Sprintf("how long preStop of %s takes is not known: it comes out of the grace period", strings.Join(unknown, ", ")))
	}
	return out
}

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
