package manifest

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"slices"

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

// Stdin is the name of standard input, and never that of a file of this name.
const Stdin = "-"

// Document is one object of a file.
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
	// APIVersion, Kind, Namespace, Name and GenerateName of the object.
	APIVersion, Kind, Namespace, Name, GenerateName string
	// Template is which of its Templates is meant, from 0, if the object has several pod templates.
	Template, Templates int
}

// Error is one thing that is wrong in a file, or a file that is. Line is 0 where no line is to blame.
type Error struct {
	File    string `json:"file"`
	Line    int    `json:"line,omitempty"`
	Message string `json:"message"`
	// Field of the object at Line that is to blame, until Locate has found its own line; empty: none.
	Field string `json:"-"`
	// Variable is the value of the field, if it is a variable that another program fills in; the object can't be read before.
	Variable string `json:"-"`
	// Whole: it is the path as a whole that is wrong, since it can't be read, or has nothing where it should.
	Whole bool `json:"-"`
}

func (e *Error) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("%s: %s", e.File, e.Message)
	}
	return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Message)
}

// Unread is why a file can't be read.
func Unread(file string, err error) *Error {
	return &Error{File: file, Message: Reason(err), Whole: true}
}

// Reason is an error of the file system without the path, which the Error has.
func Reason(err error) string {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		err = path.Err
	}
	return err.Error()
}

// Errors takes joined errors apart, and leaves out what was said before. One that is none of this package's has no file.
func Errors(err error) []*Error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var errs []*Error
		for _, e := range joined.Unwrap() {
			errs = append(errs, Errors(e)...)
		}
		return Unique(errs)
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return []*Error{e}
	}
	if err != nil {
		return []*Error{{Message: err.Error()}}
	}
	return nil
}

// Unique leaves out what was said before: a file may be read for several kinds of objects, and for several reasons.
func Unique(errs []*Error) []*Error {
	seen := map[Error]bool{}
	var kept []*Error
	for _, e := range errs {
		if !seen[*e] {
			seen[*e] = true
			kept = append(kept, e)
		}
	}
	return kept
}

// Join is the opposite of Errors; nil where there are none.
func Join(errs []*Error) error {
	var all []error
	for _, e := range errs {
		all = append(all, e)
	}
	return errors.Join(all...)
}

// Read gives every document of a file. What is wrong is given as an Error in place of the document, and the rest is read on. Of a pair,
// one is nil. The objects of a list are documents of their own, and the list is none; an empty document is none either.
func Read(file string, from io.Reader) iter.Seq2[*Document, *Error] {
	return func(yield func(*Document, *Error) bool) { (&Reader{File: file}).Read(from, yield) }
}

// Reader reads one file, as Read does, of which its caller knows or wants to know more.
type Reader struct {
	// File is its name.
	File string
	// Kinds of objects that are wanted; none: all. What is of another kind, or no object of Kubernetes, is passed over without a word.
	Kinds []string
	// Found in a folder, and not named by anybody: it may be none of Kubernetes' business.
	Found bool
	// Rendered: the text is not the file's.
	Rendered bool

	// Lists that were read. An empty one gives no document, and yet something was there.
	Lists int
	// Listed are the kinds of typed lists, each once.
	Listed []Listed
	// Encrypted are the lines of objects that SOPS has encrypted. They are passed over, unless Kinds names some.
	Encrypted []int
	// Foreign: the file was Found, and has something, but no manifest.
	Foreign bool
	// Template: the file was Found, and is a template that was not rendered.
	Template bool
	// Refused are errors of kubectl about what is read nevertheless.
	Refused []*Error

	// limit in bytes instead of maxDocument, for tests.
	limit int
	// decoded: nothing is skimmed, for tests.
	decoded bool

	yield   func(*Document, *Error) bool
	errors  int
	stopped bool
	// any says that there was a manifest, be it a wrong one; held are errors of a Found file before it.
	any  bool
	held []held
	// passed are documents of other programs.
	passed int
	// told of the errors.
	told int
	// templated says that something can't be read because of a template.
	templated bool
}

// held is an error that waits until it is known whether the file is a manifest.
type held struct {
	*Error
	// broken: it can't be read, rather than belong to another program.
	broken bool
}

