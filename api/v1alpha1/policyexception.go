package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// PolicyException lifts limits of a PodPolicy for pods of its namespace until a time. Who may write in the namespace asks for it; it lifts nothing
// before somebody has granted it who has the verb except on that PodPolicy (kubectl podgrace grant), and nothing more once its spec has changed since.
// What a policy protects from removal it never lifts.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,shortName=pex,categories=podgrace
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 63",message="the name must have at most 63 characters: the pods' creators are told it"
// +kubebuilder:printcolumn:name="Policy",type=string,JSONPath=`.spec.policy`
// +kubebuilder:printcolumn:name="Limits",type=string,JSONPath=`.spec.limits`
// +kubebuilder:printcolumn:name="Until",type=string,JSONPath=`.spec.until`
// +kubebuilder:printcolumn:name="Owner",type=string,JSONPath=`.spec.owner`
// +kubebuilder:printcolumn:name="Granted",type=string,JSONPath=`.status.conditions[?(@.type=="Granted")].status`
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.conditions[?(@.type=="InForce")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Reason",type=string,priority=1,JSONPath=`.spec.reason`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="InForce")].message`
type PolicyException struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what is asked for.
	// +required
	Spec PolicyExceptionSpec `json:"spec"`
	// Status has the grant, and what the webhook's leader found out.
	// +optional
	Status PolicyExceptionStatus `json:"status,omitempty"`
}

// PolicyExceptionList is a list of PolicyExceptions.
//
// +kubebuilder:object:root=true
type PolicyExceptionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	// Items are the exceptions.
	Items []PolicyException `json:"items"`
}

// PolicyExceptionSpec is what is asked for. Each change of it voids the grant.
//
// +kubebuilder:validation:XValidation:rule="has(self.podSelector) != (has(self.allPods) && self.allPods)",message="say for which pods: either a podSelector or allPods: true",fieldPath=".podSelector"
type PolicyExceptionSpec struct {
	// Policy is the name of the PodPolicy whose limits are lifted.
	// +required
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Policy string `json:"policy"`
	// Limits of that policy that are lifted. Its other limits, and those of other policies, hold.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=5
	Limits []LiftedLimit `json:"limits"`
	// PodSelector selects the pods by their labels at their creation.
	// +optional
	// +kubebuilder:validation:XValidation:rule="(has(self.matchLabels) && self.matchLabels.size() > 0) || (has(self.matchExpressions) && self.matchExpressions.size() > 0)",message="an empty selector selects all pods: say allPods: true if that is meant"
	// +kubebuilder:validation:XValidation:rule="(!has(self.matchLabels) || self.matchLabels.size() <= 8) && (!has(self.matchExpressions) || (self.matchExpressions.size() <= 8 && self.matchExpressions.all(e, !has(e.values) || e.values.size() <= 16)))",message="an exception selects by at most 8 labels and 8 expressions with 16 values each: what the API server keeps of all exceptions is bounded"
	PodSelector *LabelSelector `json:"podSelector,omitempty"`
	// AllPods lifts them for all pods of the namespace.
	// +optional
	AllPods bool `json:"allPods,omitempty"`
	// Reason says to whoever grants it, and to whoever finds it later, why it is needed.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`\S`
	Reason string `json:"reason"`
	// Owner is who answers for it, such as a team or an address.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`\S`
	Owner string `json:"owner"`
	// Until is when it ends by itself, in UTC, such as 2026-12-31T00:00:00Z; at most 366 days after the exception was created. A pod that was
	// created before stays as it is.
	// +required
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:Pattern=`^2[0-9]{3}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]Z$`
	// +kubebuilder:validation:XValidation:rule="!self.matches('^2[0-9]{3}-[0-9]{2}-[0-9]{2}T') || string(timestamp(self)) == self",message="there is no such day"
	Until string `json:"until"`
}

// LiftedLimit is a limit on pods at their creation, by its path in a PodPolicy's spec.
//
// +kubebuilder:validation:Enum=priority.allowedClassNames;gracePeriod.minSeconds;gracePeriod.maxSeconds;gracePeriod.preStopMarginSeconds;removal.zeroGrace
type LiftedLimit string

// The limits that an exception lifts.
const (
	LiftAllowedClassNames    LiftedLimit = "priority.allowedClassNames"
	LiftMinSeconds           LiftedLimit = "gracePeriod.minSeconds"
	LiftMaxSeconds           LiftedLimit = "gracePeriod.maxSeconds"
	LiftPreStopMarginSeconds LiftedLimit = "gracePeriod.preStopMarginSeconds"
	// LiftZeroGrace leaves a pod its grace period of 0, with a warning. The pod is as protected as any other: a delete of it is a force delete.
	LiftZeroGrace LiftedLimit = "removal.zeroGrace"
)

// PolicyExceptionStatus is who granted an exception, and what became of it.
type PolicyExceptionStatus struct {
	// Grant is by whom it was granted, and for which spec. The API server lets only those write it who have the verb except on the PodPolicy.
	// +optional
	Grant *Grant `json:"grant,omitempty"`
	// ObservedGeneration is the generation of the spec that the conditions are about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions: Granted says whether the spec as it is was granted, InForce whether it lifts anything now, and why not.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Grant says who granted what.
type Grant struct {
	// By is the user who granted it, as the API server knows them.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	By string `json:"by"`
	// UID of the exception that was granted: another one that took its name was not.
	// +required
	UID types.UID `json:"uid"`
	// Generation of the spec that was granted: with any other the grant is void.
	// +required
	// +kubebuilder:validation:Minimum=1
	Generation int64 `json:"generation"`
}

// VerbExcept on a PodPolicy is the right to grant exceptions to it.
const VerbExcept = "except"

// The condition types and reasons of a PolicyException.
const (
	ConditionGranted = "Granted"
	ConditionInForce = "InForce"

	ReasonGranted       = "Granted"
	ReasonNotGranted    = "NotGranted"
	ReasonChanged       = "ChangedSince"
	ReasonInForce       = "InForce"
	ReasonEnded         = "Ended"
	ReasonUnknownPolicy = "UnknownPolicy"
	ReasonNothingToLift = "NothingToLift"
)
