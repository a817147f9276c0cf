package defaulting

import (
	"fmt"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/internal/pod/graceperiod"
	"github.com/podgrace/podgrace/policy"
)

const gracePath = "/spec/terminationGracePeriodSeconds"

// applyGracePeriod applies the default where the user chose nothing, then the limits.
func applyGracePeriod(req policy.Request, e *Effective, facts Facts, out *Result) {
	have := graceperiod.Of(&req.Pod.Spec)
	stops := stopsOf(req.Pod)
	zero := e.zeroGrace(req, facts)
	if zero.action() == v1alpha1.ZeroGraceDeny {
		zero.deny(out)
		return
	}
	want, why := e.settle(have, stops, zero)
	if want != have {
		out.change(Change{Section: string(v1alpha1.SectionGracePeriod), Policy: why.policy, Path: gracePath, Before: pointed(req.Pod.Spec.TerminationGracePeriodSeconds), Value: want, Why: why.text})
		if !why.isDefault {
			out.warn(becauseGracePeriodOutOfBounds, why.policy, "terminationGracePeriodSeconds is now %d, not %s: %s", want, written(req.Pod, have), why.text)
		}
	}
	if want == 0 && zero.action() == v1alpha1.ZeroGraceWarn {
		zero.warn(out)
	}
	probes := probesOf(req.Pod)
	e.applyProbes(probes, out)
	if have == want && have != graceperiod.Unset {
		stops.unknown = nil // the author chose the time for them
	}
	e.remarkStops(want, stops, probes, out)
}

// written is the grace period that the pod has, for people: a negative one counts as another.
func written(pod *corev1.Pod, counts int64) string {
	if w := pod.Spec.TerminationGracePeriodSeconds; w != nil && *w != counts {
		return fmt.Sprintf("%d (which counts as %d)", *w, counts)
	}
	return fmt.Sprint(counts)
}

// because is why a grace period is another one, and by which policy, the last of several.
type because struct{ policy, text string }

// reasonWhy is why a grace period was changed.
type reasonWhy struct {
	because
	isDefault bool
}

// settle returns the grace period that the policies give to a pod that has one of the given seconds. Settling twice
// gives the same: a value that was moved to a bound of exactly 30 can't be told from an unset one on the next call, so it
// takes the default at once.
func (e *Effective) settle(have int64, stops preStops, zero zeroGrace) (int64, reasonWhy) {
	value, why := have, reasonWhy{}
	if zero.action() == v1alpha1.ZeroGraceRaise {
		value = graceperiod.Unset
		why.add(zero.by.name(), "PodPolicy "+zero.by.name()+": with 0 every delete of this protected pod would be a force delete")
	}
	for range 2 {
		if value == graceperiod.Unset && e.grace.given() && !e.skip[v1alpha1.SectionGracePeriod] {
			why.isDefault = why.text == ""
			value = max(e.grace.value, stops.known, stops.sleep)
			why.add(e.grace.name(), "PodPolicy "+e.grace.name()+": default "+seconds(e.grace.value)+" (30 counts as unset)")
			switch value {
			case e.grace.value:
			case stops.known:
				why.add(e.grace.name(), "raised because "+stops.describe())
			default:
				why.add(e.grace.name(), "raised because "+stops.sleeper+" sleeps "+seconds(stops.sleep))
			}
		}
		bounded, reason := e.bound(value, stops)
		if bounded != value {
			// A default that a limit changes was not chosen by the user, who needs no warning.
			why.add(reason.policy, reason.text)
		}
		value = bounded
	}
	return value, why
}

func (w *reasonWhy) add(policy, text string) {
	if w.text != "" {
		w.text += "; "
	}
	w.policy, w.text = policy, w.text+text
}

// bound applies the limits. The minimum wins over the maximum, the maximum over what preStop needs; but never is the grace
// period put below a sleep action, because the API server refuses such a pod with less clear words than
// validateGracePeriod has.
func (e *Effective) bound(value int64, stops preStops) (int64, because) {
	low, high := int64(0), int64(math.MaxInt64)
	var why, maximum because
	if e.margin.given() && stops.known > 0 {
		low, why = stops.known+e.margin.value, because{e.margin.name(), fmt.Sprintf(WordsMargin, e.margin.name(), stops.describe(), seconds(e.margin.value))}
	}
	if e.maxGrace.given() {
		high, maximum = e.maxGrace.value, because{e.maxGrace.name(), fmt.Sprintf(WordsMaximum, e.maxGrace.name(), seconds(e.maxGrace.value))}
		if low > high {
			low, why = high, because{maximum.policy, maximum.text + WordsAlthough + stops.describe()}
		}
	}
	if e.minGrace.given() && e.minGrace.value > low {
		low, why = e.minGrace.value, because{e.minGrace.name(), fmt.Sprintf(WordsMinimum, e.minGrace.name(), seconds(e.minGrace.value))}
		if low > high {
			high, maximum = low, because{why.policy, maximum.text + WordsBut + why.text}
		}
	}
	switch {
	case value < low:
		return low, why
	case value > max(high, stops.sleep):
		return max(high, stops.sleep), maximum
	}
	return value, because{}
}

