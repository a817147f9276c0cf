package defaulting_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/policy"
)

func TestCompileErrors(t *testing.T) {
	t.Parallel()
	badSelector := &v1alpha1.LabelSelector{MatchExpressions: []v1alpha1.LabelSelectorRequirement{{Key: "app", Operator: "Resembles", Values: []string{"web"}}}}
	tests := []struct {
		name   string
		policy *v1alpha1.PodPolicy
		want   []string
	}{
		{name: "nothing wrong", policy: podPolicy("p", gives("high"), forPods("app", "web"), where("true"))},
		{name: "namespace selector", policy: podPolicy("p", func(s *v1alpha1.PodPolicySpec) { match(s).NamespaceSelector = badSelector }), want: []string{"PodPolicy p: ", "spec.match.namespaceSelector", `"Resembles"`}},
		{name: "pod selector names what is bad", policy: podPolicy("p", func(s *v1alpha1.PodPolicySpec) { match(s).PodSelector = badSelector }), want: []string{"spec.match.podSelector", `"Resembles"`, "!<error>"}},
		{name: "pod selector with a value that is no label", policy: podPolicy("p", forPods("app", "a b")), want: []string{"spec.match.podSelector", "a b"}},
		{name: "CEL syntax", policy: podPolicy("p", where("true", "object.metadata.")), want: []string{"spec.match.matchConditions[1].expression", "object.metadata.", "Syntax error"}},
		{name: "CEL that is not a bool", policy: podPolicy("p", where("'text'")), want: []string{"spec.match.matchConditions[0].expression", "bool"}},
		{name: "CEL with an unknown variable", policy: podPolicy("p", where("pod.metadata.name == 'x'")), want: []string{"spec.match.matchConditions[0].expression", "undeclared reference to 'pod'"}},
		{name: "authorizer is not there", policy: podPolicy("p", where("authorizer.group('').resource('pods').check('get').allowed()")), want: []string{"undeclared reference to 'authorizer'"}},
		{name: "CEL on a field that Podgrace writes", policy: podPolicy("p", where("object.spec.terminationGracePeriodSeconds == 30")), want: []string{"spec.match.matchConditions[0].expression", "terminationGracePeriodSeconds is written by Podgrace"}},
		{name: "CEL on a field of a similar name", policy: podPolicy("p", where("object.metadata.labels['priority'] == 'x'"))},
		{name: "an empty expression", policy: podPolicy("p", where("")), want: []string{"spec.match.matchConditions[0].expression"}},
		{name: "topology key", policy: podPolicy("p", spreads(soft(zone), soft("no label!"))), want: []string{"spec.topologySpread.constraints[1].topologyKey", "no label!"}},
		{name: "empty topology key", policy: podPolicy("p", spreads(soft(""))), want: []string{"spec.topologySpread.constraints[0].topologyKey"}},
		{name: "matchLabelKeys", policy: podPolicy("p", spreads(soft(zone, byLabels("app", "a/b/c")))), want: []string{"spec.topologySpread.constraints[0].matchLabelKeys[1]", "a/b/c"}},
		{name: "ownerRules", policy: podPolicy("p", ownerRule("batch", "Job", "ok", "-")), want: []string{"spec.topologySpread.ownerRules[0].labelKeys[1]"}},
		{name: "all that is wrong, not the first", policy: podPolicy("p", forPods("app", "a b"), where("1", "2"), spreads(soft("!"))), want: []string{"podSelector", "matchConditions[0]", "matchConditions[1]", "topologyKey"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := policy.Compile(tt.policy)
			if (err != nil) != (len(tt.want) > 0) {
				t.Fatalf("error is %v", err)
			}
			for _, want := range tt.want {
				text, unwanted := strings.CutPrefix(want, "!")
				if strings.Contains(err.Error(), text) == unwanted {
					t.Errorf("error %q: want %q", err, want)
				}
			}
		})
	}
}

func TestSort(t *testing.T) {
	t.Parallel()
	var names []string
	for _, p := range compile(t, podPolicy("b"), podPolicy("a"), podPolicy("light", weight(-1)), podPolicy("heavy", weight(2147483647)), podPolicy("lightest", weight(-2147483648))) {
		names = append(names, p.Name)
	}
	if diff := cmp.Diff([]string{"heavy", "a", "b", "light", "lightest"}, names); diff != "" {
		t.Error(diff)
	}
}

