package host

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/e2e/suite"
)

func pod(namespace, name, image string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: image, ImagePullPolicy: corev1.PullNever}}},
	}
}

func running(t *testing.T, s *suite.Suite, p *corev1.Pod) {
	t.Helper()
	suite.Eventually(t, "pod "+p.Name+" running", func(ctx context.Context) (bool, error) {
		err := s.Client.Get(ctx, client.ObjectKeyFromObject(p), p)
		return p.Status.Phase == corev1.PodRunning, err
	})
}

// stopped deletes a pod and returns how its container ended, which the kubelet writes before it lets the pod go.
func stopped(t *testing.T, s *suite.Suite, p *corev1.Pod) *corev1.ContainerStateTerminated {
	t.Helper()
	watching, err := client.NewWithWatch(s.Config, client.Options{Scheme: s.Client.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	events, err := watching.Watch(t.Context(), &corev1.PodList{}, client.InNamespace(p.Namespace))
	if err != nil {
		t.Fatal(err)
	}
	defer events.Stop()
	if err := s.Client.Delete(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	var end *corev1.ContainerStateTerminated
	for event := range events.ResultChan() {
		seen, ok := event.Object.(*corev1.Pod)
		if !ok || seen.Name != p.Name {
			continue
		}
		for _, c := range seen.Status.ContainerStatuses {
			if c.State.Terminated != nil {
				end = c.State.Terminated
			}
		}
		if event.Type == "DELETED" {
			break
		}
	}
	if end == nil {
		t.Fatal("the pod is gone, but the kubelet never said how its container ended")
	}
	return end
}

// A container that needs longer to stop, after a preStop hook of 4 s, than a grace period of 5 s leaves it: without Podgrace the
// kubelet kills it; with the margin that the policy wants it stops by itself. On a real kubelet, since it is its
// arithmetic that the policy reckons with. Both have most of a minute to spare, which a busy machine may take.
func TestPreStopAndMarginOnARealKubelet(t *testing.T) {
	s, _ := start(t)
	slow := func(ns, name, takes string) *corev1.Pod {
		p := pod(ns, name, slowImage)
		p.Spec.TerminationGracePeriodSeconds = new(int64(5))
		p.Spec.Containers[0].Args = []string{takes}
		p.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 4}}}
		return p
	}
	for name, tc := range map[string]struct {
		takes   string
		margin  *int64
		grace   int64
		exit    int32
		explain string
	}{
		"without": {"60s", nil, 5, 137, "1 s left after preStop, raised to the kubelet's floor of 2 s: killed"},
		"with":    {"6s", new(int64(60)), 64, 0, "60 s left: stops by itself"},
	} {
		t.Run(name, func(t *testing.T) {
			ns := s.Namespace(t)
			if tc.margin != nil {
				s.Policy(t, ns, v1alpha1.PodPolicySpec{GracePeriod: &v1alpha1.GracePeriodSection{PreStopMarginSeconds: tc.margin}})
			}
			p := slow(ns, "slow-"+name, tc.takes)
			s.Create(t, p)
			running(t, s, p)
			if got := *p.Spec.TerminationGracePeriodSeconds; got != tc.grace {
				t.Errorf("grace %d s, want %d s", got, tc.grace)
			}
			if end := stopped(t, s, p); end.ExitCode != tc.exit {
				t.Errorf("exit code %d, want %d (%s)", end.ExitCode, tc.exit, tc.explain)
			}
		})
	}
}

// A static pod runs whatever the policies say, and its mirror pod is left as the kubelet wrote it.
func TestStaticPod(t *testing.T) {
	s, n := start(t)
	ns := s.Namespace(t)
	s.Policy(t, ns, v1alpha1.PodPolicySpec{
		Priority:    &v1alpha1.PrioritySection{AllowedClassNames: []string{"none"}},
		GracePeriod: &v1alpha1.GracePeriodSection{DefaultSeconds: new(int64(77)), MinSeconds: new(int64(70))},
		Node:        &v1alpha1.Enforcement{OOM: &v1alpha1.OOMEnforcement{Rank: 1}},
	})
	manifest := "apiVersion: v1\nkind: Pod\nmetadata: {name: static, namespace: " + ns + "}\nspec:\n  containers: [{name: main, image: \"" + cluster.PauseImage + "\", imagePullPolicy: Never}]\n"
	file := filepath.Join(n.StaticPodDir, "static.yaml")
	if err := os.WriteFile(file, []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(file) })
	mirror := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "static-" + n.Name}}
	suite.Eventually(t, "the mirror pod running", func(ctx context.Context) (bool, error) {
		err := s.Client.Get(ctx, client.ObjectKeyFromObject(mirror), mirror)
		return mirror.Status.Phase == corev1.PodRunning, client.IgnoreNotFound(err)
	})
	if g := *mirror.Spec.TerminationGracePeriodSeconds; g != 30 || mirror.Annotations[v1alpha1.AnnotationEnforcement] != "" {
		t.Errorf("the mirror pod was changed: grace %d s, annotations %v", g, mirror.Annotations)
	}
}
