package console

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"unicode/utf16"
	"unicode/utf8"
)

// EncodeJSON writes a value as indented JSON of which a terminal and a CI system may see every byte: what Visible would write
// otherwise is a JSON escape.
func EncodeJSON(w io.Writer, value any) error {
	out := bufio.NewWriter(w)
	encoder := json.NewEncoder(escaper{out, true})
	encoder.SetIndent("", "  ")
	if err := cmp.Or(encoder.Encode(value), out.Flush()); err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	return nil
}

// escaper escapes what is not to be seen. It works on the text, which it gets as a whole: outside of strings, JSON is printable ASCII without #.
type escaper struct {
	w io.Writer
	// inert: also the marker of a CI system's commands.
	inert bool
}

// Write is io.Writer's. Who looks at the last error alone has a writer that fails again, as bufio's does.
func (e escaper) Write(text []byte) (int, error) {
	rest, shown := text, 0
	for shown < len(rest) {
		r, size := rune(rest[shown]), 1
		if r >= utf8.RuneSelf {
			r, size = utf8.DecodeRune(rest[shown:])
		}
		if hidden := r != '\n' && unprintable(r) || e.inert && r == '#' && bytes.HasPrefix(rest[shown:], []byte("##")); !hidden {
			shown += size
			continue
		}
		_, _ = e.w.Write(rest[:shown])
		for _, unit := range utf16.AppendRune(nil, r) {
			fmt.Fprintf(e.w, `\u%04x`, unit)
		}
		rest, shown = rest[shown+size:], 0
	}
	_, err := e.w.Write(rest)
	return len(text), err
}
