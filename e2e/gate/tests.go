package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const modulePath = "github.com/podgrace/podgrace"

// testKey names a test; a package's own events have no test.
type testKey struct{ pkg, test string }

func (k testKey) String() string {
	return strings.TrimSpace(strings.TrimPrefix(k.pkg, modulePath+"/") + " " + k.test)
}

// top is the top-level test that a subtest is part of.
func (k testKey) top() testKey {
	k.test, _, _ = strings.Cut(k.test, "/")
	return k
}

// event is a line of go test -json (go doc test2json).
type event struct {
	Action, Package, Test, Output string
	Elapsed                       float64
}

// tally counts the tests of a part.
type tally struct {
	passed  int
	failed  []testKey // in the order of their ends: subtests before the tests that they are part of
	skipped map[testKey]string
	times   map[testKey]time.Duration
	said    map[testKey]string           // what failed tests and packages printed; without a key, what a command printed
	open    map[testKey]*strings.Builder // the output of tests and packages that have not ended
}

func newTally() *tally {
	return &tally{skipped: map[testKey]string{}, times: map[testKey]time.Duration{}, said: map[testKey]string{}, open: map[testKey]*strings.Builder{}}
}

// add counts an event and returns the lines to print: what a failed test printed, a line for each package, and the compiler's output.
func (t *tally) add(e event) string {
	key := testKey{e.Package, e.Test}
	switch e.Action {
	case "build-output":
		return e.Output
	case "start", "run":
		t.open[key] = &strings.Builder{}
	case "output":
		if kept := t.open[key]; kept != nil && !strings.HasPrefix(e.Output, "=== ") {
			kept.WriteString(e.Output)
		}
	case "pass", "fail", "skip":
		return t.end(key, e)
	}
	return ""
}

func (t *tally) end(key testKey, e event) string {
	printed := ""
	if kept := t.open[key]; kept != nil {
		printed = kept.String()
	}
	delete(t.open, key)
	t.times[key] = time.Duration(e.Elapsed * float64(time.Second))
	switch {
	case key.test == "" && e.Action == "fail":
		return t.failPackage(key, printed, e.Elapsed)
	case key.test == "" && e.Action == "pass":
		return fmt.Sprintf("ok    %s  %.1fs\n", key, e.Elapsed)
	case key.test == "":
		return "" // a package without tests
	case e.Action == "pass":
		t.passed++
	case e.Action == "skip":
		t.skipped[key] = reason(printed)
	case e.Action == "fail":
		t.failed = append(t.failed, key)
		t.said[key] = printed
		return printed
	}
	return ""
}

// failPackage counts a package that failed outside its tests as one failure: it did not compile, it panicked, or it took too long.
// The output of the tests that were running explains it.
func (t *tally) failPackage(key testKey, printed string, elapsed float64) string {
	outside := true
	for _, test := range t.failed {
		outside = outside && test.pkg != key.pkg
	}
	var text strings.Builder
	text.WriteString(printed)
	for running, kept := range t.open {
		if running.pkg == key.pkg {
			text.WriteString(kept.String())
			delete(t.open, running)
			outside = true // a package that ends while tests run has tests that did not run
		}
	}
	if outside {
		t.failed = append(t.failed, key)
		t.said[key] = text.String()
	}
	return fmt.Sprintf("%sFAIL  %s  %.1fs\n", text.String(), key, elapsed)
}

// reason is why a test was skipped: its last line, without the place in the code.
func reason(printed string) string {
	last := ""
	for line := range strings.Lines(printed) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "--- ") {
			last = line
		}
	}
	if _, text, found := strings.Cut(last, ".go:"); found {
		_, last, _ = strings.Cut(text, ": ")
	}
	return last
}

// run runs a part, prints what it prints after its name, and returns what came of it.
func (o options) run(ctx context.Context, p part, print func(lines string)) row {
	r := row{part: p, tally: newTally()}
	args := p.command
	if args == nil {
		args = append([]string{"go", "test", "-json"}, append(p.flagsFor(o), p.packages...)...)
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = filepath.Join(o.root, p.dir)
	cmd.Env = os.Environ()
	if o.everything {
		cmd.Env = append(cmd.Env, "PODGRACE_ALL="+cmp.Or(os.Getenv("PODGRACE_ALL"), "1"))
	}
	if o.race {
		cmd.Env = append(cmd.Env, "CGO_ENABLED=1", "PODGRACE_RACE=1", "GORACE=halt_on_error=1") // a race ends the program, so that the test fails
	}
	asGroup(cmd)
	pipe, err := cmd.StdoutPipe()
	cmd.Stderr = cmd.Stdout
	if err = cmp.Or(err, cmd.Start()); err != nil {
		r.err = err
		return r
	}
	r.read(pipe, print)
	r.err = cmd.Wait()
	if ctx.Err() != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // most often nothing is left
		r.err = context.Cause(ctx)
	}
	r.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	if r.err == nil && p.command != nil {
		r.passed++
	}
	return r
}

// read counts the events of go test until its output ends. A line that is not an event is printed as it is.
func (r *row) read(output io.Reader, print func(lines string)) {
	lines := bufio.NewReader(output)
	for {
		line, err := lines.ReadBytes('\n')
		var e event
		if r.part.command == nil && json.Unmarshal(line, &e) == nil {
			print(r.add(e))
		} else {
			print(string(line))
			r.said[testKey{}] += string(line)
		}
		if e.Action == "fail" && e.Test != "" {
			print("      repeat it: " + r.part.repeat(testKey{e.Package, e.Test}) + "\n")
		}
		if err != nil {
			return
		}
	}
}

// asGroup gives a command a process group of its own. If the context ends, the whole group gets SIGINT: go test does not pass a
// signal on, and its tests would go on alone, with what they started.
func asGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error {
		if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGINT); !errors.Is(err, syscall.ESRCH) {
			return err
		}
		return os.ErrProcessDone
	}
	cmd.WaitDelay = 2 * time.Minute // the tests in kind take up to a minute to remove their cluster
}
