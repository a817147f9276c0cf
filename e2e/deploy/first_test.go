package deploy

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/e2e/suite"
)

// With the first policy pods are as they were, and a force delete that may run a stateful pod twice goes through: in a namespace
// that asked for it, with a warning.
func TestFirstPolicyOnlyWarns(t *testing.T) {
	s := shared.Get(t)
	asking, other := s.Namespace(t), s.Namespace(t)
	label := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"podgrace.dev/guard":"warn"}}}`))
	if err := s.Client.Patch(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: asking}}, label); err != nil {
		t.Fatal(err)
	}
	s.Create(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "r1"}})
	before := map[string]corev1.PodSpec{}
	pods := map[string]*corev1.Pod{}
	for _, ns := range []string{asking, other} {
		s.WaitServiceAccount(t, ns)
		before[ns] = stateful(t, s, ns, "before").Spec
	}
	for _, o := range readFiles(t, manifests+"/policies/first.yaml") {
		s.Create(t, o)
	}
	suite.Eventually(t, "the policy in force", func(ctx context.Context) (bool, error) {
		metrics, err := s.Metrics(ctx)
		return strings.Contains(metrics, `podgrace_pod_policy_in_force_generation{policy="first"} 1`), err
	})
	for _, ns := range []string{asking, other} {
		pods[ns] = stateful(t, s, ns, "after")
		after := pods[ns].Spec
		after.Volumes, after.Hostname = before[ns].Volumes, before[ns].Hostname // of the pod's own name
		after.Containers[0].VolumeMounts = before[ns].Containers[0].VolumeMounts
		if d := cmp.Diff(before[ns], after); d != "" {
			t.Errorf("a pod is not as it was: %s", d)
		}
	}
	for ns, want := range map[string]int{asking: 1, other: 0} {
		kube, warnings := s.Warned(t, "")
		if err := kube.Delete(t.Context(), pods[ns], client.GracePeriodSeconds(0)); err != nil {
			t.Errorf("force delete: %v", err)
		}
		got := slices.DeleteFunc(warnings.Take(), func(w string) bool { return strings.Contains(w, "Immediate deletion does not wait") }) // Kubernetes' own
		if min(len(got), 1) != want {
			t.Errorf("got the warnings %q, want %d", got, want)
		}
	}
}

// stateful returns the pod of a StatefulSet, on a node.
func stateful(t *testing.T, s *suite.Suite, ns, name string) *corev1.Pod {
	t.Helper()
	labels, spec := map[string]string{"app": name}, podSpec()
	spec.NodeName = "r1"
	s.Create(t, &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Spec: appsv1.StatefulSetSpec{
		Replicas: new(int32(1)), Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec},
	}})
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name + "-0"}}
	suite.Eventually(t, "the pod "+pod.Name, func(ctx context.Context) (bool, error) {
		err := s.Client.Get(ctx, client.ObjectKeyFromObject(pod), pod)
		return err == nil, client.IgnoreNotFound(err)
	})
	return pod
}
