package guard_test

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/guard"
	"github.com/podgrace/podgrace/policy"
	. "github.com/podgrace/podgrace/policy/policytest"
)

func TestMain(m *testing.M) { os.Exit(Run(m, 4000)) }

// drawWorld makes any request with any facts, close to what decides.
func drawWorld(t *rapid.T) world {
	w := dangerous()
	for _, change := range []func(*rapid.T, *world){drawPod, drawPolicy, drawNode, drawEvidence} {
		change(t, &w)
	}
	on(Pick(t, "road", allRoads...))(&w)
	drawUser(t, &w)
	if Chance(t, "held") {
		holdsFrom(Pick(t, "held from", now.Add(-time.Hour), now, now.Add(time.Second)))(&w)
	}
	if w.req.Pod != nil {
		drawRemoval(t, &w)
	}
	return w
}

func drawUser(t *rapid.T, w *world) {
	user := Pick(t, "user", "alice", "alice", podGC, sharedController, attachDetach, repair, enforcer, "system:node:n1", "system:node:n2")
	groups := []string{"system:authenticated", "team"}
	if Chance(t, "group of nodes") && strings.HasPrefix(user, "system:node:") {
		groups = append(groups, "system:nodes")
	}
	by(user, groups...)(w)
	if Chance(t, "token of a node") {
		withToken(Pick(t, "token", "n1", "n2"))(w)
	}
}

func drawPod(t *rapid.T, w *world) {
	Pick(t, "owner", ownedBy("StatefulSet", "db"), ownedBy("ReplicaSet", "web"), ownedByPodSet, unowned)(w)
	Pick(t, "record", func(*world) {}, func(*world) {}, record("StatefulSet.apps/db"), record("StrimziPodSet.core.strimzi.io/kafka"), record("x"))(w)
	for _, name := range []string{"data", "logs"} {
		if Chance(t, "claim "+name) {
			claims(name)(w)
		}
	}
	Pick(t, "phase", phase(corev1.PodRunning), phase(corev1.PodRunning), phase(corev1.PodPending), phase(corev1.PodUnknown), phase(corev1.PodFailed), phase(""))(w)
	if rapid.IntRange(0, 9).Draw(t, "bound") == 9 {
		unscheduled(w)
	}
	Pick(t, "own grace", ownGrace(30), ownGrace(0), ownGrace(-1), func(w *world) { w.req.Pod.Spec.TerminationGracePeriodSeconds = nil })(w)
	if Chance(t, "confirmed") {
		confirms(Pick(t, "confirmation", "pod-1/2026-11-20T11:59:00Z", "pod-1/2026-11-20T11:59:00Z/2026-11-20T11:00:00Z", "pod-1/2026-11-20T11:59:00Z/2026-11-20T12:00:00Z", "pod-1/2026-11-20T10:00:00Z", "pod-1", "pod-0/2026-11-20T11:59:00Z", ""))(w)
	}
}

func drawRemoval(t *rapid.T, w *world) {
	Pick(t, "grace", grace(0), grace(0), noGrace, grace(-1), grace(10))(w)
	Pick(t, "written", writes(corev1.PodFailed), writes(corev1.PodSucceeded), writes(corev1.PodRunning), writes(""))(w)
	if Chance(t, "terminating") {
		terminating(Pick(t, "stored", nil, new(int64(0)), new(int64(0)), new(int64(20)), new(int64(-1))))(w)
	}
}

func drawPolicy(t *rapid.T, w *world) {
	w.facts.Policy = drawLevel(t, Pick(t, "forceDelete", v1alpha1.RemovalDeny, v1alpha1.RemovalDeny, v1alpha1.RemovalWarn, v1alpha1.RemovalAllow, ""))
	if rapid.IntRange(0, 9).Draw(t, "no policy") == 9 {
		w.facts.Policy.Names = nil
		return
	}
	level := &w.facts.Policy
	for _, action := range laxerThan(level.ForceDelete) {
		if Chance(t, "policies that "+string(action)) {
			level.Laxer = new(drawLevel(t, action))
			level = level.Laxer
		}
	}
}

