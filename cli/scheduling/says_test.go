package scheduling

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func group(reason string, nodes ...string) Group {
	return Group{Reasons: []string{reason}, Nodes: nodes}
}

func TestSays(t *testing.T) {
	zone, host := Spread{TopologyKey: "topology.kubernetes.io/zone"}, Spread{TopologyKey: "kubernetes.io/hostname"}
	for name, tc := range map[string]struct {
		of        Preview
		reason    string
		message   string
		sentences []string
	}{
		"fits": {
			of:        Preview{Outcome: Fits, Fit: 4, Nodes: 5, Groups: []Group{{Fits: true, Nodes: []string{"n1", "n2", "n3", "n4"}}, group("too full", "n5")}},
			sentences: []string{"fits on 4 of 5 nodes, best on n1, n2, n3 and 1 more"},
		},
		"each node has its reason": {
			of:     Preview{Outcome: Nowhere, Nodes: 3, Groups: []Group{group("Insufficient cpu", "n1"), group("node(s) had untolerated taint(s)", "n2"), {Reasons: []string{"Insufficient cpu", "Insufficient memory"}, Nodes: []string{"n3"}}}, Notes: []string{"One note."}},
			reason: "Unschedulable", message: "would be pending: 0/3 nodes are available: 1 Insufficient memory, 1 node(s) had untolerated taint(s), 2 Insufficient cpu. One note.",
			sentences: []string{"0/3 nodes are available: 1 Insufficient memory, 1 node(s) had untolerated taint(s), 2 Insufficient cpu", "One note."},
		},
		"no node is at fault": {
			of:     Preview{Outcome: Nowhere, Nodes: 2, Why: `persistentvolumeclaim "data" not found.`, Groups: []Group{group("ignored", "n1", "n2")}, Preemption: &Preemption{Refused: "not eligible due to preemptionPolicy=Never."}},
			reason: "Unschedulable", message: `would be pending: 0/2 nodes are available: persistentvolumeclaim "data" not found; it preempts nobody: not eligible due to preemptionPolicy=Never.`,
			sentences: []string{`0/2 nodes are available: persistentvolumeclaim "data" not found`, "it preempts nobody: not eligible due to preemptionPolicy=Never."},
		},
		"a contradiction": {
			of: Preview{
				Outcome: Nowhere, Nodes: 3, Groups: []Group{group("no spread", "n1", "n2", "n3")}, Spread: []Spread{zone, host},
				Contradictions: []Contradiction{{Constraints: []int{0, 1}, Allows: [][]string{{"n3"}, {"n2"}}, Ways: []Way{{Constraint: 0, MaxSkew: 2, Nodes: []string{"n2"}}, {Constraint: 1, Nodes: []string{"n3"}}}}},
			},
			reason: "Unschedulable", message: "would be pending: 0/3 nodes are available: 3 no spread; the constraints on topology.kubernetes.io/zone and kubernetes.io/hostname contradict each other (the first allows n3, the second n2)",
			sentences: []string{
				"0/3 nodes are available: 3 no spread", "the constraints on topology.kubernetes.io/zone and kubernetes.io/hostname contradict each other (the first allows n3, the second n2)",
				"ways out: maxSkew 2 for topology.kubernetes.io/zone (n2), ScheduleAnyway for kubernetes.io/hostname (n3)",
			},
		},
		"three that go in pairs": {
			of: Preview{
				Outcome: Nowhere, Nodes: 1, Groups: []Group{group("no spread", "n1")}, Spread: []Spread{zone, host, {TopologyKey: "rack"}},
				Contradictions: []Contradiction{{Constraints: []int{0, 1, 2}, Allows: [][]string{{"n1", "n2"}, {"n2", "n3"}, {"n3", "n1"}}}},
			},
			reason: "Unschedulable", message: "would be pending: 0/1 nodes are available: 1 no spread; the constraints on topology.kubernetes.io/zone, kubernetes.io/hostname and rack can't be met together",
			sentences: []string{"0/1 nodes are available: 1 no spread", "the constraints on topology.kubernetes.io/zone, kubernetes.io/hostname and rack can't be met together"},
		},
		"a constraint that counts nodes which the pod can't have": {
			of: Preview{
				Outcome: Nowhere, Nodes: 2, Groups: []Group{group("no spread", "n1", "n2")}, Spread: []Spread{host},
				Contradictions: []Contradiction{{Constraints: []int{0}, Allows: [][]string{{}}, Ways: []Way{
					{NodeTaintsPolicy: "Honor", Nodes: []string{"n1"}}, {NodeTaintsPolicy: "Honor", NodeAffinityPolicy: "Honor", Nodes: []string{"n2"}}, {Nodes: []string{"n2"}},
				}}},
			},
			reason: "Unschedulable", message: "would be pending: 0/2 nodes are available: 2 no spread; the constraint on kubernetes.io/hostname allows none of the nodes that there are for the pod",
			sentences: []string{
				"0/2 nodes are available: 2 no spread", "the constraint on kubernetes.io/hostname allows none of the nodes that there are for the pod",
				"ways out: nodeTaintsPolicy Honor for kubernetes.io/hostname (n1), nodeTaintsPolicy Honor and nodeAffinityPolicy Honor for kubernetes.io/hostname (n2), ScheduleAnyway for kubernetes.io/hostname (n2)",
			},
		},
		"one constraint alone": {
			of:     Preview{Outcome: Nowhere, Nodes: 1, Groups: []Group{group("no spread", "n1")}, Spread: []Spread{zone}, Contradictions: []Contradiction{{Constraints: []int{0}, Allows: [][]string{{}}}}},
			reason: "Unschedulable", message: "would be pending: 0/1 nodes are available: 1 no spread; the constraint on topology.kubernetes.io/zone allows none of the nodes that there are for the pod",
			sentences: []string{"0/1 nodes are available: 1 no spread", "the constraint on topology.kubernetes.io/zone allows none of the nodes that there are for the pod"},
		},
		"with preemption": {
			of: Preview{
				Outcome: Preempts, Nodes: 2, Groups: []Group{group("Insufficient cpu", "n1", "n2")},
				Preemption: &Preemption{Candidates: []Candidate{{Node: "n2", GoneWithin: 30, Victims: []Victim{{Namespace: "shop", Name: "a"}, {Namespace: "shop", Name: "db-0", Guard: "no"}}}, {Node: "n1"}}},
			},
			reason: "NeedsPreemption", message: "would be pending until others went: 0/2 nodes are available: 2 Insufficient cpu; on n2 2 pods would go, within 30 s (shop/a, shop/db-0)",
			sentences: []string{"0/2 nodes are available: 2 Insufficient cpu", "with preemption: on n2 2 pods would go, within 30 s (shop/a, shop/db-0)", "the removal guard refuses the scheduler's delete of shop/db-0: no"},
		},
		"what is said means something else": {
			of:     Preview{Outcome: Preempts, Nodes: 2},
			reason: "NeedsPreemption", message: "would be pending until others went: 0/2 nodes are available; which ones is not known",
			sentences: []string{"0/2 nodes are available", "with preemption: which ones is not known"},
		},
		"gated":    {of: Preview{Outcome: Gated, Why: "waiting for scheduling gates: [a]"}, sentences: []string{"the scheduler does not look at it yet: waiting for scheduling gates: [a]"}},
		"refused":  {of: Preview{Outcome: Refused, Why: "PodPolicy web: no"}, sentences: []string{"it would be refused: PodPolicy web: no"}},
		"another":  {of: Preview{Outcome: NotKnown, Why: `the scheduler "x" decides`}, sentences: []string{`not known: the scheduler "x" decides`}},
		"a future": {of: Preview{Outcome: "Elsewhere", Why: "in another cluster"}, sentences: []string{"not known: in another cluster"}},
	} {
		t.Run(name, func(t *testing.T) {
			reason, message := tc.of.Pending()
			if reason != tc.reason || message != tc.message {
				t.Errorf("got %q, %q\nwant %q, %q", reason, message, tc.reason, tc.message)
			}
			if diff := cmp.Diff(tc.sentences, tc.of.Sentences()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestRead(t *testing.T) {
	for name, test := range map[string]struct{ text, says string }{
		"no JSON":         {"panic: no", "read the preview"},
		"another kind":    {`{"apiVersion":"podgrace.dev/v1alpha1","kind":"ReviewReport"}`, `it is "ReviewReport"`},
		"another version": {`{"apiVersion":"podgrace.dev/v2","kind":"SchedulingPreview"}`, `of "podgrace.dev/v2"`},
		"nothing":         {"", "read the preview"},
	} {
		if r, err := Read([]byte(test.text)); err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v, %v", name, r, err)
		}
	}
	r, err := Read([]byte(`{"apiVersion":"podgrace.dev/v1alpha1","kind":"SchedulingPreview","later":1,"previews":[{"outcome":"Fits"}]}`))
	if err != nil || len(r.Previews) != 1 {
		t.Errorf("%v, %v", r, err)
	}
}
