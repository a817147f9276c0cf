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
			if got := judge("", &test.counted, test.err, test.requireAll, 0); got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

func TestJudgeUnmet(t *testing.T) {
	reason := errors.New("not root")
	if got := judgeUnmet("node", reason, false); got != (row{tier: "node", result: skipped, skipped: 1, note: "not root"}) {
		t.Errorf("got %+v", got)
	}
	if got := judgeUnmet("node", reason, true); got.result != failed || got.failed != 1 {
		t.Errorf("under REQUIRE_ALL=1: got %+v", got)
	}
}

func TestTableAndClosing(t *testing.T) {
	rows := []row{
		{tier: "unit", result: ok, passed: 12, took: 1234 * time.Millisecond},
		{tier: "node", result: skipped, skipped: 1, note: "not root"},
	}
	want := strings.Join([]string{
		"TIER  RESULT   PASSED  FAILED  SKIPPED  TIME  NOTE",
		"unit  ok       12      0       0        1.2s  ",
		"node  skipped  0       0       1        0s    not root",
		"",
	}, "\n")
	if got := table(rows); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := closing(rows); got != "12 passed, 0 failed, 1 skipped" {
		t.Errorf("got %q", got)
	}
}

func TestChoose(t *testing.T) {
	all, err := choose(tiers, nil)
	if err != nil || len(all) != len(tiers) {
		t.Errorf("no names: got %d tiers, %v", len(all), err)
	}
	one, err := choose(tiers, []string{"node"})
	if err != nil || len(one) != 1 || one[0].name != "node" {
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
		{"packages", ".", "./...", false},
		{"no folder", ".", "./nothing/...", true},
		{"a folder without packages", empty, "./...", true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			err := tier{dir: test.dir, packages: []string{test.pattern}}.checkPackages(t.Context())
			if (err != nil) != test.wantErr {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestTiersHaveNamesAndPackages(t *testing.T) {
	var names []string
	for _, tier := range tiers {
		if tier.name == "" || tier.what == "" || tier.dir == "" || len(tier.packages) == 0 || slices.Contains(names, tier.name) {
			t.Errorf("%+v", tier)
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
