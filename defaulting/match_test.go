package defaulting_test

import (
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/defaulting"
	"github.com/podgrace/podgrace/policy"
)

// TestMatch: whether a policy that sets the grace period to 45 is for the pod.
func TestMatch(t *testing.T) {
	t.Parallel()
	matched := setGrace(45)
	gives45 := defaultGrace(45)
	system := policy.Namespace{Name: "kube-system", Labels: map[string]string{"team": "shop"}}
	own := policy.Namespace{Name: ownNamespace}
	unknown := policy.Namespace{Name: "shop", Unknown: true}
	everyNamespace := func(s *v1alpha1.PodPolicySpec) { match(s).NamespaceSelector = &v1alpha1.LabelSelector{} }
	testApply(t, []scenario{
		{name: "no match: every pod", pod: pod(), policies: one(podPolicy("p", gives45)), changes: matched},
		{name: "empty match: every pod", pod: pod(), policies: one(podPolicy("p", gives45, func(s *v1alpha1.PodPolicySpec) { match(s) })), changes: matched},
		{name: "kube-system", pod: pod(), namespace: system, policies: one(podPolicy("p", gives45, inNamespaces("team", "shop")))},
		{name: "Podgrace's own namespace", pod: pod(), namespace: own, policies: one(podPolicy("p", gives45))},
		{name: "the pod's own namespace field does not count", pod: pod(func(p *podT) { p.Namespace = "kube-system" }), policies: one(podPolicy("p", gives45)), changes: matched},
		{name: "mirror pod", pod: pod(mirrored), user: kubelet, policies: one(podPolicy("p", gives45))},
		{name: "mirror pod, forged", pod: pod(mirrored), policies: one(podPolicy("p", gives45)), changes: matched},
		{name: "a kubelet's pod that is no mirror pod", pod: pod(), user: kubelet, policies: one(podPolicy("p", gives45)), changes: matched},
		{name: "nothing is removed from a mirror pod", pod: pod(mirrored, enforced(weight500)), user: kubelet},
		{name: "namespace labels", pod: pod(), policies: one(podPolicy("p", gives45, inNamespaces("team", "shop"))), changes: matched},
		{name: "other namespace labels", pod: pod(), policies: one(podPolicy("p", gives45, inNamespaces("team", "bank")))},
		{name: "unknown namespace: said", pod: pod(), namespace: unknown, policies: one(podPolicy("p", gives45, inNamespaces("team", "shop"))), warnings: []string{"namespace shop could not be looked up"}},
		{name: "unknown namespace: its labels mean nothing", pod: pod(), namespace: policy.Namespace{Name: "shop", Labels: map[string]string{"team": "shop"}, Unknown: true}, policies: one(podPolicy("p", gives45, inNamespaces("team", "shop"))), warnings: []string{"namespace shop could not be looked up"}},
		{name: "unknown namespace: a selector of everything needs no labels", pod: pod(), namespace: unknown, policies: one(podPolicy("p", gives45, everyNamespace)), changes: matched},
		{name: "unknown namespace: nothing to say where no policy asks", pod: pod(), namespace: unknown, policies: one(podPolicy("p", gives45)), changes: matched},
		{name: "pod labels", pod: pod(), policies: one(podPolicy("p", gives45, forPods("app", "web"))), changes: matched},
		{name: "other pod labels", pod: pod(), policies: one(podPolicy("p", gives45, forPods("app", "db")))},
		{name: "owner kind", pod: pod(ofJob), policies: one(podPolicy("p", gives45, forOwners("ReplicaSet", "Job"))), changes: matched},
		{name: "other owner kind", pod: pod(ofJob), policies: one(podPolicy("p", gives45, forOwners("ReplicaSet")))},
		{name: "no owner is None", pod: pod(), policies: one(podPolicy("p", gives45, forOwners(v1alpha1.OwnerKindNone))), changes: matched},
		{name: "an owner is not None", pod: pod(ofJob), policies: one(podPolicy("p", gives45, forOwners(v1alpha1.OwnerKindNone)))},
		{name: "all of the fields", pod: pod(), policies: one(podPolicy("p", gives45, inNamespaces("team", "shop"), forPods("app", "web"), forOwners("Job"), where("true")))},
	})
}

