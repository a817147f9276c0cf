package v1alpha1

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PodPolicy says how the pods that it matches are ranked, spread and stopped.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=pp,categories=podgrace
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Compiled",type=string,JSONPath=`.status.conditions[?(@.type=="Compiled")].reason`
// +kubebuilder:printcolumn:name="Weight",type=integer,JSONPath=`.spec.weight`
// +kubebuilder:printcolumn:name="Priority",type=string,JSONPath=`.status.summary.priority`
// +kubebuilder:printcolumn:name="Spread",type=string,JSONPath=`.status.summary.topologySpread`
// +kubebuilder:printcolumn:name="Grace",type=string,JSONPath=`.status.summary.gracePeriod`
// +kubebuilder:printcolumn:name="Removal",type=string,JSONPath=`.status.summary.removal`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Enforced",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Enforced")].reason`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
type PodPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what the policy asks for.
	// +required
	Spec PodPolicySpec `json:"spec"`
	// Status is what the webhook's leader found out about the policy.
	// +optional
	Status PodPolicyStatus `json:"status,omitempty"`
}

// PodPolicyList is a list of PodPolicies.
//
// +kubebuilder:object:root=true
type PodPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	// Items are the policies.
	Items []PodPolicy `json:"items"`
}

// PodPolicySpec is what a policy asks for. A section that is absent is not decided by this policy.
//
// +kubebuilder:validation:XValidation:rule="!has(self.removal) || !has(self.match) || (!has(self.match.podSelector) && !has(self.match.ownerKinds) && !has(self.match.matchConditions) && !has(self.match.priorityClassNames) && !has(self.match.priority))",message="a policy with removal may select by namespaceSelector only: a tenant must not be able to relabel a pod out of it",fieldPath=".match"
// +kubebuilder:validation:XValidation:rule="!has(self.priority) || !has(self.match) || (!has(self.match.priorityClassNames) && !has(self.match.priority))",message="a policy that selects by priority cannot say which class pods get or may have: whether it matches would depend on itself",fieldPath=".priority"
type PodPolicySpec struct {
	// Match says which pods the policy is for. Empty or absent: every pod. Pods of kube-system and of Podgrace's own
	// namespace, and of those that were excluded at installation, are never matched.
	// +optional
	Match *PodMatch `json:"match,omitempty"`
	// Weight orders the policies that give defaults: the heaviest matching policy that has a section gives it. Policies of
	// equal weight are ordered by name, the first name first.
	// +optional
	// +kubebuilder:default=0
	Weight int32 `json:"weight"`
	// AllowSkip lists the defaults of this policy that a pod may decline with the annotation podgrace.dev/skip. Limits
	// can't be declined.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=3
	AllowSkip []Section `json:"allowSkip,omitempty"`

	// Priority ranks the pods.
	// +optional
	Priority *PrioritySection `json:"priority,omitempty"`
	// TopologySpread gives topology spread constraints to pods that have none.
	// +optional
	TopologySpread *TopologySpreadSection `json:"topologySpread,omitempty"`
	// GracePeriod says how long the pods get to stop. Its limits hold for a livenessProbe's or startupProbe's own grace period, too.
	// +optional
	GracePeriod *GracePeriodSection `json:"gracePeriod,omitempty"`
	// Node is what the node enforcer keeps for the pods.
	// +optional
	Node *Enforcement `json:"node,omitempty"`
	// Removal says which removals are refused.
	// +optional
	Removal *RemovalSection `json:"removal,omitempty"`
}

// Section names a section of a policy whose defaults a pod may decline.
//
// +kubebuilder:validation:Enum=priority;topologySpread;gracePeriod
type Section string

// The sections that a pod may decline.
const (
	SectionPriority       Section = "priority"
	SectionTopologySpread Section = "topologySpread"
	SectionGracePeriod    Section = "gracePeriod"
)

