package guard_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/guard"
	"github.com/podgrace/podgrace/policy"
	. "github.com/podgrace/podgrace/policy/policytest"
)

// Each level is judged by itself, and the strictest verdict holds, in the words of the policies that gave it.
func TestLevels(t *testing.T) {
	t.Parallel()
	warns := Level("warns", v1alpha1.RemovalWarn)
	warnsOfAll := Level("warns", v1alpha1.RemovalWarn, AllPods)
	allowsAll := Level("lax", v1alpha1.RemovalAllow, AllPods)
	alone := func(w *world) { w.facts.Bound = bound{v1alpha1.RemovalWarn: w.facts.Bound[v1alpha1.RemovalWarn]} }
	stateless := ownedBy("ReplicaSet", "web")
	unsafe := func(name string, w world, verdict guard.Verdict, by string, not string) row {
		return row{name, w, verdict, "Unsafe", []string{"(PodPolicy " + by + ")", "!" + not}}
	}
	rows := []row{
		{name: "an actor of both", world: dangerous(by(repair), actors(repair), laxer(Level("warns", v1alpha1.RemovalWarn, Allowing(repair)))), verdict: guard.Allow, reason: "AllowedActor"},
		unsafe("an actor of those that deny", dangerous(by(repair), actors(repair), laxer(warns)), guard.Warn, "warns", "guarded"),
		unsafe("an actor of those that warn", dangerous(by(repair), laxer(Level("warns", v1alpha1.RemovalWarn, Allowing(repair)))), guard.Deny, "guarded", "warns"),
		unsafe("all protected by those that warn", dangerous(stateless, laxer(warnsOfAll)), guard.Warn, "warns", "guarded"),
		unsafe("all protected by those that deny", dangerous(stateless, protectAll, laxer(warns)), guard.Deny, "guarded", "warns"),
		{name: "protected by neither", world: dangerous(stateless, laxer(warns)), verdict: guard.Warn, reason: "Unprotected"},
		{name: "an actor of those that deny, protected by neither", world: dangerous(by(repair), actors(repair), stateless, laxer(warns)), verdict: guard.Warn, reason: "Unprotected"},
		{name: "all protected by those that allow", world: dangerous(stateless, laxer(allowsAll)), verdict: guard.Warn, reason: "Unprotected"},
		{name: "an actor of those that deny, not of those that allow", world: dangerous(by(repair), actors(repair), laxer(allowsAll)), verdict: guard.Allow, reason: "AllowedActor"},
		{name: "confirmed", world: dangerous(confirmedAgo(0), laxer(warnsOfAll)), verdict: guard.Allow, reason: "Confirmed"},
		unsafe("three levels", dangerous(by(repair), actors(repair), laxer(Level("warns", v1alpha1.RemovalWarn, func(p *policy.Removal) { p.Laxer = &allowsAll }))), guard.Warn, "warns", "lax"),
		unsafe("a node whose pods only those protect that warn", dangerous(on(guard.RoadNode), alone, laxer(warns)), guard.Warn, "warns", "guarded"),
		unsafe("a node whose pods both protect", dangerous(on(guard.RoadNode), laxer(warns)), guard.Deny, "guarded", "warns"),
		unsafe("those below deny", dangerous(action(v1alpha1.RemovalWarn), laxer(Level("denies", v1alpha1.RemovalDeny))), guard.Deny, "denies", "guarded"),
		{name: "a node whose pods only those protect that warn, and nobody warns", world: dangerous(on(guard.RoadNode), alone), verdict: guard.Allow, reason: "NothingProtectedOnNode"},
	}
	testRows(t, rows)
}

// Where the policies could not be read, every pod, node and attachment is guarded as by one that denies, and the refusal says
// why. What is safe whatever they say stays allowed.
func TestUnknownPolicies(t *testing.T) {
	t.Parallel()
	unread := under(policy.Removal{Unknown: true})
	var rows []row
	for _, road := range allRoads {
		rows = append(rows,
			row{string(road) + ": refused", dangerous(on(road), unread), guard.Deny, "Unsafe", []string{"(the policies could not be read)", "!PodPolicy"}},
			row{name: string(road) + ": its node has stopped", world: dangerous(on(road), unread, confirmedOff), verdict: guard.Allow, reason: "NodeStopped"},
		)
	}
	for _, road := range podRoads {
		rows = append(rows,
			row{string(road) + ": what protects it is said where that is known", dangerous(on(road), unread), guard.Deny, "Unsafe", []string{"it is a pod of StatefulSet db, so"}},
			row{string(road) + ": of no StatefulSet, and without a claim", dangerous(on(road), unread, unowned), guard.Deny, "Unsafe", []string{"which policies guard it could not be read, so its replacement could run beside it"}},
		)
	}
	testRows(t, rows)
}

