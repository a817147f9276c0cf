package console

import (
	"bytes"
	"io"
	"strings"
)

// JSONWriter returns a writer of lines of JSON of which a terminal may see every byte, as with EncodeJSON; no CI system reads them. A call is one write, of whole characters.
func JSONWriter(w io.Writer) io.Writer {
	return lineWriter{w, func(text []byte) []byte {
		var shown bytes.Buffer
		_, _ = escaper{&shown, false}.Write(text) // a Buffer takes all
		return shown.Bytes()
	}}
}

// TextWriter is the like for text: it keeps line breaks and tabs, and writes all else that does not print as Visible does.
func TextWriter(w io.Writer) io.Writer {
	return lineWriter{w, func(text []byte) []byte {
		var shown strings.Builder
		for len(text) > 0 {
			end := bytes.IndexAny(text, "\n\t")
			if end < 0 {
				end = len(text)
			}
			shown.WriteString(Visible(string(text[:end])))
			shown.Write(text[end:min(end+1, len(text))])
			text = text[min(end+1, len(text)):]
		}
		return []byte(shown.String())
	}}
}

type lineWriter struct {
	w       io.Writer
	visible func([]byte) []byte
}

// Write is io.Writer's.
func (l lineWriter) Write(text []byte) (int, error) {
	if _, err := l.w.Write(l.visible(text)); err != nil {
		return 0, err
	}
	return len(text), nil
}