func TestProblems(t *testing.T) {
	t.Parallel()
	known := facts(classes(high, low, reserved, nodeCrit))
	tests := []struct {
		name   string
		policy *v1alpha1.PodPolicy
		want   []string // "Reason: what the message contains"
	}{
		{name: "no priority section", policy: podPolicy("p", defaultGrace(45))},
		{name: "known classes", policy: podPolicy("p", gives("high"), allows("high", "low"))},
		{name: "unknown class", policy: podPolicy("p", gives("gone")), want: []string{`UnknownPriorityClass: PriorityClass "gone" does not exist`}},
		{name: "unknown classes in the list, each once and in order", policy: podPolicy("p", gives("z"), allows("z", "low", "a")), want: []string{`UnknownPriorityClass: allowedClassNames has "a", a PriorityClass that does not exist`, `UnknownPriorityClass: PriorityClass "z" does not exist: pods keep`}},
		{name: "unknown classes by which it selects", policy: podPolicy("p", forClasses("low", "gone")), want: []string{`UnknownPriorityClass: match.priorityClassNames has "gone", a PriorityClass that does not exist: no pod has it`}},
		{name: "a value of the system", policy: podPolicy("p", gives("reserved")), want: []string{`ReservedPriorityClass: PriorityClass "reserved" has value 1000000001: values above 1000000000 are reserved`}},
		{name: "a system class may be allowed", policy: podPolicy("p", allows("system-node-critical", "reserved"))},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, p := range compile(t, tt.policy)[0].Problems(known.PriorityClasses) {
				got = append(got, p.Reason+": "+p.Message)
			}
			compareTexts(t, "problems", tt.want, got)
		})
	}
}

func TestRemarks(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		others []*v1alpha1.PodPolicy
		policy *v1alpha1.PodPolicy // named a
		want   []string
	}{
		{name: "nothing", policy: podPolicy("a", weight(3), gives("high"), spreads(soft(zone), hard(host)))},
		{name: "equal weight, same default", policy: podPolicy("a", weight(3), gives("high")), others: one(podPolicy("b", weight(3), gives("low"))), want: []string{"PodPolicy b has the same weight 3…the first by name decides (a)"}},
		{name: "equal weight, same default, the second by name", policy: podPolicy("a", weight(3), gives("high")), others: one(podPolicy("Z", weight(3), gives("low"))), want: []string{"PodPolicy Z has the same weight 3…the first by name decides (Z)"}},
		{name: "equal weight, several of them", policy: podPolicy("a", weight(3), defaultGrace(45), node(cpuWeight(1))), others: []*v1alpha1.PodPolicy{podPolicy("b", weight(3), defaultGrace(50)), podPolicy("c", weight(3), node(cpuWeight(1)))}, want: []string{"PodPolicy b", "PodPolicy c"}},
		{name: "equal weight, other defaults", policy: podPolicy("a", weight(3), gives("high")), others: one(podPolicy("b", weight(3), defaultGrace(45)))},
		{name: "equal weight, the other gives no default", policy: podPolicy("a", weight(3), gives("high"), spreads(soft(zone), soft(host)), defaultGrace(45), node(cpuWeight(1))), others: one(podPolicy("b", weight(3), maxGrace(60)))},
		{name: "equal weight, only the other gives defaults", policy: podPolicy("a", weight(3), maxGrace(60)), others: one(podPolicy("b", weight(3), gives("high"), spreads(soft(zone), soft(host)), defaultGrace(45), node(cpuWeight(1))))},
		{name: "equal weight, both spread", policy: podPolicy("a", weight(3), spreads(soft(zone), soft(host))), others: one(podPolicy("b", weight(3), spreads(soft(zone), soft(host)))), want: []string{"PodPolicy b has the same weight 3"}},
		{name: "equal weight, limits only", policy: podPolicy("a", weight(3), allows("high"), maxGrace(60)), others: one(podPolicy("b", weight(3), allows("low"), maxGrace(50)))},
		{name: "other weight", policy: podPolicy("a", weight(3), gives("high")), others: one(podPolicy("b", weight(4), gives("low")))},
		{name: "zone without hostname", policy: podPolicy("a", spreads(soft(zone))), want: []string{"topologySpread does not name kubernetes.io/hostname: one added constraint switches off"}},
		{name: "hostname without zone", policy: podPolicy("a", spreads(soft(host), soft("rack"))), want: []string{"topologySpread does not name topology.kubernetes.io/zone"}},
		{name: "neither", policy: podPolicy("a", spreads(soft("rack"))), want: []string{"does not name topology.kubernetes.io/zone", "does not name kubernetes.io/hostname"}},
		{name: "another policy does not allow the class", policy: podPolicy("a", gives("high")), others: one(podPolicy("b", weight(1), allows("low"))), want: []string{"PodPolicy b does not allow PriorityClass high"}},
		{name: "another policy allows the class", policy: podPolicy("a", gives("high")), others: one(podPolicy("b", weight(1), allows("low", "high")))},
		{name: "minimum above another policy's maximum", policy: podPolicy("a", minGrace(100)), others: []*v1alpha1.PodPolicy{podPolicy("b", weight(1), maxGrace(60)), podPolicy("c", maxGrace(100))}, want: []string{"minSeconds 100 is above maxSeconds 60 of PodPolicy b: where both match the minimum holds"}},
		{name: "owners that control no pods", policy: podPolicy("a", removal("", ""), protects(podSets, v1alpha1.ProtectedOwner{Group: "apps", Kind: "Deployment"}, v1alpha1.ProtectedOwner{Group: "batch", Kind: "CronJob"})), want: []string{
			"removal.owners names Deployment.apps, which protects no pod: the pods of a Deployment are a ReplicaSet's",
			"removal.owners names CronJob.batch, which protects no pod: the pods of a CronJob are a Job's",
		}},
		{name: "ownerKinds that no pod has", policy: podPolicy("a", forOwners("StatefulSet", "Deployment", "CronJob", "statefulset", "deployment", "none", "DeploymentConfig", v1alpha1.OwnerKindNone)), want: []string{
			"match.ownerKinds names Deployment, which matches no pod: the pods of a Deployment are a ReplicaSet's",
			"match.ownerKinds names CronJob, which matches no pod: the pods of a CronJob are a Job's",
			"match.ownerKinds names statefulset, which matches no pod: the kind is StatefulSet",
			"match.ownerKinds names deployment, which matches no pod: the pods of a Deployment are a ReplicaSet's",
			"match.ownerKinds names none, which matches no pod: the kind is None",
		}},
		{name: "somebody else's Deployment", policy: podPolicy("a", removal("", ""), protects(v1alpha1.ProtectedOwner{Group: "x.example", Kind: "Deployment"}))},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			all := compile(t, append(tt.others, tt.policy)...)
			for _, p := range all {
				if p.Name == "a" {
					compareTexts(t, "remarks", tt.want, p.Remarks(all))
				}
			}
		})
	}
}

