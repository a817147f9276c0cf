package controlplane

import (
	"context"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/e2e/suite"
)

func force(t *testing.T, s *suite.Suite, pod *corev1.Pod) error {
	t.Helper()
	return s.Client.Delete(t.Context(), pod.DeepCopy(), client.GracePeriodSeconds(0), client.DryRunAll)
}

// A pod's identity is not edited away: neither by taking out its owner, nor by deleting the StatefulSet without its pods, which is how one
// changes its volumeClaimTemplates. Its Node stays as well.
func TestIdentityIsNotEditedAway(t *testing.T) {
	s := start(t)
	for name, orphan := range map[string]func(pod *corev1.Pod) error{
		"the owner taken out": func(pod *corev1.Pod) error {
			return s.Client.Patch(t.Context(), pod.DeepCopy(), client.RawPatch("application/json-patch+json",
				[]byte(`[{"op":"remove","path":"/metadata/ownerReferences"},{"op":"remove","path":"/metadata/labels"}]`)))
		},
		"--cascade=orphan": func(pod *corev1.Pod) error {
			_, _, err := s.Kubectl(t.Context(), "delete", "statefulset", "db", "--cascade=orphan", "-n", pod.Namespace)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			pod := guarded(t, s)
			wantRefused(t, force(t, s, pod), "it is a pod of StatefulSet db")
			if err := orphan(pod); err != nil {
				t.Fatal(err)
			}
			suite.Eventually(t, "the pod without its owner", func(ctx context.Context) (bool, error) {
				err := s.Client.Get(ctx, client.ObjectKeyFromObject(pod), pod)
				return len(pod.OwnerReferences) == 0, err
			})
			wantRefused(t, force(t, s, pod), "it was created as a pod of StatefulSet db")
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: pod.Spec.NodeName}}
			wantRefused(t, s.Client.Delete(t.Context(), node, client.DryRunAll), pod.Namespace+"/db-0")
		})
	}
}

// A claim that is made anew under the name of the one that the pod has says nothing about the pod's volume.
func TestClaimMadeAnew(t *testing.T) {
	s := start(t)
	ns := s.Namespace(t)
	s.Policy(t, ns, v1alpha1.PodPolicySpec{Removal: &v1alpha1.RemovalSection{}})
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	s.Create(t, &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: ns}, Spec: corev1.PersistentVolumeSpec{
		Capacity: size, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/nowhere"}},
	}})
	claim := func(mode corev1.PersistentVolumeAccessMode) *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "data"}, Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{mode}, Resources: corev1.VolumeResourceRequirements{Requests: size}, StorageClassName: new(""), VolumeName: ns,
		}}
	}
	first := claim(corev1.ReadWriteOnce)
	s.Create(t, first)
	spec := template("app", func(p *corev1.PodSpec) {
		p.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
	})
	s.Create(t, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "app"}, Spec: appsv1.DeploymentSpec{
		Replicas: new(int32(1)), Selector: &metav1.LabelSelector{MatchLabels: spec.Labels}, Template: spec,
	}})
	pod := &bound(t, s, ns, 1)[0]
	wantRefused(t, force(t, s, pod), "its claim data is ReadWriteOnce")

	since := time.Now()
	if err := s.Client.Delete(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	if err := s.Client.Patch(t.Context(), first, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))); err != nil {
		t.Fatal(err)
	}
	// The API server's times are in seconds: the claim is younger than the pod from the next one on.
	suite.Eventually(t, "the claim made anew", func(ctx context.Context) (bool, error) {
		if time.Since(since) < 2*time.Second {
			return false, nil
		}
		err := s.Client.Create(ctx, claim(corev1.ReadWriteMany))
		return err == nil, client.IgnoreAlreadyExists(err)
	})
	suite.Eventually(t, "the webhook's look at the claim that is there", func(context.Context) (bool, error) {
		err := force(t, s, pod)
		if err == nil || !apierrors.IsForbidden(err) {
			t.Fatalf("it went through: %v", err)
		}
		return strings.Contains(err.Error(), "its claim data was made anew after it started"), nil
	})
}
