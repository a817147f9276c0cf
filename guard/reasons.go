package guard

import "github.com/podgrace/podgrace/policy"

// The reasons of what is refused, and of what is warned about.
var (
	// Unsafe: it could let the pod run twice.
	Unsafe = policy.Reason{Code: "Unsafe", Short: "The removal could let the pod run twice, or two nodes write to a volume",
		Help: "Let the kubelet stop the pod, wait for its node, or confirm: see podgrace confirm --help."}
	becauseUnprotected = policy.Reason{Code: "Unprotected", Short: "A pod is removed without waiting for its node",
		Help: "No policy protects the pod: it may go on running on its node while its replacement starts."}
	becauseAnotherNode = policy.Reason{Code: "EnforcerOfAnotherNode", Short: "A node enforcer removes a pod of another node",
		Help: "An enforcer may only end pods of its own node."}
	becauseIncomplete = policy.Reason{Code: "Incomplete", Short: "The review lacks the object that is removed",
		Help: "A recorded AdmissionReview of a removal needs oldObject."}
	becauseUnknownRoad = policy.Reason{Code: "UnknownRoad", Short: "A removal of a kind that Podgrace does not know",
		Help: "Check the rules of the webhook configuration that the review was recorded with."}
)

// The reasons of what is let go.
var (
	// Confirmed is a removal of a pod that may run twice, because somebody accepts that.
	Confirmed = policy.Reason{Code: "Confirmed", Short: "it is confirmed that it may run twice"}
	// NodeStopped is one of a pod, volume or node that is known to have stopped.
	NodeStopped = policy.Reason{Code: "NodeStopped", Short: "its node is known to have stopped"}
	// NodeOutOfService is pod garbage collection's, of a pod whose node is that as well, and known to have stopped.
	NodeOutOfService = policy.Reason{Code: "NodeOutOfService", Short: "its node is out of service, and known to have stopped"}
	// NotGuarded: no policy guards it.
	NotGuarded = policy.Reason{Code: "NotGuarded", Short: "no policy guards its namespace"}
	// AllowedActor: the policies allow the user by name.
	AllowedActor = policy.Reason{Code: "AllowedActor", Short: "the policies allow you by name (allowedActors)"}

	becauseOwnKubelet        = policy.Reason{Code: "OwnKubelet", Short: "you are the kubelet that runs it"}
	becauseNodeGone          = policy.Reason{Code: "NodeGone", Short: "its node has no Node object any more"}
	becauseNotAttached       = policy.Reason{Code: "NotAttached", Short: "the volume is not attached"}
	becauseDetaches          = policy.Reason{Code: "AttachDetachController", Short: "the attach-detach controller detaches what nothing uses exclusively"}
	becausePodStorageRevoked = policy.Reason{Code: "PodStorageRevoked", Short: "its node can't write to its volumes any more, and it is protected for nothing else"}
	becauseStorageRevoked    = policy.Reason{Code: "StorageRevoked", Short: "its node can't write to the volume any more"}
	becauseFenced            = policy.Reason{Code: "PodFenced", Short: "it is fenced"}
	becauseNotForced         = policy.Reason{Code: "NotForced", Short: "its kubelet stops it, within its grace period"}
	becauseNeverScheduled    = policy.Reason{Code: "NeverScheduled", Short: "it has no node: no kubelet ever had it"}
	becauseFinished          = policy.Reason{Code: "Finished", Short: "it has finished: nothing of it runs any more"}
	becauseHeld              = policy.Reason{Code: "Held", Short: "a finalizer holds the Node: its removal only begins"}
	becauseNothingProtected  = policy.Reason{Code: "NothingProtectedOnNode", Short: "nothing that is protected is on the node"}
)

// Refusals are the reasons of what is refused or warned about.
func Refusals() []policy.Reason {
	return []policy.Reason{Unsafe, becauseUnprotected, becauseAnotherNode, becauseIncomplete, becauseUnknownRoad}
}