func TestSummary(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		policy *v1alpha1.PodPolicy
		want   v1alpha1.PolicySummary
	}{
		{name: "nothing", policy: podPolicy("p")},
		{name: "class", policy: podPolicy("p", gives("high")), want: v1alpha1.PolicySummary{Priority: "high"}},
		{name: "class and list", policy: podPolicy("p", gives("high"), allows("high", "low")), want: v1alpha1.PolicySummary{Priority: "high of high,low"}},
		{name: "a list of one", policy: podPolicy("p", allows("high")), want: v1alpha1.PolicySummary{Priority: "of high"}},
		{name: "list", policy: podPolicy("p", allows("high", "low")), want: v1alpha1.PolicySummary{Priority: "of high,low"}},
		{name: "spread, hard ones marked", policy: podPolicy("p", spreads(soft(zone), hard(host), soft("rack"))), want: v1alpha1.PolicySummary{TopologySpread: "zone,hostname!,rack"}},
		{name: "grace: all", policy: podPolicy("p", defaultGrace(45), minGrace(10), maxGrace(300), margin(5)), want: v1alpha1.PolicySummary{GracePeriod: "45s in 10..300s preStop+5s"}},
		{name: "grace: minimum", policy: podPolicy("p", minGrace(10)), want: v1alpha1.PolicySummary{GracePeriod: ">=10s"}},
		{name: "grace: maximum", policy: podPolicy("p", maxGrace(300)), want: v1alpha1.PolicySummary{GracePeriod: "<=300s"}},
		{name: "grace: default", policy: podPolicy("p", defaultGrace(45)), want: v1alpha1.PolicySummary{GracePeriod: "45s"}},
		{name: "removal with the defaults of the CRD", policy: podPolicy("p", removal("", "")), want: v1alpha1.PolicySummary{Removal: "Deny Stateful"}},
		{name: "removal", policy: podPolicy("p", func(s *v1alpha1.PodPolicySpec) {
			s.Removal = &v1alpha1.RemovalSection{ForceDelete: v1alpha1.RemovalWarn, Protect: v1alpha1.ProtectAll}
		}), want: v1alpha1.PolicySummary{Removal: "Warn All"}},
		{name: "what else removal protects", policy: podPolicy("p", removal("", ""), protects(podSets, v1alpha1.ProtectedOwner{Group: "agones.dev", Kind: "GameServer"}), protectsBlock),
			want: v1alpha1.PolicySummary{Removal: "Deny Stateful,StrimziPodSet,GameServer,block claims"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, policy.Summary(&tt.policy.Spec)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
