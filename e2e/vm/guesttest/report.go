package guesttest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
)

// Verbose is the argument by which a test binary writes what Report reads.
const Verbose = "-test.v=test2json"

// Report runs a subtest for each test that ran there, by the output of its binary. It fails where one did, and where none ran.
func Report(t *testing.T, output []byte) {
	t.Helper()
	results := parse(t, output)
	if len(results.children) == 0 {
		t.Fatalf("no test ran in the guest:\n%s", output)
	}
	results.report(t)
}

// ReportUntil is Report of a machine that was to end within a test there, the last one. It fails where that one had not begun, and
// where it ended.
func ReportUntil(t *testing.T, output []byte, last string) {
	t.Helper()
	results := parse(t, output)
	if action, ok := results.cut(last); !ok || action != "" {
		t.Errorf("the machine was to end within %s, which began: %t, and ended with %q:\n%s", last, ok, action, output)
	}
	results.report(t)
}

// result is a test that ran in the guest, with its subtests.
type result struct {
	name     string
	action   string // how it ended; empty: it did not
	output   strings.Builder
	children []*result
}

// parse makes a tree of the test binary's output by Go's own reader of it.
func parse(t *testing.T, text []byte) *result {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "tool", "test2json")
	cmd.Stdin = bytes.NewReader(text)
	events, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	root := &result{}
	lines := bufio.NewScanner(bytes.NewReader(events))
	for lines.Scan() {
		var event struct{ Action, Test, Output string }
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			t.Fatal(err)
		}
		if event.Test == "" {
			continue
		}
		r := root.find(event.Test)
		switch event.Action {
		case "pass", "fail", "skip":
			r.action = event.Action
		case "output":
			r.output.WriteString(event.Output)
		}
	}
	return root
}

// find finds or makes the result of a test, below those of the tests that it is part of.
func (r *result) find(name string) *result {
	for part := range strings.SplitSeq(name, "/") {
		r = r.child(part)
	}
	return r
}

func (r *result) child(name string) *result {
	for _, child := range r.children {
		if child.name == name {
			return child
		}
	}
	child := &result{name: name}
	r.children = append(r.children, child)
	return child
}

// cut takes off the last child, if that has the name, and returns how it ended.
func (r *result) cut(name string) (action string, ok bool) {
	at := len(r.children) - 1
	if at < 0 || r.children[at].name != name {
		return "", false
	}
	action, r.children = r.children[at].action, r.children[:at]
	return action, true
}

// report runs a subtest here for each there.
func (r *result) report(t *testing.T) {
	for _, child := range r.children {
		t.Run(child.name, func(t *testing.T) {
			child.report(t)
			if child.action != "pass" {
				t.Errorf("ended with %q in the guest:\n%s", child.action, child.output.String())
			}
		})
	}
}
