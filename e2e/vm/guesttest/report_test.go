package guesttest

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What a binary wrote that was killed within a test, as Go's testing writes it: \x16 begins its own lines.
const written = "\x16=== RUN   TestA\n\x16=== RUN   TestA/one\nsaid\n\x16--- PASS: TestA/one (0.00s)\n\x16=== NAME  TestA\n\x16=== RUN   TestA/two\n" +
	"    a_test.go:1: wrong\n\x16--- FAIL: TestA/two (0.00s)\n\x16=== NAME  TestA\n\x16--- FAIL: TestA (0.00s)\n\x16=== NAME  \n" +
	"\x16=== RUN   TestB\n\x16--- SKIP: TestB (0.00s)\n\x16=== NAME  \n\x16=== RUN   TestC\npanic"

func TestParse(t *testing.T) {
	got := map[string]string{}
	var walk func(r *result, path string)
	walk = func(r *result, path string) {
		for _, c := range r.children {
			got[path+c.name] = c.action
			walk(c, path+c.name+"/")
		}
	}
	root := parse(t, []byte(written))
	walk(root, "")
	want := map[string]string{"TestA": "fail", "TestA/one": "pass", "TestA/two": "fail", "TestB": "skip", "TestC": ""}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if said := root.find("TestA/two").output.String(); !strings.Contains(said, "wrong") {
		t.Errorf("TestA/two said %q", said)
	}
	for _, name := range []string{"TestB", "TestC"} { // the first one that is cut off is the last one that began
		if action, ok := root.cut(name); ok != (name == "TestC") || action != "" {
			t.Errorf("%s was cut off: %v, it ended with %q", name, ok, action)
		}
	}
	if action, ok := root.cut("TestB"); !ok || action != "skip" || len(root.children) != 1 {
		t.Errorf("TestB was cut off: %v, it ended with %q", ok, action)
	}
	if none := parse(t, []byte("exec format error\n")); len(none.children) != 0 {
		t.Errorf("got %v of a binary that did not start", none.children)
	}
}
