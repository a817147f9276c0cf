package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestJudge(t *testing.T) {
	failure := errors.New("go test: exit status 1\nand more")
	tests := []struct {
		name       string
		counted    tally
		err        error
		requireAll bool
		want       row
	}{
		{"all passed", tally{passed: 3}, nil, true, row{result: ok, passed: 3}},
		{"one failed", tally{passed: 3, failed: 1}, failure, false, row{result: failed, passed: 3, failed: 1}},
		{"failed without a test", tally{passed: 3}, failure, false, row{result: failed, passed: 3, failed: 1, note: "go test: exit status 1"}},
		{"nothing ran", tally{}, nil, false, row{result: failed, failed: 1, note: "no test ran"}},
		{"a skip", tally{passed: 1, skipped: 2}, nil, false, row{result: ok, passed: 1, skipped: 2}},
		{"a forbidden skip", tally{passed: 1, skipped: 2}, nil, true, row{result: failed, passed: 1, failed: 2, note: "2 skipped, which REQUIRE_ALL=1 forbids"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := judge(row{}, &test.counted, test.err, test.requireAll); !cmp.Equal(got, test.want, cmp.AllowUnexported(row{})) {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

func TestJudgeUnmet(t *testing.T) {
	reason := errors.New("not root")
	if got := judgeUnmet(row{tier: "node"}, reason, false); got.tier != "node" || got.result != skipped || got.skipped != 1 || got.note != "not root" {
		t.Errorf("got %+v", got)
	}
	if got := judgeUnmet(row{tier: "node"}, reason, true); got.result != failed || got.failed != 1 {
		t.Errorf("under REQUIRE_ALL=1: got %+v", got)
	}
}

func TestTable(t *testing.T) {
	rows := []row{
		{tier: "unit", result: ok, passed: 12, took: 10 * time.Second, cpu: 15 * time.Second, tests: []timed{{"guard TestA", 3 * time.Second}, {"guard TestB", time.Second}}},
		{tier: "lint", result: ok, passed: 1, began: 5 * time.Second, took: 15 * time.Second, tests: []timed{{"webhook TestC", 2 * time.Second}}},
		{tier: "node", result: skipped, skipped: 1, note: "not root"},
	}
	want := strings.Join([]string{
		"TIER  RESULT   PASSED  FAILED  SKIPPED  TIME  CORES  RAN, OF 20s                               NOTE",
		"unit  ok       12      0       0        10s   1.5    ####################....................  ",
		"lint  ok       1       0       0        15s   -      ..........##############################  ",
		"node  skipped  0       0       1        0s    -      ........................................  not root",
		"",
	}, "\n")
	if got := table(rows); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	want = strings.Join([]string{
		"SLOWEST TESTS  TIME  TIER",
		"guard TestA    3s    unit",
		"webhook TestC  2s    lint",
		"",
	}, "\n")
	if got := slowest(rows, 2); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := closing(rows); got != "13 passed, 0 failed, 1 skipped" {
		t.Errorf("got %q", got)
	}
}

// Who has only the last lines of a log sees what failed.
func TestFailures(t *testing.T) {
	counted := newTally()
	err := readEvents(strings.NewReader(`{"Action":"output","Package":"x/p","Test":"A/b","Output":"=== RUN   A/b\n"}
{"Action":"output","Package":"x/p","Test":"A/b","Output":"E1125 16:28:35.557303 28959 request.go:1196] a library\n"}
{"Action":"output","Package":"x/p","Test":"A/b","Output":"    p_test.go:5: 58.5 s: shown\n"}
{"Action":"output","Package":"x/p","Test":"A/b","Output":"    p_test.go:6: 61.0 s: off\n"}
{"Action":"output","Package":"x/p","Test":"A/b","Output":"    p_test.go:7: got\t1\n"}
{"Action":"output","Package":"x/p","Test":"A/b","Output":"--- FAIL: A/b (0.1s)\n"}
{"Action":"fail","Package":"x/p","Test":"A/b"}
{"Action":"output","Package":"x/p","Test":"A","Output":"--- FAIL: A (0.1s)\n"}
{"Action":"fail","Package":"x/p","Test":"A"}
{"Action":"fail","Package":"x/p"}
{"Action":"output","Package":"x/q","Output":"kind: 11.2s programs are there\n"}
{"Action":"output","Package":"x/q","Output":"kind: no docker\n"}
{"Action":"output","Package":"x/q","Output":"exit status 1\n"}
{"Action":"output","Package":"x/q","Output":"FAIL\tx/q\t12.1s\n"}
{"Action":"fail","Package":"x/q"}
{"Action":"output","Package":"x/r","Output":"FAIL\tx/r\t2700.1s\n"}
{"Action":"output","Package":"x/r","Test":"A","Output":"booting\n"}
{"Action":"output","Package":"x/r","Test":"A","Output":"panic: test timed out after 45m0s\n"}
{"Action":"output","Package":"x/r","Test":"A","Output":"\trunning tests:\n"}
{"Action":"output","Package":"x/r","Test":"A","Output":"\t\tA (18m0s)\n"}
{"Action":"output","Package":"x/r","Test":"A","Output":"\n"}
{"Action":"output","Package":"x/r","Test":"A","Output":"goroutine 7 [running]:\n"}
{"Action":"fail","Package":"x/r"}`), func(e event) { counted.add(e) })
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Join([]string{
		"FAILED TESTS",
		"p A/b                unit  p_test.go:5: 58.5 s: shown ... p_test.go:6: 61.0 s: off ... p_test.go:7: got 1",
		"q outside its tests  unit  kind: no docker",
		"r outside its tests  unit  panic: test timed out after 45m0s running tests: A (18m0s)",
		"", "",
	}, "\n")
	rows := []row{judge(row{tier: "unit"}, counted, errFailed, false), {tier: "node", result: ok}}
	if got := failures(rows); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := failures(rows[1:]); got != "" {
		t.Errorf("nothing failed: got %q", got)
	}
}

// A test that logs its steps may fail at any of them, and what fails it looks as a step does: CI's last lines are all that some readers have.
func TestSaid(t *testing.T) {
	long := strings.Repeat("word ", 100)
	for name, tc := range map[string]struct{ output, want string }{
		"nothing":                     {"=== RUN   A\n--- FAIL: A (0.1s)\n", "=== RUN A"},
		"one line":                    {"    a_test.go:1: x\n", "a_test.go:1: x"},
		"in the midst":                {"    a_test.go:1: step\n    a_test.go:2: got 1, want 2\n    a_test.go:3: step\n", "a_test.go:1: step ... a_test.go:2: got 1, want 2 ... a_test.go:3: step"},
		"the cause stands at the end": {"    a_test.go:1: " + long + "cause\n", "a_test.go:1: " + long[:107] + " [...] " + (long + "cause")[len(long)+5-180:]},
		"too many":                    {"    a_test.go:1: first\n" + strings.Repeat("    a_test.go:2: step\n", 100) + "    a_test.go:3: last\n", "a_test.go:1: first" + strings.Repeat(" ... a_test.go:2: step", 35) + " ... a_test.go:3: last"},
	} {
		if got := said(tc.output); got != tc.want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, tc.want)
		}
	}
}

func TestChoose(t *testing.T) {
	all, err := choose(tiers, nil)
	if err != nil || len(all) != len(tiers) {
		t.Errorf("no names: got %d tiers, %v", len(all), err)
	}
	// What makes the programs that it needs comes with it.
	one, err := choose(tiers, []string{"node"})
	if err != nil || len(one) != 3 || one[0].name != controlPlane || one[1].name != nodePrograms || one[2].name != "node" {
		t.Errorf("got %v, %v", one, err)
	}
	if _, err := choose(tiers, []string{"nod"}); err == nil {
		t.Error("a misspelt tier was accepted")
	}
}

func TestPatternsWithoutPackagesAreErrors(t *testing.T) {
	empty := t.TempDir()
	if err := os.WriteFile(filepath.Join(empty, "go.mod"), []byte("module example.com/empty\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, dir, pattern string
		wantErr            bool
	}{
		{"packages", "../..", "./...", false},
		{"no folder", "../..", "./nothing/...", true},
		{"a folder without packages", empty, "./...", true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			err := tier{root: test.dir, packages: []string{test.pattern}}.checkPackages(t.Context())
			if (err != nil) != test.wantErr {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestTiersAreWhole(t *testing.T) {
	var names []string
	for _, tier := range tiers {
		does := 0
		for _, is := range []bool{len(tier.packages) > 0, len(tier.command) > 0, tier.do != nil} {
			if is {
				does++
			}
		}
		if tier.name == "" || tier.what == "" || does != 1 || tier.do == nil && tier.dir == "" || tier.cores == 0 || tier.limit == 0 || slices.Contains(names, tier.name) {
			t.Errorf("%+v", tier)
		}
		for _, after := range tier.after {
			if !slices.Contains(names, after) {
				t.Errorf("%s comes after %s, which does not stand before it", tier.name, after)
			}
		}
		names = append(names, tier.name)
	}
}

// The shell waits for its child as go test does for its tests. The output ends when both have.
func TestTheWholeGroupEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", "trap : INT; sh -c 'echo started; exec sleep 30'; echo asked")
	asGroup(cmd)
	cmd.WaitDelay = 10 * time.Second // the child alone, unasked, would go on for longer
	output, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(output)
	if line, err := lines.ReadString('\n'); err != nil || line != "started\n" {
		t.Fatalf("got %q, %v", line, err)
	}
	cancel()
	if rest, err := io.ReadAll(lines); err != nil || string(rest) != "asked\n" {
		t.Errorf("got %q, %v", rest, err)
	}
	if err := cmd.Wait(); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
