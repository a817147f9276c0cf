package defaulting_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/defaulting"
	"github.com/podgrace/podgrace/policy"
)

// unranked is a pod of a class whose value nobody has written yet, as offline where the class is not known.
func unranked(class string) podOption {
	return func(p *corev1.Pod) {
		p.Spec.PriorityClassName, p.Spec.Priority, p.Spec.PreemptionPolicy = class, nil, nil
	}
}

func partial(f *defaulting.Facts) { f.Partial = true }

func TestApplyByPriority(t *testing.T) {
	t.Parallel()
	short := func(options ...policyOption) *v1alpha1.PodPolicy {
		return podPolicy("short", append(options, maxGrace(20))...)
	}
	lowered := "is now 20, not 60: PodPolicy short: maximum 20 s"
	shortened := setGrace(20)
	testApply(t, []scenario{
		{name: "by name", pod: pod(grace(60), of(low)), policies: one(short(forClasses("batch", "low"))), facts: facts(classes(low)), changes: shortened, warnings: []string{lowered}},
		{name: "another name", pod: pod(grace(60), of(high)), policies: one(short(forClasses("batch", "low"))), facts: facts(classes(high))},
		{name: "no class is none of the names", pod: pod(grace(60)), policies: one(short(forClasses("low")))},
		{name: "in the range, whose ends count", pod: pod(grace(60), of(low)), policies: one(short(ranked(new(low.Value), new(low.Value)))), facts: facts(classes(low)), changes: shortened, warnings: []string{lowered}},
		{name: "below the range", pod: pod(grace(60), of(low)), policies: one(short(ranked(new(low.Value+1), nil))), facts: facts(classes(low))},
		{name: "above the range", pod: pod(grace(60), of(low)), policies: one(short(ranked(nil, new(low.Value-1)))), facts: facts(classes(low))},
		{name: "no class is 0", pod: pod(grace(60)), policies: one(short(ranked(new(int32(0)), new(int32(0))))), changes: shortened, warnings: []string{lowered}},
		{name: "no class is 0, before the in-tree plugin too", pod: pod(bare, grace(60)), policies: one(short(ranked(nil, new(int32(0))))), changes: shortened, warnings: []string{lowered}},
		{name: "both must hold", pod: pod(grace(60), of(low)), policies: one(short(forClasses("low"), ranked(new(int32(11)), nil))), facts: facts(classes(low))},
		{
			name: "the class that a policy gives counts", pod: pod(grace(60)), facts: facts(classes(batch)),
			policies: []*v1alpha1.PodPolicy{podPolicy("ranks", gives("batch")), short(forClasses("batch"))},
			changes:  append(append([]string{}, giveBatch...), shortened...), warnings: []string{lowered},
		},
		{
			name: "and its value", pod: pod(grace(60)), facts: facts(classes(batch)),
			policies: []*v1alpha1.PodPolicy{podPolicy("ranks", gives("batch")), short(ranked(nil, new(int32(-1))))},
			changes:  append(append([]string{}, giveBatch...), shortened...), warnings: []string{lowered},
		},
		{
			name: "not the globalDefault that it takes the place of", pod: pod(grace(60), of(basic)), facts: facts(classes(basic, batch)),
			policies: []*v1alpha1.PodPolicy{podPolicy("ranks", gives("batch")), short(forClasses("basic"))},
			changes:  giveBatch,
		},
		{
			name: "a class that can't be given does not count", pod: pod(grace(60)), facts: facts(classes(low)),
			policies: []*v1alpha1.PodPolicy{podPolicy("ranks", gives("batch")), short(forClasses("batch"))},
			warnings: []string{`PriorityClass "batch" does not exist`},
		},
		{
			name: "nor one that is declined", pod: pod(grace(60), skipping("priority")), facts: facts(classes(batch)),
			policies: []*v1alpha1.PodPolicy{podPolicy("ranks", gives("batch"), permitsSkip(v1alpha1.SectionPriority)), short(forClasses("batch"))},
		},
		{
			name: "its defaults are in the order of weights", pod: pod(of(low)), facts: facts(classes(low)),
			policies: []*v1alpha1.PodPolicy{podPolicy("all", weight(1), defaultGrace(50)), podPolicy("light", forClasses("low"), defaultGrace(40)), podPolicy("heavy", weight(2), forClasses("low"), defaultGrace(45))},
			changes:  setGrace(45),
		},
		{
			name: "offline, of a class that is not known: by name it can be said", pod: pod(grace(60), unranked("far")), facts: facts(classes(), partial),
			policies: one(short(forClasses("far"))), changes: shortened, warnings: []string{lowered},
		},
		{
			name: "by value its limits hold, its defaults do not", pod: pod(grace(60), unranked("far")), facts: facts(classes(), partial),
			policies: one(short(ranked(new(int32(1)), nil), node(cpuWeight(5)))), changes: shortened,
			warnings: []string{`PodPolicy short: its limits hold for this pod, its defaults do not: the value of PriorityClass "far" is not known here`, lowered},
		},
		{
			name: "a condition that fails makes no policy match that is of another class", pod: pod(grace(60), of(high)), facts: facts(classes(high)),
			policies: one(short(forClasses("low"), where("object.metadata.annotations['absent'] == 'x'"))),
		},
		{
			name: "what its constraints depend on is looked up although the class is not known yet, and although the lighter one may be declined", pod: pod(of(low), skipping("topologySpread")), facts: facts(classes(low), service("app", "web")),
			policies: []*v1alpha1.PodPolicy{podPolicy("a", spreads(soft(host)), permitsSkip(v1alpha1.SectionTopologySpread)), podPolicy("b", weight(1), forClasses("low"), spreads(soft(zone)))},
			changes:  []string{`add /spec/topologySpreadConstraints [{"maxSkew":1,"topologyKey":"topology.kubernetes.io/zone","whenUnsatisfiable":"ScheduleAnyway","labelSelector":{"matchLabels":{"app":"web"}}}]`},
			warnings: []string{"PodPolicy b does not permit to skip topologySpread"},
		},
	})
}

