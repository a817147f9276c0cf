package main

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

func TestCopies(t *testing.T) {
	db := func(uid, node string) podCopy {
		return podCopy{uid: types.UID(uid), namespace: "a", name: "db-0", node: node, only: true}
	}
	var found []string
	w := newCopies(func(what string) { found = append(found, what) })
	w.start(db("1", "n0"))
	w.start(podCopy{uid: "x", namespace: "a", name: "db-1", node: "n1", only: true})
	w.start(podCopy{uid: "y", namespace: "b", name: "db-0", node: "n1", only: true})
	w.start(podCopy{uid: "z", namespace: "a", name: "db-0", node: "n1"})
	w.end(db("1", "").uid)
	w.start(db("2", "n1"))
	if len(found) > 0 {
		t.Fatalf("one after the other: %q", found)
	}
	w.start(db("3", "n2"))
	if len(found) != 1 || !strings.Contains(found[0], "a/db-0") || !strings.Contains(found[0], "n1") || !strings.Contains(found[0], "n2") {
		t.Fatalf("two at once: %q", found)
	}
	w.end(db("2", "").uid)
	w.confirm(db("3", "").uid)
	if w.runs(db("3", "").uid) {
		t.Error("one that was confirmed counts")
	}
	w.start(db("4", "n3"))
	if len(found) != 1 {
		t.Errorf("beside one that was confirmed: %q", found)
	}
	if started, twice := w.counts(); started != 7 || twice != 1 {
		t.Errorf("%d were started, %d beside one that was confirmed", started, twice)
	}
	if p := w.protected(); len(p) != 3 || p[0].uid != db("4", "").uid {
		t.Errorf("protected: %v", p)
	}
}

func TestGrows(t *testing.T) {
	series := func(n int, of func(i int) float64) (all []sample) {
		for i := range n {
			all = append(all, sample{at: time.Duration(i) * time.Minute, resident: 80 << 20, goroutines: of(i), files: 20})
		}
		return all
	}
	for name, tc := range map[string]struct {
		samples []sample
		want    string
	}{
		"steady":          {series(30, func(int) float64 { return 100 }), ""},
		"up and down":     {series(30, func(i int) float64 { return 100 + float64(i%7)*60 }), ""},
		"a leak":          {series(30, func(i int) float64 { return 100 + float64(i)*10 }), "goroutines"},
		"taken once":      {series(30, func(i int) float64 { return 100 + 300*float64(min(i, 1)) }), ""},
		"within slack":    {series(30, func(i int) float64 { return 10 + float64(i) }), ""},
		"too few to tell": {series(leastSamples-1, func(i int) float64 { return 100 + float64(i)*1000 }), ""},
	} {
		if got := strings.Join(grows(tc.samples), ", "); (tc.want == "") != (got == "") || !strings.Contains(got, tc.want) {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
	// Who leads has more goroutines. What grows besides is found however often the lead changes.
	for name, tc := range map[string]struct {
		leads func(i int) bool
		leak  float64
		want  int
	}{
		"it began to lead":                {func(i int) bool { return i >= 4 }, 0, 0},
		"it led now and then":             {func(i int) bool { return i%3 == 0 }, 0, 0},
		"now and then, and it leaks":      {func(i int) bool { return i%3 == 0 }, 20, 1},
		"it has only just begun to lead":  {func(i int) bool { return i == 17 }, 20, 0}, // too few to tell
		"it led at first, and leaks ever": {func(i int) bool { return i < 3 }, 30, 1},
	} {
		all := series(18, func(i int) float64 { return 180 + tc.leak*float64(i) })
		for i := range all {
			if all[i].leads = tc.leads(i); all[i].leads {
				all[i].goroutines += 230
			}
		}
		if got := grows(all); len(got) != tc.want {
			t.Errorf("%s: %q", name, got)
		}
	}
	memory := series(9, func(int) float64 { return 100 })
	for i := range memory {
		memory[i].resident += float64(i) * (20 << 20)
		memory[i].files += float64(i) * 10
		memory[i].leads = i%2 == 0
	}
	if got := grows(memory); len(got) != 2 {
		t.Errorf("memory and files: %q", got)
	}
}
