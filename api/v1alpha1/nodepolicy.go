package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NodePolicy says what the node enforcer keeps on the nodes that it selects. The heaviest policy that selects a node is the
// node's, ties by name, the first name first. A node without one is observed and nothing is written on it.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=np,categories=podgrace
// +kubebuilder:printcolumn:name="Weight",type=integer,JSONPath=`.spec.weight`
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.spec.mode`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type NodePolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what the policy asks for.
	// +required
	Spec NodePolicySpec `json:"spec"`
}

// NodePolicyList is a list of NodePolicies.
//
// +kubebuilder:object:root=true
type NodePolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	// Items are the policies.
	Items []NodePolicy `json:"items"`
}

// NodePolicySpec is what a policy asks of its nodes.
type NodePolicySpec struct {
	// NodeSelector selects nodes by their labels. Empty or absent: every node.
	// +optional
	NodeSelector *LabelSelector `json:"nodeSelector,omitempty"`
	// Weight orders the policies that select a node: the heaviest is the node's.
	// +optional
	// +kubebuilder:default=0
	Weight int32 `json:"weight"`
	// Mode is how far the node enforcer goes: Observe reports drift and which pods it would evict, and changes nothing; Tune
	// evicts, and writes only files that have no other owner; Repair also restores what the kubelet wrote once and others
	// changed. eviction.mode sets apart whether pods are evicted.
	// +optional
	// +kubebuilder:default=Observe
	Mode NodeMode `json:"mode"`
	// Reservations are what the node keeps for itself, where the kubelet's own configuration can't be read. Where it can, the
	// kubelet's hold.
	// +optional
	Reservations *NodeReservations `json:"reservations,omitempty"`
	// QOSReserved keeps memory that Guaranteed and Burstable pods requested out of the reach of the QoS levels below.
	// +optional
	QOSReserved *QOSReserved `json:"qosReserved,omitempty"`
	// Memory is what a pod gets whose own policy says nothing about memory (cgroup v2).
	// +optional
	Memory *NodeMemory `json:"memory,omitempty"`
	// OOM orders processes for the kernel's OOM killer.
	// +optional
	OOM *NodeOOM `json:"oom,omitempty"`
	// Bounds limit what the pods' annotation podgrace.dev/enforcement may ask for.
	// +optional
	Bounds *EnforcementBounds `json:"bounds,omitempty"`
	// Eviction says when pods are evicted under pressure. Absent: never by the node enforcer.
	// +optional
	Eviction *NodeEviction `json:"eviction,omitempty"`
}

// NodeMode is how far the node enforcer goes with cgroups.
//
// +kubebuilder:validation:Enum=Observe;Tune;Repair
type NodeMode string

// The modes of the node enforcer.
const (
	NodeModeObserve NodeMode = "Observe"
	NodeModeTune    NodeMode = "Tune"
	NodeModeRepair  NodeMode = "Repair"
)

// NodeReservations are resources that pods can't have, as in the kubelet's configuration.
type NodeReservations struct {
	// Kube is for the kubelet and the container runtime (kubeReserved): cpu, memory, pid.
	// +optional
	Kube corev1.ResourceList `json:"kube,omitempty"`
	// System is for the operating system (systemReserved): cpu, memory, pid.
	// +optional
	System corev1.ResourceList `json:"system,omitempty"`
}

// QOSReserved keeps requested memory from the QoS levels below, by memory.max of the burstable and besteffort cgroups.
type QOSReserved struct {
	// MemoryPercent of the requests above that is kept: at 100, burstable gets what Guaranteed pods did not request, and
	// besteffort what Burstable ones did not request either.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	MemoryPercent int32 `json:"memoryPercent"`
}

// NodeMemory is what a pod gets whose own policy says nothing about memory.
type NodeMemory struct {
	// Protection None, or Tiered as in KEP-2570: memory.min for Guaranteed pods, memory.low for Burstable ones.
	// +optional
	// +kubebuilder:default=None
	Protection NodeMemoryProtection `json:"protection,omitempty"`
	// ThrottlePercent puts memory.high of a Burstable container at this percentage of the way from its request to its limit,
	// or to the node's allocatable memory where it has none.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	ThrottlePercent *int32 `json:"throttlePercent,omitempty"`
}

// NodeMemoryProtection is how a node protects the memory that pods requested.
//
// +kubebuilder:validation:Enum=None;Tiered
type NodeMemoryProtection string

// The kinds of memory protection.
const (
	NodeMemoryProtectionNone   NodeMemoryProtection = "None"
	NodeMemoryProtectionTiered NodeMemoryProtection = "Tiered"
)

// NodeOOM orders processes for the kernel's OOM killer.
type NodeOOM struct {
	// Order QOS keeps oom_score_adj as the kubelet computes it; Priority also orders the pods of one QoS class, so that those
	// of lower priority are killed first.
	// +optional
	// +kubebuilder:default=QOS
	Order OOMOrder `json:"order,omitempty"`
}

// OOMOrder is what oom_score_adj follows.
//
// +kubebuilder:validation:Enum=QOS;Priority
type OOMOrder string

// What oom_score_adj follows.
const (
	OOMOrderQOS      OOMOrder = "QOS"
	OOMOrderPriority OOMOrder = "Priority"
)

// EnforcementBounds limit what a pod's annotation may ask for. What is above is lowered to the bound. A pod's memory
// protection never exceeds its own memory request, whatever the bounds.
type EnforcementBounds struct {
	// MaxProtection is the strongest memory protection that a pod may have: None, Low or Min.
	// +optional
	// +kubebuilder:default=Min
	MaxProtection MemoryProtection `json:"maxProtection,omitempty"`
	// MaxProtectedMemoryPercent is how much of the node's allocatable memory all pods' protection may take together; beyond it
	// each pod's is lowered in proportion.
	// +optional
	// +kubebuilder:default=80
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	MaxProtectedMemoryPercent *int32 `json:"maxProtectedMemoryPercent,omitempty"`
	// MaxCPUWeight bounds cpu weights asked for.
	// +optional
	// +kubebuilder:default=10000
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	MaxCPUWeight *int32 `json:"maxCPUWeight,omitempty"`
	// MaxIOWeight bounds io weights asked for.
	// +optional
	// +kubebuilder:default=10000
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	MaxIOWeight *int32 `json:"maxIOWeight,omitempty"`
}

// NodeEviction says when pods are evicted under pressure.
type NodeEviction struct {
	// Mode Evict evicts pods. Observe evicts no pod: Events, the log and metrics name the pods that would be evicted. If it is
	// not set, the policy's mode decides: pods are evicted in Tune and Repair.
	// +optional
	Mode EvictionMode `json:"mode,omitempty"`
	// MaxEvictionsPerMinute bounds how many pods of one node are evicted in a minute, for all thresholds together.
	// +optional
	// +kubebuilder:default=10
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	MaxEvictionsPerMinute *int32 `json:"maxEvictionsPerMinute,omitempty"`
	// EvictImmediately evicts pods also for a threshold that is met when it is applied. If it is false, such a threshold evicts
	// no pod for its first minute: the Node has the condition and the taint, and there is time to correct the threshold.
	// +optional
	EvictImmediately bool `json:"evictImmediately,omitempty"`
	// Hard thresholds: once met, pods are contained and evicted at once.
	// +optional
	// +listType=map
	// +listMapKey=signal
	// +kubebuilder:validation:MaxItems=8
	Hard []EvictionThreshold `json:"hard,omitempty"`
	// Soft thresholds: once met for their grace period, pods are evicted with theirs.
	// +optional
	// +listType=map
	// +listMapKey=signal
	// +kubebuilder:validation:MaxItems=8
	Soft []SoftEvictionThreshold `json:"soft,omitempty"`
	// MemoryStall is a hard threshold on the time in which processes waited for memory (PSI, cgroup v2). It has no amount to
	// free: of the pods that wait for the node's memory, and not at limits of their own, one is evicted, and the next only if the
	// stall goes on.
	// +optional
	MemoryStall *MemoryStall `json:"memoryStall,omitempty"`
	// PressureTransitionPeriod is how long a node stays under pressure (condition and taint) after the last threshold was met.
	// +optional
	// +kubebuilder:default="5m"
	PressureTransitionPeriod *metav1.Duration `json:"pressureTransitionPeriod,omitempty"`
	// MaxPodGracePeriodSeconds is the longest that a soft eviction waits for a pod to stop; a shorter grace period of the pod
	// itself holds.
	// +optional
	// +kubebuilder:default=30
	// +kubebuilder:validation:Minimum=1
	MaxPodGracePeriodSeconds *int64 `json:"maxPodGracePeriodSeconds,omitempty"`
	// HardGracePeriodSeconds is what a hard eviction leaves a pod to stop.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=60
	HardGracePeriodSeconds *int64 `json:"hardGracePeriodSeconds,omitempty"`
}

// EvictionMode is whether pods are evicted.
//
// +kubebuilder:validation:Enum=Evict;Observe
type EvictionMode string

// Whether pods are evicted.
const (
	EvictionModeEvict   EvictionMode = "Evict"
	EvictionModeObserve EvictionMode = "Observe"
)

// EvictionSignal is what a threshold is on, by the kubelet's names.
//
// +kubebuilder:validation:Enum=memory.available;nodefs.available;nodefs.inodesFree;imagefs.available;imagefs.inodesFree;pid.available
type EvictionSignal string

// The signals, by the kubelet's names.
const (
	SignalMemoryAvailable   EvictionSignal = "memory.available"
	SignalNodeFsAvailable   EvictionSignal = "nodefs.available"
	SignalNodeFsInodesFree  EvictionSignal = "nodefs.inodesFree"
	SignalImageFsAvailable  EvictionSignal = "imagefs.available"
	SignalImageFsInodesFree EvictionSignal = "imagefs.inodesFree"
	SignalPIDAvailable      EvictionSignal = "pid.available"
	// SignalMemoryStall stands for NodeEviction.MemoryStall; it is in no list of thresholds.
	SignalMemoryStall EvictionSignal = "memory.stall"
)

// EvictionThreshold is met while less than a value is left.
type EvictionThreshold struct {
	// Signal is what is measured.
	// +required
	Signal EvictionSignal `json:"signal"`
	// Value that must be left: a quantity such as 500Mi, or a percentage of the capacity such as 10%.
	// +required
	Value ThresholdValue `json:"value"`
	// MinimumReclaim is how much is freed beyond the value, once it was met.
	// +optional
	MinimumReclaim ThresholdValue `json:"minimumReclaim,omitempty"`
}

// SoftEvictionThreshold is met while less than a value is left, and acted upon after a grace period.
type SoftEvictionThreshold struct {
	EvictionThreshold `json:",inline"`
	// GracePeriod is how long the threshold must be met without pause.
	// +required
	GracePeriod metav1.Duration `json:"gracePeriod"`
}

// ThresholdValue is a quantity such as 500Mi, or a percentage of the capacity such as 10%.
//
// +kubebuilder:validation:MaxLength=32
// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9]+([.][0-9]+)?%$') ? double(self.split('%')[0]) <= 100.0 : isQuantity(self) && !quantity(self).isLessThan(quantity('0'))",message="must be a quantity of at least 0, such as 500Mi, or a percentage from 0% to 100%"
type ThresholdValue string

// MemoryStall is met when processes waited for memory longer than Stall in a window.
//
// +kubebuilder:validation:XValidation:rule="duration(self.stall) < duration(self.window)",message="stall must be shorter than window"
type MemoryStall struct {
	// Kind Some: at least one process waited; Full: all of them did at once.
	// +optional
	// +kubebuilder:default=Full
	Kind StallKind `json:"kind,omitempty"`
	// Stall is the time waited within the window.
	// +required
	// +kubebuilder:validation:XValidation:rule="duration(self) > duration('0s')",message="must be longer than 0"
	Stall metav1.Duration `json:"stall"`
	// Window is 500ms to 10s, as the kernel takes it.
	// +required
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('500ms') && duration(self) <= duration('10s')",message="must be from 500ms to 10s"
	Window metav1.Duration `json:"window"`
}

// StallKind is a line of the kernel's pressure files.
//
// +kubebuilder:validation:Enum=Some;Full
type StallKind string

// The lines of the kernel's pressure files.
const (
	StallSome StallKind = "Some"
	StallFull StallKind = "Full"
)
