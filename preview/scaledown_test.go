package preview

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// running is a pod on a node that was ready for some time.
func running(name, node string, ready time.Duration) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{NodeName: node}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(noon.Add(-ready))}}
	return p
}

var noon = time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)

func podNames(pods []*corev1.Pod) []string {
	names := make([]string, 0, len(pods))
	for _, p := range pods {
		names = append(names, p.Name)
	}
	return names
}

// The order is that of the ReplicaSet controller.
func TestLeaving(t *testing.T) {
	costly := running("costly", "n1", time.Hour)
	costly.Annotations = map[string]string{corev1.PodDeletionCost: "100"}
	cheap := running("cheap", "n3", time.Hour)
	cheap.Annotations = map[string]string{corev1.PodDeletionCost: "-1"}
	unready := running("unready", "n2", time.Hour)
	unready.Status.Conditions = nil
	waiting := running("waiting", "", 0)
	waiting.Status = corev1.PodStatus{Phase: corev1.PodPending}
	for name, test := range map[string]struct {
		pods, others []*corev1.Pod
		want         []string
	}{
		"what runs last":          {[]*corev1.Pod{costly, running("a", "n2", time.Hour), cheap, unready, waiting}, nil, []string{"waiting", "unready", "cheap", "a", "costly"}},
		"on a node with more":     {[]*corev1.Pod{running("a", "n1", time.Hour), running("b", "n2", time.Hour), running("c", "n3", time.Hour)}, []*corev1.Pod{running("new", "n2", time.Minute)}, []string{"b", "a", "c"}},
		"the younger ones":        {[]*corev1.Pod{running("old", "n1", 100*time.Hour), running("young", "n2", time.Minute)}, nil, []string{"young", "old"}},
		"counted before one goes": {[]*corev1.Pod{running("a", "n1", time.Hour), running("b", "n2", time.Hour), running("c", "n2", time.Hour)}, nil, []string{"b", "c", "a"}},
		"a cost before the crowd": {[]*corev1.Pod{running("a", "n2", time.Hour), running("b", "n2", time.Hour), cheap}, nil, []string{"cheap", "a", "b"}},
	} {
		pods := append([]*corev1.Pod{}, test.pods...)
		if diff := cmp.Diff(test.want, podNames(leaving(test.pods, append(append([]*corev1.Pod{}, test.pods...), test.others...), metav1.NewTime(noon)))); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if diff := cmp.Diff(podNames(pods), podNames(test.pods)); diff != "" {
			t.Errorf("%s: the pods were put into another order: %s", name, diff)
		}
	}
}

// A StatefulSet keeps the ordinals that it asks for.
func TestCondemned(t *testing.T) {
	of := func(names ...string) []*corev1.Pod {
		pods := make([]*corev1.Pod, 0, len(names))
		for _, name := range names {
			pods = append(pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: []metav1.OwnerReference{{Kind: "StatefulSet", Name: "db", Controller: new(true)}}}})
		}
		return pods
	}
	for name, test := range map[string]struct {
		start, replicas int
		pods            []*corev1.Pod
		want            []string
	}{
		"the highest first, by number": {0, 2, of("db-1", "db-10", "db-9", "db-0"), []string{"db-10", "db-9"}},
		"with a gap":                   {0, 2, of("db-0", "db-3", "db-4"), []string{"db-4", "db-3"}},
		"below the start":              {5, 1, of("db-0", "db-5", "db-6"), []string{"db-6", "db-0"}},
		"another's name":               {0, 1, of("db-0", "db-x"), []string{}},
	} {
		if diff := cmp.Diff(test.want, podNames(condemned(test.pods, test.start, test.replicas))); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
