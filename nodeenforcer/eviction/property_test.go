package eviction_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/nodeenforcer/eviction"
)

var drawSignal = rapid.SampledFrom([]v1alpha1.EvictionSignal{memory, stall, disk, inodes, pids})

// drawCandidates have few distinct values, so that ties and small differences are frequent.
func drawCandidates(t *rapid.T, prefix string, most int) []eviction.Candidate {
	var out []eviction.Candidate
	for i := range rapid.IntRange(0, most).Draw(t, "pods") {
		c := candidate(fmt.Sprintf("%s%d", prefix, i))
		for _, s := range []v1alpha1.EvictionSignal{memory, disk, inodes, pids} {
			if rapid.IntRange(0, 7).Draw(t, "known") > 0 {
				uses(s, rapid.Int64Range(0, 6).Draw(t, "usage"))(&c)
			}
		}
		for _, r := range []corev1.ResourceName{corev1.ResourceMemory, corev1.ResourceEphemeralStorage} {
			if rapid.Bool().Draw(t, "requests") {
				requests(r, fmt.Sprint(rapid.IntRange(0, 6).Draw(t, "request")))(&c)
			}
		}
		if rapid.Bool().Draw(t, "has priority") {
			prio(rapid.SampledFrom([]int32{-1, 0, 1, 2, 1_999_999_999, 2_000_000_000, 2_000_001_000}).Draw(t, "priority"))(&c)
		}
		if rapid.IntRange(0, 3).Draw(t, "has order") == 0 {
			order(rapid.IntRange(-1, 3).Draw(t, "order"))(&c)
		}
		c.Waited = time.Duration(rapid.IntRange(0, 9).Draw(t, "waited"))
		switch rapid.IntRange(0, 15).Draw(t, "special") {
		case 0:
			phase(corev1.PodFailed)(&c)
		case 1:
			annotated(corev1.MirrorPodAnnotationKey, "")(&c)
		}
		out = append(out, c)
	}
	return out
}

func shuffled(in []eviction.Candidate, seed uint64) []eviction.Candidate {
	out := slices.Clone(in)
	rand.New(rand.NewPCG(seed, 0)).Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

func evictable(c eviction.Candidate) bool { return eviction.Exempt(c.Pod) == "" }

// The ranking is a total order: the same whatever came first, and that of any subset is the same among its members, which
// makes it transitive.
func TestRankIsATotalOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		all := drawCandidates(t, "p", 8)
		signal := drawSignal.Draw(t, "signal")
		want := eviction.Rank(signal, all)
		if got := eviction.Rank(signal, shuffled(all, rapid.Uint64().Draw(t, "seed"))); names(got) != names(want) {
			t.Fatalf("%s, or %s", names(want), names(got))
		}
		place := map[string]int{}
		for _, r := range want {
			place[r.Pod.Name] = r.Position
		}
		for _, a := range all {
			if _, ranked := place[a.Pod.Name]; ranked != evictable(a) {
				t.Fatalf("%s: ranked %t", a.Pod.Name, ranked)
			}
			for _, b := range all {
				if pair := eviction.Rank(signal, []eviction.Candidate{a, b}); len(pair) == 2 && place[pair[0].Pod.Name] > place[pair[1].Pod.Name] {
					t.Fatalf("%s alone, but %s", names(pair), names(want))
				}
			}
		}
	})
}

func drawFlights(t *rapid.T) []eviction.Flight {
	var out []eviction.Flight
	for _, c := range drawCandidates(t, "f", 2) {
		out = append(out, eviction.Flight{Candidate: c, Kind: rapid.SampledFrom([]eviction.Kind{eviction.Soft, eviction.Hard}).Draw(t, "kind"), Overdue: rapid.Bool().Draw(t, "overdue"), Leaving: rapid.IntRange(0, 3).Draw(t, "leaving") == 0})
	}
	return out
}

func drawNeed(t *rapid.T) eviction.Need {
	return eviction.Need{Signal: drawSignal.Draw(t, "signal"), Kind: rapid.SampledFrom([]eviction.Kind{eviction.Soft, eviction.Hard}).Draw(t, "kind"), Amount: rapid.Int64Range(0, 25).Draw(t, "amount")}
}

// usage in the test's own words.
func usage(signal v1alpha1.EvictionSignal, c eviction.Candidate) (int64, bool) {
	if signal == stall {
		signal = memory
	}
	n, ok := c.Usage[signal]
	return n, ok
}

