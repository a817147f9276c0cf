package report

import (
	"bytes"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
	"gotest.tools/v3/golden"

	"github.com/podgrace/podgrace/cli/review"
	"github.com/podgrace/podgrace/internal/console"
)

// formats are the ways in which each sample is printed. The page has tests of its own.
var formats = []struct {
	name   string
	format Format
	Options
}{
	{"text", "", Options{}},
	{"text at 80 columns, in colours", FormatText, Options{Style: console.Style{Width: 80, Color: true}}},
	{"text, all", FormatText, Options{All: true, Style: console.Style{Width: 100}}},
	{"details", FormatText, Options{Details: true}},
	{"details at 80 columns, in colours", FormatText, Options{Details: true, Style: console.Style{Width: 80, Color: true}}},
	{"details, all", FormatText, Options{Details: true, All: true, Style: console.Style{Width: 100}}},
	{"table", FormatTable, Options{}},
	{"table at 100 columns, in colours, all", FormatTable, Options{All: true, Style: console.Style{Width: 100, Color: true}}},
	{"json", FormatJSON, Options{}},
	{"sarif", FormatSARIF, Options{Version: "v1.2.3"}},
	{"junit", FormatJUnit, Options{}},
	{"github", FormatGitHub, Options{}},
	{"markdown", FormatMarkdown, Options{}},
	{"openreports", FormatOpenReports, Options{}},
}

func TestGolden(t *testing.T) {
	for name, r := range samples() {
		t.Run(name, func(t *testing.T) {
			got := &txtar.Archive{}
			for _, g := range formats {
				// An escape would be lost on the reader of the file.
				text := strings.ReplaceAll(printed(t, g.format, r, g.Options), "\x1b", "␛")
				got.Files = append(got.Files, txtar.File{Name: g.name, Data: []byte(text)})
			}
			golden.Assert(t, string(txtar.Format(got)), name+".txtar")
		})
	}
}

func printed(t testing.TB, format Format, r *review.Report, o Options) string {
	t.Helper()
	var out bytes.Buffer
	if err := Write(&out, format, r, o); err != nil {
		t.Fatal(err)
	}
	return out.String()
}
