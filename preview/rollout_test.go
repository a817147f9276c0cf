package preview

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// As the Deployment's controller counts them: a surge is rounded up, what may be missing down, and one of them is never 0.
func TestFenceposts(t *testing.T) {
	by := func(surge, unavailable string) *appsv1.DeploymentStrategy {
		s, u := intstr.Parse(surge), intstr.Parse(unavailable)
		return &appsv1.DeploymentStrategy{RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &s, MaxUnavailable: &u}}
	}
	for name, test := range map[string]struct {
		strategy *appsv1.DeploymentStrategy
		replicas int
		want     [2]int
	}{
		"unknown, of 5":      {nil, 5, [2]int{2, 1}},
		"the default, of 3":  {&appsv1.DeploymentStrategy{}, 3, [2]int{1, 0}},
		"10 %, 10 %, of 10":  {by("10%", "10%"), 10, [2]int{1, 1}},
		"none more, of 4":    {by("0", "50%"), 4, [2]int{0, 2}},
		"none of both, of 4": {by("0", "10%"), 4, [2]int{0, 1}},
		"anew":               {&appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}, 4, [2]int{0, 0}},
	} {
		surge, unavailable, err := fenceposts(test.strategy, test.replicas)
		if err != nil || [2]int{surge, unavailable} != test.want {
			t.Errorf("%s: %d and %d, want %v; %v", name, surge, unavailable, test.want, err)
		}
	}
	if _, _, err := fenceposts(by("a lot", "1"), 3); err == nil {
		t.Error("no error for a surge of a lot")
	}
}

func revisioned() *corev1.Pod {
	selector := func() *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: hashLabel, Operator: metav1.LabelSelectorOpIn, Values: []string{"revision"}},
			{Key: "revision", Operator: metav1.LabelSelectorOpIn, Values: []string{"revision"}}, // somebody's own
		}}
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Labels: map[string]string{hashLabel: "revision", "revision": "revision"}},
		Spec: corev1.PodSpec{
			TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{LabelSelector: selector()}, {}},
			Affinity: &corev1.Affinity{
				PodAffinity:     &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{LabelSelector: selector()}}},
				PodAntiAffinity: &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{PodAffinityTerm: corev1.PodAffinityTerm{LabelSelector: selector()}}}},
			},
		},
	}
}

// A revision is its hash, wherever it stands, and nothing else that is called so.
func TestRevision(t *testing.T) {
	pod := revisioned()
	second := of(pod, "second")
	want := []metav1.LabelSelectorRequirement{
		{Key: hashLabel, Operator: metav1.LabelSelectorOpIn, Values: []string{"second"}}, {Key: "revision", Operator: metav1.LabelSelectorOpIn, Values: []string{"revision"}},
	}
	for name, got := range map[string]*metav1.LabelSelector{
		"spread":       second.Spec.TopologySpreadConstraints[0].LabelSelector,
		"affinity":     second.Spec.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].LabelSelector,
		"antiaffinity": second.Spec.Affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution[0].PodAffinityTerm.LabelSelector,
	} {
		if diff := cmp.Diff(want, got.MatchExpressions); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	if second.Labels[hashLabel] != "second" || second.Labels["revision"] != "revision" {
		t.Errorf("labels %v", second.Labels)
	}
	if diff := cmp.Diff(revisioned(), pod); diff != "" {
		t.Errorf("the pod itself was changed: %s", diff)
	}
}

// A StatefulSet's pods have names and claims by their number.
func TestNumbered(t *testing.T) {
	claim := func(name string) corev1.VolumeSource {
		return corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}
	}
	db := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "db-0", OwnerReferences: []metav1.OwnerReference{{Kind: "StatefulSet", Name: "db", Controller: new(true)}}},
		Spec:       corev1.PodSpec{Volumes: []corev1.Volume{{Name: "data", VolumeSource: claim("data-db-0")}, {Name: "shared", VolumeSource: claim("shared")}}},
	}
	third := numbered(db, 2)
	if third.Name != "db-2" || third.Spec.Volumes[0].PersistentVolumeClaim.ClaimName != "data-db-2" || third.Spec.Volumes[1].PersistentVolumeClaim.ClaimName != "shared" {
		t.Errorf("%s with %+v", third.Name, third.Spec.Volumes)
	}
	web := numbered(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web"}}, 2)
	if web.Name != "web-2" || web.UID == numbered(web, 3).UID {
		t.Errorf("%s, %s", web.Name, web.UID)
	}
}

// Pods that all want the same of the scheduler are not asked about one by one: where one does not fit the next one doesn't either.
func TestInterchangeable(t *testing.T) {
	for name, test := range map[string]struct {
		volume corev1.VolumeSource
		want   bool
	}{
		"an empty folder":  {corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}, true},
		"a claim":          {corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data-db-0"}}, false},
		"an ephemeral one": {corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}, false},
	} {
		if got := interchangeable(&corev1.Pod{Spec: corev1.PodSpec{Volumes: []corev1.Volume{{VolumeSource: test.volume}}}}); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// Without the hash of a revision in its selector a constraint counts the pods of each.
func TestCountBoth(t *testing.T) {
	pod := revisioned()
	pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{
		{TopologyKey: "rack", LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"revision": "revision"}}},
		{TopologyKey: "row", LabelSelector: pod.Spec.TopologySpreadConstraints[0].LabelSelector},
		{TopologyKey: "hall", LabelSelector: &metav1.LabelSelector{}},
		{TopologyKey: "house"},
		{TopologyKey: "town", LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "login"}}},
	}
	if diff := cmp.Diff([]string{"rack"}, countBoth(of(pod, "first"), of(pod, "second"))); diff != "" {
		t.Error(diff)
	}
}
