package defaulting_test

import (
	"strings"
	"testing"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/defaulting"
	"github.com/podgrace/podgrace/policy"
	. "github.com/podgrace/podgrace/policy/policytest"
)

// TestMatch: whether a policy that sets the grace period to 45 holds for the pod, where that is not for the policy alone to say (policy.Match).
func TestMatch(t *testing.T) {
	t.Parallel()
	matched := setGrace(45)
	gives45 := DefaultGrace(45)
	system := policy.Namespace{Name: "kube-system", Labels: map[string]string{"team": "shop"}}
	own := policy.Namespace{Name: OwnNamespace}
	everyNamespace := func(s *v1alpha1.PodPolicySpec) { Match(s).NamespaceSelector = &v1alpha1.LabelSelector{} }
	testApply(t, []scenario{
		{name: "kube-system", pod: Pod(), namespace: system, policies: One(PodPolicy("p", gives45, InNamespaces("team", "shop")))},
		{name: "Podgrace's own namespace", pod: Pod(), namespace: own, policies: One(PodPolicy("p", gives45))},
		{name: "the pod's own namespace field does not count", pod: Pod(func(p *podT) { p.Namespace = "kube-system" }), policies: One(PodPolicy("p", gives45)), changes: matched},
		{name: "mirror pod", pod: Pod(Mirrored), user: Kubelet, policies: One(PodPolicy("p", gives45))},
		{name: "mirror pod, forged", pod: Pod(Mirrored), policies: One(PodPolicy("p", gives45)), changes: matched},
		{name: "a kubelet's pod that is no mirror pod", pod: Pod(), user: Kubelet, policies: One(PodPolicy("p", gives45)), changes: matched},
		{name: "nothing is removed from a mirror pod", pod: Pod(Mirrored, enforced(weight500)), user: Kubelet},
		{name: "unknown namespace: said", pod: Pod(), namespace: Unknown, policies: One(PodPolicy("p", gives45, InNamespaces("team", "shop"))), warnings: []string{"namespace shop could not be looked up"}},
		{name: "unknown namespace: its labels mean nothing", pod: Pod(), namespace: policy.Namespace{Name: "shop", Labels: map[string]string{"team": "shop"}, Unknown: true}, policies: One(PodPolicy("p", gives45, InNamespaces("team", "shop"))), warnings: []string{"namespace shop could not be looked up"}},
		{name: "unknown namespace: a selector of everything needs no labels", pod: Pod(), namespace: Unknown, policies: One(PodPolicy("p", gives45, everyNamespace)), changes: matched},
		{name: "unknown namespace: nothing to say where no policy asks", pod: Pod(), namespace: Unknown, policies: One(PodPolicy("p", gives45)), changes: matched},
	})
}

// TestConditions: what follows from a condition that fails to evaluate.
func TestConditions(t *testing.T) {
	t.Parallel()
	const fails = `object.metadata.annotations['absent'] == 'x'`
	given := func(expressions ...string) []*v1alpha1.PodPolicy {
		return One(PodPolicy("p", DefaultGrace(45), MaxGrace(60), Where(expressions...)))
	}
	testApply(t, []scenario{
		{name: "true", pod: Pod(), policies: given("object.metadata.labels['app'] == 'web'"), changes: setGrace(45)},
		{name: "error: limits hold, defaults do not", pod: Pod(Grace(90)), policies: given(fails), changes: setGrace(60), warnings: []string{"PodPolicy p: its limits hold for this pod, its defaults do not: a match condition could not be evaluated: c0: no such key: annotations", "is now 60, not 90"}},
		{name: "error: no defaults", pod: Pod(), policies: given(fails), warnings: []string{"PodPolicy p: its limits hold for this pod, its defaults do not"}},
		{name: "error of a heavier policy: the next one gives the default", pod: Pod(), policies: append(given(fails), PodPolicy("q", Weight(-1), DefaultGrace(50))), changes: setGrace(50), warnings: []string{"PodPolicy p: "}},
		{
			name:     "an expression over several lines: the API server would drop a warning with a line break",
			pod:      Pod(),
			policies: given("object.metadata.annotations['absent']\n  == 'x'\n"),
			warnings: []string{"PodPolicy p: its limits hold for this pod, its defaults do not"},
		},
		{
			name:     "the warning about a long expression still says what follows from it",
			pod:      Pod(),
			policies: given(fails + ` || object.metadata.name == '` + strings.Repeat("a", 300) + `'`),
			warnings: []string{"PodPolicy p: its limits hold…defaults do not…c0: no such key"},
		},
		{
			name: "unknown namespace: limits hold", pod: Pod(Grace(90)), namespace: Unknown,
			policies: given("namespaceObject.metadata.?labels['env'].orValue('') == 'prod'"),
			changes:  setGrace(60), warnings: []string{"could not be", "is now 60, not 90"},
		},
	})
}

