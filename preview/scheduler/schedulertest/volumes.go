package schedulertest

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/policy/policytest/draw"
)

// claimNames are those that pods name, in both namespaces; the last one never exists.
var claimNames = []string{"bound-0", "bound-1", "bound-2", "late", "static", "immediate", "missing"}

const driver = "disks.example.com"

// The classes of the claims: provisioned at once, when there is a consumer, or from volumes that are there.
const (
	immediateClass = "immediate"
	lateClass      = "late"
	staticClass    = "static"
)

// StorageClasses are the same in all cases.
func StorageClasses() []*storagev1.StorageClass {
	class := func(name, provisioner string, mode storagev1.VolumeBindingMode) *storagev1.StorageClass {
		return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: provisioner, VolumeBindingMode: &mode}
	}
	late := class(lateClass, driver, storagev1.VolumeBindingWaitForFirstConsumer)
	late.AllowedTopologies = []corev1.TopologySelectorTerm{{MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{{Key: corev1.LabelTopologyZone, Values: []string{"a", "b"}}}}}
	return []*storagev1.StorageClass{
		class(immediateClass, driver, storagev1.VolumeBindingImmediate), late, class(staticClass, "kubernetes.io/no-provisioner", storagev1.VolumeBindingWaitForFirstConsumer),
	}
}

// drawVolumes are the claims that pods name, the volumes that some are bound to, and how many of the driver's volumes the nodes can attach.
func drawVolumes(s draw.Source, nodes []*corev1.Node, pods []*corev1.Pod) []client.Object {
	used := map[string]bool{}
	for _, p := range pods {
		for _, v := range p.Spec.Volumes {
			used[p.Namespace+"/"+v.PersistentVolumeClaim.ClaimName] = true
		}
	}
	if len(used) == 0 {
		return nil
	}
	var all []client.Object
	for _, c := range StorageClasses() {
		all = append(all, c)
	}
	for _, namespace := range []string{Namespace, otherNamespace} {
		for i := range 3 {
			if !used[namespace+"/"+claimNames[i]] {
				continue
			}
			v := drawVolume(s, fmt.Sprintf("%s-%d", namespace, i), immediateClass)
			c := claim(namespace, claimNames[i], immediateClass, draw.Pick(s, corev1.ReadWriteOnce, corev1.ReadWriteOncePod))
			c.Annotations = map[string]string{"pv.kubernetes.io/bind-completed": "yes"}
			c.Spec.VolumeName, c.Status.Phase = v.Name, corev1.ClaimBound
			v.Spec.AccessModes = c.Spec.AccessModes
			v.Spec.ClaimRef, v.Status.Phase = &corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: namespace, Name: c.Name, UID: c.UID}, corev1.VolumeBound
			all = append(all, c, v)
		}
		for name, class := range map[string]string{"late": lateClass, "static": staticClass, "immediate": immediateClass} {
			if used[namespace+"/"+name] {
				all = append(all, claim(namespace, name, class, corev1.ReadWriteOnce))
			}
		}
	}
	for i := range s.Below(3) {
		v := drawVolume(s, fmt.Sprintf("static-%d", i), staticClass)
		v.Status.Phase = corev1.VolumeAvailable
		all = append(all, v)
	}
	for _, n := range nodes {
		if s.Chance(6) {
			all = append(all, &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: n.Name}, Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: driver, NodeID: n.Name, Allocatable: &storagev1.VolumeNodeResources{Count: new(draw.Pick[int32](s, 1, 2))}}}}})
		}
		if s.Chance(3) {
			volume := "shop-2"
			all = append(all, &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "attached-" + n.Name}, Spec: storagev1.VolumeAttachmentSpec{Attacher: driver, NodeName: n.Name, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &volume}}})
		}
	}
	return all
}

func drawVolume(s draw.Source, name, class string) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeSpec{
		StorageClassName: class, Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("2Gi")}, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: name}},
	}}
	if s.Chance(10) {
		v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{draw.Pick(s, "a", "b", "c")}}},
		}}}}
	}
	return v
}

func claim(namespace, name, class string, mode corev1.PersistentVolumeAccessMode) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(namespace + "-" + name)},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{mode},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending},
	}
}