// Who is refused because a part of a policy can't be read is told which, and of which policy; who is refused by another level is not.
func TestRefusalsNameWhatIsNotRead(t *testing.T) {
	t.Parallel()
	half := func(section v1alpha1.RemovalSection) policy.Removal {
		p := PodPolicy("half", Removal(section))
		p.ManagedFields = []metav1.ManagedFieldsEntry{{APIVersion: v1alpha1.GroupVersion.String(), FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:removal":{"f:roads":{}}}}`)}}
		return HalfRead(t, p).RemovalOfAll()
	}
	denies, warns := half(v1alpha1.RemovalSection{AllowedActors: []string{repair}}), half(v1alpha1.RemovalSection{ForceDelete: v1alpha1.RemovalWarn})
	const says = "spec.removal.roads of half can be read, it protects all pods and lets nobody through by name)"
	var rows []row
	for _, road := range allRoads {
		rows = append(rows,
			row{string(road) + ": an actor whom it allows", dangerous(on(road), by(repair), under(denies)), guard.Deny, "Unsafe", []string{"(PodPolicy half; until " + says}},
			row{string(road) + ": warned", dangerous(on(road), under(warns)), guard.Warn, "Unsafe", []string{"(PodPolicy half; until " + says}},
			row{string(road) + ": refused by another one", dangerous(on(road), laxer(warns)), guard.Deny, "Unsafe", []string{"(PodPolicy guarded)", "!half"}},
		)
	}
	testRows(t, rows)
}

// TestLaxerLevelsOnlyWarn: whatever is asked and known, what is added to a level by those that warn or allow refuses nothing
// and leaves what is refused; and it takes no warning away.
func TestLaxerLevelsOnlyWarn(t *testing.T) {
	t.Parallel()
	warned := 0
	rapid.Check(t, func(t *rapid.T) {
		for w := drawWorld(t); w.facts.Policy.Laxer != nil; {
			without := w.copied()
			dropped := dropLast(&without.facts.Policy)
			before, after := without.decide(), w.decide()
			switch {
			case before.Verdict == guard.Deny && after != before:
				t.Fatalf("a refusal became another answer: %+v, then %+v", before, after)
			case after.Verdict == guard.Deny && before.Verdict != guard.Deny:
				t.Fatalf("refused because of policies that don't: %+v, then %+v", before, after)
			case severer(before, after):
				t.Fatalf("policies more made it laxer: %+v, then %+v", before, after)
			case dropped == v1alpha1.RemovalAllow && after != before:
				t.Fatalf("policies that allow changed %+v into %+v", before, after)
			case severer(after, before):
				warned++
			}
			w = without
		}
	})
	if warned < 20 { // some 60 as a rule
		t.Errorf("only %d cases were warned about because of the next level", warned)
	}
}

// dropLast drops the laxest of several levels and returns its action.
func dropLast(p *policy.Removal) v1alpha1.RemovalAction {
	for p.Laxer.Laxer != nil {
		p = p.Laxer
	}
	action := p.Laxer.ForceDelete
	p.Laxer = nil
	return action
}

// What the policy protects decides between a refusal and a warning, on every road of pods.
func TestUnprotected(t *testing.T) {
	t.Parallel()
	var rows []row
	for _, road := range podRoads {
		says := []string{"pod shop/db-0 is removed without waiting for its node: it may still run on n1 (not ready, silent since 11:50:00 UTC, 10m0s ago)"}
		rows = append(rows,
			row{name: string(road) + ": unprotected", world: dangerous(on(road), ownedBy("ReplicaSet", "web")), verdict: guard.Warn, reason: "Unprotected", says: says},
			row{name: string(road) + ": all are protected", world: dangerous(on(road), ownedBy("ReplicaSet", "web"), protectAll), verdict: guard.Deny, reason: "Unsafe", says: []string{"the policy protects all pods"}},
			row{name: string(road) + ": an operator's", world: dangerous(on(road), ownedByPodSet, owners(podSet)), verdict: guard.Deny, reason: "Unsafe", says: []string{"it is a pod of StrimziPodSet kafka, so"}},
			row{name: string(road) + ": a claim that is not known", world: dangerous(on(road), unowned, claims("data")), verdict: guard.Deny, reason: "Unsafe", says: []string{"the access mode of its claim data is not known"}},
		)
	}
	testRows(t, rows)
}
