package confirm_test

import (
	"testing"
	"time"

	"gotest.tools/v3/golden"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podgrace/podgrace/cli/confirm"
	"github.com/podgrace/podgrace/guard"
	"github.com/podgrace/podgrace/policy"
)

var (
	now      = time.Date(2026, 3, 14, 2, 26, 53, 0, time.UTC)
	commands = confirm.Commands{Self: "kubectl podgrace", Flags: " --context=prod"}
	style    = confirm.Style{Width: 120}
)

const nodeUID, bootID = "0b1c2d3e-1111-4222-8333-444455556666", "5f6a7b8c-9999-4aaa-8bbb-ccccddddeeee"

// node was last heard of so long ago.
func node(ready corev1.ConditionStatus, silent time.Duration) confirm.NodeState {
	heard := now.Add(-silent)
	return confirm.NodeState{Now: now,
		Node: &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "worker-3", UID: nodeUID, ResourceVersion: "7"},
			Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoExecute}}},
			Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{BootID: bootID}, Conditions: []corev1.NodeCondition{{
				Type: corev1.NodeReady, Status: ready, Reason: "NodeStatusUnknown",
				LastHeartbeatTime: metav1.Time{Time: heard.Add(-2 * time.Minute)}, LastTransitionTime: metav1.Time{Time: heard.Add(-time.Hour)},
			}}},
		},
		Lease: &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{RenewTime: &metav1.MicroTime{Time: heard}}},
	}
}

func owner(kind, name string) []metav1.OwnerReference {
	return []metav1.OwnerReference{{Kind: kind, Name: name, Controller: new(true)}}
}

func claimed(name string) corev1.Volume {
	return corev1.Volume{VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}}
}

func pod(change ...func(*confirm.PodFacts)) confirm.PodFacts {
	state := node(corev1.ConditionUnknown, 12*time.Minute)
	deleted := metav1.Time{Time: now.Add(-9 * time.Minute)}
	f := confirm.PodFacts{Now: now,
		Pod: &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db-0", UID: "3fa85f64-5717-4562-b3fc-2c963f66afa6", OwnerReferences: owner("StatefulSet", "db"),
				DeletionTimestamp: &deleted, DeletionGracePeriodSeconds: new(int64(60))},
			Spec:   corev1.PodSpec{NodeName: "worker-3", Volumes: []corev1.Volume{claimed("data-db-0"), claimed("archive")}},
			Status: corev1.PodStatus{Phase: corev1.PodRunning},
		},
		Node: guard.NodeOf(state.Node, state.Lease, now),
		Claims: []confirm.Claim{
			{Name: "data-db-0", Claim: policy.Claim{Volume: "pvc-6f1d9a3e", Modes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}}},
			{Name: "archive", Claim: policy.Claim{Volume: "pvc-77", Modes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany, corev1.ReadOnlyMany}}},
		},
		Permission: confirm.Permission{User: "alice@example.com"},
	}
	for _, c := range change {
		c(&f)
	}
	return f
}

func TestPodText(t *testing.T) {
	for name, f := range map[string]confirm.PodFacts{
		"pod-silent": pod(),
		"pod-ready": pod(func(f *confirm.PodFacts) {
			state := node(corev1.ConditionTrue, 3*time.Second)
			f.Node = guard.NodeOf(state.Node, state.Lease, now)
			f.Pod.DeletionTimestamp, f.Pod.DeletionGracePeriodSeconds = nil, nil
		}),
		"pod-node-gone": pod(func(f *confirm.PodFacts) {
			f.Node = guard.Node{Name: "worker-3", State: guard.NodeGone}
			f.Pod.OwnerReferences = nil
			f.Claims[0] = confirm.Claim{Name: "data-db-0", Unknown: "you may not read it"}
		}),
		"pod-node-not-read": pod(func(f *confirm.PodFacts) {
			f.Node, f.NodeUnknown = guard.Node{Name: "worker-3"}, "you may not read it"
			f.Pod.DeletionTimestamp, f.Pod.DeletionGracePeriodSeconds = nil, nil
		}),
		"pod-node-unknown": pod(func(f *confirm.PodFacts) {
			f.Node, f.NodeUnknown = guard.Node{Name: "worker-3"}, "you may not read it"
			f.Pod.OwnerReferences, f.Claims, f.Pod.Spec.Volumes = owner("ReplicaSet", "web-5d9c"), nil, nil
			f.Pod.DeletionTimestamp = &metav1.Time{Time: now.Add(20 * time.Second)}
		}),
		"pod-locked":    pod(func(f *confirm.PodFacts) { f.Claims[0].Lock, f.Claims[0].Holder = "volume-5f0c", "worker-3" }),
		"pod-static":    pod(func(f *confirm.PodFacts) { f.Pod.OwnerReferences = owner("Node", "worker-3") }),
		"pod-finished":  pod(func(f *confirm.PodFacts) { f.Pod.Status.Phase = corev1.PodFailed }),
		"pod-unbound":   pod(func(f *confirm.PodFacts) { f.Pod.Spec.NodeName = ""; f.Pod.Status.Phase = corev1.PodPending }),
		"pod-node-off":  pod(func(f *confirm.PodFacts) { f.Node.ConfirmedOff = true }),
		"pod-confirmed": pod(confirmPod(0)),
		"pod-void":      pod(confirmPod(2 * time.Hour)),
		"pod-heard-of":  pod(confirmPod(time.Minute), func(f *confirm.PodFacts) { f.Node.Heartbeat = now.Add(-45 * time.Second) }),
		"pod-not-permitted": pod(func(f *confirm.PodFacts) {
			f.Needed = []confirm.Right{{Verb: guard.ConfirmVerb, Group: "podgrace.dev", Resource: "pods", Namespace: "shop", Name: "db-0"}, {Verb: "patch", Resource: "pods", Namespace: "shop", Name: "db-0"}}
			f.Missing = f.Needed[:1]
		}),
	} {
		t.Run(name, func(t *testing.T) {
			golden.Assert(t, confirm.ReportPod(f, style, commands)+confirm.NextForPod(f, confirm.JudgePod(f), style, commands), name+".txt")
		})
	}
}

