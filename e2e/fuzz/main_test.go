package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/podgrace/podgrace/e2e/cluster"
)

func TestRead(t *testing.T) {
	const text = `fuzz: elapsed: 0s, gathering baseline coverage: 0/8 completed
fuzz: elapsed: 3s, execs: 17193 (5714/sec), new interesting: 31 (total: 39)
fuzz: elapsed: 6s, execs: 17200 (2/sec), new interesting: 32 (total: 40)
PASS
ok  	github.com/podgrace/podgrace/internal/fieldpath	15.850s
`
	if got, want := read(target{}, text), (outcome{execs: "17200", found: "32", known: "40"}); got != want {
		t.Errorf("got %+v", got)
	}
	var out strings.Builder
	if err := table(&out, []outcome{{target{".", "certs", "FuzzA"}, "17200", "32", "40", true}}); err != nil || !strings.Contains(out.String(), "./certs  FuzzA  17200         32          40    FAILED") {
		t.Errorf("%v\n%s", err, out.String())
	}
}

// Tests of both kinds of packages, and of each module that has any, are found, and each once.
func TestTargets(t *testing.T) {
	root, err := cluster.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	all, err := targets(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []target{{".", "certs", "FuzzParseAuthorities"}, {".", "nodeenforcer/evictor", "FuzzReadReleasing"}, {".", "webhook/intake", "FuzzIntake"}} {
		n := 0
		for _, got := range all {
			if got == want {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%s: %d times", want, n)
		}
	}
	if !slices.IsSortedFunc(all, func(a, b target) int { return slices.Index(modules, a.module) - slices.Index(modules, b.module) }) {
		t.Error("not by modules")
	}
}

// Parts leave no test out and run none twice, however many there are.
func TestPart(t *testing.T) {
	all := make([]target, 33)
	for i := range all {
		all[i].name = strconv.Itoa(i)
	}
	for _, n := range []int{1, 2, 9, 40} {
		var got []target
		for i := range n {
			some, err := part(all, fmt.Sprintf("%d/%d", i+1, n))
			if err != nil || len(some) > (len(all)+n-1)/n {
				t.Errorf("%d of %d: %d tests, %v", i+1, n, len(some), err)
			}
			got = append(got, some...)
		}
		slices.SortFunc(got, func(a, b target) int { return slices.Index(all, a) - slices.Index(all, b) })
		if !slices.Equal(got, all) {
			t.Errorf("in %d parts: %v", n, got)
		}
	}
	for _, wrong := range []string{"", "1", "0/3", "4/3", "-1/3", "1/0", "x/3", "1/3/5"} {
		if _, err := part(all, wrong); err == nil || !strings.Contains(err.Error(), strconv.Quote(wrong)) {
			t.Errorf("%q: %v", wrong, err)
		}
	}
}