func TestConditions(t *testing.T) {
	t.Parallel()
	matched := setGrace(45)
	const fails = `object.metadata.annotations['absent'] == 'x'`
	unknown := policy.Namespace{Name: "shop", Unknown: true}
	given := func(expressions ...string) []*v1alpha1.PodPolicy {
		return one(podPolicy("p", defaultGrace(45), maxGrace(60), where(expressions...)))
	}
	testApply(t, []scenario{
		{name: "true", pod: pod(), policies: given("object.metadata.labels['app'] == 'web'"), changes: matched},
		{name: "false", pod: pod(grace(90)), policies: given("object.metadata.labels['app'] == 'db'")},
		{name: "all must be true", pod: pod(grace(90)), policies: given("true", "false", "true")},
		{name: "error: limits hold, defaults do not", pod: pod(grace(90)), policies: given(fails), changes: setGrace(60), warnings: []string{"PodPolicy p: its limits hold for this pod, its defaults do not: a match condition could not be evaluated: c0: no such key: annotations", "is now 60, not 90"}},
		{name: "error: no defaults", pod: pod(), policies: given(fails), warnings: []string{"PodPolicy p: its limits hold for this pod, its defaults do not"}},
		{name: "false decides, whatever fails before or after", pod: pod(grace(90)), policies: given(fails, "false", fails)},
		{name: "an error after an error is no false", pod: pod(grace(90)), policies: given(fails, fails), changes: setGrace(60), warnings: []string{"c0: ", "is now 60, not 90"}},
		{name: "true does not make up for an error", pod: pod(), policies: given("true", fails), warnings: []string{"c1: "}},
		{name: "error of a heavier policy: the next one gives the default", pod: pod(), policies: append(given(fails), podPolicy("q", weight(-1), defaultGrace(50))), changes: setGrace(50), warnings: []string{"PodPolicy p: "}},
		{
			name:     "an expression over several lines: the API server would drop a warning with a line break",
			pod:      pod(),
			policies: given("object.metadata.annotations['absent']\n  == 'x'\n"),
			warnings: []string{"PodPolicy p: its limits hold for this pod, its defaults do not"},
		},
		{
			name:     "the warning about a long expression still says what follows from it",
			pod:      pod(),
			policies: given(fails + ` || object.metadata.name == '` + strings.Repeat("a", 300) + `'`),
			warnings: []string{"PodPolicy p: its limits hold…defaults do not…c0: no such key"},
		},
		{
			name: "cost: an expression that would run for long is stopped, which is an error",
			pod: pod(func(p *podT) {
				for range 200 {
					p.Spec.Containers = append(p.Spec.Containers, p.Spec.Containers[0])
				}
			}),
			policies: given("object.spec.containers.all(a, object.spec.containers.all(b, object.spec.containers.all(c, a.name == b.name && b.name == c.name)))"),
			warnings: []string{"PodPolicy p: its limits hold…it takes longer than the match conditions of a pod may"},
		},
		{name: "request", pod: pod(), policies: given("request.userInfo.username == 'alice' && request.operation == 'CREATE' && request.namespace == 'shop' && !request.dryRun && request.kind.kind == 'Pod' && request.kind.version == 'v1' && request.resource.resource == 'pods' && request.resource.version == 'v1'"), changes: matched},
		{name: "namespaceObject", pod: pod(), policies: given("namespaceObject.metadata.name == 'shop' && namespaceObject.metadata.labels['team'] == 'shop'"), changes: matched},
		{name: "oldObject is null at creation", pod: pod(), policies: given("oldObject == null"), changes: matched},
		{name: "object.kind of a pod that came typed, as in the API server", pod: pod(func(p *podT) { p.TypeMeta = metav1.TypeMeta{} }), policies: given("object.kind == 'Pod' && object.apiVersion == 'v1'"), changes: matched},
		{
			name: "unknown namespace: an absent label proves nothing", pod: pod(), namespace: unknown,
			policies: given("!('tenant' in namespaceObject.metadata.?labels.orValue({}))"),
			warnings: []string{"could not be"},
		},
		{
			name: "unknown namespace: limits hold", pod: pod(grace(90)), namespace: unknown,
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
			p := podPolicy("p", where(expression), defaultGrace(45), gives("high"), spreads(soft(zone)), node(cpuWeight(500)))
			compiled, err := policy.Compile(p)
			if err != nil {
				return // refused, which is an answer too
			}
			policies := append(compile(t, podPolicy("safe", removal("", ""))), compiled)
			s := scenario{pod: pod(ofStatefulSet), facts: facts(classes(high), service("app", "web"))}
			first := defaulting.For(policies, s.request(), "").Apply(s.request(), s.facts)
			s.pod = patched(t, s.pod, first.Changes)
			if second := defaulting.For(policies, s.request(), "").Apply(s.request(), s.facts); len(second.Changes) > 0 {
				t.Errorf("reinvoked: changes %q", render(t, second.Changes))
			}
			if final := defaulting.For(policies, s.request(), "").Validate(s.request(), s.facts); len(final.Denials) > 0 {
				t.Errorf("the pod that we made is refused: %+v", final.Denials)
			}
		})
	}
}

