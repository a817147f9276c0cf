package guard_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"pgregory.net/rapid"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/guard"
	"github.com/podgrace/podgrace/policy"
)

// level is what policies with one action give.
func level(name string, action v1alpha1.RemovalAction, change ...func(*policy.Removal)) policy.Removal {
	p := policy.Removal{Names: []string{name}, ForceDelete: action}
	for _, c := range change {
		c(&p)
	}
	return p
}

func all(p *policy.Removal) { p.Protect.All = true }

func allowing(actors ...string) func(*policy.Removal) {
	return func(p *policy.Removal) { p.AllowedActors = actors }
}

// Each level is judged by itself, and the strictest verdict holds, in the words of the policies that gave it.
func TestLevels(t *testing.T) {
	t.Parallel()
	warns := level("warns", v1alpha1.RemovalWarn)
	warnsOfAll := level("warns", v1alpha1.RemovalWarn, all)
	allowsAll := level("lax", v1alpha1.RemovalAllow, all)
	alone := func(w *world) { w.facts.Bound = bound{v1alpha1.RemovalWarn: w.facts.Bound[v1alpha1.RemovalWarn]} }
	stateless := ownedBy("ReplicaSet", "web")
	unsafe := func(name string, w world, verdict guard.Verdict, by string, not string) row {
		return row{name, w, verdict, "Unsafe", []string{"(PodPolicy " + by + ")", "!" + not}}
	}
	rows := []row{
		{name: "an actor of both", world: dangerous(by(repair), actors(repair), laxer(level("warns", v1alpha1.RemovalWarn, allowing(repair)))), verdict: guard.Allow, reason: "AllowedActor"},
		unsafe("an actor of those that deny", dangerous(by(repair), actors(repair), laxer(warns)), guard.Warn, "warns", "guarded"),
		unsafe("an actor of those that warn", dangerous(by(repair), laxer(level("warns", v1alpha1.RemovalWarn, allowing(repair)))), guard.Deny, "guarded", "warns"),
		unsafe("all protected by those that warn", dangerous(stateless, laxer(warnsOfAll)), guard.Warn, "warns", "guarded"),
		unsafe("all protected by those that deny", dangerous(stateless, protectAll, laxer(warns)), guard.Deny, "guarded", "warns"),
		{name: "protected by neither", world: dangerous(stateless, laxer(warns)), verdict: guard.Warn, reason: "Unprotected"},
		{name: "an actor of those that deny, protected by neither", world: dangerous(by(repair), actors(repair), stateless, laxer(warns)), verdict: guard.Warn, reason: "Unprotected"},
		{name: "all protected by those that allow", world: dangerous(stateless, laxer(allowsAll)), verdict: guard.Warn, reason: "Unprotected"},
		{name: "an actor of those that deny, not of those that allow", world: dangerous(by(repair), actors(repair), laxer(allowsAll)), verdict: guard.Allow, reason: "AllowedActor"},
		{name: "confirmed", world: dangerous(confirmedAgo(0), laxer(warnsOfAll)), verdict: guard.Allow, reason: "Confirmed"},
		unsafe("three levels", dangerous(by(repair), actors(repair), laxer(level("warns", v1alpha1.RemovalWarn, func(p *policy.Removal) { p.Laxer = &allowsAll }))), guard.Warn, "warns", "lax"),
		unsafe("a node whose pods only those protect that warn", dangerous(on(guard.RoadNode), alone, laxer(warns)), guard.Warn, "warns", "guarded"),
		unsafe("a node whose pods both protect", dangerous(on(guard.RoadNode), laxer(warns)), guard.Deny, "guarded", "warns"),
		unsafe("those below deny", dangerous(action(v1alpha1.RemovalWarn), laxer(level("denies", v1alpha1.RemovalDeny))), guard.Deny, "denies", "guarded"),
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

func TestNamesAndActorsOfAllLevels(t *testing.T) {
	t.Parallel()
	chain := func(levels ...policy.Removal) policy.Removal {
		for i := len(levels) - 1; i > 0; i-- {
			levels[i-1].Laxer = &levels[i]
		}
		return levels[0]
	}
	denies := level("d", v1alpha1.RemovalDeny, allowing("a", "b"))
	warns := level("w", v1alpha1.RemovalWarn, allowing("b", "c"))
	allows := level("l", v1alpha1.RemovalAllow, allowing("x"))
	for name, tt := range map[string]struct {
		policy        policy.Removal
		names, actors []string
	}{
		"none":                      {policy.Removal{}, nil, nil},
		"one level":                 {denies, []string{"d"}, []string{"a", "b"}},
		"those that allow, alone":   {allows, []string{"l"}, []string{"x"}},
		"deny and warn":             {chain(denies, warns), []string{"d", "w"}, []string{"b"}},
		"deny and allow":            {chain(denies, allows), []string{"d", "l"}, []string{"a", "b"}},
		"warn and allow":            {chain(warns, allows), []string{"w", "l"}, []string{"b", "c"}},
		"deny, warn and allow":      {chain(denies, warns, allows), []string{"d", "w", "l"}, []string{"b"}},
		"those that warn name none": {chain(denies, level("w", v1alpha1.RemovalWarn)), []string{"d", "w"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := slices.Clone(tt.policy.AllowedActors)
			if diff := cmp.Diff(tt.names, tt.policy.AllNames(), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("names (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.actors, tt.policy.ActorsOfAll(), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("actors (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, tt.policy.AllowedActors); diff != "" {
				t.Errorf("the policy was written to: %s", diff)
			}
		})
	}
}

func TestProtectedBy(t *testing.T) {
	t.Parallel()
	const deny, warn, allow = v1alpha1.RemovalDeny, v1alpha1.RemovalWarn, v1alpha1.RemovalAllow
	stateful, stateless, operated := dangerous().req.Pod, dangerous(unowned).req.Pod, dangerous(ownedByPodSet).req.Pod
	podSets := func(p *policy.Removal) { p.Protect.Owners = []schema.GroupKind{podSet} }
	pol := func(levels ...policy.Removal) policy.Removal {
		w := dangerous(func(w *world) { w.facts.Policy = levels[0] })
		if len(levels) > 1 {
			laxer(levels[1])(&w)
		}
		return w.facts.Policy
	}
	for name, tt := range map[string]struct {
		policy policy.Removal
		pod    *corev1.Pod
		want   []v1alpha1.RemovalAction
	}{
		"no policy":                   {policy.Removal{}, stateful, nil},
		"stateful":                    {pol(level("d", deny), level("w", warn)), stateful, []v1alpha1.RemovalAction{deny, warn}},
		"stateless":                   {pol(level("d", deny), level("w", warn)), stateless, nil},
		"those that warn protect all": {pol(level("d", deny), level("w", warn, all)), stateless, []v1alpha1.RemovalAction{warn}},
		"those that deny protect all": {pol(level("d", deny, all), level("w", warn)), stateless, []v1alpha1.RemovalAction{deny}},
		"those that warn name it":     {pol(level("d", deny), level("w", warn, podSets)), operated, []v1alpha1.RemovalAction{warn}},
		"those that deny name it":     {pol(level("d", deny, podSets), level("w", warn)), operated, []v1alpha1.RemovalAction{deny}},
		"those that allow":            {pol(level("w", warn), level("l", allow, all)), stateless, nil},
		"those that allow, alone":     {pol(level("l", allow, all)), stateful, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, tt.policy.ProtectedBy(tt.pod, nil)); diff != "" {
				t.Error(diff)
			}
			want := ""
			switch {
			case tt.pod == stateful:
				want = "it is a pod of StatefulSet db"
			case tt.pod == operated && tt.want != nil:
				want = "it is a pod of StrimziPodSet kafka"
			}
			if got := tt.policy.Why(tt.pod, nil); got != want {
				t.Errorf("because %q, want %q", got, want)
			}
		})
	}
}
