package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestBudget(t *testing.T) {
	sum := 0.0
	for _, p := range parts {
		if p.coreMinutes() == 0 && p.command == nil {
			t.Errorf("%s declares no time", p.name)
		}
		if p.set != setAll {
			sum += p.coreMinutes()
		}
	}
	if sum > budget {
		t.Errorf("the gate's parts declare %.1f core-minutes, at most %d are allowed: take time from another test (go run -C e2e ./gate -list)", sum, budget)
	}
}

// scripted runs parts that pass or fail after a minute and returns a line for each start and end.
func scripted(ctx context.Context, cores float64, all []part, fail ...string) ([]row, []string) {
	var lines strings.Builder
	rows := schedule{cores: cores, out: &lines, run: func(_ context.Context, p part, _ func(string)) row {
		time.Sleep(time.Duration(p.minutes * float64(time.Minute)))
		r := row{part: p, tally: newTally()}
		r.passed = 1
		for _, name := range fail {
			if name == p.name {
				r.err = errors.New("exit status 1")
			}
		}
		r.judge(nil, false)
		return r
	}}.all(ctx, all)
	var when []string
	for _, r := range rows {
		when = append(when, fmt.Sprintf("%s %s %s-%s", r.part.name, r.result, minutes(r.began), minutes(r.began+r.took)))
	}
	return rows, when
}

func TestSchedule(t *testing.T) {
	for _, test := range []struct {
		name  string
		parts []part
		fail  []string
		want  []string
	}{
		{"as many as the cores allow", []part{{name: "a", cores: 1, minutes: 2}, {name: "b", cores: 1, minutes: 1}, {name: "c", cores: 1, minutes: 1}}, nil,
			[]string{"a ok 0:00-2:00", "b ok 0:00-1:00", "c ok 1:00-2:00"}},
		{"a small part passes a large one", []part{{name: "a", cores: 1.5, minutes: 2}, {name: "b", cores: 1, minutes: 1}, {name: "c", cores: 0.5, minutes: 1}}, nil,
			[]string{"a ok 0:00-2:00", "b ok 2:00-3:00", "c ok 0:00-1:00"}},
		{"more than all cores", []part{{name: "a", cores: 3, minutes: 1}, {name: "b", cores: 1, minutes: 1}}, nil, []string{"a ok 0:00-1:00", "b ok 1:00-2:00"}},
		{"one at a time", []part{{name: "a", cores: 0.1, minutes: 1, shares: "x"}, {name: "b", cores: 0.1, minutes: 1, shares: "x"}}, nil, []string{"a ok 0:00-1:00", "b ok 1:00-2:00"}},
		{"after", []part{{name: "a", cores: 0.1, minutes: 1}, {name: "b", cores: 0.1, minutes: 1, after: []string{"a"}}}, nil, []string{"a ok 0:00-1:00", "b ok 1:00-2:00"}},
		{"nothing boots after a failed check", []part{
			{name: "lint", set: setCheck, cores: 1, minutes: 1}, {name: "unit", set: setTest, cores: 2, minutes: 1},
			{name: "programs", set: setIntegration, cores: 1, minutes: 1}, {name: "kind", set: setE2E, cores: 1, minutes: 1, after: []string{"programs"}},
		}, []string{"lint"}, []string{"lint FAILED 0:00-1:00", "unit ok 1:00-2:00", "programs not run 0:00-0:00", "kind not run 0:00-0:00"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, got := scripted(t.Context(), 2, test.parts, test.fail...)
				if strings.Join(got, "\n") != strings.Join(test.want, "\n") {
					t.Errorf("got %q, want %q", got, test.want)
				}
			})
		})
	}
}

// events are what go test -json prints: "run X", "fail X: output". A name without a test is the package's.
func events(lines ...string) *tally {
	counted := newTally()
	for _, line := range lines {
		action, rest, _ := strings.Cut(line, " ")
		name, output, _ := strings.Cut(rest, ": ")
		e := event{Action: action, Package: modulePath + "/e2e/x", Test: name, Output: output + "\n"}
		if output != "" && action != "output" {
			counted.add(event{Action: "output", Package: e.Package, Test: name, Output: e.Output})
		}
		counted.add(e)
	}
	return counted
}

