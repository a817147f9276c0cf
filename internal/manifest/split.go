package manifest

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
)

// splitter makes documents of a stream. Each document is looked at again: YAML and JSON may follow each other.
type splitter struct {
	source
	sink  *Reader
	limit int
	// afterJSON says that the document before was JSON.
	afterJSON bool
	// onlyJSON says that broken JSON was found to be no YAML either: it is not tried again, for each line of a long file.
	onlyJSON bool
	// ended says that the document before ended with "...", and that no separator followed.
	ended bool
}

const bom = "\ufeff"

// sniff in bytes is how much of a file is looked at to see that it is no text.
const sniff = 8 << 10

func (s *splitter) run() {
	if what := s.binary(); what != "" {
		s.sink.unreadable(what)
		return
	}
	for !s.sink.stopped && s.skip() {
		switch {
		case s.looksLikeJSON(0):
			s.json()
		case s.afterJSON && strings.IndexByte(",]}:", s.buf[0]) >= 0:
			s.sink.fail(s.line, "JSON: unexpected %q after an object", s.buf[0])
			s.resync(1)
		default:
			s.yaml()
		}
	}
	if s.err != nil {
		s.sink.manifest() // what was not read may be one
		s.sink.fail(s.line, "read: %s", Reason(s.err))
	}
}

// binary says what the file is if it is no text in UTF-8.
func (s *splitter) binary() string {
	s.has(sniff)
	start := s.buf[:min(len(s.buf), sniff)]
	switch {
	case bytes.HasPrefix(start, []byte("\xff\xfe")), bytes.HasPrefix(start, []byte("\xfe\xff")):
		return "text in UTF-16; save it as UTF-8"
	case bytes.IndexByte(start, 0) >= 0:
		return "a binary file (it has NUL bytes), neither YAML nor JSON"
	}
	return ""
}

// skip drops what is between documents: empty lines, comments, separators of nothing. False: the file ends.
func (s *splitter) skip() bool {
	for s.has(1) {
		switch c := s.buf[0]; {
		case c == '\n':
			s.drop(1)
		case c == '#':
			s.dropLine()
		case s.starts(bom):
			s.drop(len(bom))
		case (s.isMarker("...") || s.isMarker("---")) && s.bareLine():
			s.ended = s.ended && c == '.'
			s.dropLine()
		case c == ' ' || c == '\t' || c == '\r':
			// White space may be the indentation of YAML, which is the document's.
			if !s.dropBlank() {
				return true
			}
		default:
			return true
		}
	}
	return false
}

// dropBlank drops white space up to the end of the line, or before JSON or a comment. False: there is something else.
func (s *splitter) dropBlank() bool {
	n := s.blank(0)
	if !s.has(n + 1) {
		s.drop(n)
		return true
	}
	if c := s.buf[n]; c != '\n' && c != '#' && !s.looksLikeJSON(n) {
		return false
	}
	s.drop(n)
	return true
}

// blank is the offset after spaces, tabs and carriage returns.
func (s *splitter) blank(from int) int {
	for s.has(from+1) && (s.buf[from] == ' ' || s.buf[from] == '\t' || s.buf[from] == '\r') {
		from++
	}
	return from
}

// space is the offset after white space and line breaks.
func (s *splitter) space(from int) int {
	for from = s.blank(from); s.has(from+1) && s.buf[from] == '\n' && from < sniff; {
		from = s.blank(from + 1)
	}
	return from
}

// isMarker reports whether the file goes on with --- or ... as YAML has them: at the start of a line, and a word of its own.
func (s *splitter) isMarker(marker string) bool {
	return s.starts(marker) && (!s.has(len(marker)+1) || isMarker(s.buf[:len(marker)+1], marker))
}

func isMarker(line []byte, marker string) bool {
	rest, ok := bytes.CutPrefix(line, []byte(marker))
	return ok && (len(rest) == 0 || strings.IndexByte(" \t\r\n", rest[0]) >= 0)
}

// bareLine reports whether nothing but a comment follows the marker.
func (s *splitter) bareLine() bool {
	n := s.blank(len("---"))
	return !s.has(n+1) || s.buf[n] == '\n' || s.buf[n] == '#' && n > len("---")
}

