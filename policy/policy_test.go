package policy_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/policy"
	. "github.com/podgrace/podgrace/policy/policytest"
)

const zone, host = corev1.LabelTopologyZone, corev1.LabelHostname

func TestCompileErrors(t *testing.T) {
	t.Parallel()
	badSelector := &v1alpha1.LabelSelector{MatchExpressions: []v1alpha1.LabelSelectorRequirement{{Key: "app", Operator: "Resembles", Values: []string{"web"}}}}
	tests := []struct {
		name   string
		policy *v1alpha1.PodPolicy
		want   []string
	}{
		{name: "nothing wrong", policy: PodPolicy("p", Gives("high"), ForPods("app", "web"), Where("true"))},
		{name: "namespace selector", policy: PodPolicy("p", func(s *v1alpha1.PodPolicySpec) { Match(s).NamespaceSelector = badSelector }), want: []string{"PodPolicy p: ", "spec.match.namespaceSelector", `"Resembles"`}},
		{name: "pod selector names what is bad", policy: PodPolicy("p", func(s *v1alpha1.PodPolicySpec) { Match(s).PodSelector = badSelector }), want: []string{"spec.match.podSelector", `"Resembles"`, "!<error>"}},
		{name: "pod selector with a value that is no label", policy: PodPolicy("p", ForPods("app", "a b")), want: []string{"spec.match.podSelector", "a b"}},
		{name: "CEL syntax", policy: PodPolicy("p", Where("true", "object.metadata.")), want: []string{"spec.match.matchConditions[1].expression", "object.metadata.", "Syntax error"}},
		{name: "CEL that is not a bool", policy: PodPolicy("p", Where("'text'")), want: []string{"spec.match.matchConditions[0].expression", "bool"}},
		{name: "CEL with an unknown variable", policy: PodPolicy("p", Where("pod.metadata.name == 'x'")), want: []string{"spec.match.matchConditions[0].expression", "undeclared reference to 'pod'"}},
		{name: "authorizer is not there", policy: PodPolicy("p", Where("authorizer.group('').resource('pods').check('get').allowed()")), want: []string{"undeclared reference to 'authorizer'"}},
		{name: "CEL on a field that Podgrace writes", policy: PodPolicy("p", Where("object.spec.terminationGracePeriodSeconds == 30")), want: []string{"spec.match.matchConditions[0].expression", "terminationGracePeriodSeconds is written by Podgrace"}},
		{name: "CEL on a field of a similar name", policy: PodPolicy("p", Where("object.metadata.labels['priority'] == 'x'"))},
		{name: "an empty expression", policy: PodPolicy("p", Where("")), want: []string{"spec.match.matchConditions[0].expression"}},
		{name: "topology key", policy: PodPolicy("p", Spreads(Soft(zone), Soft("no label!"))), want: []string{"spec.topologySpread.constraints[1].topologyKey", "no label!"}},
		{name: "empty topology key", policy: PodPolicy("p", Spreads(Soft(""))), want: []string{"spec.topologySpread.constraints[0].topologyKey"}},
		{name: "matchLabelKeys", policy: PodPolicy("p", Spreads(Soft(zone, ByLabels("app", "a/b/c")))), want: []string{"spec.topologySpread.constraints[0].matchLabelKeys[1]", "a/b/c"}},
		{name: "ownerRules", policy: PodPolicy("p", OwnerRule("batch", "Job", "ok", "-")), want: []string{"spec.topologySpread.ownerRules[0].labelKeys[1]"}},
		{name: "all that is wrong, not the first", policy: PodPolicy("p", ForPods("app", "a b"), Where("1", "2"), Spreads(Soft("!"))), want: []string{"podSelector", "matchConditions[0]", "matchConditions[1]", "topologyKey"}},
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
	for _, p := range Compile(t, PodPolicy("b"), PodPolicy("a"), PodPolicy("light", Weight(-1)), PodPolicy("heavy", Weight(2147483647)), PodPolicy("lightest", Weight(-2147483648))) {
		names = append(names, p.Name)
	}
	if diff := cmp.Diff([]string{"heavy", "a", "b", "light", "lightest"}, names); diff != "" {
		t.Error(diff)
	}
}

func TestProblems(t *testing.T) {
	t.Parallel()
	known := map[string]*schedulingv1.PriorityClass{}
	for _, c := range []*schedulingv1.PriorityClass{Class("high", 1000), Class("low", 10), Class("reserved", 1000000001), Class("system-node-critical", 2000001000)} {
		known[c.Name] = c
	}
	tests := []struct {
		name   string
		policy *v1alpha1.PodPolicy
		want   []string // "Reason: what the message contains"
	}{
		{name: "no priority section", policy: PodPolicy("p", DefaultGrace(45))},
		{name: "known classes", policy: PodPolicy("p", Gives("high"), Allows("high", "low"))},
		{name: "unknown class", policy: PodPolicy("p", Gives("gone")), want: []string{`UnknownPriorityClass: PriorityClass "gone" does not exist`}},
		{name: "unknown classes in the list, each once and in order", policy: PodPolicy("p", Gives("z"), Allows("z", "low", "a")), want: []string{`UnknownPriorityClass: allowedClassNames has "a", a PriorityClass that does not exist`, `UnknownPriorityClass: PriorityClass "z" does not exist: pods keep`}},
		{name: "unknown classes by which it selects", policy: PodPolicy("p", ForClasses("low", "gone")), want: []string{`UnknownPriorityClass: match.priorityClassNames has "gone", a PriorityClass that does not exist: no pod has it`}},
		{name: "a value of the system", policy: PodPolicy("p", Gives("reserved")), want: []string{`ReservedPriorityClass: PriorityClass "reserved" has value 1000000001: values above 1000000000 are reserved`}},
		{name: "a system class may be allowed", policy: PodPolicy("p", Allows("system-node-critical", "reserved"))},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, p := range Compile(t, tt.policy)[0].Problems(known) {
				got = append(got, p.Reason+": "+p.Message)
			}
			CompareTexts(t, "problems", tt.want, got)
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
		{name: "nothing", policy: PodPolicy("a", Weight(3), Gives("high"), Spreads(Soft(zone), Hard(host)))},
		{name: "equal weight, same default", policy: PodPolicy("a", Weight(3), Gives("high")), others: One(PodPolicy("b", Weight(3), Gives("low"))), want: []string{"PodPolicy b has the same weight 3…the first by name decides (a)"}},
		{name: "equal weight, same default, the second by name", policy: PodPolicy("a", Weight(3), Gives("high")), others: One(PodPolicy("Z", Weight(3), Gives("low"))), want: []string{"PodPolicy Z has the same weight 3…the first by name decides (Z)"}},
		{name: "equal weight, several of them", policy: PodPolicy("a", Weight(3), DefaultGrace(45), Node(CPUWeight(1))), others: []*v1alpha1.PodPolicy{PodPolicy("b", Weight(3), DefaultGrace(50)), PodPolicy("c", Weight(3), Node(CPUWeight(1)))}, want: []string{"PodPolicy b", "PodPolicy c"}},
		{name: "equal weight, other defaults", policy: PodPolicy("a", Weight(3), Gives("high")), others: One(PodPolicy("b", Weight(3), DefaultGrace(45)))},
		{name: "equal weight, the other gives no default", policy: PodPolicy("a", Weight(3), Gives("high"), Spreads(Soft(zone), Soft(host)), DefaultGrace(45), Node(CPUWeight(1))), others: One(PodPolicy("b", Weight(3), MaxGrace(60)))},
		{name: "equal weight, only the other gives defaults", policy: PodPolicy("a", Weight(3), MaxGrace(60)), others: One(PodPolicy("b", Weight(3), Gives("high"), Spreads(Soft(zone), Soft(host)), DefaultGrace(45), Node(CPUWeight(1))))},
		{name: "equal weight, both spread", policy: PodPolicy("a", Weight(3), Spreads(Soft(zone), Soft(host))), others: One(PodPolicy("b", Weight(3), Spreads(Soft(zone), Soft(host)))), want: []string{"PodPolicy b has the same weight 3"}},
		{name: "equal weight, limits only", policy: PodPolicy("a", Weight(3), Allows("high"), MaxGrace(60)), others: One(PodPolicy("b", Weight(3), Allows("low"), MaxGrace(50)))},
		{name: "other weight", policy: PodPolicy("a", Weight(3), Gives("high")), others: One(PodPolicy("b", Weight(4), Gives("low")))},
		{name: "zone without hostname", policy: PodPolicy("a", Spreads(Soft(zone))), want: []string{"topologySpread does not name kubernetes.io/hostname: one added constraint switches off"}},
		{name: "hostname without zone", policy: PodPolicy("a", Spreads(Soft(host), Soft("rack"))), want: []string{"topologySpread does not name topology.kubernetes.io/zone"}},
		{name: "neither", policy: PodPolicy("a", Spreads(Soft("rack"))), want: []string{"does not name topology.kubernetes.io/zone", "does not name kubernetes.io/hostname"}},
		{name: "another policy does not allow the class", policy: PodPolicy("a", Gives("high")), others: One(PodPolicy("b", Weight(1), Allows("low"))), want: []string{"PodPolicy b does not allow PriorityClass high"}},
		{name: "another policy allows the class", policy: PodPolicy("a", Gives("high")), others: One(PodPolicy("b", Weight(1), Allows("low", "high")))},
		{name: "minimum above another policy's maximum", policy: PodPolicy("a", MinGrace(100)), others: []*v1alpha1.PodPolicy{PodPolicy("b", Weight(1), MaxGrace(60)), PodPolicy("c", MaxGrace(100))}, want: []string{"minSeconds 100 is above maxSeconds 60 of PodPolicy b: where both match the minimum holds"}},
		{name: "owners that control no pods", policy: PodPolicy("a", ZeroGrace("", ""), ProtectsOwners(PodSets, v1alpha1.ProtectedOwner{Group: "apps", Kind: "Deployment"}, v1alpha1.ProtectedOwner{Group: "batch", Kind: "CronJob"})), want: []string{
			"removal.owners names Deployment.apps, which protects no pod: the pods of a Deployment are a ReplicaSet's",
			"removal.owners names CronJob.batch, which protects no pod: the pods of a CronJob are a Job's",
		}},
		{name: "ownerKinds that no pod has", policy: PodPolicy("a", ForOwners("StatefulSet", "Deployment", "CronJob", "statefulset", "deployment", "none", "DeploymentConfig", v1alpha1.OwnerKindNone)), want: []string{
			"match.ownerKinds names Deployment, which matches no pod: the pods of a Deployment are a ReplicaSet's",
			"match.ownerKinds names CronJob, which matches no pod: the pods of a CronJob are a Job's",
			"match.ownerKinds names statefulset, which matches no pod: the kind is StatefulSet",
			"match.ownerKinds names deployment, which matches no pod: the pods of a Deployment are a ReplicaSet's",
			"match.ownerKinds names none, which matches no pod: the kind is None",
		}},
		{name: "somebody else's Deployment", policy: PodPolicy("a", ZeroGrace("", ""), ProtectsOwners(v1alpha1.ProtectedOwner{Group: "x.example", Kind: "Deployment"}))},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			all := Compile(t, append(tt.others, tt.policy)...)
			for _, p := range all {
				if p.Name == "a" {
					CompareTexts(t, "remarks", tt.want, p.Remarks(all, Exempt))
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
		{name: "nothing", policy: PodPolicy("p")},
		{name: "class", policy: PodPolicy("p", Gives("high")), want: v1alpha1.PolicySummary{Priority: "high"}},
		{name: "class and list", policy: PodPolicy("p", Gives("high"), Allows("high", "low")), want: v1alpha1.PolicySummary{Priority: "high of high,low"}},
		{name: "a list of one", policy: PodPolicy("p", Allows("high")), want: v1alpha1.PolicySummary{Priority: "of high"}},
		{name: "list", policy: PodPolicy("p", Allows("high", "low")), want: v1alpha1.PolicySummary{Priority: "of high,low"}},
		{name: "spread, hard ones marked", policy: PodPolicy("p", Spreads(Soft(zone), Hard(host), Soft("rack"))), want: v1alpha1.PolicySummary{TopologySpread: "zone,hostname!,rack"}},
		{name: "grace: all", policy: PodPolicy("p", DefaultGrace(45), MinGrace(10), MaxGrace(300), Margin(5)), want: v1alpha1.PolicySummary{GracePeriod: "45s in 10..300s preStop+5s"}},
		{name: "grace: minimum", policy: PodPolicy("p", MinGrace(10)), want: v1alpha1.PolicySummary{GracePeriod: ">=10s"}},
		{name: "grace: maximum", policy: PodPolicy("p", MaxGrace(300)), want: v1alpha1.PolicySummary{GracePeriod: "<=300s"}},
		{name: "grace: default", policy: PodPolicy("p", DefaultGrace(45)), want: v1alpha1.PolicySummary{GracePeriod: "45s"}},
		{name: "removal with the defaults of the CRD", policy: PodPolicy("p", ZeroGrace("", "")), want: v1alpha1.PolicySummary{Removal: "Deny Stateful"}},
		{name: "removal", policy: PodPolicy("p", func(s *v1alpha1.PodPolicySpec) {
			s.Removal = &v1alpha1.RemovalSection{ForceDelete: v1alpha1.RemovalWarn, Protect: v1alpha1.ProtectAll}
		}), want: v1alpha1.PolicySummary{Removal: "Warn All"}},
		{name: "what else removal protects", policy: PodPolicy("p", ZeroGrace("", ""), ProtectsOwners(PodSets, v1alpha1.ProtectedOwner{Group: "agones.dev", Kind: "GameServer"}), ProtectsBlock),
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