// remarkStops warns about preStop hooks whose length is unknown, or that may not fit into the grace period.
func (e *Effective) remarkStops(grace int64, stops preStops, probes []probeGrace, out *Result) {
	if e.margin.given() {
		short := stops.known > 0 && stops.known+e.margin.value > grace
		if unknown := slices.DeleteFunc(slices.Clone(stops.unknown), func(name string) bool { return short && name == stops.container }); len(unknown) > 0 {
			out.warn(becausePreStop, e.margin.name(), "preStop of %s: how long it takes is not known, and it comes out of the grace period of %s (PodPolicy %s keeps %s after preStop only if that begins with a sleep)",
				strings.Join(unknown, ", "), seconds(grace), e.margin.name(), seconds(e.margin.value))
		}
		if short {
			out.warn(becausePreStop, e.margin.name(), "%s, which leaves %s of the grace period of %s to stop: less than the %s of PodPolicy %s", stops.describe(), seconds(max(0, grace-stops.known)), seconds(grace), seconds(e.margin.value), e.margin.name())
		}
	}
	if !e.managesGrace() {
		return
	}
	if longer := longerThan(grace, probes); len(longer) > 0 {
		out.warn(becauseProbeLonger, "", "container %s: a probe's terminationGracePeriodSeconds is longer than the pod's %s: a probe failure stops it more slowly than a delete", strings.Join(longer, ", "), seconds(grace))
	}
}

func (e *Effective) managesGrace() bool {
	return e.grace.given() || e.minGrace.given() || e.maxGrace.given() || e.margin.given()
}

// validateGracePeriod refuses a grace period that the limits would have changed: the mutating webhook was not called, or another webhook
// changed the pod after it.
func validateGracePeriod(req policy.Request, e *Effective, facts Facts, out *Result) {
	have := graceperiod.Of(&req.Pod.Spec)
	zero := e.zeroGrace(req, facts)
	switch zero.action() {
	case v1alpha1.ZeroGraceDeny:
		zero.deny(out)
		return
	case v1alpha1.ZeroGraceRaise:
		zero.denyUnraised(out)
		return
	}
	stops := stopsOf(req.Pod)
	if e.maxGrace.given() && stops.sleep > max(e.maxGrace.value, e.minGrace.value) {
		out.deny(becauseSleepTooLong, e.maxGrace.name(), WordsSleep, stops.sleeper, seconds(stops.sleep), e.maxGrace.name(), seconds(max(e.maxGrace.value, e.minGrace.value)))
		return
	}
	want, why := e.bound(have, stops)
	if want != have {
		out.deny(becauseGracePeriodOutOfBounds, why.policy, WordsBounds, have, want, why.text, want)
	}
	e.validateProbes(probesOf(req.Pod), out)
	if want == have && zero.action() == v1alpha1.ZeroGraceWarn {
		// In the words of applyGracePeriod, so that the API server says it once: it drops a warning that it has given already
		// (k8s.io/apiserver/pkg/endpoints/filters/warning.go AddWarning, 0.36.3). Said here too for a 0 that another webhook wrote after
		// ours, and for when ours was not called.
		zero.warn(out)
	}
}

// zeroGrace is what policies do about a pod's grace period of 0.
type zeroGrace struct {
	by      from[v1alpha1.ZeroGraceAction] // not given: the grace period is not 0, or no policy protects the pod
	because string                         // why it is protected
}

// zeroGrace is that of the strictest of the policies that protect this pod. A claim that is unknown counts as exclusive.
func (e *Effective) zeroGrace(req policy.Request, facts Facts) zeroGrace {
	if graceperiod.Of(&req.Pod.Spec) != 0 || e.removal == nil {
		return zeroGrace{}
	}
	if e.removal.allAlike() {
		return zeroGrace{e.removal.ofAll, allOf(e.removal.ofAll.policy)}
	}
	var strictest zeroGrace
	pod := policy.Unrecorded(req.Pod)
	for _, zero := range e.removal.policies {
		because := zero.policy.Protect.Why(pod, facts.Claims)
		if because == "" && zero.policy.Protect.All {
			because = allOf(zero.policy)
		}
		if because != "" && stricterZeroGrace(strictest.by, zero) == zero {
			strictest = zeroGrace{zero, because}
		}
	}
	return strictest
}