// PodMatch selects pods. All of its fields must match.
type PodMatch struct {
	// NamespaceSelector selects by the labels of the pod's namespace.
	// +optional
	NamespaceSelector *LabelSelector `json:"namespaceSelector,omitempty"`
	// PodSelector selects by the pod's own labels.
	// +optional
	PodSelector *LabelSelector `json:"podSelector,omitempty"`
	// OwnerKinds selects by the kind of the pod's controller in any API group, such as ReplicaSet, StatefulSet or Job; None is a pod
	// without a controller. A Deployment's pods are owned by a ReplicaSet, a CronJob's by a Job.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	OwnerKinds []OwnerKind `json:"ownerKinds,omitempty"`
	// PriorityClassNames selects by the PriorityClass that the pod has when it is created: its own choice, or what a policy or the
	// cluster's globalDefault gives. Such a policy can't have a section priority itself, and neither can one with priority here.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	PriorityClassNames []string `json:"priorityClassNames,omitempty"`
	// Priority selects by the value of that class; it is 0 for a pod without one.
	// +optional
	Priority *PriorityRange `json:"priority,omitempty"`
	// MatchConditions are CEL expressions as in Kubernetes' own webhook configurations, with the variables object (the
	// pod), namespaceObject (the name and labels of its namespace) and request (with namespace, operation, dryRun and
	// userInfo). What Podgrace itself writes (class, priority, constraints, grace period) can't be asked about. All must be
	// true. One that fails to evaluate for a pod does not match it, and the pod's creator is warned.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	MatchConditions []admissionregistrationv1.MatchCondition `json:"matchConditions,omitempty"`
}

// OwnerKind is the kind of a pod's controller, or None.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=63
type OwnerKind string

// OwnerKindNone matches pods without a controller.
const OwnerKindNone OwnerKind = "None"

// PriorityRange selects pods by their priority, both ends included.
//
// +kubebuilder:validation:MinProperties=1
// +kubebuilder:validation:XValidation:rule="!has(self.min) || !has(self.max) || self.min <= self.max",message="min must not be above max",fieldPath=".min"
type PriorityRange struct {
	// Min is the lowest priority that is selected.
	// +optional
	Min *int32 `json:"min,omitempty"`
	// Max is the highest.
	// +optional
	Max *int32 `json:"max,omitempty"`
}

// PrioritySection ranks pods by PriorityClass.
//
// +kubebuilder:validation:MinProperties=1
// +kubebuilder:validation:XValidation:rule="!has(self.className) || !has(self.allowedClassNames) || self.className in self.allowedClassNames",message="className must be one of allowedClassNames",fieldPath=".className"
type PrioritySection struct {
	// ClassName is the PriorityClass for pods that did not choose one. A class equal to the cluster's globalDefault counts
	// as not chosen, because the API server fills it in before any webhook sees the pod; a pod that wants it all the same
	// says so with the annotation podgrace.dev/skip: priority, where allowSkip permits. Classes with a value above
	// 1,000,000,000 are the system's and can't be given.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('system-')",message="system- classes are reserved for the cluster's own pods and cannot be a default"
	ClassName string `json:"className,omitempty"`
	// AllowedClassNames is a limit: a pod whose class is not in the list is refused. With several matching policies a
	// class must be in every list. A pod with no class at all (priority 0) is allowed.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=253
	AllowedClassNames []string `json:"allowedClassNames,omitempty"`
}

// TopologySpreadSection gives constraints to pods that have none of their own. DaemonSet pods and pods bound to a node
// are left alone.
type TopologySpreadSection struct {
	// Constraints to add, each with a labelSelector derived as the scheduler derives that of its own default
	// constraints: from the pod's controller and from the Services that select it. Where nothing can be derived, no
	// constraint is added, and the pod's creator is warned.
	//
	// One added constraint switches off all of the scheduler's own defaults for that pod (hostname with maxSkew 3 and zone
	// with maxSkew 5, both ScheduleAnyway): give both keys.
	// +required
	// +listType=map
	// +listMapKey=topologyKey
	// +listMapKey=whenUnsatisfiable
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Constraints []TopologySpreadConstraint `json:"constraints"`
	// RevisionAware makes each revision of a Deployment spread by itself: pod-template-hash is counted through
	// matchLabelKeys. With false the pods of all revisions count together.
	// +optional
	// +kubebuilder:default=true
	RevisionAware *bool `json:"revisionAware,omitempty"`
	// OnInfeasible says what happens to a hard constraint (DoNotSchedule) that no node can meet at the moment of
	// admission: Warn keeps it, Soften makes it ScheduleAnyway, Deny refuses the pod.
	// +optional
	// +kubebuilder:default=Warn
	OnInfeasible InfeasibleAction `json:"onInfeasible,omitempty"`
	// OwnerRules derive the selector for pods whose controller is neither ReplicaSet, StatefulSet nor
	// ReplicationController, by labels that the controller puts on its pods.
	// +optional
	// +listType=map
	// +listMapKey=apiGroup
	// +listMapKey=kind
	// +kubebuilder:validation:MaxItems=32
	OwnerRules []OwnerRule `json:"ownerRules,omitempty"`
}

// InfeasibleAction is what happens to a hard constraint that no node can meet now.
//
// +kubebuilder:validation:Enum=Warn;Soften;Deny
type InfeasibleAction string

