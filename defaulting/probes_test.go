package defaulting_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/podgrace/podgrace/defaulting"
	. "github.com/podgrace/podgrace/policy/policytest"
)

// startupProbed gives the last container a startup probe with a grace period of its own.
func startupProbed(seconds int64) PodOption {
	return func(p *corev1.Pod) {
		p.Spec.Containers[len(p.Spec.Containers)-1].StartupProbe = &corev1.Probe{TerminationGracePeriodSeconds: &seconds}
	}
}

// sidecar is an init container with a liveness probe.
func sidecar(name string, seconds int64) PodOption {
	return func(p *corev1.Pod) {
		starting(name, always, nil)(p)
		p.Spec.InitContainers[len(p.Spec.InitContainers)-1].LivenessProbe = &corev1.Probe{TerminationGracePeriodSeconds: &seconds}
	}
}

// hooked gives the last container a preStop hook.
func hooked(h *corev1.LifecycleHandler) PodOption {
	return func(p *corev1.Pod) {
		p.Spec.Containers[len(p.Spec.Containers)-1].Lifecycle = &corev1.Lifecycle{PreStop: h}
	}
}

func setProbe(list string, i int, probe string, n int64) string {
	return fmt.Sprintf("add /spec/%s/%d/%s/terminationGracePeriodSeconds %d", list, i, probe, n)
}

func TestApplyProbes(t *testing.T) {
	t.Parallel()
	testApply(t, []scenario{
		{
			name:     "below the minimum",
			pod:      Pod(probed("a", 3)),
			policies: One(PodPolicy("web", MinGrace(10))),
			changes:  []string{setProbe("containers", 1, "livenessProbe", 10)},
			warnings: []string{"terminationGracePeriodSeconds of livenessProbe of container a is now 10, not 3: PodPolicy web: minimum 10 s"},
		},
		{
			name:     "above the maximum, which then is not longer than the pod's either",
			pod:      Pod(probed("a", 600)),
			policies: One(PodPolicy("web", MaxGrace(30))),
			changes:  []string{setProbe("containers", 1, "livenessProbe", 30)},
			warnings: []string{"of livenessProbe of container a is now 30, not 600: PodPolicy web: maximum 30 s"},
		},
		{
			name:     "within the limits it is the user's choice, and longer than the pod's: that is said",
			pod:      Pod(probed("a", 40)),
			policies: One(PodPolicy("web", MinGrace(10), MaxGrace(40))),
			warnings: []string{"container a: a probe's terminationGracePeriodSeconds is longer than the pod's 30 s"},
		},
		{
			name:     "no limits, no change",
			pod:      Pod(probed("a", 3)),
			policies: One(PodPolicy("web", DefaultGrace(45))),
			changes:  setGrace(45),
		},
		{
			name:     "limits can't be skipped",
			pod:      Pod(probed("a", 3), skipping("gracePeriod")),
			policies: One(PodPolicy("web", MinGrace(10), DefaultGrace(45), AllowsSkip("gracePeriod"))),
			changes:  []string{setProbe("containers", 1, "livenessProbe", 10)},
			warnings: []string{"is now 10, not 3"},
		},
		{
			name:     "the margin after the preStop of its own container, which runs for a failed probe too",
			pod:      Pod(probed("a", 3), hooked(run("sleep", "20")), startupProbed(60)),
			policies: One(PodPolicy("web", Margin(5))),
			changes:  []string{setProbe("containers", 1, "livenessProbe", 25)},
			warnings: []string{"of livenessProbe of container a is now 25, not 3: PodPolicy web: preStop of container a takes 20 s plus a margin of 5 s", "container a: a probe's"},
		},
		{
			name:     "not of another container, which goes on running",
			pod:      Pod(stopping("b", sleep(20)), probed("a", 3)),
			policies: One(PodPolicy("web", Margin(5))),
		},
		{
			name:     "a sleep action holds nothing above the maximum: the API server compares it with the pod's only",
			pod:      Pod(Grace(60), probed("a", 60), hooked(sleep(50))),
			policies: One(PodPolicy("web", MaxGrace(40))),
			changes:  []string{"add /spec/terminationGracePeriodSeconds 50", setProbe("containers", 1, "livenessProbe", 40)},
			warnings: []string{"terminationGracePeriodSeconds is now 50, not 60", "of livenessProbe of container a is now 40, not 60"},
		},
		{
			name:     "one warning for all, each changed",
			pod:      Pod(sidecar("mesh", 1), probed("a", 2), startupProbed(3), probed("b", 20)),
			policies: One(PodPolicy("web", MinGrace(10))),
			changes:  []string{setProbe("initContainers", 0, "livenessProbe", 10), setProbe("containers", 1, "livenessProbe", 10), setProbe("containers", 1, "startupProbe", 10)},
			warnings: []string{"of livenessProbe of container mesh is now 10, not 1: PodPolicy web: minimum 10 s; and 2 other probes' likewise"},
		},
		{
			name:     "of two",
			pod:      Pod(probed("a", 2), startupProbed(3)),
			policies: One(PodPolicy("web", MinGrace(10))),
			changes:  []string{setProbe("containers", 1, "livenessProbe", 10), setProbe("containers", 1, "startupProbe", 10)},
			warnings: []string{"of container a is now 10, not 2: PodPolicy web: minimum 10 s; and another probe's likewise"},
		},
		{
			name:     "below 1 is the API server's to refuse",
			pod:      Pod(probed("a", 0), startupProbed(-3)),
			policies: One(PodPolicy("web", MinGrace(10))),
		},
		{
			name:     "a probe without one has the pod's",
			pod:      Pod(Grace(5), func(p *podT) { p.Spec.Containers[0].LivenessProbe = &corev1.Probe{} }),
			policies: One(PodPolicy("web", MinGrace(10))),
			changes:  setGrace(10),
			warnings: []string{"terminationGracePeriodSeconds is now 10, not 5"},
		},
	})
}

