package defaulting

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The values of matchLabelKeys join a selector that has only expressions, too; without a selector there is nothing to join.
func TestMatchLabelKeysOfExpressions(t *testing.T) {
	t.Parallel()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web", "revision": "2"}}}
	in := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpIn, Values: []string{"web"}}}}
	for want, selector := range map[string]*metav1.LabelSelector{"app in (web),revision in (2)": in, "": nil} {
		got, self := countedBy(pod, corev1.TopologySpreadConstraint{LabelSelector: selector, MatchLabelKeys: []string{"revision", "absent"}})
		if got.String() != want || self != map[bool]int{true: 1}[selector != nil] {
			t.Errorf("%q, %d; want %q", got, self, want)
		}
	}
}

// A pod without a controller may become one of a ReplicaSet's own, but not of a Deployment's, whose ReplicaSets select by their hash.
func TestMayGo(t *testing.T) {
	t.Parallel()
	pod := func(labels map[string]string) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Labels: labels, OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-1", Controller: new(true)}}},
			Spec:       corev1.PodSpec{Priority: new(int32(0))},
		}
	}
	of := func(name string) string { return ControllerName("ReplicaSet", name) }
	hash := map[string]string{appsv1.DefaultDeploymentUniqueLabelKey: "1"}
	for _, test := range []struct {
		name       string
		labels     map[string]string
		controller string
		want       bool
	}{
		{"an orphan, beside a ReplicaSet", nil, "", true},
		{"an orphan, beside a Deployment", hash, "", false},
		{"of the same ReplicaSet", nil, of("web-1"), true},
		{"of another ReplicaSet", nil, of("web-2"), false},
		{"of the Deployment's other ReplicaSet", hash, of("web-2"), true},
		{"of another Deployment", hash, of("api-1"), false},
	} {
		if got := mayGo(Neighbour{Controller: test.controller}, pod(test.labels), Facts{Told: true}); got != test.want {
			t.Errorf("%s: %t", test.name, got)
		}
	}
}
