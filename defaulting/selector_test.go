package defaulting_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podgrace/podgrace/defaulting"
	. "github.com/podgrace/podgrace/policy/policytest"
)

func TestDerivedSelector(t *testing.T) {
	t.Parallel()
	spread := One(PodPolicy("web", Spreads(Soft(zone))))
	const jobName = "batch.kubernetes.io/job-name"
	testApply(t, []scenario{
		{
			name:     "a Service that selects the pod",
			pod:      Pod(),
			policies: spread,
			facts:    facts(service("app", "web")),
			changes:  []string{addSpread + `[` + softZone + byApp + `}]`},
		},
		{
			name:     "several Services: their selectors merged; those of other pods don't count",
			pod:      Pod(Labelled("tier", "front", "track", "stable")),
			policies: spread,
			facts:    facts(service("app", "web"), service("tier", "front"), service("track", "canary")),
			changes:  []string{addSpread + `[` + softZone + `"labelSelector":{"matchLabels":{"app":"web","tier":"front"}}}]`},
		},
		{
			name:     "Service and StatefulSet merged",
			pod:      Pod(OfStatefulSet, Labelled("role", "db")),
			policies: spread,
			facts:    facts(service("app", "web"), ownerSelects("role", "db")),
			changes:  []string{addSpread + `[` + softZone + `"labelSelector":{"matchLabels":{"app":"web","role":"db"}}}]`},
		},
		{
			name:     "ReplicationController",
			pod:      Pod(OwnedBy("v1", "ReplicationController", "old")),
			policies: spread,
			facts:    facts(ownerSelects("app", "web")),
			changes:  []string{addSpread + `[` + softZone + byApp + `}]`},
		},
		{
			name:     "expressions of the controller's selector",
			pod:      Pod(OfStatefulSet),
			policies: spread,
			facts: facts(func(f *defaulting.Facts) {
				f.OwnerSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpIn, Values: []string{"web", "api"}}}}
			}),
			changes: []string{addSpread + `[` + softZone + `"labelSelector":{"matchExpressions":[{"key":"app","operator":"In","values":["web","api"]}]}}]`},
		},
		{
			name:     "Service and controller contradict each other: both requirements stay, as the scheduler has it",
			pod:      Pod(OfStatefulSet),
			policies: spread,
			facts:    facts(service("app", "web"), ownerSelects("app", "db")),
			changes:  []string{addSpread + `[` + softZone + `"labelSelector":{"matchLabels":{"app":"web"},"matchExpressions":[{"key":"app","operator":"In","values":["db"]}]}}]`},
		},
		{
			name:     "no selector: no Service and no controller",
			pod:      Pod(),
			policies: spread,
			facts:    facts(service("app", "other")),
		},
		{
			name:     "no selector: the controller was not found",
			pod:      Pod(OfReplicaSet),
			policies: spread,
			warnings: []string{"no topology spread constraints added…ReplicaSet web-abc, its controller, was not found"},
		},
		{
			name:     "no selector: the controller's is empty",
			pod:      Pod(OfReplicaSet),
			policies: spread,
			facts:    facts(ownerSelects()),
			warnings: []string{"no topology spread constraints added…ReplicaSet web-abc, its controller, has an empty selector"},
		},
		{
			name:     "no selector: a controller of a kind without rules",
			pod:      Pod(OfJob),
			policies: spread, // nor a warning: its pods are most often alone
		},
		{
			name:     "no selector: a custom controller of a kind without rules",
			pod:      Pod(OwnedBy("example.com/v1", "Farm", "f")),
			policies: spread, // nor a warning: only the policy's author can add a rule
		},
		{
			name:     "an owner that is no controller does not count",
			pod:      Pod(OfReplicaSet, func(p *podT) { p.OwnerReferences[0].Controller = nil }),
			policies: spread,
			facts:    facts(ownerSelects("app", "web")),
		},
		{
			name:     "a ReplicaSet of another API group is not the scheduler's",
			pod:      Pod(OwnedBy("apps.example/v1", "ReplicaSet", "web")),
			policies: spread,
			facts:    facts(ownerSelects("app", "web")),
		},
		{
			name:     "owner rule: a Job by its label",
			pod:      Pod(OfJob, Labelled(jobName, "report")),
			policies: One(PodPolicy("web", Spreads(Soft(zone)), OwnerRule("batch", "Job", jobName))),
			changes:  []string{addSpread + `[` + softZone + `"labelSelector":{"matchLabels":{"batch.kubernetes.io/job-name":"report"}}}]`},
		},
		{
			name:     "owner rule of another group",
			pod:      Pod(OfJob, Labelled(jobName, "report")),
			policies: One(PodPolicy("web", Spreads(Soft(zone)), OwnerRule("other", "Job", jobName), OwnerRule("batch", "Cron", jobName))),
		},
		{
			name:     "owner rule: the pod lacks the label",
			pod:      Pod(OfJob),
			policies: One(PodPolicy("web", Spreads(Soft(zone)), OwnerRule("batch", "Job", jobName))),
			warnings: []string{"no topology spread constraints added…ownerRules for Job name the label " + jobName},
		},
		{
			name:     "owner rule: half of the labels is no selector",
			pod:      Pod(OfJob, Labelled("app", "web")),
			policies: One(PodPolicy("web", Spreads(Soft(zone)), OwnerRule("batch", "Job", "app", jobName))),
			warnings: []string{"no topology spread constraints added…ownerRules for Job name the label " + jobName},
		},
		{
			name:     "owner rules are not for controllers that the scheduler knows",
			pod:      Pod(OfReplicaSet),
			policies: One(PodPolicy("web", Spreads(Soft(zone)), OwnerRule("apps", "ReplicaSet", "app"))),
			warnings: []string{"no topology spread constraints added…was not found"},
		},
		{
			name:     "a Service helps where the controller is unknown to the scheduler",
			pod:      Pod(OfJob),
			policies: spread,
			facts:    facts(service("app", "web")),
			changes:  []string{addSpread + `[` + softZone + byApp + `}]`},
		},
		{
			name:     "the hash in an expression can't be taken out, so it is not in matchLabelKeys",
			pod:      Pod(revision),
			policies: spread,
			facts: facts(func(f *defaulting.Facts) {
				f.OwnerSelector = &metav1.LabelSelector{
					MatchLabels:      map[string]string{hash: "abc", "app": "web"},
					MatchExpressions: []metav1.LabelSelectorRequirement{{Key: hash, Operator: metav1.LabelSelectorOpExists}},
				}
			}),
			changes: []string{addSpread + `[` + softZone + `"labelSelector":{"matchLabels":{"app":"web","pod-template-hash":"abc"},"matchExpressions":[{"key":"pod-template-hash","operator":"Exists"}]}}]`},
		},
		{
			name:     "nor is a key of the policy's that an expression names; another is",
			pod:      Pod(OfStatefulSet, Labelled("track", "stable", "tier", "front")),
			policies: One(PodPolicy("web", Spreads(Soft(zone, ByLabels("track", "tier"))))),
			facts: facts(func(f *defaulting.Facts) {
				f.OwnerSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "track", Operator: metav1.LabelSelectorOpExists}}}
			}),
			changes: []string{addSpread + `[` + softZone + `"labelSelector":{"matchExpressions":[{"key":"track","operator":"Exists"}]},"matchLabelKeys":["tier"]}]`},
		},
		{
			name:     "another revision's hash in the selector stays there",
			pod:      Pod(revision),
			policies: spread,
			facts:    facts(ownerSelects("app", "web", hash, "xyz")),
			changes:  []string{addSpread + `[` + softZone + `"labelSelector":{"matchLabels":{"app":"web","pod-template-hash":"xyz"}}}]`},
		},
	})
}

func TestOwnerHasSelector(t *testing.T) {
	t.Parallel()
	tests := []struct {
		apiVersion, kind string
		want             bool
	}{
		{"apps/v1", "ReplicaSet", true},
		{"apps/v1", "StatefulSet", true},
		{"v1", "ReplicationController", true},
		{"apps/v1", "DaemonSet", false},
		{"batch/v1", "Job", false},
		{"apps/v1beta1", "ReplicaSet", false},
		{"apps.kruise.io/v1beta1", "StatefulSet", false},
		{"a/b/c", "ReplicaSet", false},
		{"", "", false},
	}
	for _, tt := range tests {
		if got := defaulting.OwnerHasSelector(&metav1.OwnerReference{APIVersion: tt.apiVersion, Kind: tt.kind}); got != tt.want {
			t.Errorf("%s %s: got %v", tt.apiVersion, tt.kind, got)
		}
	}
}
