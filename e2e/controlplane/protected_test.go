package controlplane

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/e2e/suite"
)

func force(t *testing.T, s *suite.Suite, pod *corev1.Pod) error {
	t.Helper()
	return s.Client.Delete(t.Context(), pod.DeepCopy(), client.GracePeriodSeconds(0), client.DryRunAll)
}

// A pod's identity is not edited away: neither by taking out its owner, nor by deleting the StatefulSet without its pods, which is how one
// changes its volumeClaimTemplates. Its Node stays as well. A pod from before the policy has no record, and a hostname that nobody can change.
func TestIdentityIsNotEditedAway(t *testing.T) {
	s := start(t)
	const byRecord, byHostname = "it was created as a pod of StatefulSet db", "its hostname is its own name, as of a StatefulSet's pod"
	takeOut := func(pod *corev1.Pod) error {
		return s.Client.Patch(t.Context(), pod.DeepCopy(), client.RawPatch("application/json-patch+json",
			[]byte(`[{"op":"remove","path":"/metadata/ownerReferences"},{"op":"remove","path":"/metadata/labels"}]`)))
	}
	cascade := func(pod *corev1.Pod) error {
		_, _, err := s.Kubectl(t.Context(), "delete", "statefulset", "db", "--cascade=orphan", "-n", pod.Namespace)
		return err
	}
	early := func(t *testing.T, s *suite.Suite, _ ...func(*v1alpha1.RemovalSection)) *corev1.Pod {
		t.Helper()
		pod := protected(t, s, s.Namespace(t))
		s.Policy(t, pod.Namespace, v1alpha1.PodPolicySpec{Removal: &v1alpha1.RemovalSection{}})
		return pod
	}
	for name, tc := range map[string]struct {
		pod    func(*testing.T, *suite.Suite, ...func(*v1alpha1.RemovalSection)) *corev1.Pod
		orphan func(*corev1.Pod) error
		says   string
	}{
		"the owner taken out":         {guarded, takeOut, byRecord},
		"--cascade=orphan":            {guarded, cascade, byRecord},
		"the same, before the policy": {early, cascade, byHostname},
	} {
		t.Run(name, func(t *testing.T) {
			pod := tc.pod(t, s)
			wantRefused(t, force(t, s, pod), "it is a pod of StatefulSet db")
			if err := tc.orphan(pod); err != nil {
				t.Fatal(err)
			}
			suite.Eventually(t, "the pod without its owner", func(ctx context.Context) (bool, error) {
				err := s.Client.Get(ctx, client.ObjectKeyFromObject(pod), pod)
				return len(pod.OwnerReferences) == 0, err
			})
			wantRefused(t, force(t, s, pod), tc.says)
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: pod.Spec.NodeName}}
			wantRefused(t, s.Client.Delete(t.Context(), node, client.DryRunAll), pod.Namespace+"/db-0")
		})
	}
}

// A claim that is recreated under the name of the one that the pod has says nothing about the pod's volume.
func TestClaimRecreated(t *testing.T) {
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
	// The API server's times are in seconds: a pod of the same second may have another claim.
	suite.Eventually(t, "the second after the claim's", func(context.Context) (bool, error) {
		return time.Since(first.CreationTimestamp.Time) > 2*time.Second, nil
	})
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
	suite.Eventually(t, "the recreated claim", func(ctx context.Context) (bool, error) {
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
		return strings.Contains(err.Error(), "its claim data was not there before it started"), nil
	})

	// It may have been recreated in the second in which the pod started, too.
	again := &corev1.PersistentVolumeClaim{}
	if err := s.Client.Get(t.Context(), client.ObjectKeyFromObject(first), again); err != nil {
		t.Fatal(err)
	}
	started := fmt.Appendf(nil, `{"status":{"startTime":%q}}`, again.CreationTimestamp.UTC().Format(time.RFC3339))
	if err := s.Client.Status().Patch(t.Context(), pod, client.RawPatch("application/merge-patch+json", started)); err != nil {
		t.Fatal(err)
	}
	wantRefused(t, force(t, s, pod), "its claim data was not there before it started")
}

// podSets are the controllers of an operator, by which a policy may protect pods.
var podSets = schema.GroupVersionKind{Group: "core.strimzi.io", Version: "v1beta2", Kind: "StrimziPodSet"}

// definePodSets makes their CustomResourceDefinition.
func definePodSets(t *testing.T, s *suite.Suite) {
	t.Helper()
	crd := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"group": podSets.Group, "scope": "Namespaced",
		"names": map[string]any{"kind": podSets.Kind, "listKind": podSets.Kind + "List", "plural": "strimzipodsets", "singular": "strimzipodset"},
		"versions": []any{map[string]any{"name": podSets.Version, "served": true, "storage": true,
			"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}},
	}}}
	crd.SetAPIVersion("apiextensions.k8s.io/v1")
	crd.SetKind("CustomResourceDefinition")
	crd.SetName("strimzipodsets." + podSets.Group)
	if err := s.Client.Create(t.Context(), crd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Client.Delete(context.Background(), crd) })
}

// podSet makes one.
func podSet(t *testing.T, s *suite.Suite, ns string) *unstructured.Unstructured {
	t.Helper()
	set := &unstructured.Unstructured{}
	set.SetGroupVersionKind(podSets)
	set.SetNamespace(ns)
	set.SetName("kafka")
	suite.Eventually(t, "the kind to be served", func(ctx context.Context) (bool, error) {
		err := s.Client.Create(ctx, set)
		return err == nil, err
	})
	return set
}

