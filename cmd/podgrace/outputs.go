package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/podgrace/podgrace/cli/report"
	"github.com/podgrace/podgrace/cli/review"
	"github.com/podgrace/podgrace/internal/console"
)

// outputs are the values of -o, FORMAT or FORMAT=FILE: one review is printed in several formats, since a CI system wants one and its reader
// another. It is a flag's value (pflag.Value).
type outputs struct {
	list []output
	// given: the list is no longer the default.
	given bool
}

// output is one of them; an empty file is stdout.
type output struct {
	format report.Format
	file   string
}

func newOutputs() outputs { return outputs{list: []output{{format: report.FormatText}}} }

// Set is pflag.Value's.
func (o *outputs) Set(text string) error {
	format, file, toFile := strings.Cut(text, "=")
	var out output
	if err := out.format.Set(format); err != nil {
		return err
	}
	if toFile && file == "" {
		return fmt.Errorf("%s= has an empty path; is a variable not set?", format)
	}
	if out.file = file; file == "-" {
		out.file = ""
	}
	if !o.given {
		o.list, o.given = nil, true
	}
	o.list = append(o.list, out)
	return nil
}

// String is pflag.Value's.
func (o *outputs) String() string {
	var all []string
	for _, out := range o.list {
		text := string(out.format)
		if out.file != "" {
			text += "=" + out.file
		}
		all = append(all, text)
	}
	return strings.Join(all, ",")
}

// Type is pflag.Value's.
func (o *outputs) Type() string { return "format[=file]" }

// Validate says what is wrong with them together.
func (o *outputs) Validate() error {
	var files []string
	for _, out := range o.list {
		if slices.Contains(files, out.file) {
			if out.file == "" {
				return errors.New("two formats would be printed on stdout: write all but one into files, as in -o text -o sarif=FILE")
			}
			return fmt.Errorf("two formats would be written into %s", out.file)
		}
		files = append(files, out.file)
	}
	return nil
}

// has reports whether one of the formats is among them.
func (o *outputs) has(formats ...report.Format) bool {
	return slices.ContainsFunc(o.list, func(out output) bool { return slices.Contains(formats, out.format) })
}

// needPods reports whether a format shows the pods, which a review of many otherwise leaves out.
func (o *outputs) needPods() bool {
	return o.has(report.FormatText, report.FormatMarkdown, report.FormatHTML)
}

// write prints the report in each of the formats. A file is no terminal.
func (o *outputs) write(stdout io.Writer, r *review.Report, options report.Options) error {
	var errs []error
	for _, out := range o.list {
		if out.file == "" {
			errs = append(errs, report.Write(stdout, out.format, r, options))
			continue
		}
		plain := options
		plain.Style = console.Style{}
		errs = append(errs, writeFile(out, r, plain))
	}
	return errors.Join(errs...)
}

// writeFile puts a report into a file, in place of what was in it.
func writeFile(out output, r *review.Report, options report.Options) error {
	file, err := os.Create(out.file)
	if err != nil {
		return fmt.Errorf("write the report as %s: %w", out.format, err)
	}
	if err := errors.Join(report.Write(file, out.format, r, options), file.Close()); err != nil {
		return fmt.Errorf("write %s: %w", out.file, err)
	}
	return nil
}
