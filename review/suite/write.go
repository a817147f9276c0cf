package suite

import (
	"fmt"
	"io"
	"strings"

	"github.com/podgrace/podgrace/console"
)

// Options of a print.
type Options struct {
	Style console.Style
	// Verbose: the table says what happened in each case.
	Verbose bool
}

type printer struct {
	name  string
	print func(io.Writer, *Report, Options) error
}

// printers in the order in which a person is offered them.
var printers = []printer{
	{"table", writeTable},
	{"junit", func(w io.Writer, r *Report, _ Options) error { return writeJUnit(w, r) }},
	{"json", func(w io.Writer, r *Report, _ Options) error { return console.EncodeJSON(w, r) }},
}

// Formats are the names of all formats, the default first.
func Formats() []string {
	var names []string
	for _, p := range printers {
		names = append(names, p.name)
	}
	return names
}

// Write prints the report in one of Formats.
func Write(w io.Writer, format string, r *Report, o Options) error {
	for _, p := range printers {
		if p.name == format {
			if err := p.print(w, r, o); err != nil {
				return fmt.Errorf("print the report as %s: %w", format, err)
			}
			return nil
		}
	}
	return fmt.Errorf("unknown format %q: it is one of %s", format, strings.Join(Formats(), ", "))
}
