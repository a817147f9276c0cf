package deploy

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/e2e/suite"
)

// With the first policy pods are as they were, and whatever may run a stateful pod twice goes through with a warning, in every
// namespace: what package deploy's own test says offline, from the API server itself.
func TestFirstPolicyOnlyWarns(t *testing.T) {
	s := shared.Get(t)
	ns := s.Namespace(t)
	s.WaitServiceAccount(t, ns)
	for _, node := range []string{"r1", "r2"} {
		s.Create(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}})
	}
	before := stateful(t, s, ns, "before", "r1").Spec
	for _, o := range readFiles(t, manifests+"/policies/first.yaml") {
		s.Create(t, o)
	}
	s.WaitInForce(t, &v1alpha1.PodPolicy{ObjectMeta: metav1.ObjectMeta{Name: "first", Generation: 1}, Spec: v1alpha1.PodPolicySpec{Removal: &v1alpha1.RemovalSection{}}})
	after := stateful(t, s, ns, "after", "r1").Spec
	after.Volumes, after.Hostname = before.Volumes, before.Hostname // of the pod's own name
	after.Containers[0].VolumeMounts = before.Containers[0].VolumeMounts
	if d := cmp.Diff(before, after); d != "" {
		t.Errorf("a pod is not as it was: %s", d)
	}
	for _, step := range hazards(t, s, ns) {
		t.Run(step.name, func(t *testing.T) {
			kube, warnings := s.Warned(t, "")
			if err := step.do(t.Context(), kube); err != nil {
				t.Errorf("refused: %v", err)
			}
			got := slices.DeleteFunc(warnings.Take(), func(w string) bool { return strings.Contains(w, "Immediate deletion does not wait") }) // Kubernetes' own
			if !strings.Contains(strings.Join(got, " "), step.says) {
				t.Errorf("warnings %q, want %q", got, step.says)
			}
		})
	}
	zero := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "zero-0"}}
	for _, pod := range []*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "hasty"}}, zero} {
		suite.Eventually(t, "the pod "+pod.Name, func(ctx context.Context) (bool, error) {
			err := s.Client.Get(ctx, client.ObjectKeyFromObject(pod), pod)
			return err == nil, client.IgnoreNotFound(err)
		})
		if grace := *pod.Spec.TerminationGracePeriodSeconds; grace != 0 {
			t.Errorf("the grace period of pod %s is %d s", pod.Name, grace)
		}
	}
}

// hazard is something that a policy with a removal section may refuse or change.
type hazard struct {
	name, says string
	do         func(context.Context, client.Client) error
}

// hazards are in an order in which none is in the way of the next: the taint makes Kubernetes delete the pods of its node.
func hazards(t *testing.T, s *suite.Suite, ns string) []hazard {
	t.Helper()
	const runs, zero = " may still run on r1", "terminationGracePeriodSeconds is 0, so every delete of the pod is a force delete"
	forced, evicted, ended := stateful(t, s, ns, "forced", "r1"), stateful(t, s, ns, "evicted", "r1"), stateful(t, s, ns, "ended", "r1")
	stateful(t, s, ns, "bound", "r2")
	attachment := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "va-" + ns}, Spec: storagev1.VolumeAttachmentSpec{
		Attacher: "csi.example.org", NodeName: "r1", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: new("pv-" + ns)},
	}}
	s.Create(t, attachment)
	attachment.Status.Attached = true
	if err := s.Client.Status().Update(t.Context(), attachment); err != nil {
		t.Fatal(err)
	}
	return []hazard{
		{"force delete", "pod " + ns + "/forced-0" + runs, func(ctx context.Context, kube client.Client) error {
			return kube.Delete(ctx, forced, client.GracePeriodSeconds(0))
		}},
		{"eviction without grace", "pod " + ns + "/evicted-0" + runs, func(ctx context.Context, kube client.Client) error {
			return kube.SubResource("eviction").Create(ctx, evicted, &policyv1.Eviction{DeleteOptions: &metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}})
		}},
		{"status", "pod " + ns + "/ended-0" + runs, func(ctx context.Context, kube client.Client) error {
			return kube.Status().Patch(ctx, ended, client.RawPatch(types.MergePatchType, []byte(`{"status":{"phase":"Failed"}}`)))
		}},
		{"pod with grace 0", zero, func(ctx context.Context, kube client.Client) error {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "hasty"}, Spec: podSpec()}
			pod.Spec.TerminationGracePeriodSeconds = new(int64(0))
			pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
			return kube.Create(ctx, pod)
		}},
		{"StatefulSet with grace 0", zero, func(ctx context.Context, kube client.Client) error {
			set := statefulSet(ns, "zero", "r1")
			set.Spec.Template.Spec.TerminationGracePeriodSeconds = new(int64(0))
			return kube.Create(ctx, set)
		}},
		{"VolumeAttachment", "node r1 (", func(ctx context.Context, kube client.Client) error { return kube.Delete(ctx, attachment) }},
		{"Node", "pods may still run on node r2", func(ctx context.Context, kube client.Client) error {
			return kube.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "r2"}})
		}},
		{"out of service", "pods may still run on node r1", func(ctx context.Context, kube client.Client) error {
			patch := []byte(`[{"op":"add","path":"/spec/taints","value":[{"key":"node.kubernetes.io/out-of-service","effect":"NoExecute"}]}]`)
			return kube.Patch(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "r1"}}, client.RawPatch(types.JSONPatchType, patch))
		}},
	}
}

// stateful returns the pod of a StatefulSet, on a node.
func stateful(t *testing.T, s *suite.Suite, ns, name, node string) *corev1.Pod {
	t.Helper()
	s.Create(t, statefulSet(ns, name, node))
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name + "-0"}}
	suite.Eventually(t, "the pod "+pod.Name, func(ctx context.Context) (bool, error) {
		err := s.Client.Get(ctx, client.ObjectKeyFromObject(pod), pod)
		return err == nil, client.IgnoreNotFound(err)
	})
	return pod
}

// statefulSet has one pod, on a node.
func statefulSet(ns, name, node string) *appsv1.StatefulSet {
	labels, spec := map[string]string{"app": name}, podSpec()
	spec.NodeName = node
	return &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Spec: appsv1.StatefulSetSpec{
		Replicas: new(int32(1)), Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec},
	}}
}
