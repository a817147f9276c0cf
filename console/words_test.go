package console_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/podgrace/podgrace/console"
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
