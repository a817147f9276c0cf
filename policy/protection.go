package policy

import (
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/component-helpers/storage/ephemeral"
)

// Protection says which pods policies protect. The zero value protects pods with an identity (those of a StatefulSet) or with exclusive storage.
type Protection struct {
	// All: every pod.
	All bool
	// Owners are kinds of controllers whose pods have an identity as well.
	Owners []schema.GroupKind
	// BlockClaims: a claim with volumeMode Block is exclusive, whatever its access mode is.
	BlockClaims bool
}

// Why says why it would harm to run the pod twice: it has an identity or exclusive storage. Empty: it has neither, though the policies may protect all pods.
// A claim that is unknown counts as exclusive.
//
// A tenant may take the owner out of a pod, and whoever deletes a StatefulSet with --cascade=orphan does. The record of it stays as it was
// created, and so does the hostname: that of a StatefulSet's pod, whatever group the StatefulSet is of, is its name (pkg/controller/statefulset/stateful_set_utils.go
// initIdentity, 1.36.3).
func (p Protection) Why(pod *corev1.Pod, claims Claims) string {
	if why := p.identity(pod); why != "" {
		return why
	}
	for i := range pod.Spec.Volumes {
		if why := p.exclusiveVolume(&pod.Spec.Volumes[i], claims); why != "" {
			return why
		}
	}
	return ""
}

// identity says by what the pod has an identity; empty: it has none.
func (p Protection) identity(pod *corev1.Pod) string {
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil && p.identifies(kindOf(owner)) {
		return fmt.Sprintf("it is a pod of %s %s", owner.Kind, owner.Name)
	}
	if kind, name := recorded(pod); p.identifies(kind) {
		return fmt.Sprintf("it was created as a pod of %s %s", kind.Kind, name)
	}
	if pod.Name != "" && pod.Spec.Hostname == pod.Name {
		return "its hostname is its own name, as of a StatefulSet's pod"
	}
	return ""
}

// identifies reports whether a controller of this kind gives its pods an identity.
func (p Protection) identifies(kind schema.GroupKind) bool {
	return kind.Kind == "StatefulSet" || slices.Contains(p.Owners, kind)
}

// kindOf is an owner's kind, of whatever version.
func kindOf(owner *metav1.OwnerReference) schema.GroupKind {
	return schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind).GroupKind()
}

// exclusiveVolume says why only one node or pod may use a volume; empty: more may.
func (p Protection) exclusiveVolume(v *corev1.Volume, claims Claims) string {
	switch {
	case v.PersistentVolumeClaim != nil:
		name := v.PersistentVolumeClaim.ClaimName
		claim, ok := claims[name]
		if !ok {
			return fmt.Sprintf("the access mode of its claim %s is not known", name)
		}
		if claim.Recreated {
			return fmt.Sprintf("its claim %s was not there before it started, so that the access mode of the volume that it has is not known", name)
		}
		if mode, ok := Exclusive(claim.Modes); ok {
			return fmt.Sprintf("its claim %s is %s", name, mode)
		}
		if p.BlockClaims && claim.Block {
			return fmt.Sprintf("its claim %s is a block device, which the policy takes for exclusive", name)
		}
	case v.Ephemeral != nil && v.Ephemeral.VolumeClaimTemplate != nil:
		// The claim is made after the pod, with the modes that stand in the pod.
		spec := &v.Ephemeral.VolumeClaimTemplate.Spec
		if mode, ok := Exclusive(spec.AccessModes); ok {
			return fmt.Sprintf("the claim of its volume %s is %s", v.Name, mode)
		}
		if p.BlockClaims && block(spec.VolumeMode) {
			return fmt.Sprintf("the claim of its volume %s is a block device, which the policy takes for exclusive", v.Name)
		}
	default:
		if kind := writtenByOne(&v.VolumeSource); kind != "" {
			return fmt.Sprintf("its volume %s (%s) may be written to by one node only", v.Name, kind)
		}
	}
	return ""
}

// writtenByOne names the type of a volume that stands in the pod itself and that is a disk: a file system on it which two nodes have
// mounted is destroyed. Read-only, it may be on many.
func writtenByOne(v *corev1.VolumeSource) string {
	for _, disk := range []struct {
		kind string
		is   bool
	}{
		{"iscsi", v.ISCSI != nil && !v.ISCSI.ReadOnly},
		{"fc", v.FC != nil && !v.FC.ReadOnly},
		{"rbd", v.RBD != nil && !v.RBD.ReadOnly},
		{"awsElasticBlockStore", v.AWSElasticBlockStore != nil},
		{"gcePersistentDisk", v.GCEPersistentDisk != nil && !v.GCEPersistentDisk.ReadOnly},
		{"azureDisk", v.AzureDisk != nil},
		{"cinder", v.Cinder != nil},
		{"vsphereVolume", v.VsphereVolume != nil},
		{"portworxVolume", v.PortworxVolume != nil && !v.PortworxVolume.ReadOnly},
		{"flexVolume", v.FlexVolume != nil && !v.FlexVolume.ReadOnly},
	} {
		if disk.is {
			return disk.kind
		}
	}
	return ""
}

