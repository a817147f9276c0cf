package main

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestTally(t *testing.T) {
	tests := []struct {
		name                    string
		events                  string
		passed, failed, skipped int
		shown, hidden           string
	}{
		{"a passing test is silent", `{"Action":"output","Package":"p","Test":"A","Output":"chatter\n"}
{"Action":"pass","Package":"p","Test":"A"}
{"Action":"pass","Package":"p","Elapsed":0.5}`, 1, 0, 0, "ok    p  0.5s", "chatter"},
		{"a long test is told", `{"Action":"pass","Package":"x/p","Test":"A","Elapsed":31}`, 1, 0, 0, "ok    p A  31.0s\n", ""},
		{"subtests count", `{"Action":"pass","Package":"p","Test":"A/b"}
{"Action":"pass","Package":"p","Test":"A"}`, 2, 0, 0, "", ""},
		{"a failing test shows its output", `{"Action":"output","Package":"p","Test":"A","Output":"=== RUN   A\n"}
{"Action":"output","Package":"p","Test":"A","Output":"got 1\n"}
{"Action":"fail","Package":"p","Test":"A"}
{"Action":"fail","Package":"p"}`, 0, 1, 0, "got 1\nFAIL  p", "==="},
		{"a skipped test", `{"Action":"skip","Package":"p","Test":"A"}`, 0, 0, 1, "", ""},
		{"a package without tests is no skipped test", `{"Action":"output","Package":"p","Output":"?   p\n"}
{"Action":"skip","Package":"p"}`, 0, 0, 0, "", "p"},
		{"a package that does not build", `{"ImportPath":"p","Action":"build-output","Output":"x.go:1: syntax error\n"}
{"ImportPath":"p","Action":"build-fail"}
{"Action":"fail","Package":"p"}`, 0, 1, 0, "syntax error\nFAIL  p", ""},
		{"a test that never ends explains its package", `{"Action":"output","Package":"p","Test":"A","Output":"panic: timed out\n"}
{"Action":"fail","Package":"p"}`, 0, 1, 0, "panic: timed out\nFAIL  p", ""},
		{"a line that is no event is shown", "fatal: out of memory", 0, 0, 0, "out of memory", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			counted, shown := newTally(), strings.Builder{}
			if err := readEvents(strings.NewReader(test.events), func(e event) { shown.WriteString(counted.add(e)) }); err != nil {
				t.Fatal(err)
			}
			if counted.passed != test.passed || counted.failed != test.failed || counted.skipped != test.skipped {
				t.Errorf("got %d passed, %d failed, %d skipped", counted.passed, counted.failed, counted.skipped)
			}
			if !strings.Contains(shown.String(), test.shown) {
				t.Errorf("%q does not show %q", shown.String(), test.shown)
			}
			if test.hidden != "" && strings.Contains(shown.String(), test.hidden) {
				t.Errorf("%q shows %q", shown.String(), test.hidden)
			}
		})
	}
}

// Who adds a test sees what it costs by itself, and who waits for one that hangs sees its name.
func TestTimes(t *testing.T) {
	counted := newTally()
	err := readEvents(strings.NewReader(`{"Action":"run","Package":"x/p","Test":"A"}
{"Action":"run","Package":"x/p","Test":"A/b"}
{"Action":"pass","Package":"x/p","Test":"A/b","Elapsed":4}
{"Action":"run","Package":"x/p","Test":"A/c"}
{"Action":"run","Package":"x/q","Test":"A"}
`), func(e event) { counted.add(e) })
	if got := strings.Join(counted.running(), ", "); err != nil || got != "p A/c, q A" {
		t.Errorf("there run %s (%v)", got, err)
	}
	err = readEvents(strings.NewReader(`{"Action":"fail","Package":"x/p","Test":"A/c","Elapsed":1}
{"Action":"pass","Package":"x/p","Test":"A","Elapsed":7}
{"Action":"fail","Package":"x/p","Elapsed":10}
{"Action":"pass","Package":"x/q","Test":"A/b","Elapsed":20}
{"Action":"fail","Package":"x/q","Elapsed":28}
`), func(e event) { counted.add(e) })
	// Test A of q never ended: what it took beside its subtest is all that its package has left.
	want := []timed{{"q A/b", 20 * time.Second}, {"q outside its tests", 8 * time.Second}, {"p A/b", 4 * time.Second}, {"p outside its tests", 3 * time.Second}, {"p A", 2 * time.Second}, {"p A/c", time.Second}}
	if got := counted.times(); err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v (%v)", got, err)
	}
}
