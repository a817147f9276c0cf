package fidelity

import (
	"context"
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	_ "k8s.io/kubernetes/pkg/apis/batch/install"
	_ "k8s.io/kubernetes/pkg/apis/scheduling/install"
	podregistry "k8s.io/kubernetes/pkg/registry/core/pod"
	"pgregory.net/rapid"

	"github.com/podgrace/podgrace/cli/apiserver"
	"github.com/podgrace/podgrace/policy/policytest/draw"
)

// decodedCase prints well.
type decodedCase struct{ Object runtime.Object }

func (c *decodedCase) GoString() string { return draw.Show(c.Object) }

var decodedCases = draw.Of(func(s draw.Source) *decodedCase { return &decodedCase{drawDecoded(s)} })

// TestFidelityReviewDefault: what the review sets in pods, workloads and what they are judged by is what the API server's scheme sets, and doing it
// twice changes nothing.
func TestFidelityReviewDefault(t *testing.T) {
	t.Parallel()
	wanted := draw.Shares{"workload": 15, "changed": 90, "pulled always": 5, "pulled if not present": 10, "emptyDir": 3, "requests from limits": 5, "requests of the pod": 1, "host ports": 0.1, "probe": 3}
	draw.Check(t, wanted, func(t *rapid.T, counts *draw.Tally) {
		c := decodedCases.Draw(t, "case")
		want, got := c.Object.DeepCopyObject(), c.Object.DeepCopyObject()
		legacyscheme.Scheme.Default(want)
		apiserver.Default(got)
		if diff := cmp.Diff(encoded(t, want), encoded(t, got)); diff != "" {
			t.Fatalf("the scheme (-) and Default (+) differ:\n%s", diff)
		}
		once := encoded(t, got)
		apiserver.Default(got)
		if diff := cmp.Diff(once, encoded(t, got)); diff != "" {
			t.Fatalf("a second time changes more:\n%s", diff)
		}
		countDefaults(t, c.Object, got, counts)
	})
}

func encoded(t *rapid.T, o any) string {
	text, err := json.MarshalIndent(o, "", " ")
	if err != nil {
		t.Fatalf("encoding: %v", err)
	}
	return string(text)
}

func countDefaults(t *rapid.T, before, after runtime.Object, counts *draw.Tally) {
	if encoded(t, before) != encoded(t, after) {
		counts.Add("changed")
	}
	pod, ok := after.(*corev1.Pod)
	if !ok {
		if podSpecOf(after) != nil {
			counts.Add("workload")
		}
		return
	}
	had := before.(*corev1.Pod)
	some := func(what string, are func(int, corev1.Container) bool) {
		for i, c := range pod.Spec.Containers {
			if are(i, c) {
				counts.Add(what)
				return
			}
		}
	}
	old := had.Spec.Containers
	some("pulled always", func(i int, c corev1.Container) bool {
		return old[i].ImagePullPolicy == "" && c.ImagePullPolicy == corev1.PullAlways
	})
	some("pulled if not present", func(i int, c corev1.Container) bool {
		return old[i].ImagePullPolicy == "" && c.ImagePullPolicy == corev1.PullIfNotPresent
	})
	some("requests from limits", func(i int, c corev1.Container) bool {
		return len(c.Resources.Requests) > len(old[i].Resources.Requests)
	})
	some("probe", func(_ int, c corev1.Container) bool { return c.LivenessProbe != nil || c.ReadinessProbe != nil })
	some("host ports", func(i int, c corev1.Container) bool {
		return slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return pod.Spec.HostNetwork && p.HostPort != 0 })
	})
	if r := pod.Spec.Resources; r != nil && len(r.Requests) > len(had.Spec.Resources.Requests) {
		counts.Add("requests of the pod")
	}
	for i, v := range pod.Spec.Volumes {
		if v.EmptyDir != nil && had.Spec.Volumes[i].EmptyDir == nil {
			counts.Add("emptyDir")
			return
		}
	}
}

var selectorKeyCases = draw.Of(func(s draw.Source) *corev1.Pod {
	pod := drawPod(s)
	enrich(s, pod)
	for range s.Below(3) {
		addOwnSpread(s, &pod.Spec)
	}
	addTerms(s, pod)
	return pod
})

// addTerms adds affinity to other pods, all four kinds of it.
func addTerms(s draw.Source, pod *corev1.Pod) {
	f := &filler{Source: s, left: 0}
	term := func() corev1.PodAffinityTerm {
		t := corev1.PodAffinityTerm{TopologyKey: "zone", MatchLabelKeys: draw.Some(s, 4, draw.LabelKeys...), MismatchLabelKeys: draw.Some(s, 4, draw.LabelKeys...)}
		if s.Chance(12) {
			t.LabelSelector = draw.Selector(s, pod.Labels)
		}
		return t
	}
	terms := func() (required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm) {
		for range f.Below(3) {
			required = append(required, term())
		}
		for range f.Below(2) {
			preferred = append(preferred, corev1.WeightedPodAffinityTerm{Weight: 1, PodAffinityTerm: term()})
		}
		return required, preferred
	}
	a := &corev1.Affinity{}
	if s.Chance(6) {
		a.PodAffinity = &corev1.PodAffinity{}
		a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution, a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution = terms()
	}
	if s.Chance(6) {
		a.PodAntiAffinity = &corev1.PodAntiAffinity{}
		a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution, a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution = terms()
	}
	if s.Chance(12) {
		pod.Spec.Affinity = a
	}
}

// TestFidelityReviewMatchLabelKeys: the selectors after MergeMatchLabelKeys are those that the pod strategy makes.
func TestFidelityReviewMatchLabelKeys(t *testing.T) {
	t.Parallel()
	draw.Check(t, draw.Shares{"merged into a constraint": 3, "merged into a term": 10}, func(t *rapid.T, counts *draw.Tally) {
		pod := selectorKeyCases.Draw(t, "pod")
		internal := received(t, pod)
		podregistry.Strategy.PrepareForCreate(context.Background(), internal)
		want := sent(t, internal)
		got := sent(t, received(t, pod))
		before := got.DeepCopy()
		apiserver.MergeMatchLabelKeys(got)
		if diff := cmp.Diff(encoded(t, want.Spec), encoded(t, got.Spec)); diff != "" {
			t.Fatalf("the strategy (-) and MergeMatchLabelKeys (+) differ:\n%s\n%s", diff, draw.Show(pod))
		}
		if encoded(t, before.Spec.TopologySpreadConstraints) != encoded(t, got.Spec.TopologySpreadConstraints) {
			counts.Add("merged into a constraint")
		}
		if encoded(t, before.Spec.Affinity) != encoded(t, got.Spec.Affinity) {
			counts.Add("merged into a term")
		}
	})
}
