package eviction_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/nodeenforcer/eviction"
)

func TestChoose(t *testing.T) {
	t.Parallel()
	flight := func(kind eviction.Kind, name string, options ...option) eviction.Flight {
		return eviction.Flight{Candidate: candidate(name, options...), Kind: kind}
	}
	leaving := func(name string, options ...option) eviction.Flight {
		return eviction.Flight{Candidate: candidate(name, options...), Leaving: true}
	}
	overdue := func(f eviction.Flight) eviction.Flight { f.Overdue = true; return f }
	hard := func(amount int64) eviction.Need {
		return eviction.Need{Signal: memory, Kind: eviction.Hard, Amount: amount}
	}
	soft := func(amount int64) eviction.Need {
		return eviction.Need{Signal: memory, Kind: eviction.Soft, Amount: amount}
	}
	stalls := eviction.Need{Signal: stall, Kind: eviction.Hard}
	waited := func(d time.Duration) option { return func(c *eviction.Candidate) { c.Waited = d } }
	stuck := []eviction.Candidate{candidate("idle", uses(memory, 900)), candidate("beside", uses(memory, 800), waited(24)), candidate("a", uses(memory, 300), waited(25)), candidate("b", uses(memory, 200), prio(1), waited(100))}
	abc := []eviction.Candidate{candidate("a", uses(memory, 300)), candidate("b", uses(memory, 200)), candidate("c", uses(memory, 100), prio(1))}
	for name, tc := range map[string]struct {
		need            eviction.Need
		in              []eviction.Candidate
		flights         []eviction.Flight
		victims, hasten string
		reclaiming      int64
		short           int64
	}{
		"one is enough":                                      {need: hard(300), in: abc, victims: "a"},
		"two are needed":                                     {need: hard(301), in: abc, victims: "a b"},
		"all are needed":                                     {need: hard(501), in: abc, victims: "a b c"},
		"even all are not enough":                            {need: hard(601), in: abc, victims: "a", short: 301},
		"one that frees a single byte, not enough":           {need: hard(5), in: []eviction.Candidate{candidate("a", uses(memory, 1))}, victims: "a", short: 4},
		"not enough: a twentieth":                            {need: hard(1000), in: []eviction.Candidate{candidate("a", uses(memory, 49)), candidate("b", uses(memory, 50), prio(1))}, victims: "b", short: 950},
		"not enough: each frees too little":                  {need: hard(1000), in: []eviction.Candidate{candidate("a", uses(memory, 49)), candidate("b", uses(memory, 49)), candidate("unknown")}, short: 1000},
		"enough together: each frees little":                 {need: hard(98), in: []eviction.Candidate{candidate("a", uses(memory, 49)), candidate("b", uses(memory, 49))}, victims: "a b"},
		"nobody is there":                                    {need: hard(5), short: 5},
		"nothing is needed":                                  {need: hard(0), in: abc},
		"stall: one":                                         {need: stalls, in: stuck, victims: "a"},
		"stall: of whom nobody knows":                        {need: stalls, in: []eviction.Candidate{candidate("a", waited(1))}, victims: "a"},
		"stall: nobody waits":                                {need: stalls, in: abc},
		"stall: the same priority, who waits more":           {need: stalls, in: []eviction.Candidate{candidate("a", uses(memory, 300), waited(50)), candidate("b", uses(memory, 200), waited(100))}, victims: "b"},
		"stall: the contract's order, before who waits more": {need: stalls, in: []eviction.Candidate{candidate("a", uses(memory, 300), waited(50), order(5)), candidate("b", uses(memory, 200), waited(100))}, victims: "a"},
		"stall: nobody is there":                             {need: stalls},
		"spared: who frees too little anyway": {need: hard(1000), in: []eviction.Candidate{
			candidate("small", uses(memory, 10), prio(-1)), candidate("none", uses(memory, 0), prio(-2)), candidate("hog", uses(memory, 1000))}, victims: "hog"},
		"spared from the end": {need: hard(110), in: []eviction.Candidate{
			candidate("p1", uses(memory, 50), prio(1)), candidate("p2", uses(memory, 50), prio(2)), candidate("p3", uses(memory, 60), prio(3))}, victims: "p1 p3"},
		"not known: not counted":       {need: hard(100), in: []eviction.Candidate{candidate("unknown"), candidate("a", uses(memory, 100))}, victims: "a"},
		"not known: alone, if must be": {need: hard(100), in: []eviction.Candidate{candidate("u1", prio(1)), candidate("u0"), candidate("zero", uses(memory, 0))}, victims: "u0", short: 100},
		"nothing to gain":              {need: hard(100), in: []eviction.Candidate{candidate("zero", uses(memory, 0))}, short: 100},
		"exempt":                       {need: hard(100), in: []eviction.Candidate{candidate("critical", uses(memory, 500), prio(2_000_000_000)), candidate("failed", uses(memory, 500), phase(corev1.PodFailed))}, short: 100},

		"on the way: enough":                                {need: hard(100), in: abc, flights: []eviction.Flight{flight(eviction.Hard, "x", uses(memory, 100))}, reclaiming: 100},
		"on the way: not enough":                            {need: hard(400), in: abc, flights: []eviction.Flight{flight(eviction.Hard, "x", uses(memory, 100))}, victims: "a", reclaiming: 100},
		"on the way: not chosen again":                      {need: hard(600), in: abc, flights: []eviction.Flight{flight(eviction.Hard, "a", uses(memory, 300))}, victims: "b c", reclaiming: 300},
		"on the way: waits if all is no use":                {need: hard(900), in: abc, flights: []eviction.Flight{flight(eviction.Hard, "x", uses(memory, 100))}, reclaiming: 100, short: 800},
		"on the way: not known, so wait":                    {need: hard(100), in: abc, flights: []eviction.Flight{flight(eviction.Hard, "x")}, short: 100},
		"on the way: overdue counts nothing":                {need: hard(100), in: abc, flights: []eviction.Flight{overdue(flight(eviction.Hard, "a", uses(memory, 300)))}, victims: "b"},
		"on the way: overdue and not known":                 {need: hard(100), in: abc, flights: []eviction.Flight{overdue(flight(eviction.Hard, "x"))}, victims: "a"},
		"deleted by others: enough":                         {need: hard(100), in: abc, flights: []eviction.Flight{leaving("x", uses(memory, 100))}, reclaiming: 100},
		"deleted by others: not enough":                     {need: hard(400), in: abc, flights: []eviction.Flight{leaving("x", uses(memory, 100))}, victims: "a", reclaiming: 100},
		"deleted by others: not waited for":                 {need: hard(900), in: abc, flights: []eviction.Flight{leaving("x", uses(memory, 100))}, victims: "a", reclaiming: 100, short: 500},
		"deleted by others: not known":                      {need: hard(100), in: abc, flights: []eviction.Flight{leaving("x")}, victims: "a"},
		"deleted by others: a stall takes one all the same": {need: stalls, in: stuck, flights: []eviction.Flight{leaving("x", uses(memory, 1))}, victims: "a", reclaiming: 1},
		"on the way: stall waits":                           {need: stalls, in: stuck, flights: []eviction.Flight{flight(eviction.Hard, "x", uses(memory, 1))}, reclaiming: 1},
		"on the way: stall, overdue":                        {need: stalls, in: stuck, flights: []eviction.Flight{overdue(flight(eviction.Hard, "x", uses(memory, 1)))}, victims: "a"},
		"soft on the way counts for soft":                   {need: soft(100), in: abc, flights: []eviction.Flight{flight(eviction.Soft, "x", uses(memory, 100))}, reclaiming: 100},
		"soft waits for hard":                               {need: soft(100), in: abc, flights: []eviction.Flight{flight(eviction.Hard, "x", uses(memory, 100))}, reclaiming: 100},
		"hard hastens soft":                                 {need: hard(100), in: abc, flights: []eviction.Flight{flight(eviction.Soft, "x", uses(memory, 100))}, hasten: "x", reclaiming: 100},
		"hard hastens those that are needed":                {need: hard(100), in: abc, flights: []eviction.Flight{flight(eviction.Soft, "x", uses(memory, 100), prio(5)), flight(eviction.Soft, "y", uses(memory, 100))}, hasten: "y", reclaiming: 100},
		"hard hastens and takes more":                       {need: hard(500), in: abc, flights: []eviction.Flight{overdue(flight(eviction.Soft, "x", uses(memory, 100)))}, hasten: "x", victims: "a b", reclaiming: 100},
		"hard hastens what nobody knows":                    {need: hard(500), in: abc, flights: []eviction.Flight{flight(eviction.Soft, "x")}, hasten: "x", short: 500},
		"stall hastens one":                                 {need: stalls, in: stuck, flights: []eviction.Flight{flight(eviction.Soft, "x", uses(memory, 9), waited(25)), flight(eviction.Soft, "y", uses(memory, 1), waited(25))}, hasten: "x", reclaiming: 9},
		"stall hastens nobody who waits not":                {need: stalls, in: stuck, flights: []eviction.Flight{flight(eviction.Soft, "x", uses(memory, 9))}, victims: "a"},
		"a soft one that finished meanwhile":                {need: hard(100), in: abc, flights: []eviction.Flight{flight(eviction.Soft, "x", uses(memory, 100), phase(corev1.PodFailed))}, victims: "a"},
		"processes":                                         {need: eviction.Need{Signal: pids, Kind: eviction.Hard, Amount: 7}, in: []eviction.Candidate{candidate("a", uses(pids, 5)), candidate("b", uses(pids, 4))}, victims: "a b"},
		"another signal's usage is not known":               {need: eviction.Need{Signal: disk, Kind: eviction.Hard, Amount: 7}, in: abc, victims: "a", short: 7},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := eviction.Choose(tc.need, tc.in, tc.flights)
			if v, h := names(got.Victims), names(got.Hasten); v != tc.victims || h != tc.hasten {
				t.Errorf("victims %q, hasten %q; want %q and %q", v, h, tc.victims, tc.hasten)
			}
			if got.Reclaiming != tc.reclaiming || got.Short != tc.short {
				t.Errorf("reclaiming %d, short %d; want %d and %d", got.Reclaiming, got.Short, tc.reclaiming, tc.short)
			}
		})
	}
}

