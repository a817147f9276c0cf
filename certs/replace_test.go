package certs

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// epoch is when the tests' CA 1 was made.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

const day = 24 * time.Hour

// tested are round figures: a CA lives 100 days, a leaf 6 days, one day is time enough for the API servers.
var tested = Timing{CA: 100 * day, Leaf: 6 * day, Settle: day}

// pair is a CA that is no certificate: decisions look at names and times only.
func pair(id string, made time.Time) Pair {
	return Pair{Authority: Authority{ID: id, PEM: "<" + id + ">", NotBefore: made, NotAfter: made.Add(tested.CA)}, Key: "key of " + id}
}

func TestDecide(t *testing.T) {
	one, two, three := pair("1", epoch), pair("2", epoch.Add(day)), pair("3", epoch.Add(2*day))
	at := func(days float64) time.Time { return epoch.Add(time.Duration(days * float64(day))) }
	ready := State{Current: one, Settled: "1"}
	with := func(change func(*State)) State { s := ready; change(&s); return s }
	publishing := func(since time.Time) State { return with(func(s *State) { s.Next, s.Since = &two, since }) }
	retiring := func(since time.Time) State {
		return State{Current: two, Settled: "2", Previous: []Authority{one.Authority}, Since: since}
	}
	settling := func(since time.Time) State { return State{Current: one, Since: since} }
	for name, tc := range map[string]struct {
		state   State
		now     time.Time
		carried bool
		present []Authority
		step    Step
		after   time.Duration
	}{
		"nothing to do":                       {state: ready, now: at(10), carried: true, step: Wait, after: 40 * day},
		"caBundle was emptied":                {state: ready, now: at(10), step: Wait, after: 40 * day},
		"half of its life":                    {state: ready, now: at(50), carried: true, step: Begin},
		"asked for":                           {state: with(func(s *State) { s.Request = "now" }), now: at(10), carried: true, step: Begin},
		"asked for, and done":                 {state: with(func(s *State) { s.Request, s.Handled = "now", "now" }), now: at(10), carried: true, step: Wait, after: 40 * day},
		"asked for again":                     {state: with(func(s *State) { s.Request, s.Handled = "again", "now" }), now: at(10), carried: true, step: Begin},
		"no longer asked for":                 {state: with(func(s *State) { s.Handled = "now" }), now: at(10), carried: true, step: Wait, after: 40 * day},
		"next one not carried yet":            {state: publishing(time.Time{}), now: at(10), step: Wait},
		"next one carried":                    {state: publishing(time.Time{}), now: at(10), carried: true, step: Count},
		"next one carried, not for long":      {state: publishing(at(9.5)), now: at(10), carried: true, step: Wait, after: day / 2},
		"next one carried long enough":        {state: publishing(at(9)), now: at(10), carried: true, step: Swap},
		"emptied while the API servers learn": {state: publishing(at(9)), now: at(10), step: Recount},
		"a leader whose clock was ahead":      {state: publishing(at(11)), now: at(10), carried: true, step: Count},
		"asked for in the middle":             {state: func() State { s := publishing(at(9.5)); s.Request = "again"; return s }(), now: at(10), carried: true, step: Wait, after: day / 2},
		"next one cannot be read":             {state: with(func(s *State) { s.NextBroken = true }), now: at(10), carried: true, step: Begin},
		"next one has ended":                  {state: publishing(at(9)), now: at(101), carried: true, step: Begin},
		"next one of a clock that was ahead": {state: func() State {
			s, later := publishing(at(9)), pair("2", at(11))
			s.Next = &later
			return s
		}(), now: at(10), carried: true, step: Begin},
		"one of a clock that was ahead":                   {state: State{Current: pair("1", at(11)), Settled: "1"}, now: at(10), carried: true, step: Begin},
		"one of a clock that was ahead, while leaves end": {state: State{Current: pair("2", at(11)), Settled: "2", Previous: []Authority{one.Authority}, Since: at(4)}, now: at(10), carried: true, step: Begin},
		"swapped":                                {state: retiring(time.Time{}), now: at(10), carried: true, step: Count},
		"leaves of the old one":                  {state: retiring(at(4)), now: at(10), carried: true, step: Wait, after: day},
		"leaves of the old one, emptied":         {state: retiring(at(4)), now: at(10), step: Wait, after: day},
		"leaves of the old one ended":            {state: retiring(at(3)), now: at(10), carried: true, step: Drop},
		"asked for while leaves end":             {state: func() State { s := retiring(at(4)); s.Request = "again"; return s }(), now: at(10), carried: true, step: Wait, after: day},
		"the first one":                          {state: settling(time.Time{}), now: at(10), step: Wait},
		"the first one, carried":                 {state: settling(time.Time{}), now: at(10), carried: true, step: Count},
		"the first one, carried long enough":     {state: settling(at(9)), now: at(10), carried: true, step: Settle},
		"the first one, asked for another":       {state: func() State { s := settling(at(9.5)); s.Request = "x"; return s }(), now: at(10), carried: true, step: Wait, after: day / 2},
		"another one than caBundle has":          {state: settling(time.Time{}), now: at(10), present: []Authority{two.Authority}, step: Keep},
		"another one than caBundle has, counted": {state: settling(at(9)), now: at(10), present: []Authority{one.Authority, two.Authority}, step: Keep},
		"lost in the middle": {state: State{Current: three, Settled: "1", Next: &two, Previous: []Authority{one.Authority}},
			now: at(10), carried: true, present: []Authority{one.Authority, two.Authority, three.Authority}, step: Count},
	} {
		t.Run(name, func(t *testing.T) {
			got := Decide(tc.state, Observed{Now: tc.now, Carried: tc.carried, Present: tc.present}, tested)
			if got.Step != tc.step || got.After != tc.after {
				t.Errorf("got %s after %s (%s), want %s after %s", got.Step, got.After, got.Why, tc.step, tc.after)
			}
			if (got.Why == "") != (got.Step == Wait) {
				t.Errorf("%s because of %q", got.Step, got.Why)
			}
		})
	}
}

