package report

import (
	"errors"
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/podgrace/podgrace/cli/review/reviewtest"
	"github.com/podgrace/podgrace/internal/console"
)

// Whatever a manifest says: nothing that a format prints steers a terminal or commands a CI system.
func TestHostileTextIsHarmless(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := reviewtest.HostileReport().Draw(rt, "report")
		for _, p := range printers {
			if p.format == FormatHTML {
				continue // a page is for a browser, and has tests of its own
			}
			out := printed(t, p.format, r, Options{Details: rapid.Bool().Draw(rt, "details"), Style: console.Style{Width: rapid.SampledFrom([]int{0, 41, 80, 200}).Draw(rt, "width")}})
			if found := harmful(out, p.format); found != "" {
				rt.Fatalf("%s prints %s:\n%q", p.format, found, out)
			}
		}
	})
}

// marker is that of logging commands.
var marker = regexp.MustCompile(`##\w*\[`)

// harmful says what is wrong with an output, if anything is.
func harmful(out string, format Format) string {
	if !utf8.ValidString(out) {
		return "what is no UTF-8"
	}
	for line := range strings.Lines(out) {
		line = strings.TrimSuffix(line, "\n")
		if i := strings.IndexFunc(line, func(r rune) bool { return !unicode.IsPrint(r) && r != '\u200b' }); i >= 0 {
			return "an unprintable character"
		}
		if strings.HasPrefix(strings.TrimSpace(line), "::") && format != FormatGitHub {
			return "a workflow command"
		}
		if marker.MatchString(line) {
			return "a logging command"
		}
	}
	return ""
}

// With colours, the only escapes are those of the colours.
func TestColoursAreTheOnlyEscapes(t *testing.T) {
	colours := strings.NewReplacer(console.Red, "", console.Green, "", console.Yellow, "", console.Purple, "", console.Cyan, "", console.Bold, "", console.Faint, "", "\x1b[0m", "")
	rapid.Check(t, func(rt *rapid.T) {
		r := reviewtest.HostileReport().Draw(rt, "report")
		o := Options{All: true, Details: rapid.Bool().Draw(rt, "details"), Style: console.Style{Width: 80}}
		for _, format := range []Format{FormatText, FormatTable} {
			o.Color = false
			plain := printed(t, format, r, o)
			o.Color = true
			if coloured := printed(t, format, r, o); colours.Replace(coloured) != plain {
				rt.Fatalf("%q is not %q in colours", coloured, plain)
			}
		}
	})
}

type fullDisk struct{}

var errNoSpace = errors.New("no space left on device")

func (fullDisk) Write([]byte) (int, error) { return 0, errNoSpace }

func TestWriteErrors(t *testing.T) {
	for _, p := range printers {
		if err := Write(fullDisk{}, p.format, samples()["mixed"], Options{}); !errors.Is(err, errNoSpace) || !strings.Contains(err.Error(), string(p.format)) {
			t.Errorf("%s: %v", p.format, err)
		}
	}
	err := Write(fullDisk{}, "yaml", samples()["mixed"], Options{})
	if want := `unknown format "yaml": it is one of text, table, json, sarif, junit, github, markdown, html, openreports, policyreport`; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
