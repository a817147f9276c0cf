package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// FenceReceipt is the proof that all processes of one boot of a node, or of one pod, can do no more harm. Only the fencer, and who has the verb force-delete on nodes,
// can make one, and nobody can change one. When it was observed is its creationTimestamp. The removal guard lets go what it proves. One that turned out to be wrong is
// voided by another one (spec.voids), which takes the same verb, and so does deleting that one.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,categories=podgrace
// +kubebuilder:printcolumn:name="Node",type=string,JSONPath=`.spec.node.name`
// +kubebuilder:printcolumn:name="Class",type=string,JSONPath=`.spec.class`
// +kubebuilder:printcolumn:name="Agent",type=string,JSONPath=`.spec.agent`
// +kubebuilder:printcolumn:name="By",type=string,JSONPath=`.spec.by`
// +kubebuilder:printcolumn:name="Voids",type=string,JSONPath=`.spec.voids`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type FenceReceipt struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what was proved.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="a receipt never changes: one that is wrong is voided by another"
	Spec FenceReceiptSpec `json:"spec"`
}

// FenceReceiptList is a list of FenceReceipts.
//
// +kubebuilder:object:root=true
type FenceReceiptList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	// Items are the receipts.
	Items []FenceReceipt `json:"items"`
}

// FenceReceiptSpec is what was proved, and by what.
//
// +kubebuilder:validation:XValidation:rule="has(self.node) != has(self.pod)",message="a receipt is for a boot of a node, or for a pod",fieldPath=".node"
// +kubebuilder:validation:XValidation:rule="self.class in ['PoweredOff', 'InstanceTerminated'] ? has(self.readBacks) && self.readBacks.size() >= 2 : self.class == 'StorageRevoked' || !has(self.readBacks) || self.readBacks.size() < 2",message="that a machine is off must have been read back twice, and what a person says or a watchdog must have done is not read",fieldPath=".readBacks"
// +kubebuilder:validation:XValidation:rule="(self.class == 'Confirmed') == has(self.by)",message="by is who confirms it, where the class is Confirmed",fieldPath=".by"
// +kubebuilder:validation:XValidation:rule="(self.class == 'StorageRevoked') == (has(self.volumes) && self.volumes.size() > 0)",message="volumes are what was revoked, where the class is StorageRevoked",fieldPath=".volumes"
// +kubebuilder:validation:XValidation:rule="has(self.node) && self.class != 'Void' ? has(self.lastSign) && self.lastSign.startsWith(self.node.uid + '/' + self.node.bootID + '/') : !has(self.lastSign)",message="lastSign is UID/BOOT/HEARTBEAT/LEASE of that boot: a receipt for a node says until when it was heard of",fieldPath=".lastSign"
// +kubebuilder:validation:XValidation:rule="(self.class == 'Void') == has(self.voids)",message="voids is the receipt that is void, where the class is Void",fieldPath=".voids"
// +kubebuilder:validation:XValidation:rule="self.class == 'Void' || !has(self.voidsUID)",message="voidsUID is the UID of the receipt that is void, where the class is Void",fieldPath=".voidsUID"
type FenceReceiptSpec struct {
	// Node and which boot of it.
	// +optional
	Node *BootReference `json:"node,omitempty"`
	// Pod, if only one was made harmless.
	// +optional
	Pod *PodReference `json:"pod,omitempty"`
	// Class of evidence.
	// +required
	Class EvidenceClass `json:"class"`
	// Fence that it was made for.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Fence string `json:"fence,omitempty"`
	// Agent that proved it.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Agent string `json:"agent,omitempty"`
	// Machine that was proved to be off.
	// +optional
	Machine *FenceMachine `json:"machine,omitempty"`
	// Identity is how the machine was known to be the node's.
	// +optional
	Identity FenceIdentity `json:"identity,omitempty"`
	// ReadBacks are what the agent read after the power was off, in their order.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	ReadBacks []PowerReadBack `json:"readBacks,omitempty"`
	// By is the user who confirms it, as the API server knows them.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	By string `json:"by,omitempty"`
	// Volumes that the node can't reach any more: names of PersistentVolumes.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=256
	Volumes []string `json:"volumes,omitempty"`
	// LastSign is the node's last sign of life when it was proved, UID/BOOT/HEARTBEAT/LEASE as in the annotation podgrace.dev/confirm-off. Any other that this boot gives
	// is a later one, and contradicts the receipt.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	LastSign string `json:"lastSign,omitempty"`
	// Voids is the name of a receipt that is void, because the boot that it says is off was heard of since.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Voids string `json:"voids,omitempty"`
	// VoidsUID is the UID of that receipt. A receipt of that name with another UID, or for another node or pod than this one, is not void by it.
	// +optional
	// +kubebuilder:validation:XValidation:rule="size(self) >= 1 && size(self) <= 64",message="a UID has from 1 to 64 characters"
	VoidsUID types.UID `json:"voidsUID,omitempty"`
	// Message says the same in words.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}

// PodReference is one pod.
type PodReference struct {
	// Namespace of the pod.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`
	// Name of the pod.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// UID of the pod.
	// +required
	// +kubebuilder:validation:XValidation:rule="size(self) >= 1 && size(self) <= 64",message="a UID has from 1 to 64 characters"
	UID types.UID `json:"uid"`
}

// EvidenceClass is what proves that a boot, or a pod, can do no more harm.
//
// +kubebuilder:validation:Enum=PoweredOff;InstanceTerminated;StorageRevoked;WatchdogExpired;Confirmed;Void
type EvidenceClass string

// The classes of evidence.
const (
	// EvidencePoweredOff is a machine whose power was read to be off twice. It was ordered off before that, unless it was off already.
	EvidencePoweredOff EvidenceClass = "PoweredOff"
	// EvidenceInstanceTerminated is a virtual machine that is gone for good, by its provider's word, read twice.
	EvidenceInstanceTerminated EvidenceClass = "InstanceTerminated"
	// EvidenceStorageRevoked is the node's access to some volumes that was taken away. It frees these, and the pods that are protected for nothing else.
	EvidenceStorageRevoked EvidenceClass = "StorageRevoked"
	// EvidenceWatchdogExpired is a watchdog that must have reset the machine: a reckoning and no observation.
	EvidenceWatchdogExpired EvidenceClass = "WatchdogExpired"
	// EvidenceConfirmed is a person's word.
	EvidenceConfirmed EvidenceClass = "Confirmed"
	// EvidenceVoid is none: it voids a receipt.
	EvidenceVoid EvidenceClass = "Void"
)

// PowerReadBack is one reading of a machine's power, or of what became of its storage.
type PowerReadBack struct {
	// Time when it was read, by the fencer's clock.
	// +required
	Time metav1.MicroTime `json:"time"`
	// State as the agent told it, such as Off.
	// +required
	// +kubebuilder:validation:MaxLength=64
	State string `json:"state"`
	// SystemUUID that it told; absent: it told none.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	SystemUUID string `json:"systemUUID,omitempty"`
}