func annotatePod(f *confirm.PodFacts, value string) {
	f.Pod.Annotations = map[string]string{guard.AnnotationConfirmForceDelete: value}
}

// confirmPod confirmed the pod some time ago.
func confirmPod(ago time.Duration) func(*confirm.PodFacts) {
	return func(f *confirm.PodFacts) { annotatePod(f, guard.ConfirmPod(f.Pod, f.Node, now.Add(-ago))) }
}

// A confirmation of the pod's predecessor is none.
func TestPredecessorsConfirmation(t *testing.T) {
	f := pod(func(f *confirm.PodFacts) { annotatePod(f, "another/2026-01-31T12:00:00Z") })
	if got := confirm.JudgePod(f).Verdict; got != confirm.Ask {
		t.Errorf("got %v", got)
	}
}

func nodeFacts(change ...func(*confirm.NodeFacts)) confirm.NodeFacts {
	f := confirm.NodeFacts{
		NodeState: node(corev1.ConditionUnknown, 12*time.Minute),
		Burden: confirm.Burden{
			Pods: []confirm.BoundPod{
				{Namespace: "shop", Name: "web-5d9c-x2x4f"},
				{Namespace: "shop", Name: "db-0", Why: "it is a pod of StatefulSet db"},
				{Namespace: "billing", Name: "ledger-7f-abcde", Why: "its claim ledger is ReadWriteOnce"},
			},
			Attachments: []confirm.Attachment{{Name: "csi-99aa", Volume: "pvc-6f1d9a3e", Attached: true}, {Name: "csi-1b", Volume: "pvc-77"}},
		},
		Permission: confirm.Permission{User: "alice@example.com"},
	}
	for _, c := range change {
		c(&f)
	}
	return f
}

// confirmNode is a confirmation of the node as it is.
func confirmNode(s *confirm.NodeState) {
	s.Node.Annotations = map[string]string{guard.AnnotationConfirmOff: guard.ConfirmOff(s.Node, s.Lease)}
}

func confirmOff(f *confirm.NodeFacts) { confirmNode(&f.NodeState) }

