package v1alpha1

// The annotations of podgrace.dev.
const (
	// AnnotationEnforcement holds the JSON of Enforcement. Admission writes it at creation and overwrites what was there.
	AnnotationEnforcement = "podgrace.dev/enforcement"
	// AnnotationProtected holds a pod's controller as of its creation, such as StatefulSet.apps/db, where a policy that denies protects the pod for it.
	// Admission writes it at creation and overwrites what was there.
	AnnotationProtected = "podgrace.dev/protected"
	// AnnotationSkip lists, separated by commas, the sections whose defaults a pod declines.
	AnnotationSkip = "podgrace.dev/skip"
)

// Enforcement is what the node keeps for a pod: the node section of a policy and, as decided at the pod's creation, the
// value of its annotation podgrace.dev/enforcement. The node enforcer bounds every field by NodePolicy.
//
// +kubebuilder:validation:MinProperties=1
type Enforcement struct {
	// Memory protection and throttling (cgroup v2).
	// +optional
	Memory *MemoryEnforcement `json:"memory,omitempty"`
	// CPU share under contention.
	// +optional
	CPU *WeightEnforcement `json:"cpu,omitempty"`
	// IO share under contention.
	// +optional
	IO *WeightEnforcement `json:"io,omitempty"`
	// OOM orders the pods of one QoS class for the kernel's OOM killer.
	// +optional
	OOM *OOMEnforcement `json:"oom,omitempty"`
	// Eviction orders the pods of one priority for the node enforcer.
	// +optional
	Eviction *EvictionEnforcement `json:"eviction,omitempty"`
}

// MemoryEnforcement is what the kernel keeps of a pod's memory, and when it is slowed down.
//
// +kubebuilder:validation:MinProperties=1
type MemoryEnforcement struct {
	// Protection of the pod's memory request from reclaim: None, Low (memory.low, best effort) or Min (memory.min, hard).
	// +optional
	Protection MemoryProtection `json:"protection,omitempty"`
	// ThrottlePercent puts memory.high at this percentage of the way from the memory request to the limit.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	ThrottlePercent *int32 `json:"throttlePercent,omitempty"`
}

// MemoryProtection is the cgroup v2 file that holds the pod's memory request.
//
// +kubebuilder:validation:Enum=None;Low;Min
type MemoryProtection string

// The degrees of memory protection.
const (
	MemoryProtectionNone MemoryProtection = "None"
	MemoryProtectionLow  MemoryProtection = "Low"
	MemoryProtectionMin  MemoryProtection = "Min"
)

// WeightEnforcement is a share under contention.
type WeightEnforcement struct {
	// Weight as in cpu.weight and io.weight of cgroup v2: 1 to 10000, where 100 is the kernel's default.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	Weight int32 `json:"weight"`
}

// OOMEnforcement orders pods for the kernel's OOM killer.
type OOMEnforcement struct {
	// Rank within the QoS class, 0 to 100: the higher it is, the earlier the pod's processes are killed.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	Rank int32 `json:"rank"`
}

// EvictionEnforcement orders pods for eviction under pressure.
type EvictionEnforcement struct {
	// Order within one priority, 0 to 100: the higher it is, the earlier the pod is evicted.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	Order int32 `json:"order"`
}
