package defaulting_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/defaulting"
	"github.com/podgrace/podgrace/policy"
	. "github.com/podgrace/podgrace/policy/policytest"
)

// Properties over random pods, policies and facts. Policies are such as the CRD's own rules let through; pods are as the
// API server hands them to a webhook, so with a consistent class.

// The rarer contradictions of limits need so many cases.
func TestMain(m *testing.M) { os.Exit(Run(m, 1000)) }

// world is one random case.
type world struct {
	pod      *corev1.Pod
	policies []*v1alpha1.PodPolicy
	compiled policy.Policies
	facts    defaulting.Facts
	// exceptions in force.
	exceptions policy.Exceptions
}

func drawWorld(t *rapid.T) world {
	w := world{facts: drawFacts(t), policies: rapid.SliceOfNDistinct(rapid.Custom(drawPolicy), 0, 5, func(p *v1alpha1.PodPolicy) string { return p.Name }).Draw(t, "policies")}
	w.pod = drawPod(t, w.facts)
	w.compiled = Compile(t, w.policies...)
	return w
}

func (w world) request() policy.Request {
	r := scenario{pod: w.pod}.request()
	r.Namespace.Exceptions = w.exceptions
	return r
}

// excepting is the world with exceptions.
func (w world) excepting(t *rapid.T) world {
	for i, p := range w.policies {
		if Chance(t, "excepted") {
			x := Exception(p.Name, rapid.SliceOfNDistinct(rapid.SampledFrom(Limits), 1, len(Limits), rapid.ID).Draw(t, "lifted")...)
			x.Name = fmt.Sprint("x", i)
			if Chance(t, "some pods") {
				x.Spec.AllPods, x.Spec.PodSelector = false, v1alpha1.SetAsLabelSelector(map[string]string{"app": "web"})
			}
			c, err := policy.CompileException(x)
			if err != nil {
				t.Fatal(err)
			}
			w.exceptions = append(w.exceptions, c)
		}
	}
	return w
}

func (w world) apply() defaulting.Result {
	return defaulting.For(w.compiled, w.request(), Exempt).Apply(w.request(), w.facts)
}

func (w world) validate() defaulting.Result {
	return defaulting.For(w.compiled, w.request(), Exempt).Validate(w.request(), w.facts)
}

// after is the world with the pod that Apply makes.
func (w world) after(t *rapid.T, r defaulting.Result) world {
	w.pod = patched(t, w.pod, r.Changes)
	return w
}

// graces are few and close to the interesting 0, 1 and 30, so that limits, defaults and choices meet.
var graces = rapid.OneOf(rapid.SampledFrom([]int64{0, 1, 10, 20, 29, 30, 30, 30, 31, 40, 60}), rapid.Int64Range(0, 100))

var classNames = []string{"high", "low", "basic", "batch", "quiet", "reserved", "second"}

func drawFacts(t *rapid.T) defaulting.Facts {
	all := []*schedulingv1.PriorityClass{high, low, Class("basic", 100), batch, quiet, reserved, Class("second", 200)}
	var known []*schedulingv1.PriorityClass
	for _, c := range all {
		c = c.DeepCopy()
		c.GlobalDefault = c.Value <= 200 && Rarely(t, "globalDefault")
		if !Rarely(t, "class is gone") {
			known = append(known, c)
		}
	}
	f := facts(classes(known...))
	for range rapid.IntRange(0, 3).Draw(t, "services") {
		f.ServiceSelectors = append(f.ServiceSelectors, drawLabels(t))
	}
	if Chance(t, "owner found") {
		f.OwnerSelector = &metav1.LabelSelector{MatchLabels: drawLabels(t)}
		if Rarely(t, "owner expression") {
			f.OwnerSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: Pick(t, "expression key", "app", hash), Operator: metav1.LabelSelectorOpExists}}
		}
	}
	for i := range rapid.IntRange(0, 4).Draw(t, "nodes") {
		n := fmt.Sprintf("n%d", i)
		var pairs []string
		for _, key := range []string{zone, host, "rack"} {
			if !Rarely(t, "node lacks "+key) {
				pairs = append(pairs, key, Pick(t, key, "a", "b"))
			}
		}
		var taints []corev1.Taint
		if Rarely(t, "taint") {
			taints = dedicated(corev1.TaintEffectNoSchedule)
		}
		withTaintedNode(n, taints, pairs...)(&f)
		for range rapid.IntRange(0, 3).Draw(t, "pods") {
			withLabelledPod(n, drawLabels(t))(&f)
		}
	}
	if Chance(t, "claim known") {
		Pick(t, "volume mode", claimed, blockClaimed)("data", Pick(t, "mode", corev1.ReadWriteOnce, corev1.ReadWriteMany))(&f)
	}
	return f
}

