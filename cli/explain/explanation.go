package explain

import (
	"encoding/json"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"

	"github.com/podgrace/podgrace/internal/pod/graceperiod/deadline"
)

// Explanation of one pod.
type Explanation struct {
	APIVersion string   `json:"apiVersion"` // podgrace.dev/v1alpha1
	Kind       string   `json:"kind"`       // Explanation
	Pod        Subject  `json:"pod"`
	Policies   Policies `json:"policies"`
	// PoliciesUnknown: they could not be read.
	PoliciesUnknown bool     `json:"policiesUnknown,omitempty"`
	Priority        Priority `json:"priority"`
	Spread          Spread   `json:"topologySpread"`
	// Scheduling is nil where nobody asked the scheduler.
	Scheduling *Scheduling `json:"scheduling,omitempty"`
	Grace      Grace       `json:"gracePeriod"`
	QoS        QoS         `json:"qos"`
	Contract   Contract    `json:"contract"`
	Cgroups    Cgroups     `json:"cgroups"`
	Eviction   Eviction    `json:"eviction"`
	Removal    Removal     `json:"removal"`
	// Ended is nil for a pod that nobody preempted, evicted or terminated before its time.
	Ended *Ended `json:"ended,omitempty"`
	// Refused says why a pod that does not exist yet would be refused, a sentence each.
	Refused []string `json:"refused"`
	// Today is what today's policies would decide otherwise if a pod that exists were recreated, a sentence each.
	Today []string `json:"today"`
	// Warnings of the policies about the pod.
	Warnings []string `json:"warnings"`
	// Unknown is what could not be told and why, or what was assumed for it, a sentence each.
	Unknown []string `json:"unknown"`
}

// Subject is the pod.
type Subject struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid,omitempty"`
	Node      string `json:"node,omitempty"`
	Phase     string `json:"phase,omitempty"`
	// Controller is its kind and name.
	Controller string `json:"controller,omitempty"`
	// Created: it exists already; else it is a manifest as it would be stored.
	Created bool `json:"created"`
	// Deleting: it is being deleted.
	Deleting bool `json:"deleting"`
}

// Origin is where a value is from.
type Origin string

// The origins.
const (
	// OriginPod: its author chose it.
	OriginPod Origin = "Pod"
	// OriginPolicy gave it.
	OriginPolicy Origin = "Policy"
	// OriginPodOrPolicy: its author's or a policy's: a pod that exists does not record which.
	OriginPodOrPolicy Origin = "PodOrPolicy"
	// OriginCluster: the API server filled it in, or the author chose the very same.
	OriginCluster Origin = "Cluster"
	// OriginNone: there is no value.
	OriginNone Origin = "None"
	// OriginUnknown: it can't be told.
	OriginUnknown Origin = "Unknown"
)

// Source of a value.
type Source struct {
	Origin Origin `json:"origin"`
	// Policy that gives it, or would.
	Policy string `json:"policy,omitempty"`
	// Why in words.
	Why string `json:"why"`
}

// Priority of the pod.
type Priority struct {
	ClassName        string                  `json:"className,omitempty"`
	Value            int32                   `json:"value"`
	PreemptionPolicy corev1.PreemptionPolicy `json:"preemptionPolicy,omitempty"`
	Source
	// Limits on the class.
	Limits []string `json:"limits"`
	// Means is what follows from it.
	Means string `json:"means"`
}

// Spread is the pod's topology spread.
type Spread struct {
	Constraints []Constraint `json:"constraints"`
	Source
	// Selector says what the selector is derived from, where a policy's constraints have one.
	Selector string `json:"selector,omitempty"`
	// Means is what the scheduler does with it.
	Means string `json:"means"`
}

// Constraint is one topology spread constraint.
type Constraint struct {
	TopologyKey       string `json:"topologyKey"`
	MaxSkew           int32  `json:"maxSkew"`
	WhenUnsatisfiable string `json:"whenUnsatisfiable"`
	// LabelSelector without what the API server merged into it from MatchLabelKeys.
	LabelSelector      string   `json:"labelSelector"`
	MatchLabelKeys     []string `json:"matchLabelKeys,omitempty"`
	MinDomains         *int32   `json:"minDomains,omitempty"`
	NodeAffinityPolicy string   `json:"nodeAffinityPolicy,omitempty"`
	NodeTaintsPolicy   string   `json:"nodeTaintsPolicy,omitempty"`
}