// TestConditionsOnOwnFields: a condition that reads what Podgrace writes must not undo the decision on the next call.
func TestConditionsOnOwnFields(t *testing.T) {
	t.Parallel()
	for _, expression := range []string{
		"object.spec.terminationGracePeriodSeconds == 30",
		"object.spec.?priorityClassName.orValue('') == ''",
		"!has(object.spec.topologySpreadConstraints)",
		"object.spec['priority'] == 0",
		"object.spec.?preemptionPolicy.orValue('') == 'PreemptLowerPriority'",
		"!('podgrace.dev/enforcement' in object.metadata.?annotations.orValue({}))",
		"!('podgrace.dev/protected' in object.metadata.?annotations.orValue({}))",
		"!has(object.metadata.annotations)",
	} {
		t.Run(expression, func(t *testing.T) {
			t.Parallel()
			p := PodPolicy("p", Where(expression), DefaultGrace(45), Gives("high"), Spreads(Soft(zone)), Node(CPUWeight(500)))
			compiled, err := policy.Compile(p)
			if err != nil {
				return // refused, which is an answer too
			}
			policies := append(Compile(t, PodPolicy("safe", ZeroGrace("", ""))), compiled)
			s := scenario{pod: Pod(OfStatefulSet), facts: facts(classes(high), service("app", "web"))}
			first := defaulting.For(policies, s.request(), policy.Exempt{}).Apply(s.request(), s.facts)
			s.pod = patched(t, s.pod, first.Changes)
			if second := defaulting.For(policies, s.request(), policy.Exempt{}).Apply(s.request(), s.facts); len(second.Changes) > 0 {
				t.Errorf("reinvoked: changes %q", render(t, second.Changes))
			}
			if final := defaulting.For(policies, s.request(), policy.Exempt{}).Validate(s.request(), s.facts); len(final.Denials) > 0 {
				t.Errorf("the pod that we made is refused: %+v", final.Denials)
			}
		})
	}
}