func laxerThan(action v1alpha1.RemovalAction) []v1alpha1.RemovalAction {
	order := []v1alpha1.RemovalAction{v1alpha1.RemovalDeny, v1alpha1.RemovalWarn, v1alpha1.RemovalAllow}
	return order[max(slices.Index(order, action), 0)+1:]
}

func drawLevel(t *rapid.T, action v1alpha1.RemovalAction) policy.Removal {
	p := policy.Removal{Names: Pick(t, "policies", []string{"a"}, []string{"a", "b"}), ForceDelete: action, Protect: DrawProtection(t)}
	for _, actor := range []string{"bob", "alice", repair, enforcer} {
		if rapid.IntRange(0, 3).Draw(t, "actor "+actor) == 3 {
			p.AllowedActors = append(p.AllowedActors, actor)
		}
	}
	return p
}

func drawNode(t *rapid.T, w *world) {
	if state := Pick(t, "state", guard.NodePresent, guard.NodePresent, guard.NodeUnknown, guard.NodeGone); state != guard.NodePresent {
		nodeIs(state)(w)
		return
	}
	n := &w.facts.Node
	n.Ready, n.OutOfService, n.ConfirmedOff = Chance(t, "ready"), Chance(t, "out of service"), rapid.IntRange(0, 3).Draw(t, "confirmed off") == 3
	heardOf(Pick(t, "heartbeat", now, time.Time{}, now.Add(-time.Hour), now.Add(time.Hour)))(w)
	if Chance(t, "no UID") {
		n.UID, n.BootID = "", ""
	}
	n.InUse = Pick(t, "in use", nil, []corev1.UniqueVolumeName{"v"}, []corev1.UniqueVolumeName{"u", "v"}, []corev1.UniqueVolumeName{"u"})
}

func drawEvidence(t *rapid.T, w *world) {
	for _, name := range []string{"data", "logs"} {
		if mode := Pick(t, "mode of "+name, "", corev1.ReadWriteOnce, corev1.ReadWriteMany); mode != "" {
			Pick(t, "volume mode of "+name, claimed, blockClaimed)(name, mode)(w)
		}
	}
	w.facts.Fences = rapid.SliceOfN(rapid.Custom(drawFence), 0, 3).Draw(t, "fences")
	w.facts.Volume = guard.Volume{Known: Chance(t, "volume known"), Claim: Pick(t, "claim", "", "shop/data"), UniqueName: Pick[corev1.UniqueVolumeName](t, "volume", "", "v"),
		Modes: Pick(t, "modes", nil, []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany})}
	w.facts.Bound = bound{}
	for range rapid.IntRange(0, 7).Draw(t, "bound") {
		by := Pick(t, "protected by", protecting...)
		w.facts.Bound[by] = append(w.facts.Bound[by], &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: Pick(t, "namespace", "shop", "till"), Name: Pick(t, "name", "db-0", "db-1", "db-2")}})
	}
	w.facts.BoundKnown = !Chance(t, "bound unknown")
}

func drawFence(t *rapid.T) guard.Fence {
	return guard.Fence{
		PodUID:  Pick[types.UID](t, "pod", "", "", "pod-0", "pod-1"),
		NodeUID: Pick[types.UID](t, "node", "", "node-1", "node-2"),
		BootID:  Pick(t, "boot", "", "boot-1", "boot-0"),
		Volumes: Pick(t, "volumes", nil, nil, []string{"pv-data"}),
	}
}

// copied shares nothing that a change could reach.
func (w world) copied() world {
	w.req.Pod = w.req.Pod.DeepCopy()
	w.req.User = *w.req.User.DeepCopy()
	w.req.VolumeAttachment = w.req.VolumeAttachment.DeepCopy()
	w.facts.Fences, w.facts.Bound = slices.Clone(w.facts.Fences), maps.Clone(w.facts.Bound)
	for action, pods := range w.facts.Bound {
		w.facts.Bound[action] = slices.Clone(pods)
	}
	w.facts.Policy = copiedPolicy(w.facts.Policy)
	w.facts.Claims = maps.Clone(w.facts.Claims)
	return w
}

// protecting are the actions by which a pod can be protected, in the order in which they are gone through.
var protecting = []v1alpha1.RemovalAction{v1alpha1.RemovalDeny, v1alpha1.RemovalWarn}