// The actions on a hard constraint that no node can meet now.
const (
	InfeasibleWarn   InfeasibleAction = "Warn"
	InfeasibleSoften InfeasibleAction = "Soften"
	InfeasibleDeny   InfeasibleAction = "Deny"
)

// TopologySpreadConstraint is corev1.TopologySpreadConstraint without labelSelector, which is derived.
//
// +kubebuilder:validation:XValidation:rule="!has(self.minDomains) || self.whenUnsatisfiable == 'DoNotSchedule'",message="minDomains needs whenUnsatisfiable: DoNotSchedule",fieldPath=".minDomains"
type TopologySpreadConstraint struct {
	// MaxSkew is how far the number of pods may differ between topology domains.
	// +required
	// +kubebuilder:validation:Minimum=1
	MaxSkew int32 `json:"maxSkew"`
	// TopologyKey is the node label whose values are the domains, such as topology.kubernetes.io/zone.
	// +required
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`
	TopologyKey string `json:"topologyKey"`
	// WhenUnsatisfiable is DoNotSchedule (hard) or ScheduleAnyway (soft).
	// +required
	// +kubebuilder:validation:Enum=DoNotSchedule;ScheduleAnyway
	WhenUnsatisfiable corev1.UnsatisfiableConstraintAction `json:"whenUnsatisfiable"`
	// MinDomains is the number of domains that a hard constraint wants at least.
	// +optional
	// +kubebuilder:validation:Minimum=1
	MinDomains *int32 `json:"minDomains,omitempty"`
	// NodeAffinityPolicy says whether the pod's nodeAffinity and nodeSelector limit the domains (default Honor).
	// +optional
	// +kubebuilder:validation:Enum=Honor;Ignore
	NodeAffinityPolicy *corev1.NodeInclusionPolicy `json:"nodeAffinityPolicy,omitempty"`
	// NodeTaintsPolicy says whether nodes with taints that the pod does not tolerate are left out (default Ignore).
	// +optional
	// +kubebuilder:validation:Enum=Honor;Ignore
	NodeTaintsPolicy *corev1.NodeInclusionPolicy `json:"nodeTaintsPolicy,omitempty"`
	// MatchLabelKeys are pod labels whose values are added to the selector, besides what revisionAware adds.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MaxLength=317
	// +kubebuilder:validation:items:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`
	MatchLabelKeys []string `json:"matchLabelKeys,omitempty"`
}

// OwnerRule derives a selector from labels that a kind of controller puts on its pods. For a Job:
// {apiGroup: batch, kind: Job, labelKeys: [batch.kubernetes.io/job-name]}.
type OwnerRule struct {
	// APIGroup of the controller; empty is the core group.
	// +required
	// +kubebuilder:validation:MaxLength=253
	APIGroup string `json:"apiGroup"`
	// Kind of the controller.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`
	// LabelKeys are the pod's labels whose values together select the pods of one controller.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MaxLength=317
	// +kubebuilder:validation:items:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`
	LabelKeys []string `json:"labelKeys"`
}

// GracePeriodSection says how long pods get to stop. All times are whole seconds.
//
// +kubebuilder:validation:MinProperties=1
// +kubebuilder:validation:XValidation:rule="!has(self.defaultSeconds) || self.defaultSeconds >= 30 || (has(self.allowShorterDefault) && self.allowShorterDefault)",message="a default below 30 would shorten a 30 that somebody chose, because the API server writes 30 where nothing was chosen: set allowShorterDefault to accept that",fieldPath=".defaultSeconds"
// +kubebuilder:validation:XValidation:rule="!has(self.minSeconds) || !has(self.maxSeconds) || self.minSeconds <= self.maxSeconds",message="minSeconds must not be above maxSeconds",fieldPath=".minSeconds"
// +kubebuilder:validation:XValidation:rule="!has(self.defaultSeconds) || !has(self.minSeconds) || self.defaultSeconds >= self.minSeconds",message="defaultSeconds must not be below minSeconds",fieldPath=".defaultSeconds"
// +kubebuilder:validation:XValidation:rule="!has(self.defaultSeconds) || !has(self.maxSeconds) || self.defaultSeconds <= self.maxSeconds",message="defaultSeconds must not be above maxSeconds",fieldPath=".defaultSeconds"
type GracePeriodSection struct {
	// DefaultSeconds is for pods that chose nothing. 30 counts as nothing chosen, because the API server writes it before
	// any webhook sees the pod; a pod that wants exactly 30 says so with the annotation podgrace.dev/skip: gracePeriod,
	// where allowSkip permits.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=604800
	DefaultSeconds *int64 `json:"defaultSeconds,omitempty"`
	// AllowShorterDefault accepts a default below 30.
	// +optional
	AllowShorterDefault bool `json:"allowShorterDefault,omitempty"`
	// MinSeconds is a limit: a shorter grace period is raised to it, with a warning. Of several policies the highest holds.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=604800
	MinSeconds *int64 `json:"minSeconds,omitempty"`
	// MaxSeconds is a limit: a longer grace period is lowered to it, with a warning. Of several policies the lowest holds.
	// Where it contradicts a minimum, the minimum holds; where preStop needs more, the maximum holds.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=604800
	MaxSeconds *int64 `json:"maxSeconds,omitempty"`
	// PreStopMarginSeconds is a limit: what must be left of the grace period after the longest preStop hook. Known hooks are
	// the sleep action and an exec of exactly "sleep N"; others are warned about, and one that begins with a sleep counts as no less.
	// Of several policies the highest holds, up to the maximum.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	PreStopMarginSeconds *int64 `json:"preStopMarginSeconds,omitempty"`
}

