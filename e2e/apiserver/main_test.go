package apiserver

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/e2e/suite"
)

var shared = &suite.Shared{Flags: []string{"--log-format=json", "--decision-log-allowed-percent=100"}}

func TestMain(m *testing.M) { suite.Main(m, shared) }

// newPod is the least that the API server takes.
func newPod(namespace string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "p", Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "localhost/none:1"}}},
	}
	for _, c := range change {
		c(p)
	}
	return p
}

func sleeps(container int, seconds int64) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Containers[container].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: seconds}}}
	}
}

func grace(seconds int64) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = &seconds }
}

func class(name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.PriorityClassName = name }
}

// newClass makes a PriorityClass and returns when the API server's Priority plugin and the webhook know it.
func newClass(t *testing.T, s *suite.Suite, name string, value int32, change ...func(*schedulingv1.PriorityClass)) {
	t.Helper()
	c := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value}
	for _, f := range change {
		f(c)
	}
	s.Create(t, c)
	probe := newPod("default", class(name), func(p *corev1.Pod) { p.Name = "probe-" + name })
	kube, warnings := s.Warned(t, "")
	suite.Eventually(t, "PriorityClass "+name+" known", func(ctx context.Context) (bool, error) {
		err := kube.Create(ctx, probe.DeepCopy(), client.DryRunAll)
		return err == nil && len(warnings.Take()) == 0, err
	})
}

// mustCreate creates a pod, which is deleted at the end of the test, and returns it as stored with the warnings.
func mustCreate(t *testing.T, s *suite.Suite, p *corev1.Pod) (*corev1.Pod, []string) {
	t.Helper()
	kube, warnings := s.Warned(t, "")
	if err := kube.Create(t.Context(), p); err != nil {
		t.Fatalf("create pod: %v", err)
	}
	t.Cleanup(func() {
		_ = s.Client.Delete(context.Background(), p, client.GracePeriodSeconds(0))
	})
	return p, warnings.Take()
}

func wantWarning(t *testing.T, got []string, want string) {
	t.Helper()
	for _, w := range got {
		if strings.Contains(w, want) {
			return
		}
	}
	t.Errorf("no warning has %q; got %q", want, got)
}

func triple(p *corev1.Pod) [3]any {
	return [3]any{p.Spec.PriorityClassName, ptr.Deref(p.Spec.Priority, -1), string(ptr.Deref(p.Spec.PreemptionPolicy, ""))}
}
