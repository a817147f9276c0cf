package input

import (
	"io"
	"iter"

	"github.com/podgrace/podgrace/internal/manifest"
)

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
	Listed []manifest.Listed

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
	// Refused are errors of kubectl about what was read nevertheless.
	Refused []*manifest.Error

	stdinRead bool
}

// Read gives every document of the paths: files, folders with all that is in them, and "-". What is wrong is given as an error in
// place of the document, and the rest is read on. Of a pair, one is nil. The objects of a list are documents of their own, and
// the list is none; an empty document is none either.
func (r *Reader) Read(paths ...string) iter.Seq2[*manifest.Document, *manifest.Error] {
	return func(yield func(*manifest.Document, *manifest.Error) bool) {
		for _, path := range paths {
			if !r.path(path, yield) {
				return
			}
		}
	}
}

// stream reads one file. False: no more is wanted.
func (r *Reader) stream(m *manifest.Reader, from io.Reader, yield func(*manifest.Document, *manifest.Error) bool) bool {
	r.Files++
	goesOn := m.Read(from, yield)
	r.read(m)
	return goesOn
}

// read takes what is to be known of a file that was read.
func (r *Reader) read(m *manifest.Reader) {
	r.Lists += m.Lists
	r.Listed = manifest.AppendListed(r.Listed, m.Listed...)
	r.Refused = append(r.Refused, m.Refused...)
	switch {
	case m.Foreign:
		r.leaveOut(m.File, Foreign, "")
	case m.Template:
		r.leaveOut(m.File, Template, "")
	}
	for range m.Encrypted {
		r.leaveOut(m.File, Encrypted, "")
	}
}
