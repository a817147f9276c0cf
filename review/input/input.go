package input

import (
	"fmt"
	"io"
	"iter"

	"go.yaml.in/yaml/v3"
)

// Limits. A real manifest is a few KiB, and the API server takes 3 MiB at most.
const (
	// maxDocument in bytes is how large a YAML document, or a JSON object outside a list, may be; and what a YAML document's anchors
	// may make of it.
	maxDocument = 64 << 20
	// maxErrors of one file are told; the others are counted.
	maxErrors = 20
)

// stdin is the path of standard input, and never that of a file of this name.
const stdin = "-"

// Document is one object of the input.
type Document struct {
	File string
	// Line where the object begins, from 1: its first key, or its opening brace.
	Line int
	// Rendered: the object is not in the file as it is, but was made of it. It has no line.
	Rendered bool
	// Node of an object that stands within another one, as in a suite; nil: the object is one of its file's.
	Node *yaml.Node
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
	// Field of the object at Line that is to blame, until Locate has found its own line; empty: none.
	Field string `json:"-"`
}

func (e *Error) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("%s: %s", e.File, e.Message)
	}
	return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Message)
}

// What Reader.Render can have.
const (
	// RenderHelm runs the helm on the PATH.
	RenderHelm = "helm"
	// RenderKustomize builds as kubectl kustomize does, of what is on this machine.
	RenderKustomize = "kustomize"
)

// Reader reads documents.
type Reader struct {
	// Stdin is what the path "-" stands for.
	Stdin io.Reader
	// Files that were read so far.
	Files int
	// Lists that were read so far. An empty one gives no document, and yet something was there.
	Lists int
	// Listed are the kinds of typed lists, each once.
	Listed []Listed

	// Exclude are patterns, as .gitignore has them, of files and folders that are not read. They are about paths as documents have them; below an
	// absolute path, or one that begins with "..", about paths below it.
	Exclude []string
	// Render are the charts and kustomizations of folders that are rendered: RenderHelm, RenderKustomize. The others are left out.
	Render []string
	// Namespace of a chart that is rendered; empty: helm's own.
	Namespace string
	// Plain: a folder with a chart or a kustomization is one as any other, of which each file is read.
	Plain bool
	// LeftOut is what was found in folders and was not read.
	LeftOut []LeftOut

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
func (r *Reader) stream(out *sink, from io.Reader) bool {
	r.Files++
	limit := r.limit
	if limit == 0 {
		limit = maxDocument
	}
	s := &splitter{source: source{from: from, line: 1}, sink: out, limit: limit}
	s.run()
	r.Lists += out.lists
	r.Listed = appendOnce(r.Listed, out.kinds...)
	if out.finish() && out.isForeign() {
		r.leaveOut(out.file, Foreign, "")
	}
	return !out.stopped
}

// sink takes what is found in one file.
type sink struct {
	file  string
	yield func(*Document, *Error) bool
	// found in a folder, and not named by anybody: it may be none of Kubernetes' business.
	found bool
	// rendered: the text is not the file's.
	rendered bool

	errors  int
	lists   int
	kinds   []Listed
	stopped bool
	// any says that there was a manifest, be it a wrong one; strange is what there was before it that is none.
	any     bool
	strange []*Error
	passed  int
}

func (s *sink) document(d *Document) {
	s.manifest()
	if !s.stopped {
		d.File = s.file
		if s.rendered {
			d.Rendered, d.Line = true, 0
		}
		s.stopped = !s.yield(d, nil)
	}
}

func (s *sink) fail(line int, format string, args ...any) {
	s.errors++
	if s.stopped || s.errors > maxErrors {
		return
	}
	e := &Error{File: s.file, Line: line, Message: fmt.Sprintf(format, args...)}
	if s.rendered && line > 0 {
		e.Line, e.Message = 0, fmt.Sprintf("line %d of what was rendered: %s", line, e.Message)
	}
	s.stopped = !s.yield(nil, e)
}

// foreign is wrong with a manifest, and with a file that was named to be reviewed. A folder has other files, too: values, schemas,
// the configuration of programs.
func (s *sink) foreign(line int, format string, args ...any) {
	if !s.found || s.any {
		s.fail(line, format, args...)
		return
	}
	if s.passed++; s.passed <= maxErrors {
		s.strange = append(s.strange, &Error{Line: line, Message: fmt.Sprintf(format, args...)})
	}
}

// manifest says that the file has one: then all of it should be.
func (s *sink) manifest() {
	if s.any {
		return
	}
	s.any = true
	for _, e := range s.strange {
		s.fail(e.Line, "%s", e.Message)
	}
	s.errors += s.passed - len(s.strange)
}

// isForeign says whether the file has something, but no manifest.
func (s *sink) isForeign() bool { return !s.any && s.passed > 0 && s.errors == 0 }

// finish tells how many errors were not told. False: no more is wanted.
func (s *sink) finish() bool {
	if more := s.errors - maxErrors; more > 0 && !s.stopped {
		s.stopped = !s.yield(nil, &Error{File: s.file, Message: fmt.Sprintf("and %d more errors in this file", more)})
	}
	return !s.stopped
}
