package guard_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/guard"
	"github.com/podgrace/podgrace/policy"
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
		{name: "pod GC, the node is gone: said before whether a policy guards the pod", world: dangerous(by(podGC), nodeIs(guard.NodeGone), under(policy.Removal{})), verdict: guard.Allow, reason: "NodeGone"},
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
		{name: "attach-detach controller, by force", world: dangerous(on(guard.RoadVolumeAttachment), by(attachDetach), attached(corev1.ReadWriteOnce)), verdict: guard.Deny, reason: "Unsafe",
			says: []string{"node n1 (not ready, silent since 11:50:00 UTC, 10m0s ago) may still write to volume pv-data of claim shop/data-db-0: without the VolumeAttachment it can be attached elsewhere as well. Ways on: wait until its node is back; if n1 is known to be off: kubectl podgrace confirm node/n1. (PodPolicy guarded)"}},
		{name: "attach-detach controller with shared credentials, by force", world: dangerous(on(guard.RoadVolumeAttachment), by(sharedController), attached(corev1.ReadWriteOncePod)), verdict: guard.Deny, reason: "Unsafe"},
		{name: "attach-detach controller, under a forgotten taint", world: dangerous(on(guard.RoadVolumeAttachment), by(attachDetach), attached(corev1.ReadWriteOnce), outOfService), verdict: guard.Deny, reason: "Unsafe"},
		{name: "attach-detach controller, by force, a policy that warns", world: dangerous(on(guard.RoadVolumeAttachment), by(attachDetach), attached(corev1.ReadWriteOnce), action(v1alpha1.RemovalWarn)), verdict: guard.Warn, reason: "Unsafe"},
		{name: "attach-detach controller, by force, no policy for the claim", world: dangerous(on(guard.RoadVolumeAttachment), by(attachDetach), attached(corev1.ReadWriteOnce), under(policy.Removal{})), verdict: guard.Allow, reason: "NotGuarded"},
		{name: "attach-detach controller, confirmed off", world: dangerous(on(guard.RoadVolumeAttachment), by(attachDetach), attached(corev1.ReadWriteOnce), confirmedOff), verdict: guard.Allow, reason: "NodeStopped"},
		{name: "attach-detach controller, the node is gone", world: dangerous(on(guard.RoadVolumeAttachment), by(attachDetach), attached(corev1.ReadWriteOnce), nodeIs(guard.NodeGone)), verdict: guard.Allow, reason: "AttachDetachController"},
		{name: "attach-detach controller, the node can't be read", world: dangerous(on(guard.RoadVolumeAttachment), by(attachDetach), nodeIs(guard.NodeUnknown)), verdict: guard.Deny, reason: "Unsafe"},
		{name: "attach-detach controller, ready", world: dangerous(on(guard.RoadVolumeAttachment), by(attachDetach), attached(corev1.ReadWriteOnce), ready), verdict: guard.Allow, reason: "AttachDetachController"},
		{name: "attach-detach controller, silent, unmounted before", world: dangerous(on(guard.RoadVolumeAttachment), by(attachDetach), attached(corev1.ReadWriteOnce), unmounted), verdict: guard.Allow, reason: "AttachDetachController"},
		{name: "attach-detach controller, silent, a volume of many", world: dangerous(on(guard.RoadVolumeAttachment), by(attachDetach), attached(corev1.ReadWriteMany)), verdict: guard.Allow, reason: "AttachDetachController"},
		{name: "attach-detach controller, silent, a volume that can't be read", world: dangerous(on(guard.RoadVolumeAttachment), by(attachDetach), attached(), func(w *world) { w.facts.Volume = guard.Volume{} }), verdict: guard.Deny, reason: "Unsafe"},
		{name: "attach-detach controller, silent, a volume whose name kubelets do not tell", world: dangerous(on(guard.RoadVolumeAttachment), by(attachDetach), attached(corev1.ReadWriteOnce), func(w *world) { w.facts.Volume.UniqueName = "" }), verdict: guard.Deny, reason: "Unsafe"},
		{name: "attach-detach controller, silent, and no volume is in use", world: dangerous(on(guard.RoadVolumeAttachment), by(attachDetach), attached(), func(w *world) { w.facts.Volume, w.facts.Node.InUse = guard.Volume{}, nil }), verdict: guard.Allow, reason: "AttachDetachController"},
		{name: "attach-detach controller deletes a pod", world: dangerous(by(attachDetach)), verdict: guard.Deny, reason: "Unsafe"},
		{name: "somebody else removes what is not attached", world: dangerous(on(guard.RoadVolumeAttachment), ready, func(w *world) { w.req.VolumeAttachment.Status.Attached = false }), verdict: guard.Allow, reason: "NotAttached"},
		{name: "somebody else detaches", world: dangerous(on(guard.RoadVolumeAttachment), ready), verdict: guard.Deny, reason: "Unsafe"},

		{name: "no policy", world: dangerous(under(policy.Removal{})), verdict: guard.Allow, reason: "NotGuarded"},
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
		{name: "no policy", world: dangerous(by(enforcer), withToken("n2"), under(policy.Removal{})), verdict: guard.Deny, reason: reason, says: here},
		{name: "an allowed actor all the same", world: dangerous(by(enforcer), withToken("n2"), actors(enforcer)), verdict: guard.Deny, reason: reason, says: here},
		{name: "installed in another namespace", world: dangerous(by("system:serviceaccount:ops:podgrace-nodeenforcer"), withToken("n2")), verdict: guard.Deny, reason: reason, says: here},
		{name: "a service account whose name only ends so", world: dangerous(by("system:serviceaccount:ops:not-podgrace-nodeenforcer"), noGrace), verdict: guard.Allow, reason: "NotForced"},
		{name: "a user of another issuer whose name ends so", world: dangerous(by("oidc:podgrace-nodeenforcer"), noGrace), verdict: guard.Allow, reason: "NotForced"},
		{name: "a user of that name is no service account", world: dangerous(by("podgrace-nodeenforcer"), noGrace), verdict: guard.Allow, reason: "NotForced"},
	})
}

func TestVolumeOf(t *testing.T) {
	t.Parallel()
	csi := corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "disk.example.org", VolumeHandle: "vol-1"}}
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	for name, tc := range map[string]struct {
		spec corev1.PersistentVolumeSpec
		want guard.Volume
	}{
		"CSI, bound":    {corev1.PersistentVolumeSpec{PersistentVolumeSource: csi, AccessModes: modes, ClaimRef: &corev1.ObjectReference{Namespace: "shop", Name: "data-db-0"}}, guard.Volume{Known: true, Claim: "shop/data-db-0", Modes: modes, UniqueName: "kubernetes.io/csi/disk.example.org^vol-1"}},
		"another, free": {corev1.PersistentVolumeSpec{AccessModes: modes}, guard.Volume{Known: true, Modes: modes}},
	} {
		if diff := cmp.Diff(tc.want, guard.VolumeOf(&corev1.PersistentVolume{Spec: tc.spec})); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
