package review

import (
	"github.com/podgrace/podgrace/manifest"
	"github.com/podgrace/podgrace/review/input"
)

// Inputs are documents that were read, in their order, and what could not be.
type Inputs struct {
	Files     int
	Documents []*manifest.Document
	LeftOut   []input.LeftOut
	Errors    []*manifest.Error
	// Listed are the kinds of which there was a typed list.
	Listed []manifest.Listed
}

// Read reads all documents of the paths.
func Read(r *input.Reader, paths ...string) Inputs {
	var in Inputs
	before, left := r.Files, len(r.LeftOut)
	for d, err := range r.Read(paths...) {
		if err != nil {
			in.Errors = append(in.Errors, err)
		} else {
			in.Documents = append(in.Documents, d)
		}
	}
	in.Files, in.LeftOut = r.Files-before, r.LeftOut[left:]
	in.Listed = r.Listed
	return in
}
