package defaulting_test

import (
	"strings"
	"testing"

	schedulingv1 "k8s.io/api/scheduling/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/defaulting"
)

var (
	high      = class("high", 1000)
	low       = class("low", 10)
	basic     = class("basic", 100, globalDefault)
	batch     = class("batch", -5, never)
	quiet     = class("quiet", 500, silent)
	highest   = class("highest", 1000000000)
	reserved  = class("reserved", 1000000001)
	nodeCrit  = class("system-node-critical", 2000001000)
	giveHigh  = []string{`add /spec/priorityClassName "high"`, `add /spec/priority 1000`, `add /spec/preemptionPolicy "PreemptLowerPriority"`}
	giveBatch = []string{`add /spec/priorityClassName "batch"`, `add /spec/priority -5`, `add /spec/preemptionPolicy "Never"`}
)

func one(p *v1alpha1.PodPolicy) []*v1alpha1.PodPolicy { return []*v1alpha1.PodPolicy{p} }

func TestApplyPriority(t *testing.T) {
	t.Parallel()
	testApply(t, []scenario{
		{
			name:     "the triple changes together",
			pod:      pod(),
			policies: one(podPolicy("web", gives("batch"))),
			facts:    facts(classes(batch)),
			changes:  giveBatch,
		},
		{
			name:     "a pod that no in-tree plugin has seen, as in offline review",
			pod:      pod(bare),
			policies: one(podPolicy("web", gives("high"))),
			facts:    facts(classes(high)),
			changes:  giveHigh,
		},
		{
			name:     "globalDefault counts as unset",
			pod:      pod(of(basic)),
			policies: one(podPolicy("web", gives("high"))),
			facts:    facts(classes(basic, high)),
			changes:  giveHigh,
		},
		{
			name:     "of several globalDefaults the lowest value is the default",
			pod:      pod(of(basic)),
			policies: one(podPolicy("web", gives("high"))),
			facts:    facts(classes(basic, high, class("other", 200, globalDefault))),
			changes:  giveHigh,
		},
		{
			name:     "of several globalDefaults a higher one was chosen",
			pod:      pod(of(class("other", 200, globalDefault))),
			policies: one(podPolicy("web", gives("high"))),
			facts:    facts(classes(basic, high, class("other", 200, globalDefault))),
		},
		{
			name:     "the policy gives the globalDefault itself",
			pod:      pod(of(basic)),
			policies: one(podPolicy("web", gives("basic"))),
			facts:    facts(classes(basic)),
		},
		{
			name:     "a chosen class stays",
			pod:      pod(of(low)),
			policies: one(podPolicy("web", gives("high"))),
			facts:    facts(classes(low, high)),
		},
		{
			name:     "a chosen class stays even if it does not exist any more",
			pod:      pod(of(low)),
			policies: one(podPolicy("web", gives("high"))),
			facts:    facts(classes(high)),
		},
		{
			name:     "a class of the system that the pod chose stays",
			pod:      pod(of(nodeCrit)),
			policies: one(podPolicy("web", gives("high"))),
			facts:    facts(classes(nodeCrit, high)),
		},
		{
			name:     "nil preemptionPolicy of the class: that of the former class goes",
			pod:      pod(of(basic)),
			policies: one(podPolicy("web", gives("quiet"))),
			facts:    facts(classes(basic, quiet)),
			changes:  []string{`add /spec/priorityClassName "quiet"`, `add /spec/priority 500`, `remove /spec/preemptionPolicy`},
		},
		{
			name:     "nil preemptionPolicy of the class and none in the pod: nothing to remove",
			pod:      pod(bare),
			policies: one(podPolicy("web", gives("quiet"))),
			facts:    facts(classes(quiet)),
			changes:  []string{`add /spec/priorityClassName "quiet"`, `add /spec/priority 500`},
		},
		{
			name:     "unknown class never breaks the pod",
			pod:      pod(),
			policies: one(podPolicy("web", gives("gone"))),
			facts:    facts(classes(high)),
			warnings: []string{`PodPolicy web: PriorityClass "gone" does not exist…keeps`},
		},
		{
			name:     "no classes are known at all, as in offline review: not the same as a class that does not exist",
			pod:      pod(),
			policies: one(podPolicy("web", gives("high"))),
			warnings: []string{`PodPolicy web gives PriorityClass "high", but whether the cluster has it is not known here…keeps`},
		},
		{
			name:     "an unknown class is no lighter policy's turn",
			pod:      pod(),
			policies: []*v1alpha1.PodPolicy{podPolicy("a", weight(2), gives("gone")), podPolicy("b", weight(1), gives("high"))},
			facts:    facts(classes(high)),
			warnings: []string{`PodPolicy a: PriorityClass "gone"`},
		},
		{
			name:     "the highest value of users is given",
			pod:      pod(),
			policies: one(podPolicy("web", gives("highest"))),
			facts:    facts(classes(highest)),
			changes:  []string{`add /spec/priorityClassName "highest"`, `add /spec/priority 1000000000`, `add /spec/preemptionPolicy "PreemptLowerPriority"`},
		},
		{
			name:     "a value of the system is not given",
			pod:      pod(),
			policies: one(podPolicy("web", gives("reserved"))),
			facts:    facts(classes(reserved)),
			warnings: []string{`PodPolicy web: PriorityClass "reserved"…reserved for the system (1000000001)…keeps`},
		},
		{
			name:     "a heavier policy's class against a lighter one's list",
			pod:      pod(),
			policies: []*v1alpha1.PodPolicy{podPolicy("heavy", weight(9), gives("high")), podPolicy("light", allows("low"))},
			facts:    facts(classes(high, low)),
			warnings: []string{`PodPolicy heavy would give PriorityClass "high", but PodPolicy light does not allow it`},
		},
		{
			name:     "equal weight: the first by name gives the class",
			pod:      pod(),
			policies: []*v1alpha1.PodPolicy{podPolicy("b", gives("low")), podPolicy("a", gives("high"))},
			facts:    facts(classes(high, low)),
			changes:  giveHigh,
		},
		{
			name:     "the heaviest that has the section, not the heaviest",
			pod:      pod(),
			policies: []*v1alpha1.PodPolicy{podPolicy("a", weight(9), maxGrace(60)), podPolicy("b", weight(3), gives("high")), podPolicy("c", weight(2), gives("low"))},
			facts:    facts(classes(high, low)),
			changes:  giveHigh,
		},
		{
			name:     "negative weight",
			pod:      pod(),
			policies: []*v1alpha1.PodPolicy{podPolicy("a", weight(-9), gives("low")), podPolicy("b", weight(-1), gives("high"))},
			facts:    facts(classes(high, low)),
			changes:  giveHigh,
		},
		{
			name:     "a class that is already the policy's, with a foreign value, is not mended",
			pod:      pod(of(class("high", 7))),
			policies: one(podPolicy("web", gives("high"))),
			facts:    facts(classes(high)),
		},
	})
}

