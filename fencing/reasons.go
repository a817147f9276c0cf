package fencing

import "github.com/podgrace/podgrace/policy"

// Why a silent node is only shown, or a Fence waits or is refused.
var (
	factsUnknown = policy.Reason{Code: "Unknown", Short: "what the decision depends on could not be read",
		Help: "Look at the fencer's log: it may lack a right, or the API server does not answer."}
	fencerCutOff = policy.Reason{Code: "FencerCutOff", Short: "the fencer itself may be the one that is cut off",
		Help: "Compare with kubectl get leases -n kube-node-lease from elsewhere; if the nodes are really away, look for what they share (network, power, control plane)."}
	zoneDisrupted = policy.Reason{Code: "ZoneDisrupted", Short: "most nodes of a zone are not ready, as when the zone is cut off",
		Help: "Look for what the zone's nodes share. Nothing is fenced until most of them are ready again; if its machine is known to be off: kubectl podgrace confirm node/NAME."}
	ownNode = policy.Reason{Code: "OwnNode", Short: "the fencer runs on this node",
		Help: "Another replica of the fencer, on another node, can fence it once it leads."}
	noPolicy = policy.Reason{Code: "NoPolicy", Short: "no FencePolicy selects the node",
		Help: "Make a FencePolicy whose nodeSelector selects it."}
	showOnly = policy.Reason{Code: "ShowOnly", Short: "its FencePolicy only shows silent nodes (mode: Show), and else it would be fenced within the budget",
		Help: "To have it fenced now: kubectl podgrace fence NAME. To have it done by itself: mode: Fence in the policy."}
	controlPlaneNode = policy.Reason{Code: "ControlPlane", Short: "it is a node of the control plane, and these are never fenced",
		Help: "Whether etcd keeps its quorum without it only you can know: power it off yourself, then kubectl podgrace confirm node/NAME."}
	sharedIdentity = policy.Reason{Code: "SharedIdentity", Short: "two nodes say that they are the same machine",
		Help: "Neither is fenced, since the wrong one might be: see systemUUID and bootID of kubectl get nodes -o yaml. Clones of a virtual machine need UUIDs of their own."}
	noIdentity = policy.Reason{Code: "NoIdentity", Short: "the node does not say which boot it is",
		Help: "Its kubelet has not written status.nodeInfo as kubelets do. If it is known to be off, delete the Node."}
	maintained = policy.Reason{Code: "Maintenance", Short: "it is being worked on, so that its silence is expected",
		Help: "If that is not so, take the announcement away; or kubectl podgrace fence NAME."}
	stillReady = policy.Reason{Code: "StillReady", Short: "the API server still has it as Ready",
		Help: "The node lifecycle controller marks a silent node after 50 s: check kube-controller-manager."}
	nothingAtStake = policy.Reason{Code: "NothingAtStake", Short: "no protected pod waits for it",
		Help: "Only pods that a PodPolicy's removal section protects count (kubectl podgrace explain POD says whether one does), and of these, those that justifiedBy of the FencePolicy lets count."}
	stillPatient = policy.Reason{Code: "StillPatient", Short: "the pods that wait for it tolerate an unreachable node for longer",
		Help: "Shorten their toleration of node.kubernetes.io/unreachable, or set justifiedBy.patience in the FencePolicy; or kubectl podgrace fence NAME."}
	paused = policy.Reason{Code: "Paused", Short: "a FencePolicy that selects the node is paused",
		Help: "Set paused: false in it."}
	noAgent = policy.Reason{Code: "NoAgent", Short: "no agent of its policy can power the machine off",
		Help: "kubectl get fencepolicies -o wide says which agent lacks what; if the machine is known to be off: kubectl podgrace confirm node/NAME."}
	anotherFence = policy.Reason{Code: "AnotherFence", Short: "another Fence is for the same boot of the node",
		Help: "Look at that one: kubectl get fences."}
	tooManyFences = policy.Reason{Code: "TooManyFences", Short: "as many nodes are being fenced as the budget allows",
		Help: "Look at these first: kubectl get fences. If a machine of theirs is known to be off: kubectl podgrace confirm node/ with the name of its node."}
	tooManyUnhealthy = policy.Reason{Code: "TooManyUnhealthy", Short: "more nodes are unhealthy than the budget allows",
		Help: "Something larger may be wrong. Bring nodes back, delete Nodes that will not return, or raise maxUnhealthy of the FencePolicy."}
	coolingDown = policy.Reason{Code: "CoolingDown", Short: "too many nodes were unhealthy a short time ago",
		Help: "Wait for the policy's cooldown, or shorten it."}
	noSuchNode = policy.Reason{Code: "NoSuchNode", Short: "there is no such Node",
		Help: "Without a Node its pods are removed by pod garbage collection. kubectl podgrace fence NAME makes a right Fence."}
	wrongTarget = policy.Reason{Code: "WrongTarget", Short: "the Node has another UID or boot than the Fence says",
		Help: "Delete the Fence, and ask for another: kubectl podgrace fence NAME."}
	returned = policy.Reason{Code: "Returned", Short: "the node was heard of again before anything was done"}
)

// Why a node is fenced.
var (
	justified = policy.Reason{Code: "Justified", Short: "a protected pod has waited for the node as long as it tolerates"}
	requested = policy.Reason{Code: "Requested", Short: "a person asks for it"}
)

// Reasons are those of all verdicts.
func Reasons() []policy.Reason {
	return []policy.Reason{
		factsUnknown, fencerCutOff, zoneDisrupted, ownNode, noPolicy, showOnly, controlPlaneNode, sharedIdentity, noIdentity, maintained, stillReady, nothingAtStake, stillPatient,
		paused, noAgent, anotherFence, tooManyFences, tooManyUnhealthy, coolingDown, noSuchNode, wrongTarget, returned, justified, requested,
	}
}
