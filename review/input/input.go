// Package input reads what is to be reviewed: documents of YAML and JSON from files, folders and streams, each with the file and
// line that it came from.
package input

import (
	"fmt"
	"io"
	"iter"
)

// Document is one object of the input.
type Document struct {
	File string
	// Line where the object begins, from 1.
	Line int
	// JSON of the object, which is a JSON object with apiVersion and kind.
	JSON []byte
	// APIVersion, Kind, Namespace and Name as the object says.
	APIVersion, Kind, Namespace, Name string
}

// Error is one thing that is wrong in the input.
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
}

// Read gives every document of the paths: files, folders with all that is in them, and "-". What is wrong is given as an Error in
// place of the document, and the rest is read on.
func (r *Reader) Read(paths ...string) iter.Seq2[*Document, *Error] {
	panic("not there yet")
}