func TestNodeText(t *testing.T) {
	for name, f := range map[string]confirm.NodeFacts{
		"node-silent":    nodeFacts(),
		"node-confirmed": nodeFacts(confirmOff),
		"node-void": nodeFacts(confirmOff, func(f *confirm.NodeFacts) {
			f.Lease.Spec.RenewTime = &metav1.MicroTime{Time: now.Add(-11 * time.Minute)}
		}),
		"node-being-fenced": nodeFacts(func(f *confirm.NodeFacts) { f.Fence = "worker-3-8a2f" }),
		"node-no-boot":      nodeFacts(func(f *confirm.NodeFacts) { f.Node.Status.NodeInfo.BootID = "" }),
		"node-ready":        nodeFacts(func(f *confirm.NodeFacts) { f.NodeState = node(corev1.ConditionTrue, 3*time.Second) }),
		"node-recent":       nodeFacts(func(f *confirm.NodeFacts) { f.NodeState = node(corev1.ConditionFalse, 31*time.Second) }),
		"node-future":       nodeFacts(func(f *confirm.NodeFacts) { f.NodeState = node(corev1.ConditionFalse, -5*time.Minute) }),
		"node-no-lease":     nodeFacts(func(f *confirm.NodeFacts) { f.Lease, f.LeaseUnknown = nil, "you may not read it" }),
		"node-little-known": nodeFacts(func(f *confirm.NodeFacts) {
			f.Lease, f.Node.Status.Conditions = nil, nil
			f.Burden = confirm.Burden{PodsUnknown: "you may not read it", AttachmentsUnknown: "you may not read it"}
		}),
		"node-locked": nodeFacts(func(f *confirm.NodeFacts) { f.Attachments[0].Lock = "volume-5f0c" }),
		"node-empty-for-days": nodeFacts(func(f *confirm.NodeFacts) {
			f.NodeState, f.Burden = node(corev1.ConditionUnknown, 100*time.Hour), confirm.Burden{}
			f.Node.Spec.Taints = append(f.Node.Spec.Taints, corev1.Taint{Key: corev1.TaintNodeOutOfService, Effect: corev1.TaintEffectNoExecute})
		}),
		"node-crowded": nodeFacts(func(f *confirm.NodeFacts) {
			for i := range 9 {
				f.Pods = append(f.Pods, confirm.BoundPod{Namespace: "zoo", Name: "web-" + string(rune('a'+i))})
			}
		}),
		"node-drained-by-another": nodeFacts(func(f *confirm.NodeFacts) {
			f.Node.DeletionTimestamp, f.Node.Finalizers = &metav1.Time{Time: now.Add(-7 * time.Minute)}, []string{"karpenter.sh/termination"}
		}),
		"node-not-permitted": nodeFacts(func(f *confirm.NodeFacts) {
			f.User = "system:serviceaccount:ops:repair"
			f.Needed = []confirm.Right{{Verb: "patch", Resource: "nodes", Name: "worker-3"}}
			f.Missing = f.Needed
		}),
	} {
		t.Run(name, func(t *testing.T) {
			golden.Assert(t, confirm.ReportNode(f, style)+confirm.NextForNode(f, confirm.JudgeNode(f), style, commands), name+".txt")
		})
	}
}

// What this package lets a person confirm is just what the guard then believes.
func TestAgreesWithTheGuard(t *testing.T) {
	for _, ready := range []corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionUnknown} {
		for silent := -time.Minute; silent < 2*time.Minute; silent += time.Second {
			f := confirm.NodeFacts{NodeState: node(ready, silent)}
			asks := confirm.JudgeNode(f).Verdict == confirm.Ask
			confirmOff(&f)
			if believed := guard.NodeOf(f.Node, f.Lease, now).ConfirmedOff; asks != believed {
				t.Errorf("Ready=%s, silent for %v: asks %v, the guard believes it: %v", ready, silent, asks, believed)
			}
		}
	}
}

func TestChanged(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*confirm.NodeState)
		want   string
	}{
		"nothing":       {func(*confirm.NodeState) {}, ""},
		"another label": {func(s *confirm.NodeState) { s.Node.Labels = map[string]string{"a": "b"}; s.Node.ResourceVersion = "8" }, ""},
		"replaced":      {func(s *confirm.NodeState) { s.Node.UID = "another" }, "it was replaced by another Node object of the same name"},
		"booted":        {func(s *confirm.NodeState) { s.Node.Status.NodeInfo.BootID = "another" }, "it has rebooted"},
		"lease":         {func(s *confirm.NodeState) { s.Lease.Spec.RenewTime = &metav1.MicroTime{Time: now} }, "its kubelet was heard of at 02:26:53 UTC"},
		"ready":         {func(s *confirm.NodeState) { s.Node.Status.Conditions[0].Status = corev1.ConditionTrue }, "it is ready"},
	} {
		t.Run(name, func(t *testing.T) {
			after := node(corev1.ConditionUnknown, time.Hour)
			tc.change(&after)
			if got := node(corev1.ConditionUnknown, time.Hour).Changed(after); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// Some of the texts come from a node or a user, and must not steer the terminal.
func TestHostileText(t *testing.T) {
	f := nodeFacts(func(f *confirm.NodeFacts) {
		f.Node.Status.NodeInfo.BootID = "a\x1b[2Jb\nDANGER none\u202e"
		f.User = "eve\x1b]0;title\a"
		f.Needed = []confirm.Right{{Verb: "patch", Resource: "nodes"}}
		f.Missing = f.Needed
	})
	golden.Assert(t, confirm.ReportNode(f, style)+confirm.NextForNode(f, confirm.JudgeNode(f), style, commands), "hostile.txt")
}

func TestStyles(t *testing.T) {
	golden.Assert(t, confirm.ReportPod(pod(), confirm.Style{Color: true, Width: 100}, commands)+confirm.NextForPod(pod(), confirm.JudgePod(pod()), confirm.Style{Color: true}, commands), "style-color.txt")
	golden.Assert(t, confirm.ReportPod(pod(), confirm.Style{Width: 60}, commands), "style-narrow.txt")
	golden.Assert(t, confirm.ReportPod(pod(), confirm.Style{}, commands), "style-unlimited.txt")
}
