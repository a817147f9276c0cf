package controlplane

import (
	"context"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/e2e/suite"
	"github.com/podgrace/podgrace/guard"
)

// The attach-detach controller takes a volume by force from a node that is silent: six minutes after the pod is deleting, or at once where a
// taint was forgotten, which is the shorter way to see it here. The node may still write to it, so it has to wait for who knows that it is off.
func TestForceDetach(t *testing.T) {
	s := start(t)
	node, ns := partition(t, s), s.Namespace(t)
	// Before the policy is there. Those of the tests before may not be forgotten yet.
	suite.Eventually(t, "the taint that is forgotten later", func(ctx context.Context) (bool, error) {
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"taints":[{"key":"node.kubernetes.io/out-of-service","effect":"NoExecute"}]}}`))
		err := s.Client.Patch(ctx, node, patch)
		if apierrors.ReasonForError(err) == metav1.StatusReason(guard.Unsafe.Code) {
			return false, nil
		}
		return err == nil, err
	})
	annotate(t, s, node, "volumes.kubernetes.io/controller-managed-attach-detach", "true") // as kubelets say of themselves
	pod := attachedTo(t, s, node, ns)
	attachment := attachmentTo(t, s, node.Name)
	s.Policy(t, ns, v1alpha1.PodPolicySpec{Removal: &v1alpha1.RemovalSection{}})

	silence(t, s, node)
	if err := s.Client.Delete(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	refused := func(list corev1.EventList) bool {
		return slices.ContainsFunc(list.Items, func(e corev1.Event) bool {
			return e.Reason == "RemovalRefused" && e.InvolvedObject.Name == attachment.Name && strings.Contains(e.Message, "attachdetach-controller") &&
				strings.Contains(e.Message, "may still write to volume "+ns+" of claim "+ns+"/data")
		})
	}
	suite.Eventually(t, "the refusal, told in an Event", func(ctx context.Context) (bool, error) {
		var list corev1.EventList
		err := s.Client.List(ctx, &list, client.MatchingFields{"involvedObject.name": attachment.Name})
		return refused(list), err
	})
	if err := s.Client.Get(t.Context(), client.ObjectKeyFromObject(attachment), attachment); err != nil || attachment.DeletionTimestamp != nil {
		t.Fatalf("the volume was taken from a node that may write to it: %v", err)
	}

	s.ConfirmOff(t, node.Name)
	suite.Eventually(t, "the volume detached", func(ctx context.Context) (bool, error) {
		err := s.Client.Get(ctx, client.ObjectKeyFromObject(attachment), attachment)
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
}

// attachedTo returns a pod that is bound to a node, with a volume of a CSI driver that is attached there and in use.
func attachedTo(t *testing.T, s *suite.Suite, node *corev1.Node, ns string) *corev1.Pod {
	t.Helper()
	driver, size := ns+".example.org", corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	once := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	s.Create(t, &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: driver}, Spec: storagev1.CSIDriverSpec{AttachRequired: new(true)}})
	s.Create(t, &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: ns}, Spec: corev1.PersistentVolumeSpec{
		Capacity: size, AccessModes: once, ClaimRef: &corev1.ObjectReference{Namespace: ns, Name: "data"},
		PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: "disk"}},
	}})
	s.Create(t, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "data"}, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: once, Resources: corev1.VolumeResourceRequirements{Requests: size}, StorageClassName: new(""), VolumeName: ns,
	}})
	spec := template("app", func(p *corev1.PodSpec) {
		p.NodeSelector, p.Tolerations = map[string]string{"e2e": node.Name}, []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
		p.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
	}).Spec
	s.Create(t, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "app"}, Spec: spec})
	pod := &bound(t, s, ns, 1)[0]
	t.Cleanup(func() { _ = letGo(context.Background(), s, pod) })

	attachment := attachmentTo(t, s, node.Name)
	attachment.Status.Attached = true // as the driver's external-attacher says
	if err := s.Client.Status().Update(t.Context(), attachment); err != nil {
		t.Fatal(err)
	}
	suite.Eventually(t, "the volume in use", func(ctx context.Context) (bool, error) { // as the kubelet says
		if err := s.Client.Get(ctx, client.ObjectKeyFromObject(node), node); err != nil {
			return false, err
		}
		node.Status.VolumesInUse = []corev1.UniqueVolumeName{corev1.UniqueVolumeName("kubernetes.io/csi/" + driver + "^disk")}
		err := s.Client.Status().Update(ctx, node)
		return err == nil, client.IgnoreNotFound(ignoreConflict(err))
	})
	return pod
}

func ignoreConflict(err error) error {
	if apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// attachmentTo returns the attachment of a volume to a node, once the attach-detach controller has made it.
func attachmentTo(t *testing.T, s *suite.Suite, node string) *storagev1.VolumeAttachment {
	t.Helper()
	var found storagev1.VolumeAttachment
	suite.Eventually(t, "the attachment to "+node, func(ctx context.Context) (bool, error) {
		var list storagev1.VolumeAttachmentList
		err := s.Client.List(ctx, &list)
		for _, a := range list.Items {
			if a.Spec.NodeName == node {
				found = a
				return true, err
			}
		}
		return false, err
	})
	return &found
}
