package defaulting_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/defaulting"
	"github.com/podgrace/podgrace/policy"
	. "github.com/podgrace/podgrace/policy/policytest"
)

// unranked is a pod of a class whose value nobody has written yet, as offline where the class is not known.
func unranked(class string) PodOption {
	return func(p *corev1.Pod) {
		p.Spec.PriorityClassName, p.Spec.Priority, p.Spec.PreemptionPolicy = class, nil, nil
	}
}

func partial(f *defaulting.Facts) { f.Partial = true }

func TestApplyByPriority(t *testing.T) {
	t.Parallel()
	short := func(options ...PolicyOption) *v1alpha1.PodPolicy {
		return PodPolicy("short", append(options, MaxGrace(20))...)
	}
	lowered := "is now 20, not 60: PodPolicy short: maximum 20 s"
	shortened := setGrace(20)
	testApply(t, []scenario{
		{name: "by name", pod: Pod(Grace(60), OfClass(low)), policies: One(short(ForClasses("batch", "low"))), facts: facts(classes(low)), changes: shortened, warnings: []string{lowered}},
		{name: "another name", pod: Pod(Grace(60), OfClass(high)), policies: One(short(ForClasses("batch", "low"))), facts: facts(classes(high))},
		{name: "no class is none of the names", pod: Pod(Grace(60)), policies: One(short(ForClasses("low")))},
		{name: "in the range, whose ends count", pod: Pod(Grace(60), OfClass(low)), policies: One(short(ForPriorities(new(low.Value), new(low.Value)))), facts: facts(classes(low)), changes: shortened, warnings: []string{lowered}},
		{name: "below the range", pod: Pod(Grace(60), OfClass(low)), policies: One(short(ForPriorities(new(low.Value+1), nil))), facts: facts(classes(low))},
		{name: "above the range", pod: Pod(Grace(60), OfClass(low)), policies: One(short(ForPriorities(nil, new(low.Value-1)))), facts: facts(classes(low))},
		{name: "no class is 0", pod: Pod(Grace(60)), policies: One(short(ForPriorities(new(int32(0)), new(int32(0))))), changes: shortened, warnings: []string{lowered}},
		{name: "no class is 0, before the in-tree plugin too", pod: Pod(bare, Grace(60)), policies: One(short(ForPriorities(nil, new(int32(0))))), changes: shortened, warnings: []string{lowered}},
		{name: "both must hold", pod: Pod(Grace(60), OfClass(low)), policies: One(short(ForClasses("low"), ForPriorities(new(int32(11)), nil))), facts: facts(classes(low))},
		{
			name: "the class that a policy gives counts", pod: Pod(Grace(60)), facts: facts(classes(batch)),
			policies: []*v1alpha1.PodPolicy{PodPolicy("ranks", Gives("batch")), short(ForClasses("batch"))},
			changes:  append(append([]string{}, giveBatch...), shortened...), warnings: []string{lowered},
		},
		{
			name: "and its value", pod: Pod(Grace(60)), facts: facts(classes(batch)),
			policies: []*v1alpha1.PodPolicy{PodPolicy("ranks", Gives("batch")), short(ForPriorities(nil, new(int32(-1))))},
			changes:  append(append([]string{}, giveBatch...), shortened...), warnings: []string{lowered},
		},
		{
			name: "not the globalDefault that it takes the place of", pod: Pod(Grace(60), OfClass(basic)), facts: facts(classes(basic, batch)),
			policies: []*v1alpha1.PodPolicy{PodPolicy("ranks", Gives("batch")), short(ForClasses("basic"))},
			changes:  giveBatch,
		},
		{
			name: "a class that can't be given does not count", pod: Pod(Grace(60)), facts: facts(classes(low)),
			policies: []*v1alpha1.PodPolicy{PodPolicy("ranks", Gives("batch")), short(ForClasses("batch"))},
			warnings: []string{`PriorityClass "batch" does not exist`},
		},
		{
			name: "nor one that is declined", pod: Pod(Grace(60), skipping("priority")), facts: facts(classes(batch)),
			policies: []*v1alpha1.PodPolicy{PodPolicy("ranks", Gives("batch"), AllowsSkip(v1alpha1.SectionPriority)), short(ForClasses("batch"))},
		},
		{
			name: "its defaults are in the order of weights", pod: Pod(OfClass(low)), facts: facts(classes(low)),
			policies: []*v1alpha1.PodPolicy{PodPolicy("all", Weight(1), DefaultGrace(50)), PodPolicy("light", ForClasses("low"), DefaultGrace(40)), PodPolicy("heavy", Weight(2), ForClasses("low"), DefaultGrace(45))},
			changes:  setGrace(45),
		},
		{
			name: "offline, of a class that is not known: by name it can be said", pod: Pod(Grace(60), unranked("far")), facts: facts(classes(), partial),
			policies: One(short(ForClasses("far"))), changes: shortened, warnings: []string{lowered},
		},
		{
			name: "by value its limits hold, its defaults do not", pod: Pod(Grace(60), unranked("far")), facts: facts(classes(), partial),
			policies: One(short(ForPriorities(new(int32(1)), nil), Node(CPUWeight(5)))), changes: shortened,
			warnings: []string{`PodPolicy short: its limits hold for this pod, its defaults do not: the value of PriorityClass "far" is not known here`, lowered},
		},
		{
			name: "a condition that fails makes no policy match that is of another class", pod: Pod(Grace(60), OfClass(high)), facts: facts(classes(high)),
			policies: One(short(ForClasses("low"), Where("object.metadata.annotations['absent'] == 'x'"))),
		},
		{
			name: "what its constraints depend on is looked up although the class is not known yet, and although the lighter one may be declined", pod: Pod(OfClass(low), skipping("topologySpread")), facts: facts(classes(low), service("app", "web")),
			policies: []*v1alpha1.PodPolicy{PodPolicy("a", Spreads(Soft(host)), AllowsSkip(v1alpha1.SectionTopologySpread)), PodPolicy("b", Weight(1), ForClasses("low"), Spreads(Soft(zone)))},
			changes:  []string{`add /spec/topologySpreadConstraints [{"maxSkew":1,"topologyKey":"topology.kubernetes.io/zone","whenUnsatisfiable":"ScheduleAnyway","labelSelector":{"matchLabels":{"app":"web"}}}]`},
			warnings: []string{"PodPolicy b does not permit to skip topologySpread"},
		},
	})
}