func drawLabels(t *rapid.T) map[string]string {
	l := map[string]string{}
	for _, label := range [][]string{{"app", "web", "db", ""}, {"track", "stable", ""}, {hash, "abc", "xyz", ""}} {
		if v := Pick(t, label[0], label[1:]...); v != "" {
			l[label[0]] = v
		}
	}
	return l
}

func drawPod(t *rapid.T, f defaulting.Facts) *corev1.Pod {
	p := Pod(Grace(graces.Draw(t, "grace")))
	p.Labels = drawLabels(t)
	if Chance(t, "grace unset") {
		p.Spec.TerminationGracePeriodSeconds = new(int64(30))
	}
	arrive(t, p, f)
	if Chance(t, "owner") {
		Pick(t, "kind", OfReplicaSet, OfStatefulSet, OfDaemonSet, OfJob, OfPodSet, OwnedBy("v1", "ReplicationController", "rc"))(p)
	}
	if Rarely(t, "own constraints") {
		spreadItself(p)
	}
	if Rarely(t, "claim") {
		WithClaims("data")(p)
	}
	if Chance(t, "skip") {
		skipping(Pick(t, "skip text", "priority", "gracePeriod, topologySpread", "topologySpread", "nonsense,priority", ","))(p)
	}
	if Rarely(t, "forged") {
		enforced(Pick(t, "enforcement text", weight500, "", "{", `{"cpu":{"weight":1}}`))(p)
	}
	if Rarely(t, "forged record") {
		says(Pick(t, "record", "StatefulSet.apps/db", "Job.batch/x", ""))(p)
	}
	for i := range rapid.IntRange(0, 3).Draw(t, "hooks") {
		name := fmt.Sprintf("c%d", i)
		hook := Pick(t, "hook", sleep(graces.Draw(t, "sleep")), run("sleep", fmt.Sprint(graces.Draw(t, "exec"))), callHTTP)
		Pick(t, "where", stopping(name, hook), starting(name, always, hook), starting(name, nil, hook))(p)
	}
	if Rarely(t, "probe") {
		probed(rapid.String().Draw(t, "odd name"), graces.Draw(t, "probe grace"))(p)
	}
	drawProbes(t, p.Spec.Containers)
	for i := range p.Spec.InitContainers {
		if p.Spec.InitContainers[i].RestartPolicy != nil {
			drawProbes(t, p.Spec.InitContainers[i:i+1])
		}
	}
	return p
}

// drawProbes gives containers probes, some with a grace period of their own.
func drawProbes(t *rapid.T, containers []corev1.Container) {
	for i := range containers {
		for _, probe := range []**corev1.Probe{&containers[i].LivenessProbe, &containers[i].StartupProbe} {
			if Rarely(t, "a probe") {
				*probe = &corev1.Probe{}
				if Chance(t, "with a grace period") {
					(*probe).TerminationGracePeriodSeconds = new(graces.Draw(t, "a probe's grace"))
				}
			}
		}
	}
}

// arrive resolves the class as the in-tree Priority plugin does, which runs before us.
func arrive(t *rapid.T, p *corev1.Pod, f defaulting.Facts) {
	if name := Pick(t, "class", append(classNames, "", "", "")...); f.PriorityClasses[name] != nil {
		OfClass(f.PriorityClasses[name])(p)
	} else if f.GlobalDefault != nil {
		OfClass(f.GlobalDefault)(p)
	}
}

