package report

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/podgrace/podgrace/cli/review"
	"github.com/podgrace/podgrace/internal/console"
)

// Format is how a report is printed. It is a flag's value (pflag.Value).
type Format string

// The formats.
const (
	FormatText     Format = "text"
	FormatTable    Format = "table"
	FormatJSON     Format = "json"
	FormatSARIF    Format = "sarif"
	FormatJUnit    Format = "junit"
	FormatGitHub   Format = "github"
	FormatMarkdown Format = "markdown"
	FormatHTML     Format = "html"
	// FormatOpenReports is Report of openreports.io, FormatPolicyReport its predecessor of wgpolicyk8s.io.
	FormatOpenReports  Format = "openreports"
	FormatPolicyReport Format = "policyreport"
)

// Options of a print. The zero value is what a file or a pipe gets.
type Options struct {
	// Style of text.
	console.Style
	// Details: text has a block for each result, with the reason of each change.
	Details bool
	// All: text has also the results of which there is nothing to say, and all that share one thing that is said.
	All bool
	// Dir is the working directory. Where programs read the paths, absolute ones below it are written relative to it.
	Dir string
	// Version of the program, for SARIF and the page; may be empty.
	Version string
	// Made is when the review was, for the page, which may be read long after; zero: it does not say.
	Made time.Time
}

type printer struct {
	format Format
	print  func(io.Writer, *review.Report, Options) error
}

// printers in the order in which a person is offered them.
var printers = []printer{
	{FormatText, writeText},
	{FormatTable, writeTable},
	{FormatJSON, writeJSON},
	{FormatSARIF, writeSARIF},
	{FormatJUnit, writeJUnit},
	{FormatGitHub, writeGitHub},
	{FormatMarkdown, writeMarkdown},
	{FormatHTML, writeHTML},
	{FormatOpenReports, openReports.write},
	{FormatPolicyReport, policyReports.write},
}

// Formats are all of them, the default first.
func Formats() []Format {
	formats := make([]Format, len(printers))
	for i, p := range printers {
		formats[i] = p.format
	}
	return formats
}

// Write prints the report; an empty format is FormatText.
func Write(w io.Writer, format Format, r *review.Report, o Options) error {
	if err := format.Set(string(format)); err != nil {
		return err
	}
	for _, p := range printers {
		if p.format != format {
			continue
		}
		buffer := bufio.NewWriter(w)
		err := p.print(buffer, r, o)
		if err == nil {
			err = buffer.Flush()
		}
		if err != nil {
			return fmt.Errorf("print the report as %s: %w", format, err)
		}
	}
	return nil
}

// Set is pflag.Value's.
func (f *Format) Set(text string) error {
	if text == "" {
		text = string(FormatText)
	}
	var names []string
	for _, p := range printers {
		if names = append(names, string(p.format)); string(p.format) == text {
			*f = p.format
			return nil
		}
	}
	return fmt.Errorf("unknown format %q: it is one of %s", text, strings.Join(names, ", "))
}

// String is pflag.Value's.
func (f *Format) String() string { return string(*f) }

// Type is pflag.Value's.
func (f *Format) Type() string { return "format" }

// writeJSON prints the report by its own tags; lists that are always there are so when they are empty, too.
func writeJSON(w io.Writer, r *review.Report, _ Options) error {
	whole := *r
	whole.Results = slices.Clone(r.Results)
	if whole.Results == nil {
		whole.Results = []review.Result{}
	}
	for i := range whole.Results {
		result := &whole.Results[i]
		result.Warnings = orEmpty(result.Warnings)
		result.Patch = orEmpty(result.Patch)
		result.Policies = orEmpty(result.Policies)
	}
	return console.EncodeJSON(w, whole)
}

func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
