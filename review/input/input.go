package input

import (
	"fmt"
	"io"
	"iter"
)

// Limits. A real manifest is a few KiB, and the API server takes 3 MiB at most.
const (
	// maxDocument in bytes is how large a YAML document, or a JSON object outside a list, may be; and what a YAML document's anchors
	// may make of it.
	maxDocument = 64 << 20
	// maxErrors of one file are told; the others are counted.
	maxErrors = 20
)

// Document is one object of the input.
type Document struct {
	File string
	// Line where the object begins, from 1: its first key, or its opening brace.
	Line int
	// JSON of the object, which is a JSON object with apiVersion and kind.
	JSON []byte
	// APIVersion, Kind, Namespace and Name as the object says.
	APIVersion, Kind, Namespace, Name string
}

// Error is one thing that is wrong in the input. Line is 0 where no line is to blame.
type Error struct {
	File    string `json:"file"`
	Line    int    `json:"line,omitempty"`
	Message string `json:"message"`
}

func (e *Error) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("%s: %s", e.File, e.Message)
	}
	return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Message)
}

// Reader reads documents.
type Reader struct {
	// Stdin is what the path "-" stands for.
	Stdin io.Reader
	// Files that were read so far.
	Files int
	// Lists that were read so far. An empty one gives no document, and yet something was there.
	Lists int

	// limit in bytes instead of maxDocument, for tests.
	limit     int
	stdinRead bool
}

// Read gives every document of the paths: files, folders with all that is in them, and "-". What is wrong is given as an Error in
// place of the document, and the rest is read on. Of a pair, one is nil. The objects of a list are documents of their own, and
// the list is none; an empty document is none either.
func (r *Reader) Read(paths ...string) iter.Seq2[*Document, *Error] {
	return func(yield func(*Document, *Error) bool) {
		for _, path := range paths {
			if !r.path(path, yield) {
				return
			}
		}
	}
}

// stream reads one file. False: no more is wanted.
func (r *Reader) stream(name string, from io.Reader, yield func(*Document, *Error) bool) bool {
	r.Files++
	limit := r.limit
	if limit == 0 {
		limit = maxDocument
	}
	out := &sink{file: name, yield: yield}
	s := &splitter{source: source{from: from, line: 1}, sink: out, limit: limit}
	s.run()
	r.Lists += out.lists
	return out.finish()
}

// sink takes what is found in one file.
type sink struct {
	file    string
	yield   func(*Document, *Error) bool
	errors  int
	lists   int
	stopped bool
}

func (s *sink) document(d *Document) {
	if !s.stopped {
		d.File = s.file
		s.stopped = !s.yield(d, nil)
	}
}

func (s *sink) fail(line int, format string, args ...any) {
	s.errors++
	if !s.stopped && s.errors <= maxErrors {
		s.stopped = !s.yield(nil, &Error{File: s.file, Line: line, Message: fmt.Sprintf(format, args...)})
	}
}

// finish tells how many errors were not told. False: no more is wanted.
func (s *sink) finish() bool {
	if more := s.errors - maxErrors; more > 0 && !s.stopped {
		s.stopped = !s.yield(nil, &Error{File: s.file, Message: fmt.Sprintf("and %d more errors in this file", more)})
	}
	return !s.stopped
}
