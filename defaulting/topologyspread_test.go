package defaulting_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/defaulting"
	. "github.com/podgrace/podgrace/policy/policytest"
)

// Parts of the constraints as they are written into the patch.
const (
	addSpread = "add /spec/topologySpreadConstraints "
	softZone  = `{"maxSkew":1,"topologyKey":"topology.kubernetes.io/zone","whenUnsatisfiable":"ScheduleAnyway",`
	hardZone  = `{"maxSkew":1,"topologyKey":"topology.kubernetes.io/zone","whenUnsatisfiable":"DoNotSchedule",`
	softHost  = `{"maxSkew":1,"topologyKey":"kubernetes.io/hostname","whenUnsatisfiable":"ScheduleAnyway",`
	hardHost  = `{"maxSkew":1,"topologyKey":"kubernetes.io/hostname","whenUnsatisfiable":"DoNotSchedule",`
	byApp     = `"labelSelector":{"matchLabels":{"app":"web"}}`
	byHash    = `"matchLabelKeys":["pod-template-hash"]`
)

// revision is a pod of a ReplicaSet of a Deployment.
func revision(p *corev1.Pod) {
	OfReplicaSet(p)
	Labelled(hash, "abc")(p)
}

func TestApplyTopologySpread(t *testing.T) {
	t.Parallel()
	selected := ownerSelects("app", "web", hash, "abc")
	testApply(t, []scenario{
		{
			name:     "pod-template-hash moves from the selector to matchLabelKeys",
			pod:      Pod(revision),
			policies: One(PodPolicy("web", Spreads(Soft(zone), Soft(host)))),
			facts:    facts(selected),
			changes:  []string{addSpread + `[` + softZone + byApp + `,` + byHash + `},` + softHost + byApp + `,` + byHash + `}]`},
		},
		{
			name:     "revisionAware false: all revisions count together",
			pod:      Pod(revision),
			policies: One(PodPolicy("web", Spreads(Soft(zone)), RevisionAware(false))),
			facts:    facts(selected),
			changes:  []string{addSpread + `[` + softZone + byApp + `}]`},
		},
		{
			name:     "revisionAware true is the default",
			pod:      Pod(revision),
			policies: One(PodPolicy("web", Spreads(Soft(zone)), RevisionAware(true))),
			facts:    facts(selected),
			changes:  []string{addSpread + `[` + softZone + byApp + `,` + byHash + `}]`},
		},
		{
			name:     "revisionAware false, of an Argo Rollout",
			pod:      Pod(OfReplicaSet, Labelled(defaulting.RolloutRevisionLabel, "abc")),
			policies: One(PodPolicy("web", Spreads(Soft(zone)), RevisionAware(false))),
			facts:    facts(ownerSelects("app", "web", defaulting.RolloutRevisionLabel, "abc")),
			changes:  []string{addSpread + `[` + softZone + byApp + `}]`},
		},
		{
			name:     "revisionAware true, of an Argo Rollout",
			pod:      Pod(OfReplicaSet, Labelled(defaulting.RolloutRevisionLabel, "abc")),
			policies: One(PodPolicy("web", Spreads(Soft(zone)))),
			facts:    facts(ownerSelects("app", "web", defaulting.RolloutRevisionLabel, "abc")),
			changes:  []string{addSpread + `[` + softZone + byApp + `,"matchLabelKeys":["rollouts-pod-template-hash"]}]`},
		},
		{
			name:     "the Rollout's hash is all there is",
			pod:      Pod(OfReplicaSet, Labelled(defaulting.RolloutRevisionLabel, "abc")),
			policies: One(PodPolicy("web", Spreads(Soft(zone)), RevisionAware(false))),
			facts:    facts(ownerSelects(defaulting.RolloutRevisionLabel, "abc")),
			changes:  []string{addSpread + `[` + softZone + `"labelSelector":{"matchLabels":{"rollouts-pod-template-hash":"abc"}}}]`},
		},
		{
			name:     "the hash is all there is: without it the whole namespace would count",
			pod:      Pod(revision),
			policies: One(PodPolicy("web", Spreads(Soft(zone)), RevisionAware(false))),
			facts:    facts(ownerSelects(hash, "abc")),
			changes:  []string{addSpread + `[` + softZone + `"labelSelector":{"matchLabels":{"pod-template-hash":"abc"}}}]`},
		},
		{
			name:     "the hash of a StatefulSet's pod is a label like others",
			pod:      Pod(OfStatefulSet, Labelled(hash, "abc")),
			policies: One(PodPolicy("web", Spreads(Soft(zone)))),
			facts:    facts(selected),
			changes:  []string{addSpread + `[` + softZone + `"labelSelector":{"matchLabels":{"app":"web","pod-template-hash":"abc"}}}]`},
		},
		{
			name:     "matchLabelKeys of the policy: never one key in selector and matchLabelKeys",
			pod:      Pod(revision),
			policies: One(PodPolicy("web", Spreads(Soft(zone, ByLabels("app", hash, "track"))))),
			facts:    facts(selected),
			changes:  []string{addSpread + `[` + softZone + `"labelSelector":{},"matchLabelKeys":["pod-template-hash","app","track"]}]`},
		},
		{
			name:     "matchLabelKeys are per constraint",
			pod:      Pod(revision),
			policies: One(PodPolicy("web", Spreads(Soft(zone, ByLabels("track")), Soft(host)), RevisionAware(false))),
			facts:    facts(selected),
			changes:  []string{addSpread + `[` + softZone + byApp + `,"matchLabelKeys":["track"]},` + softHost + byApp + `}]`},
		},
		{
			name: "all other fields of the core constraint",
			pod:  Pod(),
			policies: One(PodPolicy("web", Spreads(Hard(zone, MinDomains(2), func(c *v1alpha1.TopologySpreadConstraint) {
				c.MaxSkew, c.NodeAffinityPolicy, c.NodeTaintsPolicy = 3, ptr.To(corev1.NodeInclusionPolicyIgnore), ptr.To(corev1.NodeInclusionPolicyHonor)
			})))),
			facts:   facts(service("app", "web")),
			changes: []string{addSpread + `[{"maxSkew":3,"topologyKey":"topology.kubernetes.io/zone","whenUnsatisfiable":"DoNotSchedule",` + byApp + `,"minDomains":2,"nodeAffinityPolicy":"Ignore","nodeTaintsPolicy":"Honor"}]`},
		},
		{
			name:     "own constraints untouched",
			pod:      Pod(revision, spreadItself),
			policies: One(PodPolicy("web", Spreads(Soft(zone)))),
			facts:    facts(selected),
		},
		{
			name:     "DaemonSet untouched",
			pod:      Pod(OfDaemonSet),
			policies: One(PodPolicy("web", Spreads(Soft(zone)))),
			facts:    facts(service("app", "web")),
		},
		{
			name:     "a DaemonSet of OpenKruise pins its pods as well",
			pod:      Pod(OwnedBy("apps.kruise.io/v1alpha1", "DaemonSet", "agent")),
			policies: One(PodPolicy("web", Spreads(Soft(zone)))),
			facts:    facts(service("app", "web")),
		},
		{
			name:     "a DaemonSet of another API group pins nothing",
			pod:      Pod(OwnedBy("apps.example.com/v1alpha1", "DaemonSet", "agent")),
			policies: One(PodPolicy("web", Spreads(Soft(zone)))),
			facts:    facts(service("app", "web")),
			changes:  []string{addSpread + `[` + softZone + byApp + `}]`},
		},
		{
			name:     "a pod that names its node untouched",
			pod:      Pod(revision, OnNode1),
			policies: One(PodPolicy("web", Spreads(Soft(zone)))),
			facts:    facts(selected),
		},
		{
			name:     "the section of the heaviest policy only",
			pod:      Pod(),
			policies: []*v1alpha1.PodPolicy{PodPolicy("a", Spreads(Soft(zone))), PodPolicy("b", Weight(1), Spreads(Soft(host)))},
			facts:    facts(service("app", "web")),
			changes:  []string{addSpread + `[` + softHost + byApp + `}]`},
		},
	})
}