func TestJudge(t *testing.T) {
	exit := errors.New("exit status 1")
	quarantine := map[testKey]string{{modulePath + "/e2e/x", "TestA"}: "timing"}
	for _, test := range []struct {
		name       string
		tally      *tally
		err        error
		requireAll bool
		want       string // the result and the number of failures
	}{
		{"passed", events("run TestB", "pass TestB", "pass "), nil, false, "ok 0"},
		{"failed", events("run TestB", "fail TestB: no", "fail "), exit, false, "FAILED 1"},
		{"quarantined", events("run TestA", "fail TestA: no", "run TestB", "pass TestB", "fail "), exit, false, "ok 0"},
		{"a quarantined subtest", events("run TestA", "run TestA/x", "fail TestA/x: no", "fail TestA", "fail "), exit, false, "ok 0"},
		{"a quarantined test and another one", events("run TestA", "fail TestA: no", "run TestB", "fail TestB", "fail "), exit, false, "FAILED 1"},
		{"a panic in a quarantined test hides others", events("start ", "run TestA", "fail TestA: no", "run TestB", "fail "), exit, false, "FAILED 1"},
		{"does not compile", events("fail : undefined: x"), exit, false, "FAILED 1"},
		{"go test does not start", newTally(), errors.New("no such file"), false, "FAILED 1"},
		{"no test ran", newTally(), nil, false, "FAILED 1"},
		{"skipped", events("run TestB", "skip TestB: a_test.go:7: needs root", "pass "), nil, false, "skipped 0"},
		{"skipped, and all are required", events("run TestB", "skip TestB: a_test.go:7: needs root", "pass "), nil, true, "FAILED 1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := row{part: part{dir: "e2e"}, tally: test.tally, err: test.err}
			r.judge(quarantine, test.requireAll)
			if got := fmt.Sprintf("%s %d", r.result, r.failures(test.requireAll)); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

func TestFailuresAndHowToRepeatThem(t *testing.T) {
	for _, name := range []string{"GOFLAGS", "CGO_ENABLED", "REQUIRE_ALL", "PODGRACE_ALL"} {
		t.Setenv(name, "")
	}
	t.Setenv("GOFLAGS", "-trimpath")
	t.Setenv(seedVariable, "1")
	r := row{
		part:  part{name: "faults", dir: "e2e", flags: live},
		tally: events("run TestA", "run TestA/one two", "fail TestA/one two: no", "fail TestA", "fail "), err: errors.New("exit status 1"),
	}
	r.judge(nil, false)
	lint := row{part: part{name: "lint", dir: ".", command: []string{"make", "lint"}}, tally: newTally(), err: errors.New("exit status 2")}
	lint.read(strings.NewReader("a.go:1: unused\n"), func(string) {})
	lint.judge(nil, false)
	want := `FAILED, AND HOW TO REPEAT IT
  faults: e2e/x TestA/one two
      GOFLAGS=-trimpath RAPID_SEED=1 go test -C e2e ./x -run '^TestA$/^one two$' -count=1 -p=1
      | no
  lint: exit status 2
      GOFLAGS=-trimpath RAPID_SEED=1 make lint
      | a.go:1: unused
`
	if got := failures([]row{r, lint}); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestQuarantineFile(t *testing.T) {
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	for _, test := range []struct{ text, wrong string }{
		{"", ""},
		{"# a comment\n\n2026-11-14 e2e/x TestA the etcd is slow\n", ""},
		{"2026-11-13 e2e/x TestA the etcd is slow\n", "at most 14 days ago"},
		{"2026-12-24 e2e/x TestA the etcd is slow\n", "at most 14 days ago"},
		{"2026-11-28 e2e/x TestA\n", "must be DATE PACKAGE TEST CAUSE"},
		{"yesterday e2e/x TestA the etcd is slow\n", "invalid date"},
		{strings.Repeat("2026-11-28 e2e/x TestA c\n", 1) + "2026-11-28 e2e/x TestB c\n2026-11-28 e2e/x TestC c\n2026-11-28 e2e/x TestD c\n", "at most 3"},
	} {
		file := filepath.Join(t.TempDir(), "quarantine.txt")
		if err := os.WriteFile(file, []byte(test.text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := readQuarantine(file, now)
		if test.wrong == "" && err != nil || test.wrong != "" && (err == nil || !strings.Contains(err.Error(), test.wrong)) {
			t.Errorf("%q: got %v, want %q", test.text, err, test.wrong)
		}
	}
	if _, err := readQuarantine(filepath.Join(t.TempDir(), "none"), now); err != nil {
		t.Errorf("without a file: %v", err)
	}
}
