package guard_test

import (
	"testing"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/guard"
)

func TestActors(t *testing.T) {
	t.Parallel()
	const nodes = "system:nodes"
	testRows(t, []row{
		{name: "the pod's own kubelet", world: dangerous(by("system:node:n1", nodes)), verdict: guard.Allow, reason: "OwnKubelet"},
		{name: "its own kubelet ends its status", world: dangerous(on(guard.RoadStatus), by("system:node:n1", nodes)), verdict: guard.Allow, reason: "OwnKubelet"},
		{name: "another node's kubelet", world: dangerous(by("system:node:n2", nodes)), verdict: guard.Deny, reason: "Unsafe"},
		{name: "a node's name outside of the group", world: dangerous(by("system:node:n1", "system:authenticated")), verdict: guard.Deny, reason: "Unsafe"},
		{name: "the group without the node's name", world: dangerous(by("alice", nodes)), verdict: guard.Deny, reason: "Unsafe"},
		{name: "a name that only begins like the node's", world: dangerous(by("system:node:n1x", nodes)), verdict: guard.Deny, reason: "Unsafe"},

		{name: "pod GC, the node is gone", world: dangerous(by(podGC), nodeIs(guard.NodeGone)), verdict: guard.Allow, reason: "NodeGone"},
		{name: "pod GC writes Failed first, the node is gone", world: dangerous(on(guard.RoadStatus), by(podGC), nodeIs(guard.NodeGone)), verdict: guard.Allow, reason: "NodeGone"},
		{name: "pod GC with shared credentials, the node is gone", world: dangerous(by(sharedController), nodeIs(guard.NodeGone)), verdict: guard.Allow, reason: "NodeGone"},
		{name: "pod GC, the node is gone: said before whether a policy guards the pod", world: dangerous(by(podGC), nodeIs(guard.NodeGone), policy(guard.Policy{})), verdict: guard.Allow, reason: "NodeGone"},
		{name: "pod GC, the node can't be read", world: dangerous(by(podGC), nodeIs(guard.NodeUnknown)), verdict: guard.Deny, reason: "Unsafe", says: []string{"could not be read"}},
		{name: "pod GC, the node is merely silent", world: dangerous(by(podGC)), verdict: guard.Deny, reason: "Unsafe"},
		{name: "pod GC, out of service and confirmed off", world: dangerous(by(podGC), outOfService, confirmedOff), verdict: guard.Allow, reason: "NodeOutOfService"},
		{name: "pod GC with shared credentials, out of service and confirmed off", world: dangerous(by(sharedController), outOfService, confirmedOff), verdict: guard.Allow, reason: "NodeOutOfService"},
		{name: "pod GC, out of service and fenced", world: dangerous(by(podGC), outOfService, fences(guard.Fence{NodeUID: "node-1", BootID: "boot-1"})), verdict: guard.Allow, reason: "NodeOutOfService"},
		{name: "pod GC, confirmed off, without the taint", world: dangerous(by(podGC), confirmedOff), verdict: guard.Allow, reason: "NodeStopped"},
		{name: "pod GC, out of service, but nobody confirmed", world: dangerous(by(podGC), outOfService), verdict: guard.Deny, reason: "Unsafe"},
		{name: "pod GC, out of service, but ready again", world: dangerous(by(podGC), outOfService, confirmedOff, ready), verdict: guard.Deny, reason: "Unsafe"},
		{name: "anybody, the node is gone: its removal was judged", world: dangerous(nodeIs(guard.NodeGone)), verdict: guard.Allow, reason: "NodeGone"},
		{name: "shared credentials, out of service, but nobody confirmed", world: dangerous(by(sharedController), outOfService), verdict: guard.Deny, reason: "Unsafe"},
		{name: "pod GC takes the taint for its own", world: dangerous(on(guard.RoadOutOfService), by(podGC)), verdict: guard.Deny, reason: "Unsafe"},

		{name: "attach-detach controller", world: dangerous(on(guard.RoadVolumeAttachment), by(attachDetach), ready), verdict: guard.Allow, reason: "AttachDetachController"},
		{name: "attach-detach controller with shared credentials", world: dangerous(on(guard.RoadVolumeAttachment), by(sharedController), ready), verdict: guard.Allow, reason: "AttachDetachController"},
		{name: "attach-detach controller deletes a pod", world: dangerous(by(attachDetach)), verdict: guard.Deny, reason: "Unsafe"},
		{name: "somebody else detaches", world: dangerous(on(guard.RoadVolumeAttachment), ready), verdict: guard.Deny, reason: "Unsafe"},

		{name: "no policy", world: dangerous(policy(guard.Policy{})), verdict: guard.Allow, reason: "NotGuarded"},
		{name: "a policy that allows", world: dangerous(action(v1alpha1.RemovalAllow)), verdict: guard.Allow, reason: "NotGuarded"},
		{name: "a policy that says nothing denies", world: dangerous(action("")), verdict: guard.Deny, reason: "Unsafe"},

		{name: "an allowed actor", world: dangerous(by(repair), actors("x", repair)), verdict: guard.Allow, reason: "AllowedActor"},
		{name: "an allowed actor deletes a node", world: dangerous(on(guard.RoadNode), by(repair), actors(repair), ready), verdict: guard.Allow, reason: "AllowedActor"},
		{name: "an allowed actor taints a node", world: dangerous(on(guard.RoadOutOfService), by(repair), actors(repair), ready), verdict: guard.Allow, reason: "AllowedActor"},
		{name: "an allowed actor detaches", world: dangerous(on(guard.RoadVolumeAttachment), by(repair), actors(repair), ready), verdict: guard.Allow, reason: "AllowedActor"},
		{name: "actors are users, not groups", world: dangerous(by("bob", repair), actors(repair)), verdict: guard.Deny, reason: "Unsafe"},
		{name: "actors are compared exactly", world: dangerous(by("System:serviceaccount:ops:node-repair"), actors(repair)), verdict: guard.Deny, reason: "Unsafe"},
	})
}

