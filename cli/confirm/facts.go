package confirm

import (
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/podgrace/podgrace/guard"
	"github.com/podgrace/podgrace/policy"
)

// PodFacts are what is known of a pod whose force delete is to be confirmed.
type PodFacts struct {
	Now time.Time
	Pod *corev1.Pod
	// Node that the pod is bound to. NodeUnknown says why it could not be read.
	Node        guard.Node
	NodeUnknown string
	Claims      []Claim
	Permission
}

// Claim is a PersistentVolumeClaim that a pod holds.
type Claim struct {
	Name string
	policy.Claim
	// Lock is the VolumeLock of its volume, and Holder the node that holds it by that; empty: none does, or it could not be read.
	Lock, Holder string
	// Unknown says why it could not be read.
	Unknown string
}

// NodeFacts are what is known of a node that is to be confirmed off.
type NodeFacts struct {
	NodeState
	Burden
	Permission
}

// NodeState is a node and its heartbeat.
type NodeState struct {
	Now  time.Time
	Node *corev1.Node
	// Lease is nil where there is none. LeaseUnknown says why it could not be read.
	Lease        *coordinationv1.Lease
	LeaseUnknown string
	// Fence of this boot that releases its pods once it is confirmed; empty: none does, or it could not be read.
	Fence string
}

// Burden is what a node carries.
type Burden struct {
	// Pods that are not finished. PodsUnknown says why they could not be read.
	Pods        []BoundPod
	PodsUnknown string
	// Attachments of volumes. AttachmentsUnknown says why they could not be read.
	Attachments        []Attachment
	AttachmentsUnknown string
}

// BoundPod is a pod of a node.
type BoundPod struct {
	Namespace, Name string
	// Why it is protected; empty where it is not.
	Why string
}

// Attachment is a VolumeAttachment.
type Attachment struct {
	Name, Volume string
	Attached     bool
	// Lock is the VolumeLock by which the node holds it; empty: none.
	Lock string
}

// Permission is what the user may do.
type Permission struct {
	User string
	// Needed are the rights that it takes to confirm, Missing those of them that the user does not have.
	Needed, Missing []Right
}

// Right is a verb on a resource, as RBAC grants it. A subresource, a namespace and a name may be empty.
type Right struct {
	Verb, Group, Resource, Subresource, Namespace, Name string
}

// Verdict is what is to be done with a wish to confirm.
type Verdict int

// The verdicts.
const (
	// Ask the person.
	Ask Verdict = iota
	// Already confirmed: there is nothing to write.
	Already
	// Unneeded: it can be removed without.
	Unneeded
	// Refused: it can't be so.
	Refused
	// NotPermitted: the user may not.
	NotPermitted
)

// dangerous reports whether a report begins with what may happen.
func (v Verdict) dangerous() bool { return v == Ask || v == Already || v == NotPermitted }

// Judgement is a verdict with its reason, for the person.
type Judgement struct {
	Verdict Verdict
	Reason  string
}

// Commands are what a person types next.
type Commands struct {
	// Self is this program: "podgrace" or "kubectl podgrace".
	Self string
	// Flags that were given to it and hold for the next command too, each with a blank before it.
	Flags string
}

func (c Commands) confirmNode(node string) string { return c.Self + " confirm node/" + node + c.Flags }

func (c Commands) kubectl(format string, args ...any) string {
	return "kubectl " + fmt.Sprintf(format, args...) + c.Flags
}