// looksLikeJSON reports whether at an offset there is a JSON value and no flow mapping of YAML, whose keys are rarely quoted. A comment of JavaScript is
// neither's, and the words of a JSON parser are the plainer ones.
func (s *splitter) looksLikeJSON(n int) bool {
	if s.buf[n] != '{' && s.buf[n] != '[' {
		return false
	}
	open := s.buf[n]
	n = s.space(n + 1)
	if !s.has(n + 1) {
		return false
	}
	return s.buf[n] == '"' || s.buf[n] == '/' || s.buf[n] == open+2 || open == '[' && (s.buf[n] == '{' || s.buf[n] == '[')
}

// named reports whether the file is JSON by its name, and never YAML.
func (s *splitter) named() bool {
	return slices.Contains([]string{".json", ".jsonl", ".ndjson"}, strings.ToLower(filepath.Ext(s.sink.File)))
}

// yaml reads a YAML document.
func (s *splitter) yaml() {
	s.afterJSON = false
	end, ok := s.document()
	if !ok {
		s.sink.fail(s.line, "a YAML document of more than %s; split it, or write a list as JSON, which is read item by item", inBytes(s.limit))
		s.dropDocument()
		return
	}
	if s.err == nil || end < len(s.buf) { // else it may go on
		readYAML(s.buf[:end], s.line, s.limit, s.sink)
	}
	s.drop(end)
}

// document is the offset after the YAML document that begins here: directives, a separator and what it opens. False: too large.
func (s *splitter) document() (int, bool) {
	begun := false
	for at := 0; s.has(at + 1); {
		end, ok := s.endOfLine(at, s.limit)
		if !ok {
			return 0, false
		}
		line := s.buf[at:end]
		switch {
		case isMarker(line, "---"):
			if begun {
				return at, true
			}
			begun, s.ended = true, false
			s.refuseSeparator(at, line)
		case isMarker(line, "..."):
			s.ended = true
			return end, true
		case line[0] == '#' || len(bytes.TrimSpace(line)) == 0:
		case line[0] == '%' && !begun:
			if !s.ended {
				s.sink.refuse(s.lineAt(at), "kubectl does not take a directive before a document: %s", bytes.TrimSpace(line))
			}
		default:
			if s.ended && !begun {
				s.sink.refuse(s.lineAt(at), "kubectl passes over a document that follows the end of another (...) without a separator (---)")
			}
			begun = true
		}
		at = end
	}
	return len(s.buf), true
}

// What kubectl makes of a stream is in k8s.io/apimachinery pkg/util/yaml/decoder.go, 0.36.3: YAMLReader.Read cuts it at the separators, and
// YAMLToJSONDecoder.Decode reads the first document of each part.

// refuseSeparator notes a separator with something after it, which kubectl does not take.
func (s *splitter) refuseSeparator(at int, line []byte) {
	if rest := bytes.TrimSpace(line[len("---"):]); len(rest) > 0 && rest[0] != '#' {
		s.sink.refuse(s.lineAt(at), "kubectl does not take what stands after a separator of documents (---) in its line: begin a new line")
	}
}

// dropDocument drops a document that is too large up to the next separator.
func (s *splitter) dropDocument() {
	for s.dropLine(); s.has(1) && !s.isMarker("---"); {
		s.dropLine()
	}
}

// resync drops what is left of broken JSON after an offset: up to a line that begins with a brace or separates documents.
func (s *splitter) resync(from int) {
	s.afterJSON = false
	if from > 0 && s.has(from+1) && s.buf[from-1] == '\n' && s.begins(from) {
		s.drop(from)
		return
	}
	s.drop(min(from, len(s.buf)))
	for s.dropLine(); s.has(1) && !s.begins(0); {
		s.dropLine()
	}
}

func (s *splitter) begins(at int) bool {
	s.has(at + 4)
	return s.buf[at] == '{' || isMarker(s.buf[at:min(at+4, len(s.buf))], "---")
}

// notText says where text is not what YAML and JSON are made of; -1: nowhere.
func notText(text []byte) (int, string) {
	if i := bytes.IndexByte(text, 0); i >= 0 {
		return i, "a NUL byte: not text"
	}
	if utf8.Valid(text) {
		return -1, ""
	}
	for i := 0; ; {
		r, n := utf8.DecodeRune(text[i:])
		if r == utf8.RuneError && n <= 1 {
			return i, "text that is not UTF-8"
		}
		i += n
	}
}

func inBytes(n int) string {
	if n >= 1<<20 {
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%d bytes", n)
}
