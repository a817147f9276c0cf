package report

import (
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/podgrace/podgrace/page"
	"github.com/podgrace/podgrace/review"
	"github.com/podgrace/podgrace/review/input"
)

// nasty are texts that mean something to one format or another.
var nasty = []string{
	"\x1b[2J", "\x1b]0;title\a", "\u009b31m", "\r", "\n", "\n::error::x", "  ::add-mask::x", "##vso[task.complete]x", "##[error]x", "##teamcity[x]",
	"</script>", "<img src=x onerror=y>", "]]>", "|", "`", "```", "@all", "#1", "$x$", "%0A", "%", ",", ":", "\x00", "\x7f", "\xff", "\u202e", "\u2028", "\ufeff", "\ufffd",
	"\U000e0041", "~", "/", "\\", "- ", "{", "'", `"`, "https://x", strings.Repeat("long ", 500), strings.Repeat("x", 3000),
}

func hostileText() *rapid.Generator[string] {
	piece := rapid.OneOf(rapid.SampledFrom(nasty), rapid.StringN(0, 8, -1), rapid.StringMatching(`[a-z :]{1,8}`))
	return rapid.Map(rapid.SliceOfN(piece, 0, 4), func(pieces []string) string { return strings.Join(pieces, "") })
}

func hostileResult() *rapid.Generator[review.Result] {
	return rapid.Custom(func(t *rapid.T) review.Result {
		text := func(name string) string { return hostileText().Draw(t, name) }
		list := func(name string) []string { return rapid.SliceOfN(hostileText(), 0, 2).Draw(t, name) }
		r := review.Result{
			Resource:  review.Resource{Kind: text("kind"), Namespace: text("namespace"), Name: text("name")},
			Source:    review.Source{File: text("file"), Line: rapid.IntRange(0, 99).Draw(t, "line")},
			Operation: rapid.SampledFrom([]string{"CREATE", "DELETE", text("operation")}).Draw(t, "an operation"), User: text("user"),
			Decision: rapid.SampledFrom([]review.Decision{review.Allowed, review.Denied}).Draw(t, "decision"),
			Reason:   text("reason"), Message: text("message"), Warnings: list("warnings"), Unknown: list("unknown"), Policies: list("policies"),
			Why: map[string]string{"enforcement": text("reason")}, Changes: []review.Change{{Path: "/metadata/annotations", Name: text("name"), Value: text("changed"), Why: text("why")}},
		}
		key, value := text("key"), text("value")
		raw, err := json.Marshal(map[string]any{key: map[string]any{"a": value}, "b": []string{value}})
		if err != nil {
			t.Fatal(err)
		}
		switch rapid.IntRange(0, 3).Draw(t, "patch") {
		case 1:
			r.Patch = []review.Operation{{Op: "add", Path: "/metadata/annotations", Value: raw}, {Op: "remove", Path: "/spec/" + key}}
		case 2:
			r.Patch = []review.Operation{{Op: "add", Path: key, Value: raw}}
			r.Before, r.After = json.RawMessage(`{"`+"a"+`":[{"name":"x"}]}`), raw
		case 3:
			r.Patch = []review.Operation{{Op: "add", Path: ""}}
		}
		return r
	})
}

func hostileReport() *rapid.Generator[*review.Report] {
	return rapid.Custom(func(t *rapid.T) *review.Report {
		var errs []*input.Error
		for range rapid.IntRange(0, 2).Draw(t, "errors") {
			errs = append(errs, &input.Error{File: hostileText().Draw(t, "its file"), Line: rapid.IntRange(0, 9).Draw(t, "its line"), Message: hostileText().Draw(t, "its message")})
		}
		r := review.NewReport(1, 0, rapid.SliceOfN(hostileResult(), 0, 3).Draw(t, "results"), errs)
		for i := range r.Results {
			text := hostileText().Draw(t, "remark")
			r.Remarks = append(r.Remarks, review.Remark{Policy: text, Message: text})
			r.Repeated = append(r.Repeated, review.Repeated{Resource: r.Results[i].Resource, Sources: []review.Source{{File: text}, {File: text, Line: 1}}})
		}
		return r
	})
}

// Whatever a manifest says: nothing that a format prints steers a terminal or commands a CI system.
func TestHostileTextIsHarmless(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := hostileReport().Draw(rt, "report")
		for _, p := range printers {
			if p.format == FormatHTML {
				continue // a page is for a browser, and has tests of its own
			}
			out := printed(t, p.format, r, Options{Width: rapid.SampledFrom([]int{0, 41, 80, 200}).Draw(rt, "width"), Details: rapid.Bool().Draw(rt, "details")})
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
	colours := strings.NewReplacer(page.Red, "", page.Green, "", page.Yellow, "", red, "", green, "", yellow, "", purple, "", cyan, "", bold, "", faint, "", reset, "")
	rapid.Check(t, func(rt *rapid.T) {
		r := hostileReport().Draw(rt, "report")
		o := Options{Width: 80, All: true, Details: rapid.Bool().Draw(rt, "details")}
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
