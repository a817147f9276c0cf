package guard

import (
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
)

// The users of Kubernetes itself (k8s.io/apiserver/pkg/authentication/user and serviceaccount, 0.36.3).
const (
	nodesGroup       = "system:nodes"
	nodeUserPrefix   = "system:node:"
	podGC            = "system:serviceaccount:kube-system:pod-garbage-collector"
	attachDetach     = "system:serviceaccount:kube-system:attachdetach-controller"
	sharedController = "system:kube-controller-manager" // all controllers, where they have no credentials of their own
	enforcerAccount  = "podgrace-nodeenforcer"
	// tokenNode is the node that a bound service account token was issued for (KEP-4193).
	tokenNode = "authentication.kubernetes.io/node-name"
)

// enforcerOfAnotherNode refuses a node enforcer the pods of other nodes: all node enforcers share the rights of one service account.
func enforcerOfAnotherNode(req Request, _ time.Time) *Decision {
	if !strings.HasPrefix(req.User.Username, "system:serviceaccount:") || !strings.HasSuffix(req.User.Username, ":"+enforcerAccount) {
		return nil
	}
	nodes := req.User.Extra[tokenNode]
	if len(nodes) == 1 && nodes[0] == req.Pod.Spec.NodeName {
		return nil
	}
	return &Decision{Verdict: Deny, Reason: becauseAnotherNode,
		What: oneLine("a node enforcer may remove pods of its own node only, which its token must name (%s); %s is on %s", tokenNode, podName(req.Pod), orUnknown(req.Pod.Spec.NodeName))}
}

// ownKubelet allows the kubelet that runs the pod: it deletes with grace period 0 once all containers have ended. The plugin NodeRestriction keeps it to
// its own pods as well.
func ownKubelet(req Request, _ time.Time) *Decision {
	if slices.Contains(req.User.Groups, nodesGroup) && req.User.Username == nodeUserPrefix+req.Pod.Spec.NodeName {
		return allow(becauseOwnKubelet)
	}
	return nil
}

// podGarbageCollector allows pod garbage collection where the pod's node has no Node object, or is out of service and known to have stopped: the removal of the
// Node, or the taint, was judged on a road of its own. The node must have been read live, because an informer may not have it yet.
func podGarbageCollector(req Request, facts Facts) *Decision {
	if req.User.Username != podGC && req.User.Username != sharedController {
		return nil
	}
	switch {
	case facts.Node.State == NodeGone:
		return allow(becauseNodeGone)
	case facts.Node.State == NodePresent && facts.Node.OutOfService && facts.stopped():
		return allow(NodeOutOfService)
	}
	return nil
}

// notAttached allows the removal of a VolumeAttachment that is not attached, so that nobody writes through it: kubelets wait for status.attached
// (pkg/volume/csi/csi_attacher.go WaitForAttach, 1.36.3).
func notAttached(req Request, _ Facts) *Decision {
	if !req.VolumeAttachment.Status.Attached {
		return allow(becauseNotAttached)
	}
	return nil
}

// IsAttachDetachController reports whether a user is the controller that attaches and detaches volumes.
func IsAttachDetachController(user authenticationv1.UserInfo) bool {
	return user.Username == attachDetach || user.Username == sharedController
}

// attachDetachController allows the attach-detach controller, except where it detaches an exclusive volume by force that the node may still use: from a node
// that is not ready it does so six minutes after the last pod that uses the volume is being deleted and has no container that is known to run, and
// at once if the node has the out-of-service taint, which may have been forgotten (pkg/controller/volume/attachdetach/reconciler/reconciler.go,
// 1.36.3). A volume that is no longer in the node's volumesInUse may be detached.
func attachDetachController(req Request, facts Facts) *Decision {
	if !IsAttachDetachController(req.User) {
		return nil
	}
	n, v := facts.Node, facts.Volume
	if n.State == NodeUnknown || n.State == NodePresent && !n.Ready && v.exclusive() && n.uses(v) {
		return nil
	}
	return allow(becauseDetaches)
}

// unguarded allows everything where no policy has a removal section that denies or warns.
func unguarded(_ Request, facts Facts) *Decision {
	if !facts.Policy.Guards() {
		return allow(NotGuarded)
	}
	return nil
}

// allowedActor allows users that every policy of the level names.
func allowedActor(req Request, facts Facts) *Decision {
	if slices.Contains(facts.Policy.AllowedActors, req.User.Username) {
		return allow(AllowedActor)
	}
	return nil
}
