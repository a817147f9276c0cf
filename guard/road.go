package guard

import (
	"maps"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/policy"
)

// Road is a kind of request that can make Kubernetes believe that a pod is gone while it may still run.
type Road string

// The roads.
const (
	// RoadDelete is a DELETE or DELETECOLLECTION of pods whose effective grace period is 0.
	RoadDelete Road = "delete"
	// RoadEviction is an eviction whose effective grace period is 0.
	RoadEviction Road = "eviction"
	// RoadStatus is an update of the status to phase Succeeded or Failed, after which a plain delete of the pod takes effect at once.
	RoadStatus Road = "status"
	// RoadFinalizer is an update after which a pod that was force-deleted before has no finalizer: it is removed by that,
	// whatever else the update is about (k8s.io/apiserver/pkg/registry/generic/registry/store.go ShouldDeleteDuringUpdate,
	// 0.36.3).
	RoadFinalizer Road = "finalizer"
	// RoadNode is a DELETE of a Node, or an update that removes the last finalizer of one that is being deleted: pod garbage collection then
	// force-deletes its pods.
	RoadNode Road = "node"
	// RoadOutOfService is the taint node.kubernetes.io/out-of-service: pods are force-deleted, volumes detached.
	RoadOutOfService Road = "out-of-service"
	// RoadVolumeAttachment is a DELETE of a VolumeAttachment: the volume may then be attached elsewhere.
	RoadVolumeAttachment Road = "volume-attachment"
)

// Request is who wants to remove what.
type Request struct {
	Road Road
	User authenticationv1.UserInfo
	// Pod as stored, for the roads of pods.
	Pod *corev1.Pod
	// GracePeriodSeconds of the user's options; nil where there are none.
	GracePeriodSeconds *int64
	// Phase that is to be written, for RoadStatus.
	Phase corev1.PodPhase
	// Node as stored, for the roads of nodes. The object alone says which it is: a DELETECOLLECTION has no name.
	Node *corev1.Node
	// HeldFrom, for a DELETE of a Node, is from when on its finalizers are sure to keep it: when it will have had them for longer than a request can take; zero:
	// it has none. The API server can delete an object that it read without finalizers although some were added since
	// (k8s.io/apiserver/pkg/storage/etcd3/store.go conditionalDelete, 0.36.3).
	HeldFrom time.Time
	// VolumeAttachment as stored, for its road.
	VolumeAttachment *storagev1.VolumeAttachment
}

// Facts are what is known when the decision is made. A zero value is unknown.
type Facts struct {
	Now time.Time
	// Policy is what the policies of the pod's namespace say; for Nodes and VolumeAttachments what those of all namespaces say.
	Policy policy.Removal
	// Node that the pod is bound to, or that the request is about.
	Node Node
	// Claims of the pod. One that is missing is unknown.
	Claims policy.Claims
	// Volume that an attachment is of, for RoadVolumeAttachment by the attach-detach controller.
	Volume Volume
	// Fences are receipts of fences for this pod or node.
	Fences []Fence
	// Bound are the pods of the node that are not finished, for RoadNode, by the action of the policies that protect them.
	// BoundKnown: they could be listed.
	Bound      map[v1alpha1.RemovalAction][]*corev1.Pod
	BoundKnown bool
}

// Volume is a PersistentVolume.
type Volume struct {
	// Known: it could be read. An unknown one counts as exclusive.
	Known bool
	// Claim that it is bound to, NAMESPACE/NAME; empty: none.
	Claim string
	Modes []corev1.PersistentVolumeAccessMode
	// UniqueName is its name in volumesInUse of nodes; empty: unknown.
	UniqueName corev1.UniqueVolumeName
}

// VolumeOf is the Volume of a PersistentVolume.
func VolumeOf(pv *corev1.PersistentVolume) Volume {
	v := Volume{Known: true, Modes: pv.Spec.AccessModes}
	if c := pv.Spec.ClaimRef; c != nil {
		v.Claim = c.Namespace + "/" + c.Name
	}
	if csi := pv.Spec.CSI; csi != nil { // pkg/volume/csi/csi_plugin.go GetVolumeName, pkg/volume/util GetUniqueVolumeName, 1.36.3
		v.UniqueName = corev1.UniqueVolumeName("kubernetes.io/csi/" + csi.Driver + "^" + csi.VolumeHandle)
	}
	return v
}

// exclusive says whether only one node may use it.
func (v Volume) exclusive() bool {
	_, ok := policy.Exclusive(v.Modes)
	return !v.Known || ok
}

