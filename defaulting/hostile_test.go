package defaulting_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/util/sets"

	corev1 "k8s.io/api/core/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/defaulting"
	"github.com/podgrace/podgrace/policy"
	. "github.com/podgrace/podgrace/policy/policytest"
)

// longest is what one decision may take of a processor. Linear work takes milliseconds; the rest is for slow machines and -race.
const longest = 5 * time.Second

// processor returns how much of it the test has taken since: what else the machine does meanwhile does not count.
func processor(t *testing.T) (since func() time.Duration) {
	t.Helper()
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	taken := func() time.Duration {
		var usage unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_THREAD, &usage); err != nil {
			t.Fatal(err)
		}
		return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	}
	start := taken()
	return func() time.Duration { return taken() - start }
}

// TestHostilePods: pods reach us before the API server has validated them. None may panic, take long (the whole review has
// a few seconds), or give so many warnings that those of others are lost (the API server keeps 4,096 characters).
func TestHostilePods(t *testing.T) {
	t.Parallel()
	words := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "w%d,", i)
		}
		return b.String()
	}
	containers := func(n int) PodOption {
		return func(p *corev1.Pod) {
			for i := range n {
				stopping(fmt.Sprintf("hook-%d", i), run("/stop.sh"))(p)
				probed(fmt.Sprintf("probe-%d", i), 600)(p)
			}
		}
	}
	tests := []struct {
		name string
		pod  *corev1.Pod
	}{
		{"500 containers", Pod(containers(250))},
		{"8 KiB of unknown words to skip", Pod(skipping(words(1600)))},
		{"1 MiB of unknown words to skip", Pod(skipping(words(150000)))},
		{"1 MiB of one permitted word", Pod(skipping(strings.Repeat("priority,", 120000)))},
		{"1 MiB of a word that is not permitted", Pod(skipping(strings.Repeat("gracePeriod,", 90000)))},
		{"8 KiB enforcement annotation", Pod(enforced(strings.Repeat("x", 8192)))},
		{"1 MiB of JSON that opens only", Pod(enforced(strings.Repeat("[", 1<<20)))},
		{"weird label values", Pod(revision, Labelled("app", "a\x00b\n", hash, strings.Repeat("ü", 5000), "", "-", "track", "!"))},
		{"weird names", Pod(OwnedBy("a/b/c", "Kind\n", "na\x1bme"), stopping("con\ntainer", callHTTP), probed(strings.Repeat("n", 5000), 600))},
		{"invalid UTF-8", Pod(stopping("a\xff\xfe", callHTTP), skipping("\xff"))},
		{"no containers", Pod(func(p *corev1.Pod) { p.Spec.Containers = nil })},
		{"an empty pod", &corev1.Pod{}},
		{"10,000 claims", Pod(Grace(0), WithClaims(make([]string, 10000)...))},
	}
	policies := Compile(t, PodPolicy("p", Gives("high"), Allows("high"), Spreads(Hard(zone, ByLabels("app", "track")), Soft(host)), DefaultGrace(45), Margin(5), MinGrace(5), MaxGrace(60),
		Node(CPUWeight(500)), AllowsSkip(v1alpha1.SectionPriority), ZeroGrace(v1alpha1.ProtectStateful, v1alpha1.ZeroGraceRaise)))
	known := facts(classes(high), service("app", "web"), ownerSelects("app", "web", hash, "abc"), withNode("n1", zone, "a", host, "n1"), withPod("n1", "app", "web"))
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := scenario{pod: tt.pod}
			taken := processor(t)
			effective := defaulting.For(policies, s.request(), Exempt)
			applied, validated := effective.Apply(s.request(), known), effective.Validate(s.request(), known)
			foreseen := effective.Foresee(s.request(), known)
			if took := taken(); took > longest {
				t.Errorf("took %v", took)
			}
			said := sets.New(applied.Warnings...).Insert(validated.Warnings...)
			if len(said) > 12 {
				t.Errorf("%d warnings", len(said))
			}
			for _, w := range append(said.UnsortedList(), foreseen.Warnings...) {
				if problem := unfit(w.Message); problem != "" {
					t.Errorf("warning %q %s", w, problem)
				}
			}
		})
	}
}