func drawPolicy(t *rapid.T) *v1alpha1.PodPolicy {
	p := PodPolicy(Pick(t, "name", "a", "b", "c", "d", "e", "f"), Weight(rapid.Int32Range(-1, 1).Draw(t, "weight")))
	s := &p.Spec
	if Chance(t, "permits skip") {
		AllowsSkip(v1alpha1.SectionPriority, v1alpha1.SectionTopologySpread, v1alpha1.SectionGracePeriod)(s)
	}
	if Rarely(t, "pod selector") {
		ForPods("app", "web")(s)
	}
	if Rarely(t, "condition") {
		Where(Pick(t, "expression", "object.metadata.labels['app'] == 'web'", "false", "object.metadata.annotations['no'] == ''\n|| false"))(s)
	}
	if Chance(t, "priority") {
		drawPriority(t, s)
	}
	if Chance(t, "gracePeriod") {
		drawGrace(t, s)
	}
	if Chance(t, "spread") {
		drawSpread(t, s)
	}
	if Rarely(t, "node") {
		Node(CPUWeight(rapid.Int32Range(1, 3).Draw(t, "cpu")))(s)
	}
	if s.Priority == nil && Chance(t, "by priority") {
		drawRank(t, s)
	}
	if s.Match == nil && Chance(t, "removal") {
		ZeroGrace(Pick(t, "protect", v1alpha1.ProtectAll, v1alpha1.ProtectStateful), Pick(t, "zeroGrace", v1alpha1.ZeroGraceDeny, v1alpha1.ZeroGraceRaise, v1alpha1.ZeroGraceWarn, ""))(s)
		s.Removal.Owners = DrawOwners(t)
		if Chance(t, "block claims") {
			ProtectsBlock(s)
		}
	}
	return p
}

func drawPriority(t *rapid.T, s *v1alpha1.PodPolicySpec) {
	if Chance(t, "list") {
		Allows(rapid.SliceOfNDistinct(rapid.SampledFrom(classNames), 1, 5, rapid.ID).Draw(t, "allowed")...)(s)
	}
	switch {
	case s.Priority == nil:
		Gives(Pick(t, "default class", append(classNames, "unknown")...))(s)
	case Chance(t, "class of the list"):
		Gives(Pick(t, "default class", s.Priority.AllowedClassNames...))(s)
	}
}

// drawRank lets a policy match by the class that the pod ends with.
func drawRank(t *rapid.T, s *v1alpha1.PodPolicySpec) {
	if Chance(t, "by name") {
		ForClasses(rapid.SliceOfNDistinct(rapid.SampledFrom(classNames), 1, 4, rapid.ID).Draw(t, "priorityClassNames")...)(s)
		return
	}
	bounds := []int32{Pick[int32](t, "one end", -5, 0, 10, 100, 101), Pick[int32](t, "other end", 0, 11, 200, 1000)}
	slices.Sort(bounds)
	r := &v1alpha1.PriorityRange{Min: &bounds[0], Max: &bounds[1]}
	switch Pick(t, "open end", "none", "low", "high") {
	case "low":
		r.Min = nil
	case "high":
		r.Max = nil
	}
	Match(s).Priority = r
}

func drawGrace(t *rapid.T, s *v1alpha1.PodPolicySpec) {
	bounds := []int64{graces.Draw(t, "one"), graces.Draw(t, "two"), graces.Draw(t, "three")}
	slices.Sort(bounds)
	if Chance(t, "minimum") {
		MinGrace(bounds[0])(s)
	}
	if Chance(t, "default") && bounds[1] > 0 {
		DefaultGrace(bounds[1])(s)
	}
	if Chance(t, "maximum") && bounds[2] > 0 {
		MaxGrace(bounds[2])(s)
	}
	if Chance(t, "margin") || s.GracePeriod == nil {
		Margin(rapid.Int64Range(0, 20).Draw(t, "margin seconds"))(s)
	}
}