// Enough is freed whenever that is possible, each victim is needed, nobody exempt or on the way is taken, stall takes one that waits.
func TestChooseIsEnoughAndNotMore(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		all, flights, need := drawCandidates(t, "p", 6), drawFlights(t), drawNeed(t)
		if len(flights) > 0 && rapid.Bool().Draw(t, "listed") {
			all = append(all, flights[0].Candidate) // the caller lists it still
		}
		got := eviction.Choose(need, all, flights)
		again := eviction.Choose(need, shuffled(all, rapid.Uint64().Draw(t, "seed")), flights)
		if diff := cmp.Diff(got, again); diff != "" {
			t.Fatalf("depends on the order: %s", diff)
		}
		flying := map[string]bool{}
		for _, f := range flights {
			flying[f.Pod.Name] = true
		}
		possible, freed := got.Reclaiming, got.Reclaiming
		for _, c := range all {
			if n, known := usage(need.Signal, c); known && evictable(c) && !flying[c.Pod.Name] {
				possible += n
			}
		}
		for _, v := range got.Victims {
			if !evictable(v.Candidate) || flying[v.Pod.Name] {
				t.Fatalf("takes %s", v.Pod.Name)
			}
			freed += v.Used
		}
		waits := len(got.Hasten) > 0
		for _, f := range flights {
			waits = waits || !f.Leaving && !f.Overdue && (need.Kind == eviction.Soft || f.Kind == eviction.Hard)
		}
		switch {
		case need.Signal == stall:
			if len(got.Victims) > 1 || len(got.Hasten) > 1 || len(got.Victims) > 0 && waits || got.Short != 0 {
				t.Fatalf("stall: %+v", got)
			}
			for _, v := range slices.Concat(got.Victims, got.Hasten) {
				if v.Waited == 0 {
					t.Fatalf("stall: %s goes, and does not wait", v.Pod.Name)
				}
			}
			return
		case need.Amount <= 0 && len(got.Victims) > 0:
			t.Fatalf("takes %s for nothing", names(got.Victims))
		case !waits && possible >= need.Amount && freed < need.Amount:
			t.Fatalf("frees %d of %d, possible are %d", freed, need.Amount, possible)
		case possible < need.Amount && len(got.Victims) > 1:
			t.Fatalf("takes %s, which is not enough", names(got.Victims))
		case got.Short != max(0, need.Amount-freed):
			t.Fatalf("short of %d, frees %d of %d", got.Short, freed, need.Amount)
		}
		for _, v := range got.Victims {
			if len(got.Victims) > 1 && freed-v.Used >= need.Amount {
				t.Fatalf("%s need not go: %d of %d", v.Pod.Name, freed, need.Amount)
			}
		}
	})
}

// Raising a pod's priority never makes it go earlier, and never makes it a victim that it was not.
func TestHigherPriorityIsNeverWorse(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		all, flights, need := drawCandidates(t, "p", 6), drawFlights(t), drawNeed(t)
		if len(all) == 0 {
			return
		}
		i := rapid.IntRange(0, len(all)-1).Draw(t, "raised")
		raised := slices.Clone(all)
		raised[i].Pod = all[i].Pod.DeepCopy()
		old := int32(0)
		if p := all[i].Pod.Spec.Priority; p != nil {
			old = *p
		}
		raised[i].Pod.Spec.Priority = new(old + rapid.SampledFrom([]int32{1, 2, 10}).Draw(t, "by"))
		is := func(r eviction.Ranked) bool { return r.Pod.Name == all[i].Pod.Name }
		before, after := slices.IndexFunc(eviction.Rank(need.Signal, all), is), slices.IndexFunc(eviction.Rank(need.Signal, raised), is)
		if after >= 0 && after < before {
			t.Fatalf("from place %d to %d", before, after)
		}
		victim := slices.ContainsFunc(eviction.Choose(need, all, flights).Victims, is)
		if !victim && slices.ContainsFunc(eviction.Choose(need, raised, flights).Victims, is) {
			t.Fatalf("%s goes since its priority is higher", all[i].Pod.Name)
		}
	})
}

// An annotation moves a pod among those of its own priority and class only.
func TestOrderStaysWithinItsPriority(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		all, signal := drawCandidates(t, "p", 6), drawSignal.Draw(t, "signal")
		if len(all) == 0 {
			return
		}
		i := rapid.IntRange(0, len(all)-1).Draw(t, "forged")
		forged := slices.Clone(all)
		forged[i].Pod = all[i].Pod.DeepCopy()
		text := rapid.SampledFrom([]string{`{"eviction":{"order":100}}`, `{"eviction":{"order":0}}`, `{"eviction":{"order":-9}}`, "", "null"}).Draw(t, "text")
		forged[i].Pod.Annotations = maps.Clone(forged[i].Pod.Annotations)
		annotated(v1alpha1.AnnotationEnforcement, text)(&forged[i])
		class := func(r eviction.Ranked) string { return fmt.Sprint(r.Known, r.Exceeds, r.Priority) }
		a, b := eviction.Rank(signal, all), eviction.Rank(signal, forged)
		for k := range a {
			if class(a[k]) != class(b[k]) {
				t.Fatalf("%s became %s", names(a), names(b))
			}
		}
	})
}
