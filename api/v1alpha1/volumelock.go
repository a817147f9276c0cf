package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Finalizer and annotations of the volume lock.
const (
	// FinalizerVolumeLock is on a VolumeAttachment before it is attached, so that its deletion is seen before it is gone.
	FinalizerVolumeLock = "podgrace.dev/volume-lock"
	// AnnotationVolumeLock of a VolumeAttachment is the name of the VolumeLock that it is attached by, if it is attached. Who holds that VolumeLock only that itself says.
	AnnotationVolumeLock = "podgrace.dev/volume-lock"
	// AnnotationConfirmRelease of a VolumeLock is a person's word that its node does not use the volume and can't: LOCK-UID/ATTACHMENT-UID/SINCE, its own UID and what status.release has.
	AnnotationConfirmRelease = "podgrace.dev/confirm-release"
	// AnnotationGated of a CSIDriver says that kubectl podgrace volumelock adopt made it anew, and how far that has come: GatedAdopting/UID or GatedAdopted/UID, with its own UID. With
	// that of another CSIDriver, as in a copy that somebody made anew, it says nothing.
	AnnotationGated = "podgrace.dev/gated"
	// GatedAdopting: it is not known yet what nodes had mounted before, and nothing of the driver is attached.
	GatedAdopting = "Adopting"
	// GatedAdopted: all of that has its VolumeLock.
	GatedAdopted = "Adopted"
)

// ConditionConflict of a VolumeLock: its driver can't be gated, so that kubelets may mount the volume without asking. Nothing but the end of the instance releases it meanwhile.
const ConditionConflict = "Conflict"

// VolumeLock says which one node may mount a volume. As long as it exists the volume is held; it never expires. The volume lock makes it to take the volume, under a name that
// only depends on the volume, and deletes it on evidence that the node does not use the volume any more. A person releases it by the annotation podgrace.dev/confirm-release.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,categories=podgrace
// +kubebuilder:printcolumn:name="Driver",type=string,JSONPath=`.spec.driver`
// +kubebuilder:printcolumn:name="Volume",type=string,JSONPath=`.spec.persistentVolume`
// +kubebuilder:printcolumn:name="Node",type=string,JSONPath=`.spec.node.name`
// +kubebuilder:printcolumn:name="Releasing",type=date,JSONPath=`.status.release.since`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.message`
type VolumeLock struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is who holds what. It never changes: another holder is another VolumeLock.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="who holds a volume does not change: it is released, and taken by another"
	Spec VolumeLockSpec `json:"spec"`
	// Status is how far a release has come; the volume lock writes it.
	// +optional
	Status VolumeLockStatus `json:"status,omitempty"`
}

// VolumeLockList is a list of VolumeLocks.
//
// +kubebuilder:object:root=true
type VolumeLockList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	// Items are the VolumeLocks.
	Items []VolumeLock `json:"items"`
}

// VolumeLockSpec is who holds what.
type VolumeLockSpec struct {
	// Driver is the CSI driver of the volume.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Driver string `json:"driver"`
	// Volume is what is locked. PersistentVolumes that lead to the same have the same.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=8192
	Volume string `json:"volume"`
	// Identity is how it is known that two PersistentVolumes are the same volume: by where they lead (Export), or only by the very same volumeHandle (Handle).
	// +required
	Identity VolumeIdentity `json:"identity"`
	// PersistentVolume by which it was taken.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	PersistentVolume string `json:"persistentVolume"`
	// VolumeHandle of that PersistentVolume: by it the kubelet calls the volume.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	VolumeHandle string `json:"volumeHandle"`
	// Node that holds it, and its boot when it took it.
	// +required
	Node BootReference `json:"node"`
	// Attachment by which it was taken.
	// +required
	Attachment AttachmentReference `json:"attachment"`
	// ReadySince is since when the node had been ready (lastTransitionTime of its condition Ready) when it took the volume; absent: it was not, or had the volume already.
	// +optional
	ReadySince *metav1.Time `json:"readySince,omitempty"`
	// Adopted: the node had mounted the volume before its driver was gated. That it does not use it any more its kubelet can't tell by that boot.
	// +optional
	Adopted bool `json:"adopted,omitempty"`
	// DriverUID is the UID of the CSIDriver by which the volume was gated when it was taken; absent: there was none, or it is not known.
	// +optional
	// +kubebuilder:validation:XValidation:rule="size(self) <= 64",message="a UID has no more than 64 characters"
	DriverUID types.UID `json:"driverUID,omitempty"`
}

