package guard_test

import (
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/guard"
	"github.com/podgrace/podgrace/policy"
	. "github.com/podgrace/podgrace/policy/policytest"
)

// The vocabulary of the tests. Everything starts from one dangerous removal: an administrator force-deletes pod db-0 of a
// StatefulSet, whose node n1 has been silent for ten minutes, where a policy guards it. Options change one thing each.

var now = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

const (
	podGC            = "system:serviceaccount:kube-system:pod-garbage-collector"
	attachDetach     = "system:serviceaccount:kube-system:attachdetach-controller"
	sharedController = "system:kube-controller-manager"
	enforcer         = "system:serviceaccount:podgrace-node:podgrace-nodeenforcer"
	repair           = "system:serviceaccount:ops:node-repair"
	tokenNode        = "authentication.kubernetes.io/node-name"
)

// world is one case.
type world struct {
	req   guard.Request
	facts guard.Facts
}

func (w world) decide() guard.Decision { return guard.Decide(w.req, w.facts) }

type option func(*world)

// bound are pods of a node by the action of the policies that protect them.
type bound = map[v1alpha1.RemovalAction][]*corev1.Pod

func dangerous(options ...option) world {
	w := world{
		req: guard.Request{
			Road: guard.RoadDelete,
			User: authenticationv1.UserInfo{Username: "alice", Groups: []string{"system:authenticated"}},
			Pod: &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db-0", UID: "pod-1"},
				Spec:       corev1.PodSpec{NodeName: "n1", TerminationGracePeriodSeconds: new(int64(30))},
				Status:     corev1.PodStatus{Phase: corev1.PodRunning},
			},
			GracePeriodSeconds: new(int64(0)),
		},
		facts: guard.Facts{
			BoundKnown: true,
			Now:        now,
			Policy:     policy.Removal{Names: []string{"guarded"}, ForceDelete: v1alpha1.RemovalDeny, EvictionWithoutGrace: v1alpha1.GraceDeny},
			Node:       guard.Node{Name: "n1", State: guard.NodePresent, UID: "node-1", BootID: "boot-1", Heartbeat: now.Add(-10 * time.Minute)},
		},
	}
	ownedBy("StatefulSet", "db")(&w)
	for _, o := range options {
		o(&w)
	}
	return w
}

// holding are volumes that the pod's node holds by VolumeLocks.
func holding(volumes ...string) option {
	return func(w *world) { w.facts.Held = volumes }
}

// lockedBy is a VolumeLock by which the volume was attached.
func lockedBy(name string) option {
	return func(w *world) {
		w.req.VolumeAttachment.Annotations = map[string]string{v1alpha1.AnnotationVolumeLock: name}
	}
}

// on sets the road, with what a request of it has.
func on(road guard.Road) option {
	return func(w *world) {
		w.req.Road = road
		switch road {
		case guard.RoadStatus:
			w.req.Phase, w.req.GracePeriodSeconds = corev1.PodFailed, nil
		case guard.RoadFinalizer:
			w.req.GracePeriodSeconds = nil
			halfDone(w)
		case guard.RoadNode:
			pods := []*corev1.Pod{w.req.Pod}
			w.req.Pod, w.facts.Bound = nil, bound{v1alpha1.RemovalDeny: pods, v1alpha1.RemovalWarn: pods}
		case guard.RoadOutOfService:
			w.req.Pod = nil
		case guard.RoadVolumeAttachment:
			w.req.Pod = nil
			w.req.VolumeAttachment = &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "csi-1"}, Spec: storagev1.VolumeAttachmentSpec{
				NodeName: "n1", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: new("pv-data")},
			}, Status: storagev1.VolumeAttachmentStatus{Attached: true}}
		case guard.RoadDelete, guard.RoadEviction:
		}
	}
}

var (
	podRoads = []guard.Road{guard.RoadDelete, guard.RoadEviction, guard.RoadStatus, guard.RoadFinalizer}
	allRoads = append([]guard.Road{guard.RoadNode, guard.RoadOutOfService, guard.RoadVolumeAttachment}, podRoads...)
)

func by(user string, groups ...string) option {
	return func(w *world) { w.req.User.Username, w.req.User.Groups = user, groups }
}

// withToken is a service account's token that was issued for nodes.
func withToken(nodes ...string) option {
	return func(w *world) { w.req.User.Extra = map[string]authenticationv1.ExtraValue{tokenNode: nodes} }
}

// has is what the pod is besides.
func has(options ...PodOption) option {
	return func(w *world) {
		for _, o := range options {
			o(w.req.Pod)
		}
	}
}

func ownedBy(kind, name string) option { return has(OwnedBy("apps/v1", kind, name)) }

var ownedByPodSet = has(OfPodSet)

// podSet is the kind of an operator's controller.
var podSet = schema.GroupKind(PodSets)

func record(text string) option { return has(Recorded(text)) }

func unowned(w *world) { w.req.Pod.OwnerReferences = nil }

// claims gives the pod claims whose modes are not known unless claimed says them.
func claims(names ...string) option { return has(WithClaims(names...)) }

func claimed(name string, modes ...corev1.PersistentVolumeAccessMode) option {
	return func(w *world) { Known(&w.facts.Claims, name, policy.Claim{Modes: modes}) }
}

// blockClaimed is claimed, for a block device.
func blockClaimed(name string, modes ...corev1.PersistentVolumeAccessMode) option {
	return func(w *world) { Known(&w.facts.Claims, name, policy.Claim{Modes: modes, Block: true}) }
}