func TestSkip(t *testing.T) {
	t.Parallel()
	all := []v1alpha1.Section{v1alpha1.SectionPriority, v1alpha1.SectionTopologySpread, v1alpha1.SectionGracePeriod}
	everything := func(more ...PolicyOption) []*v1alpha1.PodPolicy {
		return One(PodPolicy("p", append([]PolicyOption{Gives("high"), Spreads(Soft(zone)), DefaultGrace(45)}, more...)...))
	}
	known := facts(classes(high), service("app", "web"))
	spread, stop := addSpread+`[`+softZone+byApp+`}]`, setGrace(45)[0]
	testApply(t, []scenario{
		{name: "all, permitted", pod: Pod(skipping("priority,topologySpread,gracePeriod")), policies: everything(AllowsSkip(all...)), facts: known},
		{name: "spaces, empty parts and repetitions", pod: Pod(skipping(" gracePeriod , ,priority,,priority")), policies: everything(AllowsSkip(all...)), facts: known, changes: []string{spread}},
		{name: "not permitted", pod: Pod(skipping("gracePeriod")), policies: everything(AllowsSkip(all[0])), facts: known, changes: []string{giveHigh[0], giveHigh[1], giveHigh[2], spread, stop}, warnings: []string{"annotation podgrace.dev/skip: PodPolicy p does not permit to skip gracePeriod (allowSkip)"}},
		{name: "unknown word", pod: Pod(skipping("graceperiod")), policies: everything(AllowsSkip(all...)), facts: known, changes: []string{giveHigh[0], giveHigh[1], giveHigh[2], spread, stop}, warnings: []string{`annotation podgrace.dev/skip: …"graceperiod"…ignored`}},
		{name: "of many unknown words five are named", pod: Pod(skipping("a,b,c,d,e,f,g")), warnings: []string{`not "a", "b", "c", "d", "e": ignored`}},
		{name: "node can't be skipped", pod: Pod(skipping("node")), warnings: []string{`"node"`}},
		{name: "nothing to skip", pod: Pod(skipping("gracePeriod"))},
		{name: "empty", pod: Pod(skipping("")), policies: everything(), facts: known, changes: []string{giveHigh[0], giveHigh[1], giveHigh[2], spread, stop}},
		{name: "a wanted globalDefault stays by skip", pod: Pod(OfClass(basic), skipping("priority")), policies: One(PodPolicy("p", Gives("high"), AllowsSkip(all...))), facts: facts(classes(basic, high))},
		{name: "only the policy that gives the default may permit it", pod: Pod(skipping("gracePeriod")), policies: []*v1alpha1.PodPolicy{PodPolicy("a", Weight(1), DefaultGrace(45)), PodPolicy("b", DefaultGrace(50), AllowsSkip(all...))}, changes: []string{stop}, warnings: []string{"PodPolicy a does not permit"}},
		{name: "limits can't be skipped", pod: Pod(skipping("gracePeriod")), policies: One(PodPolicy("p", DefaultGrace(45), MinGrace(40), AllowsSkip(all...))), changes: setGrace(40), warnings: []string{"is now 40, not 30"}},
	})
}

func TestValidateIsSilentAboutExcludedPods(t *testing.T) {
	t.Parallel()
	limits := One(PodPolicy("p", MaxGrace(10), Allows("low"), Node(CPUWeight(500)), ZeroGrace(v1alpha1.ProtectAll, v1alpha1.ZeroGraceDeny)))
	known := facts(classes(high))
	testValidate(t, []scenario{
		{name: "kube-system", pod: Pod(OfClass(high), Grace(0)), namespace: policy.Namespace{Name: "kube-system"}, policies: limits, facts: known},
		{name: "own namespace", pod: Pod(OfClass(high), Grace(0)), namespace: policy.Namespace{Name: OwnNamespace}, policies: limits, facts: known},
		{name: "mirror pod", pod: Pod(OfClass(high), Mirrored), user: Kubelet, policies: limits, facts: known},
		{name: "mirror pod, forged", pod: Pod(OfClass(high), Mirrored), policies: limits, facts: known, warnings: []string{"missing"}, denials: []string{"PriorityClassNotAllowed: ", "GracePeriodOutOfBounds: "}},
	})
}

func TestNoOwnNamespace(t *testing.T) {
	t.Parallel()
	s := scenario{pod: Pod(), namespace: policy.Namespace{Name: "x"}}
	if e := defaulting.For(Compile(t, PodPolicy("p", DefaultGrace(45))), s.request(), policy.Exempt{}); e.Excluded || len(e.Policies) != 1 {
		t.Errorf("no own namespace excludes nothing: %+v", e)
	}
	s.namespace = policy.Namespace{}
	if e := defaulting.For(Compile(t, PodPolicy("p", DefaultGrace(45))), policy.Request{Pod: s.pod}, policy.Exempt{}); e.Excluded {
		t.Error("an empty namespace is not Podgrace's own where it has none")
	}
}