// VolumeIdentity is how a volume is known.
//
// +kubebuilder:validation:Enum=Export;Handle
type VolumeIdentity string

// How a volume is known.
const (
	// VolumeByExport is one known by where it leads, such as server and path.
	VolumeByExport VolumeIdentity = "Export"
	// VolumeByHandle is one known by its volumeHandle alone, as it is written.
	VolumeByHandle VolumeIdentity = "Handle"
)

// AttachmentReference is one VolumeAttachment.
type AttachmentReference struct {
	// Name of the VolumeAttachment.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// UID of the VolumeAttachment; absent: there is none yet, which only a lock that was adopted has.
	// +optional
	// +kubebuilder:validation:XValidation:rule="size(self) <= 64",message="a UID has no more than 64 characters"
	UID types.UID `json:"uid,omitempty"`
}

// BootUnknown is the value of UngatedBootID until that is known.
const BootUnknown = "Unknown"

// VolumeLockStatus is how far a release has come.
type VolumeLockStatus struct {
	// Attachment by which the node holds it now, where that is another one than it was taken by.
	// +optional
	Attachment *AttachmentReference `json:"attachment,omitempty"`
	// Ready is since when the node was ready as it was last seen beside the volume attached as it should be, where that is another time than in the spec. A volume is detached by force only
	// from a node that is not ready, and then this changes.
	// +optional
	Ready *ReadyPeriod `json:"ready,omitempty"`
	// DistrustedBootID is the boot of the node from which the volume may have been detached by force: a kubelet that starts anew after that does not tell of such a volume, so that its word
	// counts by another boot only, as long as this VolumeLock is there.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	DistrustedBootID string `json:"distrustedBootID,omitempty"`
	// DriverUID is the UID of the CSIDriver as it was last seen, where that is another one than in the spec; empty: there was none.
	// +optional
	// +kubebuilder:validation:XValidation:rule="size(self) <= 64",message="a UID has no more than 64 characters"
	DriverUID *types.UID `json:"driverUID,omitempty"`
	// UngatedBootID is the last boot of the node that may have mounted the volume without asking, because the CSIDriver was made anew meanwhile or the volume was adopted: its kubelet's word
	// counts by another boot only, as long as this VolumeLock is there. Unknown until a kubelet has answered a question that was asked since, or two later heartbeats of one boot were seen.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	UngatedBootID string `json:"ungatedBootID,omitempty"`
	// Heard is what the node was heard of while it is not known which boot that is.
	// +optional
	Heard *HeardBoot `json:"heard,omitempty"`
	// Conditions: Conflict, while the driver can't be gated.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Release goes on since the VolumeAttachment was deleted.
	// +optional
	Release *VolumeRelease `json:"release,omitempty"`
	// Message says what the volume's release waits for.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}

// HeardBoot is what a boot of a node was heard of.
type HeardBoot struct {
	// BootID of the node.
	// +required
	// +kubebuilder:validation:MaxLength=64
	BootID string `json:"bootID"`
	// Heartbeat is the latest that was seen (lastHeartbeatTime of its condition Ready, by its own clock).
	// +required
	Heartbeat metav1.Time `json:"heartbeat"`
	// Later is how many later ones than the first that was seen of it there were, each later than the one before.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=8
	Later int32 `json:"later,omitempty"`
}

// ReadyPeriod is how long a boot of a node has been ready.
type ReadyPeriod struct {
	// BootID of the node.
	// +required
	// +kubebuilder:validation:MaxLength=64
	BootID string `json:"bootID"`
	// Since is the lastTransitionTime of its condition Ready.
	// +required
	Since metav1.Time `json:"since"`
}

// VolumeRelease is what is known since the VolumeAttachment was deleted, from when on no kubelet begins to mount.
type VolumeRelease struct {
	// Attachment is the UID of the VolumeAttachment that is deleted.
	// +optional
	Attachment types.UID `json:"attachment,omitempty"`
	// Since is when that was noted.
	// +required
	Since metav1.MicroTime `json:"since"`
	// BootID that the node had after that, or another that it has had since and is silent by; absent: there was no such Node, or another one of the name, or which one counts is not known yet.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	BootID string `json:"bootID,omitempty"`
	// Asked is the heartbeat that the Node had (lastHeartbeatTime of its condition Ready, by its own clock) while its status listed the volume as in use: the kubelet was asked. A later
	// heartbeat without the volume is the answer.
	// +optional
	Asked *metav1.Time `json:"asked,omitempty"`
	// Answers are how often the kubelet has answered so in a row.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=8
	Answers int32 `json:"answers,omitempty"`
}