func allOf(p *policy.Policy) string { return fmt.Sprintf(WordsProtects, p.Name) }

// allAlike reports whether the action is the same for every pod, so that its claims need not be read.
func (r *removal) allAlike() bool { return r.ofAll.given() && r.ofAll.value == r.ofAny.value }

func (z zeroGrace) action() v1alpha1.ZeroGraceAction { return z.by.value }

// warn puts what to do first, as long warnings are truncated and the reason why the pod is protected can be long.
func (z zeroGrace) warn(out *Result) {
	out.warn(becauseZeroGracePeriod, z.by.name(), "terminationGracePeriodSeconds is 0, so every delete of the pod is a force delete, which may leave it running twice. Set it to what the pod needs to stop (PodPolicy %s; %s)",
		z.by.name(), z.because)
}

func (z zeroGrace) deny(out *Result) {
	out.deny(becauseZeroGracePeriod, z.by.name(), WordsZeroDenied, z.by.name(), z.because)
}

// denyUnraised refuses a 0 that the mutating webhook should have raised.
func (z zeroGrace) denyUnraised(out *Result) {
	out.deny(becauseZeroGracePeriod, z.by.name(), WordsZeroRaised, z.by.name(), z.because)
}

// preStops is how long a pod's preStop hooks take. The kubelet runs all of them at once, also those of sidecars, before it stops containers in order, and
// takes the time of each out of its container's grace period
// (pkg/kubelet/kuberuntime/kuberuntime_container.go killContainer, 1.36.3): the longest counts.
type preStops struct {
	known     int64    // seconds that the longest hook takes at least
	container string   // whose it is
	longer    bool     // it may take longer
	sleep     int64    // seconds of the longest sleep action of any hook: the API server wants it within the grace period
	sleeper   string   // which hook that is
	unknown   []string // containers with a hook of unknown length
}

func (p preStops) describe() string {
	words := WordsStop
	if p.longer {
		words = WordsStopAtLeast
	}
	return fmt.Sprintf(words, p.container, seconds(p.known))
}

func stopsOf(pod *corev1.Pod) preStops {
	var p preStops
	for _, c := range graceperiod.Stoppable(pod) {
		p.add(c)
	}
	return p
}

// add looks at the hooks of one more container.
func (p *preStops) add(c *corev1.Container) {
	if c.Lifecycle == nil {
		return
	}
	p.addSleep(c.Lifecycle.PreStop, WordsPreStopOf+c.Name)
	p.addSleep(c.Lifecycle.PostStart, WordsPostStarts+c.Name)
	if c.Lifecycle.PreStop == nil {
		return
	}
	took := graceperiod.AtLeast(c.Lifecycle.PreStop)
	_, known := graceperiod.PreStop(c.Lifecycle.PreStop)
	if !known && took == 0 && !injected(c) {
		p.unknown = append(p.unknown, c.Name)
	}
	if took > p.known {
		p.known, p.container, p.longer = took, c.Name, !known
	}
}

// injectors are containers that a service mesh or an agent adds, with hooks of its own (November 2026): the author of a workload can't change them.
var injectors = []string{"istio-proxy", "linkerd-proxy", "queue-proxy", "daprd", "vault-agent", "consul-dataplane", "kuma-sidecar"}

// injected reports whether a known injector wrote the preStop hook of a container. Knative writes one into the containers of its users
// (https://github.com/knative/serving: pkg/reconciler/revision/resources/deploy.go userLifecycle).
func injected(c *corev1.Container) bool {
	get := c.Lifecycle.PreStop.HTTPGet
	return slices.Contains(injectors, c.Name) || get != nil && get.Path == "/wait-for-drain" && get.Port.IntVal == 8022
}

// addSleep keeps the longest sleep action (pkg/apis/core/validation/validation.go validateSleepAction, 1.36.3).
func (p *preStops) addSleep(h *corev1.LifecycleHandler, whose string) {
	if h != nil && h.Sleep != nil && h.Sleep.Seconds > p.sleep {
		p.sleep, p.sleeper = h.Sleep.Seconds, whose
	}
}

func seconds(n int64) string { return fmt.Sprintf(WordsSeconds, n) }