func drawSpread(t *rapid.T, s *v1alpha1.PodPolicySpec) {
	list := rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) v1alpha1.TopologySpreadConstraint {
		c := Soft(Pick(t, "key", zone, host, "rack"))
		if Chance(t, "hard") {
			c.WhenUnsatisfiable = corev1.DoNotSchedule
			if Chance(t, "minDomains") {
				MinDomains(rapid.Int32Range(1, 4).Draw(t, "domains"))(&c)
			}
		}
		c.MaxSkew = rapid.Int32Range(1, 2).Draw(t, "skew")
		if Chance(t, "keys") {
			ByLabels(rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"app", "track", hash, "none"}), 0, 3, rapid.ID).Draw(t, "matchLabelKeys")...)(&c)
		}
		return c
	}), 1, 4, func(c v1alpha1.TopologySpreadConstraint) string { return c.TopologyKey + string(c.WhenUnsatisfiable) }).Draw(t, "constraints")
	Spreads(list...)(s)
	OnInfeasible(Pick(t, "onInfeasible", v1alpha1.InfeasibleWarn, v1alpha1.InfeasibleSoften, v1alpha1.InfeasibleDeny))(s)
	RevisionAware(Chance(t, "revisionAware"))(s)
	if Chance(t, "rule") {
		OwnerRule("batch", "Job", rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"app", "track"}), 1, 2, rapid.ID).Draw(t, "labelKeys")...)(s)
	}
}

func reasons(r defaulting.Result) []string {
	var list []string
	for _, d := range r.Denials {
		list = append(list, d.Reason.Code)
	}
	return list
}

func TestApplyingTwiceEqualsOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t).excepting(t)
		first := w.apply()
		again := w.after(t, first)
		if diff := cmp.Diff(again.pod, defaulting.Patch(w.pod, first.Changes), cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("the JSON patch and Patch differ (-patch +Patch):\n%s", diff)
		}
		second := again.apply()
		if len(second.Changes) > 0 {
			t.Fatalf("first %+v\nsecond %+v", first.Changes, second.Changes)
		}
		for _, reason := range reasons(second) {
			if !slices.Contains(reasons(first), reason) {
				t.Fatalf("the second call denies: %+v", second.Denials)
			}
		}
	})
}

// TestTheClassThatCounts is the one that the pod ends with: the same policies hold for the first call, for a second one, whose pod has the
// class already, and at validation; of those that select by priority it is those whose names and range have that class.
func TestTheClassThatCounts(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t).excepting(t)
		first := w.apply()
		if len(first.Denials) > 0 {
			return // there is no final pod
		}
		final := w.after(t, first)
		for what, r := range map[string]defaulting.Result{"again": final.apply(), "validated": final.validate()} {
			if diff := cmp.Diff(first.Policies, r.Policies); diff != "" {
				t.Fatalf("%s: other policies hold (-first +then):\n%s", what, diff)
			}
		}
		for _, p := range w.policies {
			m := p.Spec.Match
			if m == nil || m.Priority == nil && m.PriorityClassNames == nil {
				continue
			}
			spec := final.pod.Spec
			want := m.PriorityClassNames == nil || slices.Contains(m.PriorityClassNames, spec.PriorityClassName)
			if r := m.Priority; r != nil {
				want = want && (r.Min == nil || *spec.Priority >= *r.Min) && (r.Max == nil || *spec.Priority <= *r.Max)
			}
			others := *m
			others.Priority, others.PriorityClassNames = nil, nil
			without := PodPolicy("without")
			without.Spec.Match = &others
			want = want && len(defaulting.For(Compile(t, without), final.request(), Exempt).Policies) > 0
			if holds := slices.Contains(first.Policies, p.Name); holds != want {
				t.Fatalf("%s for class %q, priority %d: holds %v, want %v", describe(p.Spec), spec.PriorityClassName, *spec.Priority, holds, want)
			}
		}
	})
}

// limits of all matching policies, computed here once more and in the plainest way.
type limits struct {
	low, high, margin int64 // -1: none
	zero              bool  // a protected pod may not have 0
}