// Grace is how long the pod gets to stop. All times are whole seconds.
type Grace struct {
	Seconds int64 `json:"seconds"`
	Source
	// Limits of the policies.
	Limits []string `json:"limits"`
	// Delete is what a plain delete does.
	Delete string `json:"delete"`
	// Containers in the order in which they are stopped: the main ones together, then sidecars from the last to the first.
	Containers []Stop `json:"containers"`
	// LongestSeconds from the delete until the last SIGKILL, at most, by the kubelet's arithmetic.
	LongestSeconds int64 `json:"longestSeconds"`
	// Others are shorter or longer times for other reasons, a sentence each.
	Others []string `json:"others"`
	// Pitfalls in the pod's own hooks and times, a sentence each.
	Pitfalls []string `json:"pitfalls"`
	// Deadlines of those who stop its node, the shortest first, as far as they are known.
	Deadlines []deadline.Deadline `json:"deadlines"`
}

// Stop is how one container is stopped.
type Stop struct {
	Container string `json:"container"`
	// Turn is 0 for the main containers, which are stopped together; sidecars wait for them and have 1, 2 and so on.
	Turn int `json:"turn"`
	// PreStop hook in words; empty: none.
	PreStop string `json:"preStop,omitempty"`
	// TermAfterSeconds is when SIGTERM comes after the delete; a sidecar's at the earliest. nil: not known.
	TermAfterSeconds *int64 `json:"termAfterSeconds"`
	// LeftSeconds are left between SIGTERM and SIGKILL; a sidecar's at most. nil: not known.
	LeftSeconds *int64 `json:"leftSeconds"`
	// KillAfterSeconds is when SIGKILL comes after the delete, at the latest.
	KillAfterSeconds int64 `json:"killAfterSeconds"`
}

// QoS is the pod's QoS class.
type QoS struct {
	Class corev1.PodQOSClass `json:"class"`
	// Why: which container and resource make it so.
	Why []string `json:"why"`
	// Means is what follows from it.
	Means string `json:"means"`
}

// Contract is what a policy decided for the node.
type Contract struct {
	// Fields of the annotation podgrace.dev/enforcement, as "cpu.weight 200".
	Fields []string `json:"fields"`
	Source
	// Remove is the command that removes it, if no policy gives it today: the node then treats the pod as if none had decided. Empty: a policy gives it.
	Remove string `json:"remove,omitempty"`
}

// Cgroups are the values of the pod's cgroups.
type Cgroups struct {
	Version int    `json:"version"`
	Driver  string `json:"driver"`
	// Path of the pod's cgroup below the root of the hierarchy.
	Path string `json:"path,omitempty"`
	// None says why there are none.
	None  string `json:"none,omitempty"`
	Files []File `json:"files"`
	// Notes of the plan.
	Notes []string `json:"notes"`
}

// File is one file of a cgroup, or oom_score_adj of a container's processes.
type File struct {
	// Container is empty for the pod's own cgroup.
	Container string `json:"container,omitempty"`
	Name      string `json:"name"`
	// Value as the kernel prints it; empty where it is not known.
	Value string `json:"value,omitempty"`
	// Writer is kubelet, runtime or podgrace; When it writes. How values come about is told in docs/nodeenforcer-files.md.
	Writer string `json:"writer"`
	When   string `json:"when,omitempty"`
	// Note is what the value depends on besides.
	Note string `json:"note,omitempty"`
}

// Eviction is the pod's place when its node runs out of memory.
type Eviction struct {
	// Exempt says why it is never evicted; empty where it may be.
	Exempt string `json:"exempt,omitempty"`
	// Place in the order of eviction, from 1, Of so many; 0 where that is not known.
	Place int `json:"place,omitempty"`
	Of    int `json:"of,omitempty"`
	// Request of memory, a quantity; empty where it is exempt; and UsageBytes, the working set; nil: not known.
	Request    string `json:"request,omitempty"`
	UsageBytes *int64 `json:"usageBytes"`
	// Exceeds its request; nil: not known.
	Exceeds  *bool `json:"exceeds"`
	Priority int32 `json:"priority"`
	// Order from the contract, which counts between pods of one priority.
	Order int32 `json:"order"`
	// Means is what the key comes to, a sentence each.
	Means []string `json:"means"`
}

// Removal is what would become of a removal by this user now.
type Removal struct {
	User string `json:"user,omitempty"`
	// None says why there is nothing to remove.
	None string `json:"none,omitempty"`
	// Protected says why the pod is; empty where it is not.
	Protected string `json:"protected,omitempty"`
	// Policies that guard it.
	Policies []string `json:"policies"`
	// Ungated says of its claims which ones a second node can mount besides.
	Ungated     []string `json:"ungated,omitempty"`
	ForceDelete *Verdict `json:"forceDelete,omitempty"`
	Delete      *Verdict `json:"delete,omitempty"`
	Eviction    *Verdict `json:"eviction,omitempty"`
}

// Verdict of the guard.
type Verdict struct {
	Decision string `json:"decision"` // Allow, Warn or Deny
	Reason   string `json:"reason"`   // in one word
	Message  string `json:"message"`
}

// JSON prints it for programs.
func JSON(w io.Writer, e *Explanation) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(e); err != nil {
		return fmt.Errorf("print the explanation: %w", err)
	}
	return nil
}
