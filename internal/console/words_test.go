package console_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/podgrace/podgrace/internal/console"
)

func TestWrap(t *testing.T) {
	for _, tc := range []struct {
		text        string
		first, rest int
		want        []string
	}{
		{"a b c", 0, 0, []string{"a b c"}},
		{"aa bb cc", 5, 5, []string{"aa bb", "cc"}},
		{"aa bb cc dd", 2, 5, []string{"aa", "bb cc", "dd"}},
		{"a looooong word", 4, 4, []string{"a", "looooong", "word"}},
		{"äöü äöü", 7, 7, []string{"äöü äöü"}},
		{"", 5, 5, []string{""}},
		{"ääää::error::b", 4, 4, []string{"ääää", `\::e`, "rror", `\::b`}},
	} {
		if diff := cmp.Diff(tc.want, console.Wrap(tc.text, tc.first, tc.rest)); diff != "" {
			t.Errorf("%q: %s", tc.text, diff)
		}
	}
}

// What an Event takes is left as it is; what is longer is cut between letters.
func TestNote(t *testing.T) {
	for _, n := range []int{0, 1, 1023, 1024} {
		if text := strings.Repeat("x", n); console.Note(text) != text {
			t.Errorf("%d bytes are cut", n)
		}
	}
	for _, letter := range []string{"x", "ä", "€"} {
		got := console.Note(strings.Repeat(letter, 1025))
		if len(got) > 1024 || len(got) < 1020 || !strings.HasSuffix(got, letter+"...") {
			t.Errorf("%s: got %d bytes", letter, len(got))
		}
	}
}