func limitsOf(policies []*v1alpha1.PodPolicy, names []string) limits {
	l := limits{-1, -1, -1, false}
	for _, p := range policies {
		if !slices.Contains(names, p.Name) {
			continue
		}
		l.zero = l.zero || p.Spec.Removal != nil && p.Spec.Removal.ZeroGrace != v1alpha1.ZeroGraceWarn
		if g := p.Spec.GracePeriod; g != nil {
			if g.MinSeconds != nil {
				l.low = max(l.low, *g.MinSeconds)
			}
			if g.MaxSeconds != nil && (l.high < 0 || *g.MaxSeconds < l.high) {
				l.high = *g.MaxSeconds
			}
			if g.PreStopMarginSeconds != nil {
				l.margin = max(l.margin, *g.PreStopMarginSeconds)
			}
		}
	}
	return l
}

// hooksOf returns the longest sleep action and the longest known hook of a pod of drawPod.
func hooksOf(p *corev1.Pod) (action, known int64) {
	containers := slices.Clone(p.Spec.Containers)
	for _, c := range p.Spec.InitContainers {
		if c.RestartPolicy != nil {
			containers = append(containers, c)
		}
	}
	for _, c := range containers {
		if c.Lifecycle == nil {
			continue
		}
		switch h := c.Lifecycle.PreStop; {
		case h.Sleep != nil:
			action, known = max(action, h.Sleep.Seconds), max(known, h.Sleep.Seconds)
		case h.Exec != nil:
			var n int64
			fmt.Sscan(h.Exec.Command[1], &n)
			known = max(known, n)
		}
	}
	return action, known
}

func TestDefaultsNeverOverrideAChoice(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		applied := w.apply()
		after := w.after(t, applied).pod
		have := *w.pod.Spec.TerminationGracePeriodSeconds
		if c := w.pod.Spec.PriorityClassName; c != "" && (w.facts.GlobalDefault == nil || c != w.facts.GlobalDefault.Name) {
			if diff := cmp.Diff([]any{c, w.pod.Spec.Priority, w.pod.Spec.PreemptionPolicy}, []any{after.Spec.PriorityClassName, after.Spec.Priority, after.Spec.PreemptionPolicy}); diff != "" {
				t.Fatalf("a chosen class was changed: %s", diff)
			}
		}
		if own := w.pod.Spec.TopologySpreadConstraints; len(own) > 0 && !cmp.Equal(own, after.Spec.TopologySpreadConstraints) {
			t.Fatal("own constraints were changed")
		}
		l := limitsOf(w.policies, applied.Policies)
		_, known := hooksOf(w.pod)
		within := have >= l.low && (l.high < 0 || have <= l.high) && (l.margin < 0 || known == 0 || have >= known+l.margin) && (have > 0 || !l.zero)
		if have != 30 && within && *after.Spec.TerminationGracePeriodSeconds != have {
			t.Fatalf("a chosen grace period of %d within the limits %+v became %d", have, l, *after.Spec.TerminationGracePeriodSeconds)
		}
	})
}

func TestLimitsHoldAndWarn(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		applied := w.apply()
		have, got := *w.pod.Spec.TerminationGracePeriodSeconds, *w.after(t, applied).pod.Spec.TerminationGracePeriodSeconds
		warned := slices.ContainsFunc(applied.Warnings, func(m defaulting.Warning) bool {
			return strings.HasPrefix(m.Message, fmt.Sprintf("terminationGracePeriodSeconds is now %d, not %d: PodPolicy ", got, have))
		})
		if have != 30 && got != have && !warned {
			t.Fatalf("a chosen grace period of %d became %d without a warning: %q", have, got, applied.Warnings)
		}
		if len(applied.Denials) > 0 {
			return
		}
		l := limitsOf(w.policies, applied.Policies)
		action, _ := hooksOf(w.pod)
		if got < l.low || l.high >= 0 && got > max(l.high, l.low, action) {
			t.Fatalf("grace period %d is outside of %+v", got, l)
		}
	})
}

