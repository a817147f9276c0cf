package peers

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestDifferencesAreOfWhatPodsShare(t *testing.T) {
	pod := func(name, class string) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"by": name}, Labels: map[string]string{"app": "web"}},
			Spec:       corev1.PodSpec{PriorityClassName: class},
		}
	}
	if diff := differences(map[string]*corev1.Pod{inProcess: pod("a", "web-high"), bare: pod("b", "web-high")}); diff != "" {
		t.Errorf("pods that differ in name and annotation alone: %s", diff)
	}
	diff := differences(map[string]*corev1.Pod{inProcess: pod("a", "web-high"), bare: pod("b", "web-low")})
	if !strings.Contains(diff, bare) || !strings.Contains(diff, "web-low") {
		t.Errorf("pods of different classes: %q", diff)
	}
	other := pod("b", "web-high")
	other.Labels["app"] = "other"
	if differences(map[string]*corev1.Pod{inProcess: pod("a", "web-high"), bare: other}) == "" {
		t.Error("pods of different labels: no difference")
	}
}

func TestGlanceWantsEveryField(t *testing.T) {
	all := string(fields[0])
	for _, f := range fields[1:] {
		all += "," + string(f)
	}
	with, without := &side{name: bare}, &side{name: nothing, without: true}
	if err := with.glance([]byte(all)); err != nil {
		t.Error(err)
	}
	if err := without.glance([]byte(`"spec":{}`)); err != nil {
		t.Error(err)
	}
	for _, f := range fields {
		if err := with.glance([]byte(strings.Replace(all, string(f), "", 1))); err == nil {
			t.Errorf("a pod without %s passes for one of the policy", f)
		}
		if err := without.glance(f); err == nil {
			t.Errorf("a pod with %s passes for one without admission", f)
		}
	}
}
