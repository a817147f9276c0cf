package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/podgrace/podgrace/review"
)

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
	return encode(w, whole)
}

func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// encode writes a value as indented JSON of which a terminal and a CI system may see every byte: what visible would write
// otherwise is a JSON escape.
func encode(w io.Writer, value any) error {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(value); err != nil {
		return err
	}
	_, err := w.Write(escapeJSON(text.Bytes()))
	return err
}

// escapeJSON escapes what is not to be seen. It works on the text: outside of strings, JSON is printable ASCII without #.
func escapeJSON(text []byte) []byte {
	out := make([]byte, 0, len(text))
	for len(text) > 0 {
		r, size := rune(text[0]), 1
		if r >= utf8.RuneSelf {
			r, size = utf8.DecodeRune(text)
		}
		hidden := r != '\n' && unprintable(r) || r == '#' && bytes.HasPrefix(text, []byte("##"))
		if !hidden {
			out = append(out, text[:size]...)
		} else {
			for _, unit := range utf16.AppendRune(nil, r) {
				out = fmt.Appendf(out, `\u%04x`, unit)
			}
		}
		text = text[size:]
	}
	return out
}
