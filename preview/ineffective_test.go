package preview

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestCountsNone(t *testing.T) {
	in := func(key string, values ...string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: key, Operator: metav1.LabelSelectorOpIn, Values: values}}}
	}
	const other = "The constraint on rack counts none of the workload's own pods, whose labels its selector does not match"
	for name, test := range map[string]struct {
		selector *metav1.LabelSelector
		want     []string
	}{
		"none":           {nil, []string{"The constraint on rack has no labelSelector. It counts no pods, and spreads nothing."}},
		"empty":          {&metav1.LabelSelector{}, []string{"The constraint on rack has an empty labelSelector, with which the scheduler counts no pods. It spreads nothing."}},
		"of another app": {&metav1.LabelSelector{MatchLabels: map[string]string{"app": "login"}}, []string{other + " (app=login). It does not spread them."}},
		"of others":      {in("app", "login", "users"), []string{other + " (app in (login,users)). It does not spread them."}},
		"of one label more": {
			&metav1.LabelSelector{MatchLabels: map[string]string{"app": "web", "tier": "front"}}, []string{other + " (app=web,tier=front). It does not spread them."},
		},
		"its own":       {&metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}, nil},
		"one of some":   {in("app", "login", "web"), nil},
		"not readable":  {in("app"), nil},
		"not of others": {&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "tier", Operator: metav1.LabelSelectorOpDoesNotExist}}}, nil},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}}}
		pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{TopologyKey: "rack", LabelSelector: test.selector}}
		if diff := cmp.Diff(test.want, countsNone(pod)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestKeyless(t *testing.T) {
	nodes := []*corev1.Node{{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{corev1.LabelHostname: "n1"}}}, {ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"zone": "a"}}}}
	term := func(key string) corev1.PodAffinityTerm { return corev1.PodAffinityTerm{TopologyKey: key} }
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		TopologySpreadConstraints: []corev1.TopologySpreadConstraint{
			{TopologyKey: "rack", WhenUnsatisfiable: corev1.DoNotSchedule}, {TopologyKey: "rack", WhenUnsatisfiable: corev1.ScheduleAnyway}, {TopologyKey: "zone", WhenUnsatisfiable: corev1.DoNotSchedule},
		},
		Affinity: &corev1.Affinity{
			PodAffinity: &corev1.PodAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution:  []corev1.PodAffinityTerm{term("rack"), term(corev1.LabelHostname)},
				PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{PodAffinityTerm: term("rack")}},
			},
			PodAntiAffinity: &corev1.PodAntiAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution:  []corev1.PodAffinityTerm{term("topology.kubernetes.io/hostname"), term("topology.kubernetes.io/hostname")},
				PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{PodAffinityTerm: term("rack")}},
			},
		},
	}}
	want := []string{
		"No node has the label rack, the topologyKey of a spread constraint: the pod fits nowhere.",
		"No node has the label rack, the topologyKey of a spread constraint: it spreads nothing.",
		"No node has the label rack, the topologyKey of a required term of podAffinity: the pod fits nowhere.",
		"No node has the label rack, the topologyKey of a preferred term of podAffinity: it brings no pods together.",
		"No node has the label topology.kubernetes.io/hostname, the topologyKey of a required term of podAntiAffinity: it keeps no pods apart. Nodes have kubernetes.io/hostname.",
		"No node has the label rack, the topologyKey of a preferred term of podAntiAffinity: it keeps no pods apart.",
	}
	if diff := cmp.Diff(want, keyless(pod, nodes)); diff != "" {
		t.Error(diff)
	}
	if says := keyless(&corev1.Pod{}, nodes); says != nil {
		t.Errorf("of a pod without keys: %v", says)
	}
}