func TestValidateProbes(t *testing.T) {
	t.Parallel()
	const mend = "Podgrace sets that itself; it was not called, or another webhook changed the pod after it. Set it to 10, or try again"
	testValidate(t, []scenario{
		{name: "below the minimum", pod: Pod(probed("a", 3)), policies: One(PodPolicy("web", MinGrace(10))), denials: []string{"GracePeriodOutOfBounds: terminationGracePeriodSeconds of livenessProbe of container a is 3 but must be 10 (PodPolicy web: minimum 10 s). " + mend}},
		{name: "several are one denial", pod: Pod(probed("a", 3), startupProbed(4), probed("b", 5)), policies: One(PodPolicy("web", MinGrace(10))), denials: []string{"of container a is 3 but must be 10 (PodPolicy web: minimum 10 s; and 2 other probes' likewise). " + mend}},
		{name: "above the maximum", pod: Pod(probed("a", 300)), policies: One(PodPolicy("web", MaxGrace(60))), denials: []string{"of livenessProbe of container a is 300 but must be 60 (PodPolicy web: maximum 60 s)"}},
		{name: "a sidecar's", pod: Pod(sidecar("mesh", 300)), policies: One(PodPolicy("web", MaxGrace(60))), denials: []string{"of livenessProbe of container mesh is 300 but must be 60"}},
		{name: "the pod's own and a probe's are two", pod: Pod(Grace(3), probed("a", 3)), policies: One(PodPolicy("web", MinGrace(10))), denials: []string{"GracePeriodOutOfBounds: terminationGracePeriodSeconds is 3", "GracePeriodOutOfBounds: terminationGracePeriodSeconds of livenessProbe"}},
		{name: "within the limits", pod: Pod(probed("a", 10), startupProbed(60)), policies: One(PodPolicy("web", MinGrace(10), MaxGrace(60)))},
		{name: "a default is no limit", pod: Pod(probed("a", 3)), policies: One(PodPolicy("web", DefaultGrace(45)))},
	})
}

func TestProbeOf(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"/spec/containers/3/livenessProbe/terminationGracePeriodSeconds": "containers.3.livenessProbe",
		"/spec/terminationGracePeriodSeconds":                            "",
		"/metadata/annotations/a~1terminationGracePeriodSeconds":         "",
		"/spec/topologySpreadConstraints":                                "",
	} {
		if name, ok := defaulting.ProbeOf(path); ok != (want != "") || ok && name != want {
			t.Errorf("%s: got %q, %v", path, name, ok)
		}
	}
}