// Read reads the file. False: yield wanted no more.
func (r *Reader) Read(from io.Reader, yield func(*Document, *Error) bool) bool {
	r.yield = yield
	if r.limit == 0 {
		r.limit = maxDocument
	}
	s := &splitter{source: source{from: from, line: 1}, sink: r, limit: r.limit}
	s.run()
	r.settle(s.mentions)
	r.finish()
	return !r.stopped
}

func (r *Reader) document(d *Document) {
	r.manifest()
	if !r.stopped {
		d.File = r.File
		if r.Rendered {
			d.Rendered, d.Line = true, 0
		}
		r.stopped = !r.yield(d, nil)
	}
}

func (r *Reader) fail(line int, format string, args ...any) {
	r.errors++
	e := &Error{File: r.File, Line: line, Message: fmt.Sprintf(format, args...)}
	if r.Rendered && line > 0 {
		e.Line, e.Message = 0, fmt.Sprintf("line %d of what was rendered: %s", line, e.Message)
	}
	switch {
	case !r.Found || r.any:
		r.tell(e)
	case r.errors <= maxErrors:
		r.held = append(r.held, held{e, true})
	}
}

// tell reports an error that is counted already.
func (r *Reader) tell(e *Error) {
	if r.told++; !r.stopped && r.told <= maxErrors {
		r.stopped = !r.yield(nil, e)
	}
}

// refuse notes an error of kubectl about what is read nevertheless.
func (r *Reader) refuse(line int, format string, args ...any) {
	n := len(r.Refused)
	if r.Rendered || n == maxErrors || n > 0 && r.Refused[n-1].Line >= line { // a document that may be JSON is looked at twice
		return
	}
	r.Refused = append(r.Refused, &Error{File: r.File, Line: line, Message: fmt.Sprintf(format, args...)})
}

// unreadable is wrong with the file as a whole.
func (r *Reader) unreadable(why string) {
	r.errors++
	r.stopped = !r.yield(nil, &Error{File: r.File, Message: why, Whole: true})
}

// foreign is wrong with a manifest, and with a file that was named. A folder has other files, too: values, schemas, the configuration
// of programs.
func (r *Reader) foreign(line int, format string, args ...any) {
	if !r.Found || r.any {
		r.fail(line, format, args...)
		return
	}
	if r.passed++; r.passed <= maxErrors {
		r.held = append(r.held, held{Error: &Error{File: r.File, Line: line, Message: fmt.Sprintf(format, args...)}})
	}
}

// manifest says that the file has one: then all of it should be.
func (r *Reader) manifest() {
	if r.any {
		return
	}
	r.any = true
	r.errors += r.passed
	for _, e := range r.held {
		r.tell(e.Error)
	}
}

// settle decides about a file that was Found and has no manifest. What can't be read in it is an error only if the file mentions an apiVersion, which each
// manifest has. A template is none until it is rendered.
func (r *Reader) settle(mentions bool) {
	switch {
	case r.any || len(r.held) == 0:
	case r.templated:
		r.Template, r.errors = true, 0
	case mentions && r.errors > 0:
		for _, e := range r.held {
			if e.broken {
				r.tell(e.Error)
			}
		}
	default:
		r.Foreign, r.errors = true, 0
	}
}

// wants reports whether objects of a kind are to be given.
func (r *Reader) wants(kind string) bool { return len(r.Kinds) == 0 || slices.Contains(r.Kinds, kind) }

// finish tells how many errors were not told.
func (r *Reader) finish() {
	if more := r.errors - maxErrors; more > 0 && !r.stopped {
		r.stopped = !r.yield(nil, &Error{File: r.File, Message: fmt.Sprintf("and %d more errors in this file", more)})
	}
}

// Listed is the kind of objects that a list was of, by the list's own type: a ServiceList is one of Services. A List says nothing.
type Listed struct{ APIVersion, Kind string }

// listed remembers each kind once.
func (r *Reader) listed(h *head) {
	r.Lists++
	if kind, ok := h.itemKind(); ok {
		r.Listed = AppendListed(r.Listed, Listed{h.apiVersion, kind})
	}
}

// AppendListed adds kinds that are not there yet.
func AppendListed(list []Listed, more ...Listed) []Listed {
	for _, l := range more {
		if !slices.Contains(list, l) {
			list = append(list, l)
		}
	}
	return list
}
