package defaulting_test

import (
	"strings"
	"testing"

	schedulingv1 "k8s.io/api/scheduling/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/defaulting"
	. "github.com/podgrace/podgrace/policy/policytest"
)

var (
	high      = Class("high", 1000)
	low       = Class("low", 10)
	basic     = Class("basic", 100, globalDefault)
	batch     = Class("batch", -5, never)
	quiet     = Class("quiet", 500, silent)
	highest   = Class("highest", 1000000000)
	reserved  = Class("reserved", 1000000001)
	nodeCrit  = Class("system-node-critical", 2000001000)
	giveHigh  = []string{`add /spec/priorityClassName "high"`, `add /spec/priority 1000`, `add /spec/preemptionPolicy "PreemptLowerPriority"`}
	giveBatch = []string{`add /spec/priorityClassName "batch"`, `add /spec/priority -5`, `add /spec/preemptionPolicy "Never"`}
)

func TestApplyPriority(t *testing.T) {
	t.Parallel()
	testApply(t, []scenario{
		{
			name:     "the triple changes together",
			pod:      Pod(),
			policies: One(PodPolicy("web", Gives("batch"))),
			facts:    facts(classes(batch)),
			changes:  giveBatch,
		},
		{
			name:     "a pod that no in-tree plugin has seen, as in offline review",
			pod:      Pod(bare),
			policies: One(PodPolicy("web", Gives("high"))),
			facts:    facts(classes(high)),
			changes:  giveHigh,
		},
		{
			name:     "globalDefault counts as unset",
			pod:      Pod(OfClass(basic)),
			policies: One(PodPolicy("web", Gives("high"))),
			facts:    facts(classes(basic, high)),
			changes:  giveHigh,
		},
		{
			name:     "of several globalDefaults the lowest value is the default",
			pod:      Pod(OfClass(basic)),
			policies: One(PodPolicy("web", Gives("high"))),
			facts:    facts(classes(basic, high, Class("other", 200, globalDefault))),
			changes:  giveHigh,
		},
		{
			name:     "of several globalDefaults a higher one was chosen",
			pod:      Pod(OfClass(Class("other", 200, globalDefault))),
			policies: One(PodPolicy("web", Gives("high"))),
			facts:    facts(classes(basic, high, Class("other", 200, globalDefault))),
		},
		{
			name:     "the policy gives the globalDefault itself",
			pod:      Pod(OfClass(basic)),
			policies: One(PodPolicy("web", Gives("basic"))),
			facts:    facts(classes(basic)),
		},
		{
			name:     "a chosen class stays",
			pod:      Pod(OfClass(low)),
			policies: One(PodPolicy("web", Gives("high"))),
			facts:    facts(classes(low, high)),
		},
		{
			name:     "a chosen class stays even if it does not exist any more",
			pod:      Pod(OfClass(low)),
			policies: One(PodPolicy("web", Gives("high"))),
			facts:    facts(classes(high)),
		},
		{
			name:     "a class of the system that the pod chose stays",
			pod:      Pod(OfClass(nodeCrit)),
			policies: One(PodPolicy("web", Gives("high"))),
			facts:    facts(classes(nodeCrit, high)),
		},
		{
			name:     "nil preemptionPolicy of the class: that of the former class goes",
			pod:      Pod(OfClass(basic)),
			policies: One(PodPolicy("web", Gives("quiet"))),
			facts:    facts(classes(basic, quiet)),
			changes:  []string{`add /spec/priorityClassName "quiet"`, `add /spec/priority 500`, `remove /spec/preemptionPolicy`},
		},
		{
			name:     "nil preemptionPolicy of the class and none in the pod: nothing to remove",
			pod:      Pod(bare),
			policies: One(PodPolicy("web", Gives("quiet"))),
			facts:    facts(classes(quiet)),
			changes:  []string{`add /spec/priorityClassName "quiet"`, `add /spec/priority 500`},
		},
		{
			name:     "unknown class never breaks the pod",
			pod:      Pod(),
			policies: One(PodPolicy("web", Gives("gone"))),
			facts:    facts(classes(high)),
			warnings: []string{`PodPolicy web: PriorityClass "gone" does not exist…keeps`},
		},
		{
			name:     "no classes are known at all, as in offline review: not the same as a class that does not exist",
			pod:      Pod(),
			policies: One(PodPolicy("web", Gives("high"))),
			warnings: []string{`PodPolicy web gives PriorityClass "high", but whether the cluster has it is not known here…keeps`},
		},
		{
			name:     "an unknown class is no lighter policy's turn",
			pod:      Pod(),
			policies: []*v1alpha1.PodPolicy{PodPolicy("a", Weight(2), Gives("gone")), PodPolicy("b", Weight(1), Gives("high"))},
			facts:    facts(classes(high)),
			warnings: []string{`PodPolicy a: PriorityClass "gone"`},
		},
		{
			name:     "the highest value of users is given",
			pod:      Pod(),
			policies: One(PodPolicy("web", Gives("highest"))),
			facts:    facts(classes(highest)),
			changes:  []string{`add /spec/priorityClassName "highest"`, `add /spec/priority 1000000000`, `add /spec/preemptionPolicy "PreemptLowerPriority"`},
		},
		{
			name:     "a value of the system is not given",
			pod:      Pod(),
			policies: One(PodPolicy("web", Gives("reserved"))),
			facts:    facts(classes(reserved)),
			warnings: []string{`PodPolicy web: PriorityClass "reserved"…reserved for the system (1000000001)…keeps`},
		},
		{
			name:     "a heavier policy's class against a lighter one's list",
			pod:      Pod(),
			policies: []*v1alpha1.PodPolicy{PodPolicy("heavy", Weight(9), Gives("high")), PodPolicy("light", Allows("low"))},
			facts:    facts(classes(high, low)),
			warnings: []string{`PodPolicy heavy would give PriorityClass "high", but PodPolicy light does not allow it`},
		},
		{
			name:     "equal weight: the first by name gives the class",
			pod:      Pod(),
			policies: []*v1alpha1.PodPolicy{PodPolicy("b", Gives("low")), PodPolicy("a", Gives("high"))},
			facts:    facts(classes(high, low)),
			changes:  giveHigh,
		},
		{
			name:     "the heaviest that has the section, not the heaviest",
			pod:      Pod(),
			policies: []*v1alpha1.PodPolicy{PodPolicy("a", Weight(9), MaxGrace(60)), PodPolicy("b", Weight(3), Gives("high")), PodPolicy("c", Weight(2), Gives("low"))},
			facts:    facts(classes(high, low)),
			changes:  giveHigh,
		},
		{
			name:     "negative weight",
			pod:      Pod(),
			policies: []*v1alpha1.PodPolicy{PodPolicy("a", Weight(-9), Gives("low")), PodPolicy("b", Weight(-1), Gives("high"))},
			facts:    facts(classes(high, low)),
			changes:  giveHigh,
		},
		{
			name:     "a class that is already the policy's, with a foreign value, is not mended",
			pod:      Pod(OfClass(Class("high", 7))),
			policies: One(PodPolicy("web", Gives("high"))),
			facts:    facts(classes(high)),
		},
	})
}