// Exclusive returns the access mode that lets only one node or pod use a volume; false: none of them does.
func Exclusive(modes []corev1.PersistentVolumeAccessMode) (corev1.PersistentVolumeAccessMode, bool) {
	for _, mode := range []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce, corev1.ReadWriteOncePod} {
		if slices.Contains(modes, mode) {
			return mode, true
		}
	}
	return "", false
}

// block reports whether a claim is for a block device; without a mode it is for a file system.
func block(mode *corev1.PersistentVolumeMode) bool {
	return mode != nil && *mode == corev1.PersistentVolumeBlock
}

// Claims are a pod's PersistentVolumeClaims, by name. One that is missing is unknown.
type Claims map[string]Claim

// Claim is a PersistentVolumeClaim that a pod names.
type Claim struct {
	Modes []corev1.PersistentVolumeAccessMode
	// Block: its volumeMode is Block.
	Block bool
	// Recreated: it may have been created after the pod started, and then it is not the claim whose volume the pod uses: somebody deleted that one and removed
	// its finalizer. The access modes of this one count for nothing.
	Recreated bool
	// Volume is the name of the PersistentVolume that it is bound to; empty: unknown.
	Volume string
}

// ClaimOf returns what a PersistentVolumeClaim says about the volume that the pod uses.
func ClaimOf(claim *corev1.PersistentVolumeClaim, pod *corev1.Pod) Claim {
	// Neither does a scheduler place a pod nor a kubelet start it whose claim is not there (pkg/scheduler/framework/plugins/volumebinding,
	// pkg/kubelet/volumemanager/populator, 1.36.3). The later of the two, since one clock may be behind.
	var started time.Time
	if pod.Status.StartTime != nil {
		started = pod.Status.StartTime.Time
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue && c.LastTransitionTime.After(started) {
			started = c.LastTransitionTime.Time
		}
	}
	// Stored times have whole seconds: a claim of the second in which the pod started may be either, and counts as the recreated one.
	recreated := !started.IsZero() && !claim.CreationTimestamp.Time.Before(started)
	return Claim{Modes: claim.Spec.AccessModes, Block: block(claim.Spec.VolumeMode), Volume: claim.Spec.VolumeName, Recreated: recreated}
}

// ClaimNames returns the names of the PersistentVolumeClaims that the pod names.
func ClaimNames(pod *corev1.Pod) []string {
	var names []string
	for _, v := range pod.Spec.Volumes {
		if v.PersistentVolumeClaim != nil {
			names = append(names, v.PersistentVolumeClaim.ClaimName)
		}
	}
	return names
}

// AllClaimNames are those that the pod names, and those that are made for its ephemeral volumes.
func AllClaimNames(pod *corev1.Pod) []string {
	names := ClaimNames(pod)
	for i := range pod.Spec.Volumes {
		if v := &pod.Spec.Volumes[i]; v.Ephemeral != nil {
			names = append(names, ephemeral.VolumeClaimName(pod, v))
		}
	}
	return names
}

// ofItsNode reports whether a pod is of its node: a replacement runs on no other. Who may edit owners can make a DaemonSet adopt any pod; the field by which
// the DaemonSet controller ties its own to a node nobody can change (pkg/controller/daemon/util/daemonset_util.go
// ReplaceDaemonSetPodNodeNameNodeAffinity, 1.36.3).
func ofItsNode(pod *corev1.Pod) bool {
	if _, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		return true
	}
	owner := metav1.GetControllerOfNoCopy(pod)
	return owner != nil && kindOf(owner) == daemonSet && tied(pod)
}

// tied reports whether a pod can run on the node that it is bound to and on no other.
func tied(pod *corev1.Pod) bool {
	a := pod.Spec.Affinity
	if a == nil || a.NodeAffinity == nil || a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return false
	}
	terms := a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	return len(terms) > 0 && !slices.ContainsFunc(terms, func(t corev1.NodeSelectorTerm) bool {
		return !slices.ContainsFunc(t.MatchFields, func(r corev1.NodeSelectorRequirement) bool {
			return r.Key == metav1.ObjectNameField && r.Operator == corev1.NodeSelectorOpIn && slices.Equal(r.Values, []string{pod.Spec.NodeName})
		})
	})
}

var daemonSet = appsv1.SchemeGroupVersion.WithKind("DaemonSet").GroupKind()
