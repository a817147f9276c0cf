package storage_test

import (
	"fmt"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podgrace/podgrace/fencing/storage"
)

func TestAddresses(t *testing.T) {
	t.Parallel()
	var book storage.Addresses
	note := func(boot, sign string, ips ...string) {
		book.Note(storage.Sighting{UID: "u", BootID: boot, Sign: sign, InternalIPs: ips})
	}
	expect := func(what, boot string, certain, told []string) {
		t.Helper()
		if gotCertain, gotTold := book.Of("u", boot); !slices.Equal(gotCertain, certain) || !slices.Equal(gotTold, told) {
			t.Errorf("%s: %v, %v", what, gotCertain, gotTold)
		}
	}
	one, two := []string{"10.0.0.1"}, []string{"10.0.0.1", "10.0.0.2"}
	expect("nothing was recorded", "b", nil, nil)
	note("", "u///1", "10.0.0.1")
	expect("a node without a boot ID", "", nil, nil)
	note("b", "u/b//1", "10.0.0.1")
	expect("healthy", "b", one, one)
	note("b", "u/b//1", "10.0.0.9")
	expect("somebody else wrote to the Node", "b", one, one)
	expect("another boot", "c", nil, nil)
	note("c", "u/c//2", "10.0.0.2")
	note("c", "u/c//3", "10.0.0.1")
	expect("a boot that reported two lists", "c", nil, two)
	book.Keep(map[types.UID]bool{"u": true})
	expect("the node is still there", "c", nil, two)
	book.Keep(nil)
	expect("the node is gone", "c", nil, nil)
}

func TestAddressesOfABootAreLimited(t *testing.T) {
	t.Parallel()
	var book storage.Addresses
	for i := range 100 {
		book.Note(storage.Sighting{UID: "u", BootID: "b", Sign: fmt.Sprintf("u/b//%d", i), InternalIPs: []string{fmt.Sprintf("10.0.0.%d", i)}})
	}
	if _, told := book.Of("u", "b"); len(told) != 64 {
		t.Errorf("%d addresses are kept", len(told))
	}
}