func unscheduled(w *world) { w.req.Pod.Spec.NodeName = "" }

func phase(p corev1.PodPhase) option { return func(w *world) { w.req.Pod.Status.Phase = p } }

func writes(p corev1.PodPhase) option { return func(w *world) { w.req.Phase = p } }

// grace is that of the user's options, noGrace says that there is none.
func grace(n int64) option { return func(w *world) { w.req.GracePeriodSeconds = &n } }

func noGrace(w *world) { w.req.GracePeriodSeconds = nil }

func ownGrace(n int64) option {
	return func(w *world) { w.req.Pod.Spec.TerminationGracePeriodSeconds = &n }
}

// terminating is being deleted, with a stored grace period; nil: none is stored.
func terminating(grace *int64) option {
	return func(w *world) {
		w.req.Pod.DeletionTimestamp, w.req.Pod.DeletionGracePeriodSeconds = &metav1.Time{Time: now.Add(-5 * time.Second)}, grace
	}
}

// halfDone is what the first step of a force delete leaves where the second did not happen.
func halfDone(w *world) { terminating(new(int64(0)))(w) }

// held has a finalizer.
func held(w *world) { w.req.Pod.Finalizers = []string{"example.com/hold"} }

// holdsFrom: the Node that is deleted has finalizers, which are sure to hold it from then on.
func holdsFrom(at time.Time) option { return func(w *world) { w.req.HeldFrom = at } }

func ready(w *world) { w.facts.Node.Ready, w.facts.Node.Heartbeat = true, now.Add(-5*time.Second) }

func confirmedOff(w *world) { w.facts.Node.ConfirmedOff = true }

// attached is the volume of the attachment, which its node's kubelet said that it uses.
func attached(modes ...corev1.PersistentVolumeAccessMode) option {
	return func(w *world) {
		w.facts.Volume = guard.Volume{Known: true, Claim: "shop/data-db-0", Modes: modes, UniqueName: "kubernetes.io/csi/disk.example.org^vol-1"}
		w.facts.Node.InUse = []corev1.UniqueVolumeName{"kubernetes.io/csi/disk.example.org^vol-0", w.facts.Volume.UniqueName}
	}
}

// unmounted: the kubelet said that it uses others only.
func unmounted(w *world) { w.facts.Node.InUse = w.facts.Node.InUse[:1] }

func outOfService(w *world) { w.facts.Node.OutOfService = true }

// nodeIs forgets everything about the node but its name.
func nodeIs(state guard.NodeState) option {
	return func(w *world) { w.facts.Node = guard.Node{Name: w.facts.Node.Name, State: state} }
}

func heardOf(at time.Time) option { return func(w *world) { w.facts.Node.Heartbeat = at } }

func fences(list ...guard.Fence) option { return func(w *world) { w.facts.Fences = list } }

// confirms annotates the pod, under the name that the match conditions in deploy compare as well.
func confirms(text string) option {
	return func(w *world) {
		w.req.Pod.Annotations = map[string]string{"podgrace.dev/confirm-force-delete": text}
	}
}

// confirmedAgo is what kubectl podgrace confirm wrote for this pod, some time ago, when its node had last been heard of as it has now.
func confirmedAgo(ago time.Duration) option {
	return func(w *world) {
		n := w.facts.Node
		n.Ready, n.State = false, guard.NodePresent
		confirms(guard.ConfirmPod(w.req.Pod, n, now.Add(-ago)))(w)
	}
}

func under(p policy.Removal) option { return func(w *world) { w.facts.Policy = p } }

func action(a v1alpha1.RemovalAction) option {
	return func(w *world) { w.facts.Policy.ForceDelete = a }
}

func actors(names ...string) option {
	return func(w *world) { w.facts.Policy.AllowedActors = names }
}

func protectAll(w *world) { w.facts.Policy.Protect.All = true }

// owners are kinds whose pods the policy protects.
func owners(kinds ...schema.GroupKind) option {
	return func(w *world) { w.facts.Policy.Protect.Owners = kinds }
}

// laxer adds the next level.
func laxer(p policy.Removal) option { return func(w *world) { w.facts.Policy.Laxer = &p } }

// row is one trap or rule.
type row struct {
	name    string
	world   world
	verdict guard.Verdict
	reason  string
	says    []string // what the message must have, one that begins with ! what it must not
}

func testRows(t *testing.T, rows []row) {
	t.Helper()
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			got := r.world.decide()
			if got.Verdict != r.verdict || got.Reason.Code != r.reason {
				t.Errorf("got %s %s (%s), want %s %s", got.Verdict, got.Reason, got.Message(), r.verdict, r.reason)
			}
			if problem := unfit(got); problem != "" {
				t.Errorf("message %q %s", got.Message(), problem)
			}
			for _, says := range r.says {
				text, unwanted := strings.CutPrefix(says, "!")
				if strings.Contains(got.Message(), text) == unwanted {
					t.Errorf("message %q: want %q", got.Message(), says)
				}
			}
		})
	}
}

// unfit says what is wrong with a decision's words, whatever they are.
func unfit(d guard.Decision) string {
	switch {
	case d.Reason.Code == "" || strings.ContainsFunc(d.Reason.Code, unicode.IsSpace):
		return "has a reason that is not one word"
	case (d.Message() == "") != (d.Verdict == guard.Allow):
		return "must be there for Warn and Deny, and for nothing else"
	case !utf8.ValidString(d.Message()):
		return "is not UTF-8"
	case strings.ContainsFunc(d.Message(), unicode.IsControl):
		return "is not one line of text"
	}
	return ""
}