// TestLimitsHoldForProbes, which move no further than they must, with a warning.
func TestLimitsHoldForProbes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		applied := w.apply()
		if len(applied.Denials) > 0 {
			return
		}
		after := w.after(t, applied).pod
		l := limitsOf(w.policies, applied.Policies)
		moved := false
		for _, lists := range [][2][]corev1.Container{{w.pod.Spec.Containers, after.Spec.Containers}, {w.pod.Spec.InitContainers, after.Spec.InitContainers}} {
			for i := range lists[0] {
				one := &corev1.Pod{Spec: corev1.PodSpec{Containers: lists[0][i : i+1]}}
				_, known := hooksOf(one)
				low, high := l.low, l.high
				if l.margin >= 0 && known > 0 {
					low = max(low, known+l.margin)
					if l.high >= 0 {
						low = max(l.low, min(low, l.high))
					}
				}
				if high >= 0 {
					high = max(high, l.low)
				}
				for _, probes := range [][2]*corev1.Probe{{lists[0][i].LivenessProbe, lists[1][i].LivenessProbe}, {lists[0][i].StartupProbe, lists[1][i].StartupProbe}} {
					if probes[0] == nil || probes[0].TerminationGracePeriodSeconds == nil {
						if !cmp.Equal(probes[0], probes[1]) {
							t.Fatalf("a probe without a grace period of its own was changed: %v, %v", probes[0], probes[1])
						}
						continue
					}
					have, got := *probes[0].TerminationGracePeriodSeconds, *probes[1].TerminationGracePeriodSeconds
					want := max(have, low)
					if high >= 0 {
						want = min(want, high)
					}
					if have < 1 { // refused by the API server
						want = have
					}
					if got != want {
						t.Fatalf("a probe's grace period of %d became %d, want %d: %+v, preStop %d", have, got, want, l, known)
					}
					moved = moved || got != have
				}
			}
		}
		warned := slices.ContainsFunc(applied.Warnings, func(m defaulting.Warning) bool {
			return strings.Contains(m.Message, "Probe of container ") && strings.Contains(m.Message, " is now ")
		})
		if moved != warned {
			t.Fatalf("moved: %v, warnings %q", moved, applied.Warnings)
		}
	})
}

// TestNoPatchMakesThePodInvalid: what the API server's own validation would refuse after our changes, but not before.
func TestNoPatchMakesThePodInvalid(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t).excepting(t)
		after := w.after(t, w.apply()).pod
		action, _ := hooksOf(w.pod)
		have, got := *w.pod.Spec.TerminationGracePeriodSeconds, *after.Spec.TerminationGracePeriodSeconds
		if action <= have && action > got {
			t.Fatalf("preStop.sleep %d fitted in %d, but not in %d", action, have, got)
		}
		if c := w.facts.PriorityClasses[after.Spec.PriorityClassName]; c != nil {
			if *after.Spec.Priority != c.Value || c.PreemptionPolicy != nil && *after.Spec.PreemptionPolicy != *c.PreemptionPolicy {
				t.Fatalf("class %s: priority %d, preemptionPolicy %v", c.Name, *after.Spec.Priority, after.Spec.PreemptionPolicy)
			}
		}
		pairs := map[string]bool{}
		for _, c := range after.Spec.TopologySpreadConstraints {
			pair := c.TopologyKey + " " + string(c.WhenUnsatisfiable)
			if pairs[pair] {
				t.Fatalf("two constraints %s", pair)
			}
			pairs[pair] = true
			if c.MinDomains != nil && c.WhenUnsatisfiable != corev1.DoNotSchedule {
				t.Fatalf("minDomains with %s", c.WhenUnsatisfiable)
			}
			if len(c.MatchLabelKeys) > 0 && c.LabelSelector == nil {
				t.Fatal("matchLabelKeys without a labelSelector")
			}
			for _, key := range c.MatchLabelKeys {
				if _, twice := c.LabelSelector.MatchLabels[key]; twice || slices.ContainsFunc(c.LabelSelector.MatchExpressions, func(r metav1.LabelSelectorRequirement) bool { return r.Key == key }) {
					t.Fatalf("%s is in labelSelector and matchLabelKeys: %+v", key, c)
				}
			}
		}
	})
}

