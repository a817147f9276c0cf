package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
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
	output                  map[testKey]*strings.Builder
	failedIn                map[string]int // tests by package
	failures                []failure
	began                   map[testKey]bool // and has not ended
	took                    map[testKey]time.Duration
	cpu                     time.Duration // of all processes
}

// testKey names a test; a package's own events have no test.
type testKey struct{ pkg, test string }

func (k testKey) String() string {
	return path.Base(k.pkg) + " " + cmp.Or(k.test, "outside its tests")
}

// failure is a test that failed, and what it said.
type failure struct {
	key  testKey
	said string
}

// told is a line by which a test says why it fails, or what it does (testing.T).
var told = regexp.MustCompile(`^\S+\.go:[0-9]+: `)

// saidAtMost is how long all is that a test said, in characters, but for its first and its last line.
const saidAtMost = 600

// said is what a test told itself, as it fits in a table: all its lines, since what it only logs looks like that which fails it, and where they are too many the first one
// and the last ones, since a test that logs its steps says at the end why it stopped. One that told nothing is explained by the first line of its output that is not go test's own:
// what libraries print.
func said(output string) string {
	printed := ""
	var lines []string
	for line := range strings.Lines(output) {
		line = inTable(line)
		switch {
		case line == "" || strings.HasPrefix(line, "--- "):
		case told.MatchString(line):
			lines = append(lines, line)
		default:
			printed = cmp.Or(printed, line)
		}
	}
	if len(lines) == 0 {
		return printed
	}
	last, room := len(lines)-1, saidAtMost
	for ; last > 1; last-- {
		if room -= utf8.RuneCountInString(lines[last-1]); room < 0 {
			break
		}
	}
	return strings.Join(slices.Delete(lines, min(1, last), last), " ... ")
}

// saidAtLast explains the end of a package outside its tests: by its panic, with the tests that ran then, else by its last line that is not go test's own. The first ones
// tell how far it got.
func saidAtLast(output string) string {
	if at := strings.Index("\n"+output, "\npanic: "); at >= 0 {
		panicked, _, _ := strings.Cut(output[at:], "\n\n")
		return inTable(panicked)
	}
	last := ""
	for line := range strings.Lines(output) {
		if line = inTable(line); line != "" && line != "FAIL" && !strings.HasPrefix(line, "FAIL ") && !strings.HasPrefix(line, "exit status ") {
			last = line
		}
	}
	return last
}

// inTable is a text as one line that fits in a table: an error's first words tell where it was met, and its last ones the cause.
func inTable(text string) string {
	const first, last = 120, 180
	line := []rune(strings.Join(strings.Fields(text), " "))
	if len(line) <= first+last {
		return string(line)
	}
	return string(line[:first]) + " [...] " + string(line[len(line)-last:])
}

// blamed leaves out the tests that failed by a subtest of theirs alone, as far as one can see: those that said nothing themselves.
func (t *tally) blamed() []failure {
	failedWithin := map[testKey]bool{}
	for _, f := range t.failures {
		if f.key.test != "" {
			failedWithin[f.key.parent()] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(t.failures), func(f failure) bool { return f.said == "" && failedWithin[f.key] })
}

// parent is what a test is part of: another test, or its package.
func (k testKey) parent() testKey {
	return testKey{k.pkg, k.test[:max(strings.LastIndexByte(k.test, '/'), 0)]}
}

func newTally() *tally {
	return &tally{output: map[testKey]*strings.Builder{}, failedIn: map[string]int{}, began: map[testKey]bool{}, took: map[testKey]time.Duration{}}
}

// running names the tests that began and did not end, but not those that wait for a subtest of theirs.
func (t *tally) running() []string {
	var names []string
	waits := map[testKey]bool{}
	for key := range t.began {
		waits[key.parent()] = true
	}
	for key := range t.began {
		if !waits[key] {
			names = append(names, key.String())
		}
	}
	slices.Sort(names)
	return names
}

// times lists the tests that have ended, each with its own time: subtests' is taken away from what they are part of.
func (t *tally) times() []timed {
	own := maps.Clone(t.took)
	for key, took := range t.took {
		if key.test != "" {
			own[t.ended(key.parent())] -= took
		}
	}
	var list []timed
	for key, took := range own {
		list = append(list, timed{key.String(), took})
	}
	slices.SortFunc(list, func(a, b timed) int { return cmp.Or(cmp.Compare(b.took, a.took), cmp.Compare(a.name, b.name)) })
	return list
}

// ended is the test, or the package, of which an ended one is a part, and which ended as well: a test that hangs does not.
func (t *tally) ended(key testKey) testKey {
	for _, ok := t.took[key]; !ok && key.test != ""; _, ok = t.took[key] {
		key = key.parent()
	}
	return key
}

// add counts an event and returns what a person should see now: the output of a failure, a line for each
// finished package, what the compiler says.
func (t *tally) add(e event) string {
	switch e.Action {
	case "build-output":
		return e.Output
	case "output":
		t.keep(e)
	case "run":
		t.began[testKey{e.Package, e.Test}] = true
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
	key := testKey{e.Package, e.Test}
	if t.output[key] == nil {
		t.output[key] = &strings.Builder{}
	}
	t.output[key].WriteString(e.Output)
}

// take returns what was kept of a test, or of a package outside its tests, and forgets it.
func (t *tally) take(e event) string {
	key := testKey{e.Package, e.Test}
	kept := t.output[key]
	delete(t.output, key)
	if kept == nil {
		return ""
	}
	return kept.String()
}

// long is a test that is reported when it passes: who waits sees progress.
const long = 20 * time.Second

func (t *tally) endTest(e event) string {
	text := t.take(e)
	key := testKey{e.Package, e.Test}
	delete(t.began, key)
	t.took[key] = elapsed(e)
	switch e.Action {
	case "pass":
		t.passed++
		if t.took[key] >= long {
			return fmt.Sprintf("ok    %s  %.1fs\n", key, e.Elapsed)
		}
	case "skip":
		t.skipped++
	case "fail":
		t.failed++
		t.failedIn[e.Package]++
		t.failures = append(t.failures, failure{key, said(text)})
		return text
	}
	return ""
}

// endPackage counts a package that failed outside its tests (it did not build, it panicked, it timed out) as
// one failure. What was kept of tests that never ended is what explains it.
func (t *tally) endPackage(e event) string {
	var text strings.Builder
	text.WriteString(t.take(e))
	t.took[testKey{e.Package, ""}] = elapsed(e)
	if e.Action != "fail" {
		if e.Action == "skip" {
			return "" // no test files
		}
		return fmt.Sprintf("ok    %s  %.1fs\n", e.Package, e.Elapsed)
	}
	outside := t.failedIn[e.Package] == 0
	if outside {
		t.failed++
	}
	for key, kept := range t.output {
		if key.pkg == e.Package {
			text.WriteString(kept.String())
			delete(t.output, key)
		}
	}
	if outside {
		t.failures = append(t.failures, failure{testKey{e.Package, ""}, saidAtLast(text.String())})
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

func elapsed(e event) time.Duration { return time.Duration(e.Elapsed * float64(time.Second)) }
