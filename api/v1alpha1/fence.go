package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Fence is one incident: one boot of one node that is to be powered off. The fencer makes it when it has decided, a person to ask for it (kubectl podgrace fence).
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,categories=podgrace
// +kubebuilder:printcolumn:name="Node",type=string,JSONPath=`.spec.node.name`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.spec.reason`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Agent",type=string,JSONPath=`.status.attempt.agent`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.message`
type Fence struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is who is to be fenced. It never changes.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="whom a Fence is for does not change: delete it, and ask for another"
	Spec FenceSpec `json:"spec"`
	// Status is how far it has come; the fencer writes it.
	// +optional
	Status FenceStatus `json:"status,omitempty"`
}

// FenceList is a list of Fences.
//
// +kubebuilder:object:root=true
type FenceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	// Items are the Fences.
	Items []Fence `json:"items"`
}

// FenceSpec is who is to be fenced.
//
// +kubebuilder:validation:XValidation:rule="(self.reason == 'Requested') == has(self.requestedBy)",message="requestedBy is who asks, where the reason is Requested",fieldPath=".requestedBy"
type FenceSpec struct {
	// Node and which boot of it.
	// +required
	Node BootReference `json:"node"`
	// Reason: Silent, as the fencer found, or Requested by a person.
	// +required
	Reason FenceReason `json:"reason"`
	// RequestedBy is the user who asks, as the API server knows them.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	RequestedBy string `json:"requestedBy,omitempty"`
}

// BootReference is one boot of one Node.
type BootReference struct {
	// Name of the Node.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// UID of the Node.
	// +required
	// +kubebuilder:validation:XValidation:rule="size(self) >= 1 && size(self) <= 64",message="a UID has from 1 to 64 characters"
	UID types.UID `json:"uid"`
	// BootID of its kernel (status.nodeInfo.bootID).
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	BootID string `json:"bootID"`
}

// FenceReason is why a node is to be fenced.
//
// +kubebuilder:validation:Enum=Silent;Requested
type FenceReason string

// Why a node is to be fenced.
const (
	FenceSilent    FenceReason = "Silent"
	FenceRequested FenceReason = "Requested"
)

// FencePhase is how far a Fence has come.
//
// +kubebuilder:validation:Enum=Waiting;Decided;Acting;Verified;Released;Over
type FencePhase string

// The phases of a Fence, in their order.
const (
	// FenceWaiting is one that was asked for, and for which there is no budget yet, or which the fencer may not begin.
	FenceWaiting FencePhase = "Waiting"
	// FenceDecided is one whose target is frozen.
	FenceDecided FencePhase = "Decided"
	// FenceActing is one for which an agent is at work.
	FenceActing FencePhase = "Acting"
	// FenceVerified is one whose node is known to be off, or whose storage to be revoked: there is a FenceReceipt.
	FenceVerified FencePhase = "Verified"
	// FenceReleased is one whose node's pods and volumes are released, as far as the receipt goes.
	FenceReleased FencePhase = "Released"
	// FenceOver is one that has ended: the node is back by another boot, gone, or was heard of before anything was done.
	FenceOver FencePhase = "Over"
)

// FenceStatus is how far a Fence has come.
type FenceStatus struct {
	// Phase. Absent: nobody has looked at it.
	// +optional
	Phase FencePhase `json:"phase,omitempty"`
	// Message says why it is where it is, and what it waits for.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
	// Policy that it was decided by.
	// +optional
	Policy string `json:"policy,omitempty"`
	// Target is what is powered off, frozen when it was decided.
	// +optional
	Target *FenceTarget `json:"target,omitempty"`
	// Attempt is the last one. It is written before the agent is called.
	// +optional
	Attempt *FenceAttempt `json:"attempt,omitempty"`
	// Receipt is the name of the FenceReceipt.
	// +optional
	Receipt string `json:"receipt,omitempty"`
	// Times are when each phase began.
	// +optional
	// +listType=map
	// +listMapKey=phase
	Times []FencePhaseTime `json:"times,omitempty"`
}

// FenceTarget is what is powered off.
type FenceTarget struct {
	// SystemUUID that the Node had.
	// +optional
	SystemUUID string `json:"systemUUID,omitempty"`
	// ProviderID that the Node had.
	// +optional
	ProviderID string `json:"providerID,omitempty"`
	// LastRenewal of the node's Lease, by the node's clock.
	// +optional
	LastRenewal *metav1.MicroTime `json:"lastRenewal,omitempty"`
	// LastSign is the node's last sign of life, UID/BOOT/HEARTBEAT/LEASE as in the annotation podgrace.dev/confirm-off: any other that this boot gives is a later one.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	LastSign string `json:"lastSign,omitempty"`
	// Release as the policy said.
	// +optional
	Release FenceRelease `json:"release,omitempty"`
	// Agents that are tried, in this order, with the machine as they knew it.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	Agents []FenceTargetAgent `json:"agents,omitempty"`
}

// FenceTargetAgent is an agent with the machine as it knew it when the fence was decided.
type FenceTargetAgent struct {
	FencePolicyAgent `json:",inline"`
	// UID of the FenceAgent: another one of that name is not used.
	// +required
	UID types.UID `json:"uid"`
	// Generation of the FenceAgent.
	// +optional
	Generation int64 `json:"generation,omitempty"`
	// Type of the FenceAgent.
	// +required
	Type FenceAgentType `json:"type"`
	// Identity is how the machine is known to be the right one, as the FenceAgent said.
	// +optional
	Identity FenceIdentity `json:"identity,omitempty"`
	// Machine as the agent had it.
	// +optional
	Machine *FenceMachine `json:"machine,omitempty"`
	// Storage that is taken away from the node, where the type is NetworkFence.
	// +optional
	Storage *FenceTargetStorage `json:"storage,omitempty"`
}

// FenceTargetStorage is which addresses a storage is to take no more writes from, and what that revokes. Nothing of it is looked up again later.
type FenceTargetStorage struct {
	// NetworkFenceClassName as the FenceAgent said.
	// +required
	NetworkFenceClassName string `json:"networkFenceClassName"`
	// NetworkFenceClassUID is that of the NetworkFenceClass: another one of that name may be of another storage.
	// +optional
	NetworkFenceClassUID types.UID `json:"networkFenceClassUID,omitempty"`
	// Driver is the CSI driver that the NetworkFenceClass named.
	// +required
	Driver string `json:"driver"`
	// CIDRs are the InternalIPs that the Node had while it was healthy, as blocks of one address each.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=64
	CIDRs []string `json:"cidrs"`
	// Volumes are the names of the PersistentVolumes of that storage that are attached to the node, or used by pods of it.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=253
	Volumes []string `json:"volumes"`
}

// FenceAttempt is one call of an agent.
type FenceAttempt struct {
	// Agent that was called.
	// +required
	Agent string `json:"agent"`
	// Number of the attempt, over all agents, from 1.
	// +required
	Number int32 `json:"number"`
	// Started is when it began.
	// +required
	Started metav1.Time `json:"started"`
	// Message is what came of the attempt before; empty: there was none.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}

// FencePhaseTime is when a phase began.
type FencePhaseTime struct {
	// Phase that began.
	// +required
	Phase FencePhase `json:"phase"`
	// Time when it did.
	// +required
	Time metav1.MicroTime `json:"time"`
}
