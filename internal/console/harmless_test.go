package console_test

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/podgrace/podgrace/internal/console"
)

func TestVisible(t *testing.T) {
	for text, want := range map[string]string{
		"plain äöü 中":    "plain äöü 中",
		"\x1b[2J":        `\x1b[2J`,
		"a\nb\tc":        `a\nb\tc`,
		"\xff\ufffd":     `\xff` + "\ufffd",
		"\u202eevil":     `\u202eevil`,
		"\u009b":         `\u009b`,
		"##vso[x] ##[y]": `#\#vso[x] #\#[y]`,
		"## a heading":   "## a heading",
		"###[x]":         `##\#[x]`,
	} {
		if got := console.Visible(text); got != want {
			t.Errorf("Visible(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestClip(t *testing.T) {
	for _, tc := range []struct {
		text string
		most int
		want string
	}{{"äöü", 3, "äöü"}, {"äöüß", 3, "äöü... (1 more characters)"}, {"", 0, ""}, {"a", 0, "... (1 more characters)"}} {
		if got := console.Clip(tc.text, tc.most); got != tc.want {
			t.Errorf("Clip(%q, %d) = %q, want %q", tc.text, tc.most, got, tc.want)
		}
	}
}

// JSON comes back as it went in, whatever it holds, and every byte of it may be seen.
func TestEncodeJSON(t *testing.T) {
	marker := regexp.MustCompile(`##`)
	rapid.Check(t, func(t *rapid.T) {
		want := strings.ToValidUTF8(rapid.OneOf(rapid.String(), rapid.StringMatching(`[#a\[\x1b\x{202e}\x{1f600}\n"]*`)).Draw(t, "text"), "")
		var out bytes.Buffer
		if err := console.EncodeJSON(&out, want); err != nil {
			t.Fatal(err)
		}
		if i := strings.IndexFunc(out.String(), func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }); i >= 0 || marker.MatchString(out.String()) {
			t.Fatalf("%q", out.String())
		}
		var got string
		if err := json.Unmarshal(out.Bytes(), &got); err != nil || got != want {
			t.Fatalf("%q comes back as %q, %v", want, got, err)
		}
	})
}

func TestAtStart(t *testing.T) {
	for line, want := range map[string]string{"::error::x": `\::error::x`, " \t::x": " \t" + `\::x`, "a ::x": "a ::x", "": ""} {
		if got := console.AtStart(line); got != want {
			t.Errorf("AtStart(%q) = %q, want %q", line, got, want)
		}
	}
}

// What is cut is no longer than its bound, whole characters, and says that it was cut; what fits stays, but for what does not print.
func TestBounded(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                         "",
		"0123456789":               "0123456789",
		"0123456789a":              "0123456...",
		"a\nb\tc\x1b[2K":           "a b c [2K",
		"a\u202eb\u009b":           "a?b ",
		"\xff\xfeab":               "?ab",
		"äöüäö":                    "äöüäö",
		"äöüäöü":                   "äöü...",
		"0123456ö99":               "0123456...",
		"01234567ö9":               "0123456...",
		"\u202e\u202e\u202e\u202e": "???...",
		"012345678ö":               "0123456...",
	} {
		got := console.Bounded(text, 10)
		if got != want || len(got) > 10 || !utf8.ValidString(got) {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
