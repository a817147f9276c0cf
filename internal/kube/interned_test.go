package kube

import (
	"strconv"
	"strings"
	"testing"
	"unsafe"
)

// Equal strings have their memory in common, and nothing with what they were a part of; and not more than so many are known.
func TestInterned(t *testing.T) {
	var i Interned
	body := "node-a, node-b"
	first, second := i.Of(body[:6]), i.Of(strings.Clone("node-a"))
	if first != "node-a" || unsafe.StringData(first) != unsafe.StringData(second) {
		t.Errorf("%q and %q are two", first, second)
	}
	if unsafe.StringData(first) == unsafe.StringData(body) {
		t.Error("it keeps all that it was a part of")
	}
	for n := range 2 * mostInterned {
		if s := strconv.Itoa(n); i.Of(s) != s {
			t.Fatalf("%s has become another", s)
		}
		if len(i.known) > mostInterned {
			t.Fatalf("%d are known", len(i.known))
		}
	}
}