// Fence is the receipt of a fence: a pod's processes, or all processes of one boot of a node, can do no more harm.
type Fence struct {
	// Name of the receipt, for messages.
	Name string
	// PodUID that was fenced; empty where a whole node was.
	PodUID types.UID
	// NodeUID and BootID of the node that was fenced.
	NodeUID types.UID
	BootID  string
}

// Verdict is what becomes of the request.
type Verdict string

// The verdicts.
const (
	Allow Verdict = "Allow"
	Warn  Verdict = "Warn"
	Deny  Verdict = "Deny"
)

// Decision is the answer to a Request.
type Decision struct {
	Verdict Verdict
	// Reason is the rule that decided.
	Reason policy.Reason
	// What may happen, for the person, for Warn and Deny: what may run twice and where, and why that matters here.
	What string
	// Ways on, of a refusal that there is a way round.
	Ways string
	// Why is the cause in the message, without times: refusals of one object with the same Why are repetitions.
	Why string
}

// Message is all of it in one line.
func (d Decision) Message() string { return strings.TrimSpace(d.What + " " + d.Ways) }

// Roads are all of them, in the order of their names.
func Roads() []Road { return slices.Sorted(maps.Keys(roads)) }

// Decide judges a request. Each level of policies judges it, and the strictest verdict holds: a user whom the policies that deny allow by name may
// still get a warning by those that warn.
func Decide(req Request, facts Facts) Decision {
	strictest := judge(req, facts)
	for level := facts.Policy.Laxer; level != nil && strictest.Verdict != Deny; level = level.Laxer {
		facts.Policy = *level
		if d := judge(req, facts); d.weight() > strictest.weight() {
			strictest = d
		}
	}
	return strictest
}

// weight orders decisions by severity: of two warnings the one with the reason Unsafe is the more severe.
func (d Decision) weight() int {
	switch {
	case d.Verdict == Deny:
		return 3
	case d.Verdict == Warn && d.Reason == Unsafe:
		return 2
	case d.Verdict == Warn:
		return 1
	}
	return 0
}

// ByItself judges a request that can be decided without facts, but for the time; nil: it takes facts. Decide returns the same for it, whatever the facts are, so
// that they need not be looked up.
func ByItself(req Request, now time.Time) *Decision {
	if !complete(req) {
		return &Decision{Verdict: Deny, Reason: becauseIncomplete, What: "the review lacks the object that is to be removed (" + string(req.Road) + "): it can't be judged"}
	}
	for _, r := range roads[req.Road].byItself {
		if d := r(req, now); d != nil {
			return d
		}
	}
	return nil
}

// judge judges a request by the first level of the facts' policy.
func judge(req Request, facts Facts) Decision {
	if d := ByItself(req, facts.Now); d != nil {
		return *d
	}
	for _, r := range roads[req.Road].rules {
		if d := r(req, facts); d != nil {
			return *d
		}
	}
	// An unknown road: the webhook configuration has rules that this package does not know.
	return Decision{Verdict: Deny, Reason: becauseUnknownRoad, What: "Podgrace does not know how to judge this request (" + string(req.Road) + "): check the rules of its webhook configuration"}
}

// complete says whether the request has the object of its road.
func complete(req Request) bool {
	switch req.Road {
	case RoadDelete, RoadEviction, RoadStatus, RoadFinalizer:
		return req.Pod != nil
	case RoadVolumeAttachment:
		return req.VolumeAttachment != nil
	case RoadNode, RoadOutOfService:
	}
	return true
}

// rule returns a decision, or nil to leave it to the next rule.
type rule func(Request, Facts) *Decision

// The rules of each road, in order: first those that look at the request alone.
var roads = map[Road]struct {
	byItself []func(Request, time.Time) *Decision
	rules    []rule
}{
	RoadDelete:           {podByItself, podRules},
	RoadEviction:         {podByItself, podRules},
	RoadStatus:           {podByItself, podRules},
	RoadFinalizer:        {podByItself, podRules},
	RoadNode:             {[]func(Request, time.Time) *Decision{heldNode}, []rule{unguarded, allowedActor, nodeStopped, nothingProtectedOnNode, refuseNode}},
	RoadOutOfService:     {nil, []rule{unguarded, allowedActor, nodeStopped, refuseNode}},
	RoadVolumeAttachment: {nil, []rule{unguarded, notAttached, attachDetachController, allowedActor, nodeStopped, nodeGone, refuseAttachment}},
}

var podByItself = []func(Request, time.Time) *Decision{
	enforcerOfAnotherNode,
	notForced, neverScheduled, finished,
	ownKubelet,
}

var podRules = []rule{
	podGarbageCollector,
	unguarded, allowedActor,
	nodeGone, fenced, confirmed,
	unprotected, refusePod,
}

func allow(reason policy.Reason) *Decision { return &Decision{Verdict: Allow, Reason: reason} }