func TestValidateByPriority(t *testing.T) {
	t.Parallel()
	policies := []*v1alpha1.PodPolicy{podPolicy("ranks", gives("batch")), podPolicy("short", forClasses("batch"), maxGrace(20))}
	testValidate(t, []scenario{
		{name: "of the class", pod: pod(grace(60), of(batch)), policies: policies, facts: facts(classes(batch)), denials: []string{"GracePeriodOutOfBounds: …is 60 but must be 20 (PodPolicy short"}},
		{name: "of another", pod: pod(grace(60), of(low)), policies: policies, facts: facts(classes(batch, low))},
		{name: "the class was not given, since the mutating webhook was not called: what the pod has counts", pod: pod(grace(60)), policies: policies, facts: facts(classes(batch))},
	})
}

// The policies that hold are known once the class is; what is looked up before that is enough for all that may.
func TestPoliciesAndNeedsByPriority(t *testing.T) {
	t.Parallel()
	policies := compile(t, podPolicy("plain", maxGrace(50)), podPolicy("ranked", forClasses("low"), spreads(hard(zone, minDomains(2)))), podPolicy("other", forClasses("high"), maxGrace(5)))
	s := scenario{pod: pod(of(low)), facts: facts(classes(low, high))}
	effective := defaulting.For(policies, s.request(), ownNamespace)
	if want := (defaulting.Needs{Selectors: true, Nodes: true}); effective.Needs() != want {
		t.Errorf("needs %+v, want %+v", effective.Needs(), want)
	}
	for what, got := range map[string][]string{
		"settled": effective.Settled(s.request(), s.facts).Policies, "applied": effective.Apply(s.request(), s.facts).Policies, "validated": effective.Validate(s.request(), s.facts).Policies,
	} {
		if strings.Join(got, " ") != "plain ranked" {
			t.Errorf("%s: %q hold", what, got)
		}
	}
}

// The schema refuses such a policy; one from elsewhere is not in force.
func TestNoPolicyByPriorityGivesAClass(t *testing.T) {
	t.Parallel()
	for name, section := range map[string]policyOption{"className": gives("high"), "allowedClassNames": allows("high")} {
		c, err := policy.Compile(podPolicy("p", forClasses("low"), section))
		if err == nil || !strings.Contains(err.Error(), "spec.priority: Forbidden: a policy that selects by priority") || c.InForce() != "not in force" {
			t.Errorf("%s: got %v, %s", name, err, c.InForce())
		}
	}
}