func TestValidatePriority(t *testing.T) {
	t.Parallel()
	testValidate(t, []scenario{
		{
			name:     "consistent and allowed",
			pod:      pod(of(high)),
			policies: one(podPolicy("web", allows("high", "low"))),
			facts:    facts(classes(high)),
		},
		{
			name:    "another value than the class's",
			pod:     pod(of(class("high", 999))),
			facts:   facts(classes(high)),
			denials: []string{`PriorityMismatch: spec.priority is 999 but PriorityClass "high" has value 1000`},
		},
		{
			name:    "no value at all",
			pod:     pod(of(high), func(p *podT) { p.Spec.Priority = nil }),
			facts:   facts(classes(high)),
			denials: []string{`PriorityMismatch: `},
		},
		{
			name:    "another preemptionPolicy than the class's",
			pod:     pod(of(class("batch", -5))),
			facts:   facts(classes(batch)),
			denials: []string{`PreemptionPolicyMismatch: spec.preemptionPolicy is "PreemptLowerPriority" but PriorityClass "batch" says "Never"`},
		},
		{
			name:  "nil preemptionPolicy of the class leaves the pod's alone",
			pod:   pod(of(class("quiet", 500, never))),
			facts: facts(classes(quiet)),
		},
		{
			name:     "class deleted between two reviews",
			pod:      pod(of(high)),
			policies: one(podPolicy("web", gives("high"))),
			facts:    facts(classes(low)),
			warnings: []string{`PriorityClass "high" was not found`},
		},
		{
			name:     "class not in the list",
			pod:      pod(of(high)),
			policies: one(podPolicy("web", allows("low", "basic"))),
			facts:    facts(classes(high, low)),
			denials:  []string{`PriorityClassNotAllowed: PriorityClass "high" is not allowed here: PodPolicy web allows basic, low. Name one of these`},
		},
		{
			name:     "no class is allowed under every list",
			pod:      pod(),
			policies: one(podPolicy("web", allows("low"))),
			facts:    facts(classes(low)),
		},
		{
			name:     "a heavier policy without a list does not lift the lighter one's",
			pod:      pod(of(high)),
			policies: []*v1alpha1.PodPolicy{podPolicy("heavy", weight(9), gives("high")), podPolicy("light", allows("low"))},
			facts:    facts(classes(high, low)),
			denials:  []string{`PriorityClassNotAllowed: …PodPolicy light allows low`},
		},
		{
			name:     "lists of several policies: only what is in all",
			pod:      pod(of(high)),
			policies: []*v1alpha1.PodPolicy{podPolicy("a", allows("high", "low")), podPolicy("b", allows("low", "basic"))},
			facts:    facts(classes(high, low)),
			denials:  []string{`PriorityClassNotAllowed: …PodPolicies a and b allow low.`},
		},
		{
			name:     "lists that have nothing in common",
			pod:      pod(of(high)),
			policies: []*v1alpha1.PodPolicy{podPolicy("a", allows("high")), podPolicy("b", allows("low"))},
			facts:    facts(classes(high, low)),
			denials:  []string{`PriorityClassNotAllowed: …none (the policies' lists have nothing in common)`},
		},
		{
			name:     "the globalDefault is not in the list: the user named nothing and is told so",
			pod:      pod(of(basic)),
			policies: one(podPolicy("web", allows("high"))),
			facts:    facts(classes(basic, high)),
			denials:  []string{`PriorityClassNotAllowed: …(the class is the cluster's globalDefault`},
		},
		{
			name:     "two wrongs are both named",
			pod:      pod(of(class("high", 999))),
			policies: one(podPolicy("web", allows("low"))),
			facts:    facts(classes(high)),
			denials:  []string{`PriorityClassNotAllowed: `, `PriorityMismatch: `},
		},
	})
}