// A whole replacement: what is trusted and who signs after each step.
func TestStepsOfAReplacement(t *testing.T) {
	one, two := pair("1", epoch), pair("2", epoch.Add(day))
	now := epoch.Add(day)
	s := State{Current: one, Settled: "1", Request: "please"}
	for _, want := range []struct {
		after   time.Duration
		step    Step
		phase   Phase
		current string
		trusted []string
	}{
		{0, Begin, Publishing, "1", []string{"1", "2"}},
		{0, Count, Publishing, "1", []string{"1", "2"}},
		{day, Swap, Retiring, "2", []string{"1", "2"}},
		{0, Count, Retiring, "2", []string{"1", "2"}},
		{7 * day, Drop, Ready, "2", []string{"2"}},
	} {
		if want.after > 0 {
			if got := Decide(s, Observed{Now: now, Carried: true}, tested); got.Step != Wait || got.After != want.after {
				t.Fatalf("before %s: got %s after %s", want.step, got.Step, got.After)
			}
		}
		now = now.Add(want.after)
		o := Observed{Now: now, Carried: true}
		got := Decide(s, o, tested)
		if got.Step != want.step {
			t.Fatalf("got %s, want %s", got.Step, want.step)
		}
		s = s.After(got.Step, o, two)
		if s.Phase() != want.phase || s.Current.ID != want.current {
			t.Errorf("after %s: %s, %s signs", want.step, s.Phase(), s.Current.ID)
		}
		if diff := cmp.Diff(want.trusted, ids(s.Trusted())); diff != "" {
			t.Errorf("after %s: trusted (-want +got):\n%s", want.step, diff)
		}
	}
	if diff := cmp.Diff(State{Current: two, Settled: "2", Request: "please", Handled: "please"}, s); diff != "" {
		t.Errorf("at the end (-want +got):\n%s", diff)
	}
}

func ids(all []Authority) (names []string) {
	for _, a := range all {
		names = append(names, a.ID)
	}
	return names
}

func TestMaySign(t *testing.T) {
	now := epoch
	kept := State{Current: pair("2", epoch), Settled: "1", Previous: []Authority{pair("1", epoch).Authority}, Since: now}
	emptied := State{Current: pair("2", epoch), Since: now}
	unpublished, published := State{Current: pair("2", epoch), Settled: "1"}, State{Current: pair("2", epoch), Settled: "2"}
	for name, tc := range map[string]struct {
		state State
		held  string
		until time.Time
		want  bool
	}{
		"a settled CA": {published, "1", now.Add(day), true},
		"one that nobody has, and a leaf that holds":             {unpublished, "1", now.Add(day), false},
		"one that nobody has, and a leaf that ended":             {unpublished, "1", now, true},
		"one that nobody has, and no leaf":                       {unpublished, "", time.Time{}, true},
		"one that nobody has, and a leaf of it":                  {unpublished, "2", now.Add(day), true},
		"one that is published, and a leaf that holds beside it": {kept, "1", now.Add(day), false},
		"one that is published, and a leaf that nobody trusts":   {emptied, "1", now.Add(day), true},
	} {
		if got := tc.state.MaySign(tc.held, tc.until, now); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// What others write into caBundle cannot grow the state without end.
func TestKeepIsBounded(t *testing.T) {
	var present []Authority
	for i := range 20 {
		present = append(present, pair(string(rune('a'+i)), epoch.Add(time.Duration(i)*time.Hour)).Authority)
	}
	s := State{Current: pair("new", epoch.Add(day))}.After(Keep, Observed{Now: epoch, Present: present}, Pair{})
	if diff := cmp.Diff([]string{"a", "b", "c", "d", "new"}, ids(s.Trusted())); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
