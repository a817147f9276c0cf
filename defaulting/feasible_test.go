package defaulting_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/defaulting"
	. "github.com/podgrace/podgrace/policy/policytest"
)

// TestInfeasible judges one hard constraint over the zone, with onInfeasible Deny so that the answer is one word.
func TestInfeasible(t *testing.T) {
	t.Parallel()
	type constraint = v1alpha1.TopologySpreadConstraint
	honorTaints := func(c *constraint) { c.NodeTaintsPolicy = ptr.To(corev1.NodeInclusionPolicyHonor) }
	ignoreAffinity := func(c *constraint) { c.NodeAffinityPolicy = ptr.To(corev1.NodeInclusionPolicyIgnore) }
	honorAffinity := func(c *constraint) { c.NodeAffinityPolicy = ptr.To(corev1.NodeInclusionPolicyHonor) }
	taintIs := func(effect corev1.TaintEffect) factOption {
		return withTaintedNode("n1", dedicated(effect), zone, "a")
	}
	tainted := taintIs(corev1.TaintEffectNoSchedule)
	ssd := func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": "ssd"} }
	tolerant := func(p *corev1.Pod) {
		p.Spec.Tolerations = []corev1.Toleration{{Key: "dedicated", Operator: corev1.TolerationOpExists}}
	}
	const noNode = "SpreadInfeasible: …no node that the pod may use has the label topology.kubernetes.io/zone"
	tests := []struct {
		name       string
		pod        *corev1.Pod
		constraint constraint
		facts      []factOption
		want       string // nothing: feasible
	}{
		{name: "no nodes are known: not judged", constraint: Hard(zone)},
		{name: "one domain is feasible", constraint: Hard(zone), facts: []factOption{withNode("n1", zone, "a"), withPod("n1", "app", "web")}},
		{name: "no node has the label", constraint: Hard(zone), facts: []factOption{withNode("n1", host, "n1")}, want: noNode},
		{name: "an empty value of the label is a domain", constraint: Hard(zone), facts: []factOption{withNode("n1", zone, "")}},
		{name: "nodeSelector is honoured by default", pod: Pod(ssd), constraint: Hard(zone), facts: []factOption{withNode("n1", zone, "a"), withNode("n2", "disk", "ssd")}, want: noNode},
		{name: "nodeSelector that a node meets", pod: Pod(ssd), constraint: Hard(zone), facts: []factOption{withNode("n1", zone, "a", "disk", "ssd")}},
		{name: "nodeAffinityPolicy Ignore: the domains of nodes that the pod can't use count", pod: Pod(ssd), constraint: Hard(zone, MinDomains(2), ignoreAffinity), facts: []factOption{withNode("n1", zone, "a"), withNode("n2", zone, "b", "disk", "ssd"), withPod("n2", "app", "web")}},
		{name: "nodeAffinityPolicy Honor: they don't", pod: Pod(ssd), constraint: Hard(zone, MinDomains(2)), facts: []factOption{withNode("n1", zone, "a"), withNode("n2", zone, "b", "disk", "ssd"), withPod("n2", "app", "web")}, want: "SpreadInfeasible: …minDomains is 2, only 1 domain(s) exist"},
		{name: "nodeAffinityPolicy Honor in words", pod: Pod(ssd), constraint: Hard(zone, MinDomains(2), honorAffinity), facts: []factOption{withNode("n1", zone, "a"), withNode("n2", zone, "b", "disk", "ssd"), withPod("n2", "app", "web")}, want: "SpreadInfeasible: …minDomains is 2, only 1 domain(s) exist"},
		{name: "nodeAffinityPolicy Ignore, but the only node with the label is none that the pod can use", pod: Pod(ssd), constraint: Hard(zone, ignoreAffinity), facts: []factOption{withNode("n1", zone, "a"), withNode("n2", "disk", "ssd")}, want: noNode},
		{name: "taints are ignored by default", constraint: Hard(zone), facts: []factOption{tainted}},
		{name: "nodeTaintsPolicy Honor", constraint: Hard(zone, honorTaints), facts: []factOption{tainted}, want: noNode},
		{name: "nodeTaintsPolicy Honor, NoExecute", constraint: Hard(zone, honorTaints), facts: []factOption{taintIs(corev1.TaintEffectNoExecute)}, want: noNode},
		{name: "nodeTaintsPolicy Honor, PreferNoSchedule keeps nobody away", constraint: Hard(zone, honorTaints), facts: []factOption{taintIs(corev1.TaintEffectPreferNoSchedule)}},
		{name: "nodeTaintsPolicy Honor, tolerated", pod: Pod(tolerant), constraint: Hard(zone, honorTaints), facts: []factOption{tainted}},
		{name: "a node affinity that can't be parsed matches no node, as in the scheduler", pod: Pod(func(p *corev1.Pod) {
			p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "a", Operator: "Whatever"}}}},
			}}}
		}), constraint: Hard(zone), facts: []factOption{withNode("n1", zone, "a")}, want: noNode},
		{name: "minDomains met", constraint: Hard(zone, MinDomains(2)), facts: []factOption{withNode("n1", zone, "a"), withNode("n2", zone, "b"), withPod("n1", "app", "web"), withPod("n2", "app", "web")}},
		{name: "minDomains not met, maxSkew not used up", constraint: Hard(zone, MinDomains(2)), facts: []factOption{withNode("n1", zone, "a"), noPods}},
		{
			name: "minDomains not met and maxSkew used up", constraint: Hard(zone, MinDomains(2)), facts: []factOption{withNode("n1", zone, "a"), withPod("n1", "app", "web")},
			want: "SpreadInfeasible: …minDomains is 2, only 1 domain(s) exist, and each already has maxSkew (1) pods",
		},
		{name: "minDomains not met, pods are not known: not judged", constraint: Hard(zone, MinDomains(2)), facts: []factOption{withNode("n1", zone, "a")}},
		{name: "minDomains not met, one of two domains has room", constraint: Hard(zone, MinDomains(3)), facts: []factOption{withNode("n1", zone, "a"), withNode("n2", zone, "b"), withPod("n1", "app", "web")}},
		{name: "pods that the selector does not count", constraint: Hard(zone, MinDomains(2)), facts: []factOption{withNode("n1", zone, "a"), withPod("n1", "app", "other"), withPod("n9", "app", "web")}},
		{name: "pods of another revision are not counted", pod: Pod(Labelled(hash, "new")), constraint: Hard(zone, MinDomains(2), ByLabels(hash)), facts: []factOption{withNode("n1", zone, "a"), withPod("n1", "app", "web", hash, "old")}},
		{
			name: "pods of the same revision are", pod: Pod(Labelled(hash, "new")), constraint: Hard(zone, MinDomains(2), ByLabels(hash)), facts: []factOption{withNode("n1", zone, "a"), withPod("n1", "app", "web", hash, "new")},
			want: "SpreadInfeasible: …minDomains is 2",
		},
		{name: "a matchLabelKey that the pod lacks is ignored", constraint: Hard(zone, MinDomains(2), ByLabels("track")), facts: []factOption{withNode("n1", zone, "a"), noPods}},
		{name: "a label value that no selector can hold is the API server's to refuse", pod: Pod(Labelled("track", "not a label!")), constraint: Hard(zone, MinDomains(2), ByLabels("track")), facts: []factOption{withNode("n1", zone, "a"), withPod("n1", "app", "web")}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := tt.pod
			if p == nil {
				p = Pod()
			}
			s := scenario{pod: p, policies: One(PodPolicy("web", Spreads(tt.constraint), OnInfeasible(v1alpha1.InfeasibleDeny))), facts: facts(append(tt.facts, service("app", "web"))...)}
			got := defaulting.For(Compile(t, s.policies...), s.request(), Exempt).Apply(s.request(), s.facts)
			var denials, want []string
			for _, d := range got.Denials {
				denials = append(denials, d.Reason.Code+": "+d.Message)
			}
			if tt.want != "" {
				want = []string{tt.want}
			}
			CompareTexts(t, "denials", want, denials)
			if (len(got.Changes) == 0) != (tt.want != "") {
				t.Errorf("changes %q", render(t, got.Changes))
			}
		})
	}
}