// byDefaults are denials that follow from defaults, which a heavier policy may replace, or from no policy at all.
var byDefaults = []string{"EnforcementForged", "ProtectionForged", "PriorityMismatch", "PreemptionPolicyMismatch"}

// TestAddingAPolicyNeverLoosensALimit, with the two exceptions that follow from the order minimum, maximum, preStop in
// which contradicting limits win:
//
//  1. A minimum above another policy's maximum lifts that maximum to itself, since no grace period satisfies both.
//  2. A maximum below what preStop and margin need lowers that need to itself.
func TestAddingAPolicyNeverLoosensALimit(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		before := limitReasons(w.validate())
		more := w
		added := drawPolicy(t)
		added.Name = "z"
		more.policies = append(slices.Clone(w.policies), added)
		more.compiled = Compile(t, more.policies...)
		if len(before) == 0 || len(limitReasons(more.validate())) > 0 {
			return
		}
		l := limitsOf(more.policies, more.validate().Policies)
		_, known := hooksOf(w.pod)
		switch {
		case l.high >= 0 && l.low > l.high: // 1
		case l.high >= 0 && l.margin >= 0 && known+l.margin > l.high: // 2
		default:
			t.Fatalf("was denied: %v\nwith %s it is not", before, describe(added.Spec))
		}
	})
}

// TestAddingAPolicyNeverWidensTheClasses, without exception.
func TestAddingAPolicyNeverWidensTheClasses(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		added := drawPolicy(t)
		added.Name = "z"
		more := w
		more.compiled = Compile(t, append(slices.Clone(w.policies), added)...)
		if slices.Contains(reasons(w.validate()), "PriorityClassNotAllowed") && !slices.Contains(reasons(more.validate()), "PriorityClassNotAllowed") {
			t.Fatalf("class %s is allowed with %s", w.pod.Spec.PriorityClassName, describe(added.Spec))
		}
	})
}

func limitReasons(r defaulting.Result) []string {
	return slices.DeleteFunc(reasons(r), func(reason string) bool { return slices.Contains(byDefaults, reason) })
}

func describe(s v1alpha1.PodPolicySpec) string {
	text, err := json.Marshal(s)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// TestValidateAcceptsWhatApplyMakes, except for what Apply can't mend.
func TestValidateAcceptsWhatApplyMakes(t *testing.T) {
	t.Parallel()
	cantMend := []string{
		"PriorityClassNotAllowed", // a chosen class is never replaced
		"SleepTooLong",            // nor is a sleep shortened
	}
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t).excepting(t)
		applied := w.apply()
		for _, reason := range reasons(applied) {
			if reason != "ZeroGracePeriod" && reason != "SpreadInfeasible" {
				t.Fatalf("Apply denies for %s", reason)
			}
		}
		if len(applied.Denials) > 0 {
			return // there is no final pod
		}
		for _, d := range w.after(t, applied).validate().Denials {
			if !slices.Contains(cantMend, d.Reason.Code) {
				t.Fatalf("%+v", d)
			}
		}
	})
}

// zeroWarnings are those about a 0 that is left.
func zeroWarnings(r defaulting.Result) []defaulting.Warning {
	return slices.DeleteFunc(slices.Clone(r.Warnings), func(w defaulting.Warning) bool {
		return !strings.HasPrefix(w.Message, "terminationGracePeriodSeconds is 0, ")
	})
}

// guarded is the pod's protection by the removal sections of the policies, computed here once more.
func (w world) guarded(names []string) bool {
	owner := ""
	if len(w.pod.OwnerReferences) > 0 {
		owner = w.pod.OwnerReferences[0].Kind
	}
	stateful, shared := owner == "StatefulSet", false
	for _, v := range w.pod.Spec.Volumes {
		claim, ok := w.facts.Claims[v.PersistentVolumeClaim.ClaimName]
		stateful = stateful || !ok || slices.Contains(claim.Modes, corev1.ReadWriteOnce)
		shared = shared || claim.Block
	}
	return slices.ContainsFunc(w.policies, func(p *v1alpha1.PodPolicy) bool {
		r := p.Spec.Removal
		return slices.Contains(names, p.Name) && r != nil && (stateful || r.Protect == v1alpha1.ProtectAll ||
			shared && r.BlockClaims == v1alpha1.BlockClaimsExclusive || slices.ContainsFunc(r.Owners, func(o v1alpha1.ProtectedOwner) bool { return o.Kind == owner }))
	})
}