func TestApplyTopologySpreadInfeasible(t *testing.T) {
	t.Parallel()
	onlyHosts := []factOption{service("app", "web"), withNode("node-1", host, "node-1"), withNode("node-2", host, "node-2"), noPods}
	testApply(t, []scenario{
		{
			name:     "warn keeps it",
			pod:      Pod(),
			policies: One(PodPolicy("web", Spreads(Hard(zone)))),
			facts:    facts(onlyHosts...),
			changes:  []string{addSpread + `[` + hardZone + byApp + `}]`},
			warnings: []string{"PodPolicy web: …topology.kubernetes.io/zone can't be met now: no node that the pod may use has the label…Pending"},
		},
		{
			name:     "soften",
			pod:      Pod(),
			policies: One(PodPolicy("web", Spreads(Hard(zone)), OnInfeasible(v1alpha1.InfeasibleSoften))),
			facts:    facts(onlyHosts...),
			changes:  []string{addSpread + `[` + softZone + byApp + `}]`},
			warnings: []string{"softened to ScheduleAnyway"},
		},
		{
			name:     "minDomains does not survive softening: the API allows it with DoNotSchedule only",
			pod:      Pod(),
			policies: One(PodPolicy("web", Spreads(Hard(zone, MinDomains(3))), OnInfeasible(v1alpha1.InfeasibleSoften))),
			facts:    facts(onlyHosts...),
			changes:  []string{addSpread + `[` + softZone + byApp + `}]`},
			warnings: []string{"softened to ScheduleAnyway"},
		},
		{
			name:     "soften collides with the soft constraint over the same key",
			pod:      Pod(),
			policies: One(PodPolicy("web", Spreads(Hard(zone), Soft(host), Soft(zone)), OnInfeasible(v1alpha1.InfeasibleSoften))),
			facts:    facts(onlyHosts...),
			changes:  []string{addSpread + `[` + softHost + byApp + `},` + softZone + byApp + `}]`},
			warnings: []string{"softened to ScheduleAnyway"},
		},
		{
			name:     "soften only what can't be met: the hostname is on all nodes",
			pod:      Pod(),
			policies: One(PodPolicy("web", Spreads(Hard(zone), Hard(host)), OnInfeasible(v1alpha1.InfeasibleSoften))),
			facts:    facts(onlyHosts...),
			changes:  []string{addSpread + `[` + softZone + byApp + `},` + hardHost + byApp + `}]`},
			warnings: []string{"over topology.kubernetes.io/zone…softened"},
		},
		{
			name:     "warn does not say of a label that all nodes have that none has it",
			pod:      Pod(),
			policies: One(PodPolicy("web", Spreads(Hard(zone), Hard(host)))),
			facts:    facts(onlyHosts...),
			changes:  []string{addSpread + `[` + hardZone + byApp + `},` + hardHost + byApp + `}]`},
			warnings: []string{"over topology.kubernetes.io/zone can't be met now: no node that the pod may use has the label topology.kubernetes.io/zone"},
		},
		{
			name:     "deny",
			pod:      Pod(),
			policies: One(PodPolicy("web", Spreads(Soft(host), Hard(zone)), OnInfeasible(v1alpha1.InfeasibleDeny))),
			facts:    facts(onlyHosts...),
			denials:  []string{"SpreadInfeasible: PodPolicy web: …topology.kubernetes.io/zone can't be met now: no node…Make room"},
		},
		{
			name:     "deny concerns the spread only: the other sections still speak",
			pod:      Pod(),
			policies: One(PodPolicy("web", Gives("high"), DefaultGrace(60), Spreads(Hard(zone)), OnInfeasible(v1alpha1.InfeasibleDeny))),
			facts:    facts(append(onlyHosts, classes(high))...),
			changes:  []string{giveHigh[0], giveHigh[1], giveHigh[2], "add /spec/terminationGracePeriodSeconds 60"},
			denials:  []string{"SpreadInfeasible: "},
		},
		{
			name:     "soft constraints are never infeasible",
			pod:      Pod(),
			policies: One(PodPolicy("web", Spreads(Soft(zone)), OnInfeasible(v1alpha1.InfeasibleDeny))),
			facts:    facts(onlyHosts...),
			changes:  []string{addSpread + `[` + softZone + byApp + `}]`},
		},
	})
}