// RemovalSection is all limits: of several policies the strictest verdict on a removal holds, and the strictest zeroGrace.
//
// +kubebuilder:validation:MinProperties=1
type RemovalSection struct {
	// ForceDelete says what happens to a force delete of a protected pod that is not known to be stopped. Of several
	// policies the strictest verdict holds; all other fields but zeroGrace count among those with the same forceDelete, so
	// that one that warns makes none stricter that denies.
	// +optional
	// +kubebuilder:default=Deny
	ForceDelete RemovalAction `json:"forceDelete,omitempty"`
	// Protect says which pods are protected: those with identity or exclusive storage, or all.
	// +optional
	// +kubebuilder:default=Stateful
	Protect Protection `json:"protect,omitempty"`
	// Owners are kinds of controllers whose pods have an identity, as those of StatefulSets have: they are protected whatever
	// protect says. What counts is the pod's controller, of whatever version, and the one that it had when it was created
	// (annotation podgrace.dev/protected). Of several policies each adds its own.
	// +optional
	// +listType=map
	// +listMapKey=group
	// +listMapKey=kind
	// +kubebuilder:validation:MaxItems=32
	Owners []ProtectedOwner `json:"owners,omitempty"`
	// BlockClaims says which claims with volumeMode: Block are exclusive: ByAccessMode, as all others, or Exclusive, those
	// with ReadWriteMany as well. Virtual machines that are migrated live have such claims, and one writer. Of several
	// policies Exclusive holds.
	// +optional
	// +kubebuilder:default=ByAccessMode
	BlockClaims BlockClaims `json:"blockClaims,omitempty"`
	// ZeroGrace says what happens to a protected pod that is created with a grace period of 0, by which every plain delete
	// would be a force delete: it is refused, raised, or left as it is with a warning.
	// +optional
	// +kubebuilder:default=Raise
	ZeroGrace ZeroGraceAction `json:"zeroGrace,omitempty"`
	// EvictionWithoutGrace says what happens to an eviction of a protected pod with a grace period of 0, be it the
	// eviction's or the pod's, where forceDelete is Deny: it is refused, or raised to the pod's own, and to 30 where that is
	// 0. Where forceDelete is Warn the eviction is warned about, whatever this field says.
	// +optional
	// +kubebuilder:default=Deny
	EvictionWithoutGrace GraceAction `json:"evictionWithoutGrace,omitempty"`
	// AllowedActors are users, such as system:serviceaccount:ops:node-repair, whose removals are not judged. Of several
	// policies with the same forceDelete an actor must be in every list. Whom all policies name that deny or warn
	// passes while the webhook is away, too.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	AllowedActors []string `json:"allowedActors,omitempty"`
}

// RemovalAction is what happens to an unsafe removal, from strict to lax: Deny, Warn, Allow.
//
// +kubebuilder:validation:Enum=Deny;Warn;Allow
type RemovalAction string

// The actions on an unsafe removal.
const (
	RemovalDeny  RemovalAction = "Deny"
	RemovalWarn  RemovalAction = "Warn"
	RemovalAllow RemovalAction = "Allow"
)

// ProtectedOwner is a kind of controllers. For Strimzi's Kafka: {group: core.strimzi.io, kind: StrimziPodSet}.
type ProtectedOwner struct {
	// Group of the controller; empty is the core group.
	// +required
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)?$`
	Group string `json:"group"`
	// Kind of the controller: the pod's own, so that it is ReplicaSet for pods of a Deployment.
	// +required
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[A-Za-z]([-A-Za-z0-9]*[A-Za-z0-9])?$`
	Kind string `json:"kind"`
}

