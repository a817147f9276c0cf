package manifest

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A typed list says of which kind all are there, in YAML and in JSON, with items or without.
func TestListed(t *testing.T) {
	for text, want := range map[string][]Listed{
		"apiVersion: v1\nkind: ServiceList\nitems: []\n":                                   {{"v1", "Service"}},
		`{"apiVersion": "v1", "kind": "ServiceList", "items": null}`:                       {{"v1", "Service"}},
		"kind: PodList\napiVersion: v1\nitems: [{metadata: {name: a}}]\n---\nkind: List\n": {{"v1", "Pod"}},
		`{"apiVersion": "v1", "kind": "List", "items": []}`:                                nil,
		strings.Repeat("---\napiVersion: v1\nkind: NodeList\nitems: []\n", 3):              {{"v1", "Node"}},
	} {
		r := &Reader{File: Stdin}
		r.Read(strings.NewReader(text), func(*Document, *Error) bool { return true })
		if diff := cmp.Diff(want, slices.Clip(r.Listed)); diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
	}
}
