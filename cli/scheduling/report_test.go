package scheduling

import "testing"

// The exit code is that of the pod that is worst off; what is not known is no answer, but for a pod that surely fits nowhere.
func TestExitCode(t *testing.T) {
	of := func(outcomes ...Outcome) *Report {
		r := &Report{}
		for _, o := range outcomes {
			r.Previews = append(r.Previews, Preview{Outcome: o})
		}
		return r
	}
	stuck := of(Fits)
	stuck.Previews[0].Rollout = &Rollout{Second: &Placement{Pending: 1}}
	short := of(Fits)
	short.Previews[0].Rollout = &Rollout{First: Placement{Pending: 1}}
	for name, test := range map[string]struct {
		report *Report
		want   int
	}{
		"fits":                 {of(Fits, Fits), 0},
		"preempts":             {of(Preempts, Fits), 3},
		"nowhere":              {of(Fits, Nowhere, Preempts), 4},
		"gated":                {of(Gated), 4},
		"refused":              {of(Refused), 4},
		"not known":            {of(Preempts, NotKnown), 2},
		"not known or nowhere": {of(NotKnown, Nowhere), 4},
		"too many":             {short, 4},
		"a stuck update":       {stuck, 4},
	} {
		if got := test.report.ExitCode(); got != test.want {
			t.Errorf("%s: %d, want %d", name, got, test.want)
		}
	}
}

// The same score can come to be in different ways.
func TestBest(t *testing.T) {
	for _, test := range []struct {
		all  []Group
		want int
	}{
		{nil, 0},
		{[]Group{{Plugin: "B", Nodes: []string{"n1", "n2"}}}, 0},
		{[]Group{{Fits: true, Total: 5, Nodes: []string{"n1"}}, {Fits: true, Total: 5, Nodes: []string{"n2", "n3"}}, {Fits: true, Total: 4, Nodes: []string{"n4"}}}, 3},
	} {
		if got := Best(test.all); got != test.want {
			t.Errorf("%d, want %d: %+v", got, test.want, test.all)
		}
	}
}
