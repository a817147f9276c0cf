package defaulting

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
)

// A liveness or startup probe may have a grace period of its own, which its container gets in place of the pod's when the probe fails
// (graceperiod.Container). The limits hold for it as for the pod's; there is no default, since without one it is the pod's.

// probeGrace is the grace period of a probe that has one.
type probeGrace struct {
	path      string // of the field
	name      string // livenessProbe or startupProbe
	container string
	seconds   int64
	stops     preStops // of its container, which alone is stopped; without sleep actions, which the API server compares with the pod's only
}

func (p probeGrace) whose() string { return p.name + WordsProbeOf + p.container }

// probesOf returns the probes with a grace period of their own. The API server refuses one below 1, and probes of init containers that are no
// sidecars.
func probesOf(pod *corev1.Pod) []probeGrace {
	var all []probeGrace
	for _, list := range []struct {
		name       string
		containers []corev1.Container
	}{{"initContainers", pod.Spec.InitContainers}, {"containers", pod.Spec.Containers}} {
		for i := range list.containers {
			c := &list.containers[i]
			for _, probe := range []struct {
				name string
				*corev1.Probe
			}{{LivenessProbe, c.LivenessProbe}, {StartupProbe, c.StartupProbe}} {
				if probe.Probe == nil || probe.TerminationGracePeriodSeconds == nil || *probe.TerminationGracePeriodSeconds < 1 {
					continue
				}
				p := probeGrace{path: fmt.Sprintf("/spec/%s/%d/%s%s", list.name, i, probe.name, probeSuffix), name: probe.name, container: c.Name, seconds: *probe.TerminationGracePeriodSeconds}
				p.stops.add(c)
				p.stops.sleep = 0
				all = append(all, p)
			}
		}
	}
	return all
}

// The fields of a container whose probes may have a grace period.
const (
	LivenessProbe = "livenessProbe"
	StartupProbe  = "startupProbe"

	probeSuffix = "/terminationGracePeriodSeconds"
)

// ProbeOf names the probe whose grace period is at a JSON pointer: containers.0.livenessProbe, for instance. false: the path is of something else.
func ProbeOf(path string) (name string, ok bool) {
	name, inSpec := strings.CutPrefix(path, "/spec/")
	name, ofProbe := strings.CutSuffix(name, probeSuffix)
	return strings.ReplaceAll(name, "/", "."), inSpec && ofProbe
}

// patchProbe makes a change of applyProbes.
func patchProbe(pod *corev1.Pod, name string, seconds int64) {
	steps := strings.Split(name, ".")
	containers := pod.Spec.Containers
	if steps[0] == "initContainers" {
		containers = pod.Spec.InitContainers
	}
	i, err := strconv.Atoi(steps[1])
	if err != nil {
		panic(err) // probesOf made it
	}
	probe := containers[i].StartupProbe
	if steps[2] == LivenessProbe {
		probe = containers[i].LivenessProbe
	}
	probe.TerminationGracePeriodSeconds = &seconds
}

// applyProbes applies the limits to the grace periods of probes. There may be many, so that one warning is for all; the audit log has each.
func (e *Effective) applyProbes(probes []probeGrace, out *Result) {
	moves := e.moves(probes)
	for _, m := range moves {
		out.change(Change{Section: string(v1alpha1.SectionGracePeriod), Policy: m.why.policy, Path: m.path, Before: m.seconds, Value: m.want, Why: m.why.text})
	}
	if len(moves) > 0 {
		m := moves[0]
		out.warn(becauseGracePeriodOutOfBounds, m.why.policy, "terminationGracePeriodSeconds of %s is now %d, not %d: %s%s", m.whose(), m.want, m.seconds, m.why.text, others(len(moves)))
	}
	for _, m := range moves {
		m.seconds = m.want
	}
}

// validateProbes refuses grace periods that applyProbes would have changed.
func (e *Effective) validateProbes(probes []probeGrace, out *Result) {
	if moves := e.moves(probes); len(moves) > 0 {
		m := moves[0]
		out.deny(becauseGracePeriodOutOfBounds, m.why.policy, WordsProbe, m.whose(), m.seconds, m.want, m.why.text, others(len(moves)), m.want)
	}
}

// move is a probe whose grace period is outside of the limits.
type move struct {
	*probeGrace
	want int64
	why  because
}

func (e *Effective) moves(probes []probeGrace) []move {
	var moves []move
	for i := range probes {
		if want, why := e.bound(probes[i].seconds, probes[i].stops); want != probes[i].seconds {
			moves = append(moves, move{&probes[i], want, why})
		}
	}
	return moves
}

// others are those of n probes that a message does not name.
func others(n int) string {
	switch n {
	case 1:
		return ""
	case 2:
		return WordsAnotherLike
	}
	return fmt.Sprintf(WordsOthersLike, n-1)
}

// longerThan names the containers of probes whose grace period is longer than the pod's.
func longerThan(grace int64, probes []probeGrace) []string {
	var names []string
	for _, p := range probes {
		_, name, _ := strings.Cut(p.whose(), WordsProbeOf)
		if p.seconds > grace && !slices.Contains(names, name) && len(names) < maxNamed {
			names = append(names, name)
		}
	}
	return names
}