func TestSkip(t *testing.T) {
	t.Parallel()
	all := []v1alpha1.Section{v1alpha1.SectionPriority, v1alpha1.SectionTopologySpread, v1alpha1.SectionGracePeriod}
	everything := func(more ...policyOption) []*v1alpha1.PodPolicy {
		return one(podPolicy("p", append([]policyOption{gives("high"), spreads(soft(zone)), defaultGrace(45)}, more...)...))
	}
	known := facts(classes(high), service("app", "web"))
	spread, stop := addSpread+`[`+softZone+byApp+`}]`, setGrace(45)[0]
	testApply(t, []scenario{
		{name: "all, permitted", pod: pod(skipping("priority,topologySpread,gracePeriod")), policies: everything(permitsSkip(all...)), facts: known},
		{name: "spaces, empty parts and repetitions", pod: pod(skipping(" gracePeriod , ,priority,,priority")), policies: everything(permitsSkip(all...)), facts: known, changes: []string{spread}},
		{name: "not permitted", pod: pod(skipping("gracePeriod")), policies: everything(permitsSkip(all[0])), facts: known, changes: []string{giveHigh[0], giveHigh[1], giveHigh[2], spread, stop}, warnings: []string{"annotation podgrace.dev/skip: PodPolicy p does not permit to skip gracePeriod (allowSkip)"}},
		{name: "unknown word", pod: pod(skipping("graceperiod")), policies: everything(permitsSkip(all...)), facts: known, changes: []string{giveHigh[0], giveHigh[1], giveHigh[2], spread, stop}, warnings: []string{`annotation podgrace.dev/skip: …"graceperiod"…ignored`}},
		{name: "of many unknown words five are named", pod: pod(skipping("a,b,c,d,e,f,g")), warnings: []string{`not "a", "b", "c", "d", "e": ignored`}},
		{name: "node can't be skipped", pod: pod(skipping("node")), warnings: []string{`"node"`}},
		{name: "nothing to skip", pod: pod(skipping("gracePeriod"))},
		{name: "empty", pod: pod(skipping("")), policies: everything(), facts: known, changes: []string{giveHigh[0], giveHigh[1], giveHigh[2], spread, stop}},
		{name: "a wanted globalDefault stays by skip", pod: pod(of(basic), skipping("priority")), policies: one(podPolicy("p", gives("high"), permitsSkip(all...))), facts: facts(classes(basic, high))},
		{name: "only the policy that gives the default may permit it", pod: pod(skipping("gracePeriod")), policies: []*v1alpha1.PodPolicy{podPolicy("a", weight(1), defaultGrace(45)), podPolicy("b", defaultGrace(50), permitsSkip(all...))}, changes: []string{stop}, warnings: []string{"PodPolicy a does not permit"}},
		{name: "limits can't be skipped", pod: pod(skipping("gracePeriod")), policies: one(podPolicy("p", defaultGrace(45), minGrace(40), permitsSkip(all...))), changes: setGrace(40), warnings: []string{"is now 40, not 30"}},
	})
}

func TestValidateIsSilentAboutExcludedPods(t *testing.T) {
	t.Parallel()
	limits := one(podPolicy("p", maxGrace(10), allows("low"), node(cpuWeight(500)), removal(v1alpha1.ProtectAll, v1alpha1.ZeroGraceDeny)))
	known := facts(classes(high))
	testValidate(t, []scenario{
		{name: "kube-system", pod: pod(of(high), grace(0)), namespace: policy.Namespace{Name: "kube-system"}, policies: limits, facts: known},
		{name: "own namespace", pod: pod(of(high), grace(0)), namespace: policy.Namespace{Name: ownNamespace}, policies: limits, facts: known},
		{name: "mirror pod", pod: pod(of(high), mirrored), user: kubelet, policies: limits, facts: known},
		{name: "mirror pod, forged", pod: pod(of(high), mirrored), policies: limits, facts: known, warnings: []string{"missing"}, denials: []string{"PriorityClassNotAllowed: ", "GracePeriodOutOfBounds: "}},
	})
}

func TestNoOwnNamespace(t *testing.T) {
	t.Parallel()
	s := scenario{pod: pod(), namespace: policy.Namespace{Name: "x"}}
	if e := defaulting.For(compile(t, podPolicy("p", defaultGrace(45))), s.request(), ""); e.Excluded || len(e.Policies) != 1 {
		t.Errorf("no own namespace excludes nothing: %+v", e)
	}
	s.namespace = policy.Namespace{}
	if e := defaulting.For(compile(t, podPolicy("p", defaultGrace(45))), policy.Request{Pod: s.pod}, ""); e.Excluded {
		t.Error("an empty namespace is not Podgrace's own where it has none")
	}
}

// TestConditionsConcurrently: the webhook evaluates one policy in many requests at once (worth its time with -race).
func TestConditionsConcurrently(t *testing.T) {
	t.Parallel()
	policies := compile(t, podPolicy("p", where("object.metadata.labels['app'] == 'web'"), defaultGrace(45)))
	var wait sync.WaitGroup
	for i := range 8 {
		wait.Go(func() {
			s := scenario{pod: pod(labelled("app", []string{"web", "db"}[i%2]))}
			for range 50 {
				if got := len(defaulting.For(policies, s.request(), "").Policies); got != 1-i%2 {
					t.Errorf("matched %d policies", got)
				}
			}
		})
	}
	wait.Wait()
}