func copiedPolicy(p policy.Removal) policy.Removal {
	p.AllowedActors = slices.Clone(p.AllowedActors)
	if p.Laxer != nil {
		p.Laxer = new(copiedPolicy(*p.Laxer))
	}
	return p
}

var severity = []guard.Verdict{guard.Allow, guard.Warn, guard.Deny}

func severer(a, b guard.Decision) bool {
	return slices.Index(severity, a.Verdict) > slices.Index(severity, b.Verdict)
}

// evidence is what somebody may come to know or to do, all of it in favour of the removal. Each reports whether it applies.
var evidence = map[string]func(*world) bool{
	"a silent node is confirmed off": func(w *world) bool {
		w.facts.Node.ConfirmedOff = true
		return w.facts.Node.State == guard.NodePresent && !w.facts.Node.Ready
	},
	"a ready node falls silent": func(w *world) bool {
		w.facts.Node.Ready = false
		// The controller that detaches waits for the kubelet of a ready node, and takes by force from a silent one.
		return w.facts.Node.State == guard.NodePresent && !guard.IsAttachDetachController(w.req.User)
	},
	"its kubelet has unmounted the volume": func(w *world) bool {
		w.facts.Node.InUse = nil
		return true
	},
	"the volume may be used by many": func(w *world) bool {
		w.facts.Volume.Known, w.facts.Volume.Modes = true, []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
		return true
	},
	"an unknown node turns out to be gone": func(w *world) bool {
		unknown := w.facts.Node.State == guard.NodeUnknown
		w.facts.Node.State = guard.NodeGone
		return unknown
	},
	"unknown claims turn out to be ReadWriteMany": func(w *world) bool {
		for _, name := range []string{"data", "logs"} {
			if _, known := w.facts.Claims[name]; !known {
				claimed(name, corev1.ReadWriteMany)(w)
			}
		}
		return true
	},
	"it is confirmed": func(w *world) bool {
		if w.req.Pod == nil {
			return false
		}
		confirmedAgo(0)(w)
		return true
	},
	"the pod is fenced": func(w *world) bool {
		w.facts.Fences = append(w.facts.Fences, guard.Fence{PodUID: "pod-1"})
		return true
	},
	"the node's boot is fenced": func(w *world) bool {
		w.facts.Fences = append(w.facts.Fences, guard.Fence{NodeUID: "node-1", BootID: "boot-1"})
		return true
	},
	"something else is fenced": func(w *world) bool {
		w.facts.Fences = append(w.facts.Fences, guard.Fence{PodUID: "pod-7"}, guard.Fence{NodeUID: "node-7", BootID: "boot-1"})
		return true
	},
	"the pod has finished": func(w *world) bool {
		if w.req.Pod == nil {
			return false
		}
		phase(corev1.PodSucceeded)(w)
		return true
	},
	"the node's pods are listed: none is protected": func(w *world) bool {
		w.facts.Bound, w.facts.BoundKnown = nil, true
		return true
	},
	"one of the node's pods has ended": func(w *world) bool {
		for _, action := range protecting {
			if pods := w.facts.Bound[action]; len(pods) > 0 {
				w.facts.Bound[action] = pods[1:]
				return true
			}
		}
		return false
	},
	"the policy allows the actor": func(w *world) bool {
		w.facts.Policy.AllowedActors = append(w.facts.Policy.AllowedActors, w.req.User.Username)
		return true
	},
}

// TestMoreEvidenceNeverRefuses, and so less evidence never allows: each step makes the verdict milder or leaves it.
func TestMoreEvidenceNeverRefuses(t *testing.T) {
	t.Parallel()
	names := make([]string, 0, len(evidence))
	for name := range evidence {
		names = append(names, name)
	}
	slices.Sort(names)
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		before := w.decide()
		for range rapid.IntRange(1, 3).Draw(t, "steps") {
			name := rapid.SampledFrom(names).Draw(t, "evidence")
			more := w.copied()
			if !evidence[name](&more) {
				continue
			}
			after := more.decide()
			if severer(after, before) {
				t.Fatalf("%s: %+v became %+v", name, before, after)
			}
			w, before = more, after
		}
	})
}