func TestEnforcerOfAnotherNode(t *testing.T) {
	t.Parallel()
	const reason = "EnforcerOfAnotherNode"
	here, there := []string{"pod shop/db-0 is on n1", tokenNode}, []string{"pod shop/db-0 is on an unknown node"}
	testRows(t, []row{
		{name: "its own node, with the pod's grace", world: dangerous(by(enforcer), withToken("n1"), noGrace), verdict: guard.Allow, reason: "NotForced"},
		{name: "its own node, forced: judged as anybody's", world: dangerous(by(enforcer), withToken("n1")), verdict: guard.Deny, reason: "Unsafe"},
		{name: "another node, forced", world: dangerous(by(enforcer), withToken("n2")), verdict: guard.Deny, reason: reason, says: here},
		{name: "another node, with the pod's grace", world: dangerous(by(enforcer), withToken("n2"), noGrace), verdict: guard.Deny, reason: reason, says: here},
		{name: "another node, an eviction", world: dangerous(on(guard.RoadEviction), by(enforcer), withToken("n2"), noGrace), verdict: guard.Deny, reason: reason, says: here},
		{name: "another node, a finished pod", world: dangerous(by(enforcer), withToken("n2"), phase("Succeeded")), verdict: guard.Deny, reason: reason, says: here},
		{name: "a token for no node", world: dangerous(by(enforcer), noGrace), verdict: guard.Deny, reason: reason, says: here},
		{name: "a token for two nodes", world: dangerous(by(enforcer), withToken("n1", "n2"), noGrace), verdict: guard.Deny, reason: reason, says: here},
		{name: "a pod of no node", world: dangerous(by(enforcer), withToken("n1"), unscheduled), verdict: guard.Deny, reason: reason, says: there},
		{name: "no policy", world: dangerous(by(enforcer), withToken("n2"), policy(guard.Policy{})), verdict: guard.Deny, reason: reason, says: here},
		{name: "an allowed actor all the same", world: dangerous(by(enforcer), withToken("n2"), actors(enforcer)), verdict: guard.Deny, reason: reason, says: here},
		{name: "installed in another namespace", world: dangerous(by("system:serviceaccount:ops:podgrace-nodeenforcer"), withToken("n2")), verdict: guard.Deny, reason: reason, says: here},
		{name: "a service account whose name only ends so", world: dangerous(by("system:serviceaccount:ops:not-podgrace-nodeenforcer"), noGrace), verdict: guard.Allow, reason: "NotForced"},
		{name: "a user of another issuer whose name ends so", world: dangerous(by("oidc:podgrace-nodeenforcer"), noGrace), verdict: guard.Allow, reason: "NotForced"},
		{name: "a user of that name is no service account", world: dangerous(by("podgrace-nodeenforcer"), noGrace), verdict: guard.Allow, reason: "NotForced"},
	})
}