// A selector with a label of which each pod has its own value counts that pod alone: what looks like a spread is none.
func TestApplyTopologySpreadOfOnePod(t *testing.T) {
	t.Parallel()
	const name, index = "statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index"
	first := []PodOption{OfStatefulSet, Labelled("app", "web"), Labelled(name, "db-0"), Labelled(index, "0")}
	owner := func(f *defaulting.Facts) {
		f.OwnerSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	}
	listing := func(key string, operator metav1.LabelSelectorOperator, values ...string) factOption {
		return func(f *defaulting.Facts) {
			f.OwnerSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}, MatchExpressions: []metav1.LabelSelectorRequirement{{Key: key, Operator: operator, Values: values}}}
		}
	}
	nothing := func(key string) []string {
		return []string{"PodPolicy web: the topology spread constraints spread nothing: …" + key}
	}
	byName := `"labelSelector":{"matchLabels":{"app":"web","statefulset.kubernetes.io/pod-name":"db-0"}}`
	testApply(t, []scenario{
		{
			name: "a Service for each pod, by its name", pod: Pod(first...), policies: One(PodPolicy("web", Spreads(Soft(zone), Soft(host)))), facts: facts(owner, service(name, "db-0")),
			changes: []string{addSpread + `[` + softZone + byName + `},` + softHost + byName + `}]`}, warnings: nothing(name),
		},
		{
			name: "a Service for each pod, by its index", pod: Pod(first...), policies: One(PodPolicy("web", Spreads(Soft(zone)))), facts: facts(owner, service(index, "0")),
			changes: []string{addSpread + `[` + softZone + `"labelSelector":{"matchLabels":{"app":"web","apps.kubernetes.io/pod-index":"0"}}}]`}, warnings: nothing(index),
		},
		{
			name: "matchLabelKeys", pod: Pod(first...), policies: One(PodPolicy("web", Spreads(Soft(zone, ByLabels(index))))), facts: facts(owner),
			changes: []string{addSpread + `[` + softZone + byApp + `,"matchLabelKeys":["apps.kubernetes.io/pod-index"]}]`}, warnings: nothing(index),
		},
		{
			name: "matchLabelKeys that the pod does not have", pod: Pod(OfStatefulSet), policies: One(PodPolicy("web", Spreads(Soft(zone, ByLabels(index))))), facts: facts(owner),
			changes: []string{addSpread + `[` + softZone + byApp + `,"matchLabelKeys":["apps.kubernetes.io/pod-index"]}]`},
		},
		{
			name: "an expression with one value", pod: Pod(first...), policies: One(PodPolicy("web", Spreads(Soft(zone)))), facts: facts(listing(name, metav1.LabelSelectorOpIn, "db-0")),
			changes:  []string{addSpread + `[` + softZone + `"labelSelector":{"matchLabels":{"app":"web"},"matchExpressions":[{"key":"statefulset.kubernetes.io/pod-name","operator":"In","values":["db-0"]}]}}]`},
			warnings: nothing(name),
		},
		{
			name: "an expression that more than one pod meets", pod: Pod(first...), policies: One(PodPolicy("web", Spreads(Soft(zone)))), facts: facts(listing(name, metav1.LabelSelectorOpExists)),
			changes: []string{addSpread + `[` + softZone + `"labelSelector":{"matchLabels":{"app":"web"},"matchExpressions":[{"key":"statefulset.kubernetes.io/pod-name","operator":"Exists"}]}}]`},
		},
	})
}