// BlockClaims says which claims with volumeMode: Block are exclusive: ByAccessMode (ReadWriteOnce and ReadWriteOncePod) or
// Exclusive (all).
//
// +kubebuilder:validation:Enum=ByAccessMode;Exclusive
type BlockClaims string

// Which claims with volumeMode: Block are exclusive.
const (
	BlockClaimsByAccessMode BlockClaims = "ByAccessMode"
	BlockClaimsExclusive    BlockClaims = "Exclusive"
)

// Protection says which pods are protected: Stateful (those of a StatefulSet or of one of owners, or with an exclusive
// claim: ReadWriteOnce or ReadWriteOncePod, or what blockClaims says) or All.
//
// +kubebuilder:validation:Enum=Stateful;All
type Protection string

// The degrees of protection.
const (
	ProtectStateful Protection = "Stateful"
	ProtectAll      Protection = "All"
)

// ZeroGraceAction is what happens to a pod that is created with a grace period of 0, from strict to lax: Deny, Raise, Warn.
//
// +kubebuilder:validation:Enum=Deny;Raise;Warn
type ZeroGraceAction string

// The actions on a pod that is created with a grace period of 0.
const (
	ZeroGraceDeny  ZeroGraceAction = "Deny"
	ZeroGraceRaise ZeroGraceAction = "Raise"
	ZeroGraceWarn  ZeroGraceAction = "Warn"
)

// GraceAction is what happens to an eviction with a grace period of 0: it is refused, or raised. It has no Warn: an
// eviction without grace is a force delete, so that forceDelete says where one is only warned about.
//
// +kubebuilder:validation:Enum=Deny;Raise
type GraceAction string

// The actions on an eviction with a grace period of 0.
const (
	GraceDeny  GraceAction = "Deny"
	GraceRaise GraceAction = "Raise"
)

// PodPolicyStatus is what the webhook's leader found out about a policy.
type PodPolicyStatus struct {
	// ObservedGeneration is the generation of the spec that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Summary tells at a glance what the policy does.
	// +optional
	Summary PolicySummary `json:"summary,omitempty"`
	// Conditions: Ready is False while a part of the policy can't be applied; the message names it. Compiled says by its reason
	// whether the API server judges the limits on pods by itself, so that they hold while the webhook is away: Full, Partly or
	// No, or Waiting, until a replica has answered the API server; the message says which it does not, and why. A policy without such limits has no such condition. Enforced is there
	// where the policy has a node section: Full, Partly or No, by the nodes on which a node enforcer and a NodePolicy make it true.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Warnings are remarks about a policy that works, but perhaps not as meant.
	// +optional
	// +listType=atomic
	Warnings []string `json:"warnings,omitempty"`
}

// PolicySummary tells in a few words a section what a policy does.
type PolicySummary struct {
	// Priority, such as "web-high of web-high,web-low".
	// +optional
	Priority string `json:"priority,omitempty"`
	// TopologySpread, such as "zone!,hostname", where ! marks a hard constraint.
	// +optional
	TopologySpread string `json:"topologySpread,omitempty"`
	// GracePeriod, such as "45s in 10..300s preStop+5s".
	// +optional
	GracePeriod string `json:"gracePeriod,omitempty"`
	// Removal, such as "Deny Stateful".
	// +optional
	Removal string `json:"removal,omitempty"`
}

// The condition types and reasons of a PodPolicy.
const (
	ConditionReady    = "Ready"
	ConditionCompiled = "Compiled"
	// ConditionEnforced is there where the policy has a node section: True while all of it holds on every node.
	ConditionEnforced = "Enforced"

	ReasonValid       = "Valid"
	ReasonInvalidSpec = "InvalidSpec"
	// ReasonFieldsUnread: fields were written that are not read, because the CustomResourceDefinition or the program is older than the policy.
	ReasonFieldsUnread          = "FieldsUnread"
	ReasonUnknownPriorityClass  = "UnknownPriorityClass"
	ReasonReservedPriorityClass = "ReservedPriorityClass"
	ReasonGuardWaiting          = "GuardWaiting"
	ReasonGuardOff              = "GuardOff"

	ReasonFull   = "Full"
	ReasonPartly = "Partly"
	ReasonNo     = "No"
	// ReasonLimitsWaiting: its limits are not written yet, because no replica of the webhook has answered the API server.
	ReasonLimitsWaiting = "Waiting"
	// ReasonNoNodes: the cluster has none.
	ReasonNoNodes = "NoNodes"
)
