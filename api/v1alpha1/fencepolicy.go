package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// FencePolicy says what the fencer does about silent nodes that it selects: show them, or have them powered off and release their pods. The heaviest
// policy that selects a node is the node's, ties by name, the first name first. A silent node without one is shown and never fenced. Nodes of the control plane
// are never fenced.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=fp,categories=podgrace
// +kubebuilder:printcolumn:name="Weight",type=integer,JSONPath=`.spec.weight`
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.spec.mode`
// +kubebuilder:printcolumn:name="Paused",type=boolean,JSONPath=`.spec.paused`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
type FencePolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what the policy asks for.
	// +required
	Spec FencePolicySpec `json:"spec"`
	// Status is what the fencer says of it.
	// +optional
	Status FencePolicyStatus `json:"status,omitempty"`
}

// FencePolicyList is a list of FencePolicies.
//
// +kubebuilder:object:root=true
type FencePolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	// Items are the policies.
	Items []FencePolicy `json:"items"`
}

// FencePolicySpec is what a policy asks for its nodes.
//
// +kubebuilder:validation:XValidation:rule="self.mode != 'Fence' || (has(self.agents) && self.agents.size() > 0)",message="mode Fence needs agents that can power a node off: name them, or say mode: Show",fieldPath=".agents"
type FencePolicySpec struct {
	// NodeSelector selects nodes by their labels. Empty or absent: every node.
	// +optional
	NodeSelector *LabelSelector `json:"nodeSelector,omitempty"`
	// Weight orders the policies that select a node: the heaviest is the node's.
	// +optional
	// +kubebuilder:default=0
	Weight int32 `json:"weight"`
	// Mode is how far the fencer goes by itself: Show writes conditions, Fence powers off as well, and writes Events. What a person asks for
	// (kubectl podgrace fence) is done in both, by the same budget.
	// +optional
	// +kubebuilder:default=Show
	Mode FenceMode `json:"mode"`
	// SilentFor is how long the fencer itself must not have seen a renewal of the node's Lease, at least 60s. A node whose own
	// Lease lasts longer (nodeLeaseDurationSeconds of its kubelet, up to 10m) is silent only after that time.
	// The fencer counts by its own clock, from when it began to lead.
	// +optional
	// +kubebuilder:default="90s"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('60s') && duration(self) <= duration('24h')",message="silentFor must be from 60s, which is longer than a node's Lease lasts by default, to 24h"
	SilentFor metav1.Duration `json:"silentFor"`
	// JustifiedBy says which pods are worth a fence. Absent: each protected pod that has waited as long as it tolerates an unreachable node.
	// +optional
	JustifiedBy *FenceJustification `json:"justifiedBy,omitempty"`
	// Budget bounds how much is fenced. Where policies overlap, each fence counts for all of them, and the strictest budget holds.
	// +optional
	// +kubebuilder:default={}
	Budget FenceBudget `json:"budget"`
	// Paused keeps the fencer from beginning a fence. One that has been begun is finished.
	// +optional
	Paused bool `json:"paused,omitempty"`
	// Agents are tried in this order.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	Agents []FencePolicyAgent `json:"agents,omitempty"`
	// Release is what is done once there is a FenceReceipt: PodsAndTaint deletes the node's protected pods and taints the node as out of service where a volume is
	// attached to it, Pods deletes them only, Nothing leaves both to a person.
	// +optional
	// +kubebuilder:default=PodsAndTaint
	Release FenceRelease `json:"release"`
}

// FenceMode is how far the fencer goes by itself.
//
// +kubebuilder:validation:Enum=Show;Fence
type FenceMode string

// The modes of a FencePolicy.
const (
	FenceModeShow  FenceMode = "Show"
	FenceModeFence FenceMode = "Fence"
)

// FenceRelease is what is done once there is a receipt.
//
// +kubebuilder:validation:Enum=Nothing;Pods;PodsAndTaint
type FenceRelease string

// What is released by a receipt.
const (
	ReleaseNothing      FenceRelease = "Nothing"
	ReleasePods         FenceRelease = "Pods"
	ReleasePodsAndTaint FenceRelease = "PodsAndTaint"
)

// FenceJustification says which pods are worth a fence. Only protected pods count (PodPolicy's removal), that wait for the silent node.
type FenceJustification struct {
	// MinPriority is the least priority that a pod must have to count.
	// +optional
	MinPriority *int32 `json:"minPriority,omitempty"`
	// Patience is how long a pod waits at most, where it tolerates an unreachable node for longer (tolerationSeconds of the taint
	// node.kubernetes.io/unreachable, or for ever). It counts like silentFor.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('60s') && duration(self) <= duration('24h')",message="patience must be from 60s to 24h"
	Patience *metav1.Duration `json:"patience,omitempty"`
	// BrokenBudget has a pod count at once whose PodDisruptionBudget has less healthy pods than it wants.
	// +optional
	BrokenBudget bool `json:"brokenBudget,omitempty"`
}

// FenceBudget bounds how much is fenced. Whatever it says, a fencer that may be the one who is cut off fences nothing.
type FenceBudget struct {
	// MaxConcurrent is how many nodes of the cluster may be in the course of being fenced at once.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	MaxConcurrent int32 `json:"maxConcurrent"`
	// MaxUnhealthyInZone is up to how many nodes of a zone may be unhealthy for one of them to be fenced, as a number or a percentage of the zone's nodes (rounded down, at least 1).
	// Nodes that are not ready, silent or being fenced count.
	// +optional
	// +kubebuilder:default="40%"
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=4
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 1 && self <= 10000 : self.matches('^([1-9][0-9]?|100)%$')",message="it must be a number of nodes from 1, or a percentage from 1% to 100%"
	MaxUnhealthyInZone intstr.IntOrString `json:"maxUnhealthyInZone"`
	// MaxUnhealthy is the same for the whole cluster.
	// +optional
	// +kubebuilder:default="20%"
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=4
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 1 && self <= 10000 : self.matches('^([1-9][0-9]?|100)%$')",message="it must be a number of nodes from 1, or a percentage from 1% to 100%"
	MaxUnhealthy intstr.IntOrString `json:"maxUnhealthy"`
	// Cooldown is how long nothing is fenced after more nodes were unhealthy than the budget allows.
	// +optional
	// +kubebuilder:default="10m"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s') && duration(self) <= duration('24h')",message="cooldown must be from 0s to 24h"
	Cooldown metav1.Duration `json:"cooldown"`
}

// FencePolicyAgent says how long a policy tries an agent.
type FencePolicyAgent struct {
	// Name of the FenceAgent.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// Timeout of one attempt: the power off, and reading it back.
	// +optional
	// +kubebuilder:default="60s"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('1h')",message="timeout must be from 1s to 1h"
	Timeout metav1.Duration `json:"timeout"`
	// Attempts before the next agent is tried. After the last one the first begins again.
	// +optional
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	Attempts int32 `json:"attempts"`
	// Evidence is what is accepted from it. Absent: PoweredOff, InstanceTerminated and Confirmed. An agent of the type NetworkFence gives StorageRevoked alone, which
	// must be said here: the machine goes on running, and only what it writes to its volumes is stopped.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=8
	Evidence []EvidenceClass `json:"evidence,omitempty"`
}

// FencePolicyStatus is what the fencer says of a policy.
type FencePolicyStatus struct {
	// ObservedGeneration is the generation of the spec that the conditions are about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions: Ready says whether its nodes can be fenced, and why not: no such agent, a machine that no agent knows, budgets that overlap.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