// TestZeroOfAProtectedPodIsSaidOnce: a protected pod that ends with 0 has one warning about that, the same one from the first call, from
// a second, and from Validate; no other pod has it.
func TestZeroOfAProtectedPodIsSaidOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t).excepting(t)
		first := w.apply()
		if len(first.Denials) > 0 {
			return
		}
		again := w.after(t, first)
		kept := *again.pod.Spec.TerminationGracePeriodSeconds == 0 && w.guarded(first.Policies)
		said := zeroWarnings(first)
		if kept != (len(said) == 1) || len(said) > 1 {
			t.Fatalf("keeps 0: %v, said %q", kept, said)
		}
		for _, other := range []defaulting.Result{again.apply(), again.validate()} {
			if len(other.Denials) > 0 { // then that is what is read
				continue
			}
			if diff := cmp.Diff(said, zeroWarnings(other), cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("said in other words: %s", diff)
			}
		}
	})
}

func TestOrderOfPoliciesDoesNotMatter(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t).excepting(t)
		other := w
		other.compiled = Compile(t, rapid.Permutation(w.policies).Draw(t, "order")...)
		if diff := cmp.Diff(w.apply(), other.apply(), cmpopts.IgnoreUnexported(policy.Exception{})); diff != "" {
			t.Fatalf("Apply: %s", diff)
		}
		if diff := cmp.Diff(w.validate(), other.validate(), cmpopts.IgnoreUnexported(policy.Exception{})); diff != "" {
			t.Fatalf("Validate: %s", diff)
		}
	})
}

func TestWarningsReachTheUser(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t).excepting(t)
		odd := rapid.String().Draw(t, "odd")
		w.pod.Spec.Containers[0].Name = odd + strings.Repeat("ü", rapid.IntRange(0, 300).Draw(t, "long"))
		w.pod.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: callHTTP}
		skipping(odd)(w.pod)
		for _, r := range []defaulting.Result{w.apply(), w.validate(), defaulting.For(w.compiled, w.request(), Exempt).Foresee(w.request(), w.facts)} {
			for _, warning := range r.Warnings {
				if problem := unfit(warning.Message); problem != "" {
					t.Fatalf("warning %q %s", warning, problem)
				}
			}
			for _, d := range r.Denials {
				if !slices.Contains(defaulting.Refusals(), d.Reason) || !strings.Contains(d.Message, "PodPolic") && !slices.Contains(byDefaults, d.Reason.Code) {
					t.Fatalf("denial without a reason that is told of, or a policy: %+v", d)
				}
			}
		}
	})
}

func TestInputIsNeverChanged(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t).excepting(t)
		before := w.pod.DeepCopy()
		specs := []*v1alpha1.PodPolicy{}
		for _, p := range w.policies {
			specs = append(specs, p.DeepCopy())
		}
		selector := w.facts.OwnerSelector.DeepCopy()
		var services []string
		for _, s := range w.facts.ServiceSelectors {
			services = append(services, fmt.Sprint(s))
		}
		w.apply()
		w.validate()
		defaulting.For(w.compiled, w.request(), Exempt).Foresee(w.request(), w.facts)
		if diff := cmp.Diff(before, w.pod); diff != "" {
			t.Fatalf("pod: %s", diff)
		}
		if diff := cmp.Diff(specs, w.policies); diff != "" {
			t.Fatalf("policies: %s", diff)
		}
		if diff := cmp.Diff(selector, w.facts.OwnerSelector); diff != "" {
			t.Fatalf("owner's selector: %s", diff)
		}
		for i, s := range w.facts.ServiceSelectors {
			if fmt.Sprint(s) != services[i] {
				t.Fatalf("Service's selector: %v, was %s", s, services[i])
			}
		}
	})
}