// TestInfeasibleTogether: the scheduler counts only nodes that have the keys of all hard constraints.
func TestInfeasibleTogether(t *testing.T) {
	t.Parallel()
	racks := One(PodPolicy("web", Spreads(Hard(zone, MinDomains(2)), Hard("rack")), OnInfeasible(v1alpha1.InfeasibleDeny)))
	both := []string{addSpread + `[` + hardZone + byApp + `,"minDomains":2},` + `{"maxSkew":1,"topologyKey":"rack","whenUnsatisfiable":"DoNotSchedule",` + byApp + `}]`}
	testApply(t, []scenario{
		{
			name:     "a pod on a node without the other key is not counted",
			pod:      Pod(),
			policies: racks,
			facts:    facts(service("app", "web"), withNode("n1", zone, "a"), withNode("n2", zone, "a", "rack", "r"), withPod("n1", "app", "web")),
			changes:  both,
		},
		{
			name:     "a pod on a node with both keys is",
			pod:      Pod(),
			policies: racks,
			facts:    facts(service("app", "web"), withNode("n1", zone, "a"), withNode("n2", zone, "a", "rack", "r"), withPod("n2", "app", "web")),
			denials:  []string{"SpreadInfeasible: …over topology.kubernetes.io/zone…minDomains is 2"},
		},
		{
			name:     "each key is on some node, but no node has both",
			pod:      Pod(),
			policies: racks,
			facts:    facts(service("app", "web"), withNode("n1", zone, "a"), withNode("n2", "rack", "r"), noPods),
			denials:  []string{"SpreadInfeasible: …no node…topology.kubernetes.io/zone…rack"},
		},
	})
}