// TestHostileClusters: facts that are large or odd.
func TestHostileClusters(t *testing.T) {
	t.Parallel()
	big := facts(service("app", "web"), noPods)
	for i := range 5000 {
		withNode(fmt.Sprintf("n%d", i), zone, fmt.Sprint(i%3), host, fmt.Sprintf("n%d", i))(&big)
	}
	for i := range 20000 {
		withPod(fmt.Sprintf("n%d", i%5000), "app", "web")(&big)
	}
	many := facts()
	for i := range 20000 {
		service("app", "web", fmt.Sprint("k", i), "v")(&many)
	}
	for name, known := range map[string]struct {
		facts factsT
		pod   *corev1.Pod
	}{
		"5,000 nodes and 20,000 pods": {big, Pod()},
		"20,000 Services":             {many, Pod()},
	} {
		t.Run(name, func(t *testing.T) {
			s := scenario{pod: known.pod, facts: known.facts}
			policies := Compile(t, PodPolicy("p", Spreads(Hard(zone, MinDomains(5)), Hard(host), Soft(zone))))
			taken := processor(t)
			defaulting.For(policies, s.request(), policy.Exempt{}).Apply(s.request(), s.facts)
			if took := taken(); took > longest {
				t.Errorf("took %v", took)
			}
		})
	}
}

// A pod can be written so that its decision costs more than a review may take: the API server would let it pass without its limits.
// What costs is bounded over all policies together, limits hold where the bound was met, and the pod's creator is told.
func TestHostileCost(t *testing.T) {
	t.Parallel()
	terms := func(p *corev1.Pod) {
		required := &corev1.NodeSelector{}
		for i := range 100_000 {
			required.NodeSelectorTerms = append(required.NodeSelectorTerms, corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: zone, Operator: corev1.NodeSelectorOpIn, Values: []string{fmt.Sprint(i)}}}})
		}
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: required}}
	}
	tolerations := func(p *corev1.Pod) { p.Spec.Tolerations = make([]corev1.Toleration, 110_000) }
	tainting := func(f *defaulting.Facts) {
		for i := range 1000 {
			withTaintedNode(fmt.Sprintf("n%d", i), dedicated(corev1.TaintEffectNoSchedule), zone, "a", host, fmt.Sprintf("n%d", i))(f)
		}
	}
	var conditional []*v1alpha1.PodPolicy
	for i := range 60 {
		conditional = append(conditional, PodPolicy(fmt.Sprintf("p%d", i), Allows("low"), Where("object.spec.tolerations.all(t, !has(t.key) || t.key != 'a')")))
	}
	honest := func(c *v1alpha1.TopologySpreadConstraint) { c.NodeTaintsPolicy = new(corev1.NodeInclusionPolicyHonor) }
	for name, tt := range map[string]struct {
		pod      *corev1.Pod
		policies []*v1alpha1.PodPolicy
		warns    string
	}{
		"terms":       {Pod(terms), One(PodPolicy("p", Allows("low"), Spreads(Hard(zone)))), "it was not looked at whether its hard topology spread constraints can be met now"},
		"tolerations": {Pod(tolerations), One(PodPolicy("p", Allows("low"), Spreads(Hard(zone, honest)))), "it was not looked at whether its hard topology spread constraints can be met now"},
		"conditions":  {Pod(tolerations), conditional, "it takes longer than the match conditions of a pod may"},
	} {
		t.Run(name, func(t *testing.T) {
			tt.pod.Spec.PriorityClassName, tt.pod.Spec.Priority = "high", new(int32(high.Value))
			s := scenario{pod: tt.pod, facts: facts(classes(high, low), service("app", "web"), tainting)}
			policies := Compile(t, tt.policies...)
			taken := processor(t)
			effective := defaulting.For(policies, s.request(), Exempt)
			applied := effective.Apply(s.request(), s.facts)
			if took := taken(); took > longest {
				t.Errorf("took %v", took)
			}
			if len(effective.Validate(s.request(), s.facts).Denials) == 0 {
				t.Error("its limit does not hold")
			}
			if !slices.ContainsFunc(append(applied.Warnings, effective.Validate(s.request(), s.facts).Warnings...), func(w defaulting.Warning) bool { return strings.Contains(w.Message, tt.warns) }) {
				t.Errorf("nobody is told: %q", applied.Warnings)
			}
		})
	}
}