func TestValidateByPriority(t *testing.T) {
	t.Parallel()
	policies := []*v1alpha1.PodPolicy{PodPolicy("ranks", Gives("batch")), PodPolicy("short", ForClasses("batch"), MaxGrace(20))}
	testValidate(t, []scenario{
		{name: "of the class", pod: Pod(Grace(60), OfClass(batch)), policies: policies, facts: facts(classes(batch)), denials: []string{"GracePeriodOutOfBounds: …is 60 but must be 20 (PodPolicy short"}},
		{name: "of another", pod: Pod(Grace(60), OfClass(low)), policies: policies, facts: facts(classes(batch, low))},
		{name: "the class was not given, since the mutating webhook was not called: what the pod has counts", pod: Pod(Grace(60)), policies: policies, facts: facts(classes(batch))},
	})
}

// The policies that hold are known once the class is; what is looked up before that is enough for all that may.
func TestPoliciesAndNeedsByPriority(t *testing.T) {
	t.Parallel()
	policies := Compile(t, PodPolicy("plain", MaxGrace(50)), PodPolicy("ranked", ForClasses("low"), Spreads(Hard(zone, MinDomains(2)))), PodPolicy("other", ForClasses("high"), MaxGrace(5)))
	s := scenario{pod: Pod(OfClass(low)), facts: facts(classes(low, high))}
	effective := defaulting.For(policies, s.request(), Exempt)
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
	for name, section := range map[string]PolicyOption{"className": Gives("high"), "allowedClassNames": Allows("high")} {
		c, err := policy.Compile(PodPolicy("p", ForClasses("low"), section))
		if err == nil || !strings.Contains(err.Error(), "spec.priority: Forbidden: a policy that selects by priority") || c.InForce() != "not in force: its defaults and limits on pods do not hold" {
			t.Errorf("%s: got %v, %s", name, err, c.InForce())
		}
	}
}
