package guard_test

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/guard"
	"github.com/podgrace/podgrace/policy"
	. "github.com/podgrace/podgrace/policy/policytest"
)

// What becomes of removals under policies as they are written, and not as levels that a test puts together.

// drawAsked makes a removal by somebody who may be an allowed actor, and what is known but the policies.
func drawAsked(t *rapid.T) (guard.Request, guard.Facts) {
	own := Pod(PodOption(OnNode1), Pick(t, "owner", OfStatefulSet, OfReplicaSet, OfPodSet))
	own.UID, own.Status.Phase = "u", Pick(t, "phase", corev1.PodRunning, corev1.PodRunning, corev1.PodRunning, corev1.PodFailed)
	req := guard.Request{
		Road: Pick(t, "road", guard.RoadDelete, guard.RoadEviction, guard.RoadStatus, guard.RoadNode, guard.RoadOutOfService, guard.RoadVolumeAttachment),
		Pod:  own, Phase: corev1.PodFailed, GracePeriodSeconds: Pick(t, "grace", new(int64(0)), new(int64(0)), nil),
		VolumeAttachment: &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: storagev1.VolumeAttachmentSpec{NodeName: "node-1"}},
	}
	req.User.Username = Pick(t, "user", "x", "x", "y", "jane")
	facts := guard.Facts{Now: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC), Node: guard.Node{Name: "node-1", State: guard.NodePresent, ConfirmedOff: Rarely(t, "off")}}
	if Rarely(t, "confirmed") {
		own.Annotations = map[string]string{guard.AnnotationConfirmForceDelete: "u/2026-11-20T12:00:00Z"}
	}
	facts.BoundKnown = !Rarely(t, "bound unknown")
	return req, facts
}

// How a removal can end, from lax to strict.
const (
	isAllowed = iota
	isWarned
	isRaised
	isRefused
)

// outcome is what becomes of a removal under the policies: a node's pod is in the namespace till.
func outcome(policies policy.Policies, namespace policy.Namespace, req guard.Request, facts guard.Facts) int {
	switch facts.Policy = policies.Removal(namespace, policy.Exempt{}); req.Road {
	case guard.RoadNode, guard.RoadOutOfService, guard.RoadVolumeAttachment:
		facts.Policy = policies.RemovalOfAll()
	}
	facts.Bound = map[v1alpha1.RemovalAction][]*corev1.Pod{}
	for _, action := range policies.Removal(Till, policy.Exempt{}).ProtectedBy(req.Pod, nil) {
		facts.Bound[action] = append(facts.Bound[action], req.Pod)
	}
	d := guard.Decide(req, facts)
	switch {
	case d.Verdict == guard.Deny && d.Reason == guard.Unsafe && req.Road == guard.RoadEviction && facts.Policy.EvictionWithoutGrace == v1alpha1.GraceRaise:
		return isRaised
	case d.Verdict == guard.Deny:
		return isRefused
	case d.Verdict == guard.Warn:
		return isWarned
	}
	return isAllowed
}

// TestAddingAPolicyNeverLoosensRemoval, wherever it stands in the order; nor does not knowing the namespace. One that warns
// or allows refuses and raises nothing, and leaves what is refused and what is raised; one that allows changes nothing.
func TestAddingAPolicyNeverLoosensRemoval(t *testing.T) {
	t.Parallel()
	stricter := map[v1alpha1.RemovalAction]int{}
	rapid.Check(t, func(t *rapid.T) {
		policies, added := DrawRemovals(t), DrawRemoval(t)
		added.Name = "added-" + added.Name
		if Chance(t, "first by name") {
			added.Name = "A"
		}
		before, after := Compile(t, policies...), Compile(t, append(slices.Clone(policies), added)...)
		req, facts := drawAsked(t)
		for what, namespace := range map[string]policy.Namespace{"known": Shop, "unknown": Unknown} {
			was, is := outcome(before, namespace, req, facts), outcome(after, namespace, req, facts)
			if is < was {
				t.Fatalf("%s namespace: laxer: %d, then %d", what, was, is)
			}
			if added.Spec.Removal == nil {
				continue
			}
			action := added.Spec.Removal.ForceDelete
			switch {
			case action == v1alpha1.RemovalWarn && is > max(was, isWarned), action == v1alpha1.RemovalAllow && is != was:
				t.Fatalf("%s namespace: forceDelete: %s made %d of %d", what, action, is, was)
			case is > was:
				stricter[action]++
			}
		}
		if was, is := outcome(before, Shop, req, facts), outcome(before, Unknown, req, facts); is < was {
			t.Fatalf("not to know the namespace is laxer: %d, then %d", was, is)
		}
	})
	if stricter[v1alpha1.RemovalDeny] < 20 || stricter[v1alpha1.RemovalWarn] < 20 { // some 100 and 140 as a rule
		t.Errorf("too few cases in which a policy made a difference: %v", stricter)
	}
}

// TestAnUnreadPartNeverLoosensRemoval, whichever it is.
func TestAnUnreadPartNeverLoosensRemoval(t *testing.T) {
	t.Parallel()
	differ := 0
	rapid.Check(t, func(t *rapid.T) {
		policies := DrawRemovals(t)
		if len(policies) == 0 {
			return
		}
		wrong := slices.Clone(policies)
		i := rapid.IntRange(0, len(policies)-1).Draw(t, "which")
		wrong[i] = policies[i].DeepCopy()
		Unreadable[Pick(t, "part", "operator of the namespaces", "value of the namespaces", "values of the namespaces", "labels of the pods", "match condition", "topology key")](&wrong[i].Spec)
		all := Compile(t, slices.Delete(slices.Clone(wrong), i, i+1)...)
		after := policy.Sort(append(all, HalfRead(t, wrong[i])...))
		before := Compile(t, policies...)
		req, facts := drawAsked(t)
		for _, ns := range []policy.Namespace{Shop, Till, Unknown} {
			was, is := outcome(before, ns, req, facts), outcome(after, ns, req, facts)
			if is < was {
				t.Fatalf("namespace %s: laxer: %d, then %d", ns.Name, was, is)
			}
			if is > was {
				differ++
			}
		}
	})
	if differ == 0 {
		t.Error("no case in which a policy that can't be read held where it did not before")
	}
}