// running makes a pod that no StatefulSet made, and that is bound to a node.
func running(t *testing.T, s *suite.Suite, ns string, change func(*corev1.Pod)) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "kafka-0"}, Spec: template("kafka").Spec}
	pod.Spec.NodeName = "node-0"
	change(pod)
	s.Create(t, pod)
	t.Cleanup(func() { _ = letGo(context.Background(), s, pod) })
	return pod
}

// tenant is somebody with the role edit in a namespace.
func tenant(t *testing.T, s *suite.Suite, ns string) client.Client {
	t.Helper()
	s.Bind(t, rbacv1.UserKind, "tenant-"+ns, ns, "edit")
	kube, _ := s.Warned(t, "tenant-"+ns)
	return kube
}

// The pods of an operator are protected where a policy names the kind of their controller; and they stay so when a tenant takes it out of
// them, who can't change what was recorded.
func TestOwnersOfPoliciesAreProtected(t *testing.T) {
	s := start(t)
	definePodSets(t, s)
	for name, owners := range map[string][]v1alpha1.ProtectedOwner{"named": {{Group: podSets.Group, Kind: podSets.Kind}}, "not named": nil} {
		t.Run(name, func(t *testing.T) {
			ns := s.Namespace(t)
			s.Policy(t, ns, v1alpha1.PodPolicySpec{Removal: &v1alpha1.RemovalSection{Owners: owners}})
			set := podSet(t, s, ns)
			pod := running(t, s, ns, func(p *corev1.Pod) {
				p.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set, podSets)}
			})
			kube := tenant(t, s, ns)
			force := func() error {
				return kube.Delete(t.Context(), pod.DeepCopy(), client.GracePeriodSeconds(0), client.DryRunAll)
			}
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: pod.Spec.NodeName}}
			patch := func(text string) client.Patch { return client.RawPatch("application/merge-patch+json", []byte(text)) }
			takeOut := patch(`{"metadata":{"ownerReferences":null}}`)
			if owners == nil {
				if err := force(); err != nil {
					t.Errorf("a force delete: %v", err)
				}
				if got := annotationOf(t, s, pod, v1alpha1.AnnotationProtected); got != "" {
					t.Errorf("recorded is %q", got)
				}
				return
			}
			wantRefused(t, force(), "it is a pod of StrimziPodSet kafka")
			if got, want := annotationOf(t, s, pod, v1alpha1.AnnotationProtected), "StrimziPodSet.core.strimzi.io/kafka"; got != want {
				t.Errorf("recorded is %q, want %q", got, want)
			}
			const says = "annotation podgrace.dev/protected records whose pod this was"
			wantForbidden(t, kube.Patch(t.Context(), pod.DeepCopy(), patch(`{"metadata":{"annotations":{"podgrace.dev/protected":null}}}`)), says)
			wantForbidden(t, kube.Patch(t.Context(), pod.DeepCopy(), patch(`{"metadata":{"annotations":{"podgrace.dev/protected":"Job.batch/x"}}}`)), says)
			wantForbidden(t, s.Client.Status().Patch(t.Context(), pod.DeepCopy(), patch(`{"metadata":{"annotations":{"podgrace.dev/protected":"Job.batch/x"}}}`)), says) // who may confirm may only remove it

			if err := kube.Patch(t.Context(), pod.DeepCopy(), takeOut); err != nil {
				t.Fatal(err)
			}
			if err := s.Client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil || len(pod.OwnerReferences) != 0 {
				t.Fatalf("owners %v, %v: what this test is about is no more", pod.OwnerReferences, err)
			}
			const byRecord = "it was created as a pod of StrimziPodSet kafka"
			wantRefused(t, force(), byRecord)
			eviction := &policyv1.Eviction{DeleteOptions: &metav1.DeleteOptions{GracePeriodSeconds: new(int64(0)), DryRun: []string{metav1.DryRunAll}}}
			wantRefused(t, s.Client.SubResource("eviction").Create(t.Context(), pod.DeepCopy(), eviction), byRecord)
			wantRefused(t, s.Client.Delete(t.Context(), node, client.DryRunAll), ns+"/kafka-0")
		})
	}
}

// A block device that many may attach has one writer all the same, where the policy says so.
func TestBlockClaims(t *testing.T) {
	s := start(t)
	for setting, refused := range map[v1alpha1.BlockClaims]bool{v1alpha1.BlockClaimsExclusive: true, v1alpha1.BlockClaimsByAccessMode: false, "": false} {
		t.Run("blockClaims "+string(setting), func(t *testing.T) {
			ns := s.Namespace(t)
			s.Policy(t, ns, v1alpha1.PodPolicySpec{Removal: &v1alpha1.RemovalSection{BlockClaims: setting}})
			s.Create(t, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "disk"}, Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}, VolumeMode: new(corev1.PersistentVolumeBlock),
				Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
			}})
			pod := running(t, s, ns, func(p *corev1.Pod) {
				p.Spec.Volumes = []corev1.Volume{{Name: "disk", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "disk"}}}}
			})
			switch err := force(t, s, pod); {
			case refused:
				wantRefused(t, err, "its claim disk is a block device, which the policy takes for exclusive")
			case err != nil:
				t.Error(err)
			}
		})
	}
}