// Who chose the class is not told of a default of the cluster.
func TestNoHintForAChosenClass(t *testing.T) {
	t.Parallel()
	s := scenario{pod: pod(of(high)), policies: one(podPolicy("web", allows("low"))), facts: facts(classes(basic, high, low))}
	got := defaulting.For(compile(t, s.policies...), s.request(), ownNamespace).Validate(s.request(), s.facts)
	if len(got.Denials) != 1 || !strings.HasSuffix(got.Denials[0].Message, "or ask the owner of the policy") {
		t.Errorf("got %+v", got.Denials)
	}
}

func TestGlobalDefaultOf(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		classes []*schedulingv1.PriorityClass
		want    string
	}{
		{name: "no classes"},
		{name: "none marked", classes: []*schedulingv1.PriorityClass{high, low}},
		{name: "one marked", classes: []*schedulingv1.PriorityClass{high, basic}, want: "basic"},
		{name: "the lowest value of several", classes: []*schedulingv1.PriorityClass{class("a", 7, globalDefault), class("b", -7, globalDefault), class("c", 0, globalDefault)}, want: "b"},
		{name: "equal values: the first name", classes: []*schedulingv1.PriorityClass{class("b", 1, globalDefault), class("a", 1, globalDefault)}, want: "a"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var name string
			f := facts(classes(tt.classes...))
			if c := defaulting.GlobalDefaultOf(f.PriorityClasses); c != nil {
				name = c.Name
			}
			if name != tt.want {
				t.Errorf("got %q, want %q", name, tt.want)
			}
		})
	}
}