func TestNeeds(t *testing.T) {
	t.Parallel()
	removing := ZeroGrace(v1alpha1.ProtectStateful, v1alpha1.ZeroGraceRaise)
	tests := []struct {
		name   string
		pod    *corev1.Pod
		policy *v1alpha1.PodPolicy
		want   defaulting.Needs
	}{
		{name: "nothing for limits and classes", pod: Pod(), policy: PodPolicy("p", Gives("high"), MaxGrace(60), removing)},
		{name: "soft constraints: selectors", pod: Pod(), policy: PodPolicy("p", Spreads(Soft(zone))), want: defaulting.Needs{Selectors: true}},
		{name: "hard constraints: nodes too", pod: Pod(), policy: PodPolicy("p", Spreads(Hard(zone))), want: defaulting.Needs{Selectors: true, Nodes: true}},
		{name: "own constraints: nodes", pod: Pod(spreadItself), policy: PodPolicy("p", Spreads(Hard(zone))), want: defaulting.Needs{Nodes: true}},
		{name: "pod affinity: nodes", pod: Pod(apart("rack")), policy: PodPolicy("p", MaxGrace(60)), want: defaulting.Needs{Nodes: true}},
		{name: "skipped: nothing", pod: Pod(skipping("topologySpread")), policy: PodPolicy("p", Spreads(Hard(zone)), AllowsSkip(v1alpha1.SectionTopologySpread))},
		{name: "grace 0 with a claim: claims", pod: Pod(Grace(0), WithClaims("data")), policy: PodPolicy("p", removing), want: defaulting.Needs{Claims: true}},
		{name: "a claim, but another grace", pod: Pod(WithClaims("data")), policy: PodPolicy("p", removing)},
		{name: "grace 0 without a claim", pod: Pod(Grace(0)), policy: PodPolicy("p", removing)},
		{name: "grace 0 with a claim where all are protected", pod: Pod(Grace(0), WithClaims("data")), policy: PodPolicy("p", ZeroGrace(v1alpha1.ProtectAll, ""))},
		{name: "claims without removal", pod: Pod(Grace(0), WithClaims("data")), policy: PodPolicy("p", MaxGrace(60))},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			req := scenario{pod: tt.pod}.request()
			if got := defaulting.For(Compile(t, tt.policy), req, Exempt).Needs(); got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}