// TestOrderDoesNotMatter: of receipts, actors, groups and pods. The words are the same as well.
func TestOrderDoesNotMatter(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		other := w.copied()
		other.facts.Fences = Shuffled(t, "fences", w.facts.Fences)
		for _, action := range protecting {
			other.facts.Bound[action] = Shuffled(t, "bound", w.facts.Bound[action])
		}
		for p := &other.facts.Policy; p != nil; p = p.Laxer {
			p.AllowedActors = Shuffled(t, "actors", p.AllowedActors)
			p.Protect.Owners = Shuffled(t, "owners", p.Protect.Owners)
		}
		other.req.User.Groups = Shuffled(t, "groups", w.req.User.Groups)
		if a, b := w.decide(), other.decide(); a != b {
			t.Fatalf("%+v\n%+v", a, b)
		}
	})
}

// TestNamesDoNotMatter: people, pods, claims and nodes may be called anything, as long as all call them so.
func TestNamesDoNotMatter(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		names := strings.NewReplacer("alice", "carol", "bob", "dave", "n1", "worker-9", "n2", "worker-8", "db-", "ledger-", "shop", "bank", "data", "disk", "logs", "tapes")
		a, b := w.decide(), renamed(w, names).decide()
		if a.Verdict != b.Verdict || a.Reason != b.Reason || names.Replace(a.Message()) != b.Message() {
			t.Fatalf("%+v\n%+v", a, b)
		}
	})
}

func renamed(w world, names *strings.Replacer) world {
	w = w.copied()
	w.req.User.Username = names.Replace(w.req.User.Username)
	for key, values := range w.req.User.Extra {
		w.req.User.Extra[key] = authenticationv1.ExtraValue{names.Replace(values[0])}
	}
	for p := &w.facts.Policy; p != nil; p = p.Laxer {
		for i, actor := range p.AllowedActors {
			p.AllowedActors[i] = names.Replace(actor)
		}
	}
	w.facts.Node.Name = names.Replace(w.facts.Node.Name)
	w.facts.Volume.Claim = names.Replace(w.facts.Volume.Claim)
	for i, f := range w.facts.Fences {
		w.facts.Fences[i].Volumes = slices.Clone(f.Volumes)
		for j, name := range f.Volumes {
			w.facts.Fences[i].Volumes[j] = names.Replace(name)
		}
	}
	if a := w.req.VolumeAttachment; a != nil && a.Spec.Source.PersistentVolumeName != nil {
		*a.Spec.Source.PersistentVolumeName = names.Replace(*a.Spec.Source.PersistentVolumeName)
	}
	for _, pods := range w.facts.Bound {
		for i, p := range pods {
			pods[i] = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: names.Replace(p.Namespace), Name: names.Replace(p.Name)}}
		}
	}
	known := policy.Claims{}
	for name, modes := range w.facts.Claims {
		known[names.Replace(name)] = modes
	}
	w.facts.Claims = known
	if p := w.req.Pod; p != nil {
		p.Namespace, p.Name, p.Spec.NodeName = names.Replace(p.Namespace), names.Replace(p.Name), names.Replace(p.Spec.NodeName)
		for i := range p.Spec.Volumes {
			p.Spec.Volumes[i].PersistentVolumeClaim.ClaimName = names.Replace(p.Spec.Volumes[i].PersistentVolumeClaim.ClaimName)
		}
	}
	if a := w.req.VolumeAttachment; a != nil {
		a = a.DeepCopy()
		a.Spec.NodeName = names.Replace(a.Spec.NodeName)
		a.Spec.Source.PersistentVolumeName = new(names.Replace(*a.Spec.Source.PersistentVolumeName))
		w.req.VolumeAttachment = a
	}
	return w
}

// TestWhatTheFirstCallStoredOpensNoRoad: a force delete that was refused may have been let through once, by another replica
// or in another minute. What it left stored opens no road, neither to who asked nor to anybody without a part in it.
func TestWhatTheFirstCallStoredOpensNoRoad(t *testing.T) {
	t.Parallel()
	denied := 0
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		first := w.decide()
		if w.req.Pod == nil || first.Verdict != guard.Deny {
			return
		}
		denied++
		left := w.copied()
		halfDone(&left)
		left.req.GracePeriodSeconds, left.req.Phase = nil, ""
		if first.Reason.Code == "Unsafe" && Chance(t, "somebody else") {
			by("mallory")(&left)
			left.req.User.Extra = nil
		}
		for _, road := range []guard.Road{guard.RoadDelete, guard.RoadFinalizer, guard.RoadEviction} {
			left.req.Road = road
			if then := left.decide(); then.Verdict != guard.Deny {
				t.Fatalf("%s: %+v, then by %s: %+v", w.req.Road, first, road, then)
			}
		}
	})
	if denied < 100 {
		t.Errorf("only %d cases were refused at all", denied)
	}
}

