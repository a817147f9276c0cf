package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// event is a line of go test -json, as go doc test2json has it.
type event struct {
	Action, Package, Test, Output string
	ImportPath                    string // of the events of the build
	Elapsed                       float64
}

// tally counts tests, subtests among them, and keeps the output of those that have not ended yet.
type tally struct {
	passed, failed, skipped int
	output                  map[[2]string]*strings.Builder // by package and test
	failedIn                map[string]int                 // tests by package
}

func newTally() *tally {
	return &tally{output: map[[2]string]*strings.Builder{}, failedIn: map[string]int{}}
}

// add counts an event and returns what a person should see now: the output of a failure, a line for each
// finished package, what the compiler says.
func (t *tally) add(e event) string {
	switch e.Action {
	case "build-output":
		return e.Output
	case "output":
		t.keep(e)
	case "pass", "fail", "skip":
		if e.Test == "" {
			return t.endPackage(e)
		}
		return t.endTest(e)
	}
	return ""
}

// keep keeps what a test said, without the lines by which go test says which test runs.
func (t *tally) keep(e event) {
	if strings.HasPrefix(e.Output, "=== ") {
		return
	}
	key := [2]string{e.Package, e.Test}
	if t.output[key] == nil {
		t.output[key] = &strings.Builder{}
	}
	t.output[key].WriteString(e.Output)
}

// take returns what was kept of a test, or of a package outside its tests, and forgets it.
func (t *tally) take(e event) string {
	key := [2]string{e.Package, e.Test}
	kept := t.output[key]
	delete(t.output, key)
	if kept == nil {
		return ""
	}
	return kept.String()
}

func (t *tally) endTest(e event) string {
	text := t.take(e)
	switch e.Action {
	case "pass":
		t.passed++
	case "skip":
		t.skipped++
	case "fail":
		t.failed++
		t.failedIn[e.Package]++
		return text
	}
	return ""
}

// endPackage counts a package that failed outside its tests (it did not build, it panicked, it timed out) as
// one failure. What was kept of tests that never ended is what explains it.
func (t *tally) endPackage(e event) string {
	var text strings.Builder
	text.WriteString(t.take(e))
	if e.Action != "fail" {
		if e.Action == "skip" {
			return "" // no test files
		}
		return fmt.Sprintf("ok    %s  %.1fs\n", e.Package, e.Elapsed)
	}
	if t.failedIn[e.Package] == 0 {
		t.failed++
	}
	for key, kept := range t.output {
		if key[0] == e.Package {
			text.WriteString(kept.String())
			delete(t.output, key)
		}
	}
	return fmt.Sprintf("%sFAIL  %s  %.1fs\n", text.String(), e.Package, e.Elapsed)
}

// readEvents calls each for every event; lines that are none are the output of something else, and kept too.
func readEvents(r io.Reader, each func(event)) error {
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			each(parseEvent(line))
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading the events of go test: %w", err)
		}
	}
}

func parseEvent(line []byte) event {
	var e event
	if err := json.Unmarshal(line, &e); err != nil {
		return event{Action: "build-output", Output: string(line)}
	}
	return e
}
