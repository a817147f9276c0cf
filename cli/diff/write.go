package diff

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"github.com/podgrace/podgrace/internal/console"
)

// Options of a print. The zero value is what a file or a pipe gets.
type Options struct {
	// Style of text.
	Style console.Style
	// All: text has all there is, even if it does not fit a screen.
	All bool
}

var printers = []struct {
	format string
	print  func(io.Writer, *Diff, Options) error
}{{"text", writeText}, {"json", writeJSON}, {"markdown", writeMarkdown}}

// Formats are the names of all formats, the default first.
func Formats() []string {
	var names []string
	for _, p := range printers {
		names = append(names, p.format)
	}
	return names
}

// Write prints the Diff.
func Write(w io.Writer, format string, d *Diff, o Options) error {
	for _, p := range printers {
		if p.format != format {
			continue
		}
		buffer := bufio.NewWriter(w)
		err := p.print(buffer, d, o)
		if err == nil {
			err = buffer.Flush()
		}
		if err != nil {
			return fmt.Errorf("print the difference as %s: %w", format, err)
		}
		return nil
	}
	return fmt.Errorf("unknown format %q: it is one of %s", format, strings.Join(Formats(), ", "))
}