// TestEveryDecisionIsFit: whatever is asked and known, there is an answer, in one line, and a refusal says who, where, why
// and what to type.
func TestEveryDecisionIsFit(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		got := w.decide()
		if problem := unfit(got); problem != "" {
			t.Fatalf("%+v: message %s", got, problem)
		}
		if got.Reason.Code != "Unsafe" {
			return
		}
		wanted := []string{"n1 (", ": ", "Ways on: ", "(PodPolicy a"}
		switch {
		case w.req.Pod != nil:
			wanted = append(wanted, "pod shop/db-0", "so its replacement could run beside it", confirmPod)
		case w.facts.Node.State == guard.NodePresent:
			wanted = append(wanted, confirmNode)
		}
		for _, part := range wanted {
			if !strings.Contains(got.Message(), part) {
				t.Fatalf("%q lacks %q", got.Message(), part)
			}
		}
	})
}

// TestByItselfNeedsNoFacts: what is decided without facts no fact would change, and what takes facts is not decided without.
func TestByItselfNeedsNoFacts(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		if w.req.Pod != nil && Chance(t, "a finalizer") {
			held(&w)
		}
		d := guard.ByItself(w.req, w.facts.Now)
		if d == nil {
			if got := w.decide(); slices.Contains([]string{"NotForced", "NeverScheduled", "Finished", "OwnKubelet", "EnforcerOfAnotherNode", "Held"}, got.Reason.Code) {
				t.Fatalf("facts were asked for: %+v", got)
			}
			return
		}
		other := w.copied()
		drawPolicy(t, &other)
		drawNode(t, &other)
		for _, facts := range []guard.Facts{w.facts, other.facts, {Now: w.facts.Now}} {
			if got := guard.Decide(w.req, facts); got != *d {
				t.Fatalf("%+v by itself, %+v with %+v", d, got, facts)
			}
		}
	})
}

// TestNoFactsAtAll: what is missing is unknown, and no reason to panic.
func TestNoFactsAtAll(t *testing.T) {
	t.Parallel()
	for _, road := range append([]guard.Road{"", "detour"}, allRoads...) {
		for name, change := range map[string]option{
			"zero facts":                func(w *world) { w.facts = guard.Facts{} },
			"only a policy":             func(w *world) { w.facts = guard.Facts{Policy: w.facts.Policy} },
			"an empty pod":              func(w *world) { w.req.Pod = &corev1.Pod{} },
			"an empty pod on a node":    func(w *world) { w.req.Pod = &corev1.Pod{Spec: corev1.PodSpec{NodeName: "n1"}} },
			"an empty attachment":       func(w *world) { w.req.VolumeAttachment.Spec.NodeName = "" },
			"an empty user":             func(w *world) { w.req.User = authenticationv1.UserInfo{} },
			"a policy without a name":   func(w *world) { w.facts.Policy.Names = []string{""} },
			"a state that is not known": func(w *world) { w.facts.Node.State = 7 },
			"a volume that is nothing": func(w *world) {
				w.req.Pod = &corev1.Pod{Spec: corev1.PodSpec{NodeName: "n1", Volumes: make([]corev1.Volume, 1)}}
			},
		} {
			w := dangerous(on(road))
			if road != guard.RoadVolumeAttachment && name == "an empty attachment" {
				continue
			}
			change(&w)
			got := w.decide()
			if problem := unfit(got); problem != "" {
				t.Errorf("%s, %s: %+v: message %s", road, name, got, problem)
			}
			if got.Verdict == guard.Allow && name == "only a policy" {
				t.Errorf("%s: allowed although nothing is known: %+v", road, got)
			}
		}
	}
}