func TestValidatePriority(t *testing.T) {
	t.Parallel()
	testValidate(t, []scenario{
		{
			name:     "consistent and allowed",
			pod:      Pod(OfClass(high)),
			policies: One(PodPolicy("web", Allows("high", "low"))),
			facts:    facts(classes(high)),
		},
		{
			name:    "another value than the class's",
			pod:     Pod(OfClass(Class("high", 999))),
			facts:   facts(classes(high)),
			denials: []string{`PriorityMismatch: spec.priority is 999 but PriorityClass "high" has value 1000`},
		},
		{
			name:    "no value at all",
			pod:     Pod(OfClass(high), func(p *podT) { p.Spec.Priority = nil }),
			facts:   facts(classes(high)),
			denials: []string{`PriorityMismatch: `},
		},
		{
			name:    "another preemptionPolicy than the class's",
			pod:     Pod(OfClass(Class("batch", -5))),
			facts:   facts(classes(batch)),
			denials: []string{`PreemptionPolicyMismatch: spec.preemptionPolicy is "PreemptLowerPriority" but PriorityClass "batch" says "Never"`},
		},
		{
			name:  "nil preemptionPolicy of the class leaves the pod's alone",
			pod:   Pod(OfClass(Class("quiet", 500, never))),
			facts: facts(classes(quiet)),
		},
		{
			name:     "class deleted between two reviews",
			pod:      Pod(OfClass(high)),
			policies: One(PodPolicy("web", Gives("high"))),
			facts:    facts(classes(low)),
			warnings: []string{`PriorityClass "high" was not found`},
		},
		{
			name:     "class not in the list",
			pod:      Pod(OfClass(high)),
			policies: One(PodPolicy("web", Allows("low", "basic"))),
			facts:    facts(classes(high, low)),
			denials:  []string{`PriorityClassNotAllowed: PriorityClass "high" is not allowed here: PodPolicy web allows basic, low. Name one of these`},
		},
		{
			name:     "no class is allowed under every list",
			pod:      Pod(),
			policies: One(PodPolicy("web", Allows("low"))),
			facts:    facts(classes(low)),
		},
		{
			name:     "a heavier policy without a list does not lift the lighter one's",
			pod:      Pod(OfClass(high)),
			policies: []*v1alpha1.PodPolicy{PodPolicy("heavy", Weight(9), Gives("high")), PodPolicy("light", Allows("low"))},
			facts:    facts(classes(high, low)),
			denials:  []string{`PriorityClassNotAllowed: …PodPolicy light allows low`},
		},
		{
			name:     "lists of several policies: only what is in all",
			pod:      Pod(OfClass(high)),
			policies: []*v1alpha1.PodPolicy{PodPolicy("a", Allows("high", "low")), PodPolicy("b", Allows("low", "basic"))},
			facts:    facts(classes(high, low)),
			denials:  []string{`PriorityClassNotAllowed: …PodPolicies a and b allow low.`},
		},
		{
			name:     "lists that have nothing in common",
			pod:      Pod(OfClass(high)),
			policies: []*v1alpha1.PodPolicy{PodPolicy("a", Allows("high")), PodPolicy("b", Allows("low"))},
			facts:    facts(classes(high, low)),
			denials:  []string{`PriorityClassNotAllowed: …none (the policies' lists have nothing in common)`},
		},
		{
			name:     "the globalDefault is not in the list: the user named nothing and is told so",
			pod:      Pod(OfClass(basic)),
			policies: One(PodPolicy("web", Allows("high"))),
			facts:    facts(classes(basic, high)),
			denials:  []string{`PriorityClassNotAllowed: …(the class is the cluster's globalDefault`},
		},
		{
			name:     "two wrongs are both named",
			pod:      Pod(OfClass(Class("high", 999))),
			policies: One(PodPolicy("web", Allows("low"))),
			facts:    facts(classes(high)),
			denials:  []string{`PriorityClassNotAllowed: `, `PriorityMismatch: `},
		},
	})
}

// Who chose the class is not told of a default of the cluster.
func TestNoHintForAChosenClass(t *testing.T) {
	t.Parallel()
	s := scenario{pod: Pod(OfClass(high)), policies: One(PodPolicy("web", Allows("low"))), facts: facts(classes(basic, high, low))}
	got := defaulting.For(Compile(t, s.policies...), s.request(), Exempt).Validate(s.request(), s.facts)
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
		{name: "the lowest value of several", classes: []*schedulingv1.PriorityClass{Class("a", 7, globalDefault), Class("b", -7, globalDefault), Class("c", 0, globalDefault)}, want: "b"},
		{name: "equal values: the first name", classes: []*schedulingv1.PriorityClass{Class("b", 1, globalDefault), Class("a", 1, globalDefault)}, want: "a"},
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