func TestGrace(t *testing.T) {
	t.Parallel()
	policy := func(longest, hard int64) *v1alpha1.NodeEviction {
		return &v1alpha1.NodeEviction{MaxPodGracePeriodSeconds: &longest, HardGracePeriodSeconds: &hard}
	}
	own := func(seconds int64) option {
		return func(c *eviction.Candidate) { c.Pod.Spec.TerminationGracePeriodSeconds = &seconds }
	}
	deleted := func(seconds int64) option {
		return func(c *eviction.Candidate) { c.Pod.DeletionGracePeriodSeconds = &seconds }
	}
	unset := func(c *eviction.Candidate) { c.Pod.Spec.TerminationGracePeriodSeconds = nil }
	for name, tc := range map[string]struct {
		pod    eviction.Candidate
		kind   eviction.Kind
		policy *v1alpha1.NodeEviction
		want   int64
	}{
		"soft: the policy's":              {candidate("p", own(600)), eviction.Soft, policy(60, 5), 60},
		"soft: the pod's own":             {candidate("p", own(20)), eviction.Soft, policy(60, 5), 20},
		"soft: unset is 30":               {candidate("p", unset), eviction.Soft, policy(60, 5), 30},
		"soft: the deletion's":            {candidate("p", own(600), deleted(7)), eviction.Soft, policy(60, 5), 7},
		"soft: at least 1":                {candidate("p", own(0)), eviction.Soft, policy(60, 5), 1},
		"soft: negative is 1":             {candidate("p", own(-9)), eviction.Soft, policy(60, 5), 1},
		"soft: no policy":                 {candidate("p", own(600)), eviction.Soft, nil, 30},
		"hard: the policy's":              {candidate("p", own(600)), eviction.Hard, policy(60, 5), 5},
		"hard: never longer than its own": {candidate("p", own(3)), eviction.Hard, policy(60, 5), 3},
		"hard: at least 1":                {candidate("p", own(600)), eviction.Hard, policy(60, 0), 1},
		"hard: no policy":                 {candidate("p", own(600)), eviction.Hard, nil, 1},
		"hard: an empty policy":           {candidate("p", own(600)), eviction.Hard, &v1alpha1.NodeEviction{}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := eviction.Grace(tc.pod.Pod, tc.kind, tc.policy); got != tc.want {
				t.Errorf("got %d, want %d", got, tc.want)
			}
		})
	}
}
