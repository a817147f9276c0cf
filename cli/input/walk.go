package input

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/podgrace/podgrace/internal/manifest"
)

// path reads what one path of the caller stands for. False: no more is wanted.
func (r *Reader) path(path string, yield func(*manifest.Document, *manifest.Error) bool) bool {
	if path == manifest.Stdin {
		if r.stdinRead || r.Stdin == nil {
			return yield(nil, &manifest.Error{File: path, Message: "standard input can be read only once, and was read already"})
		}
		r.stdinRead = true
		return r.stream(&manifest.Reader{File: path}, r.Stdin, yield)
	}
	info, err := os.Stat(path)
	if err != nil {
		return yield(nil, manifest.Unread(path, err))
	}
	excluded, err := r.excluded(path)
	if err != nil {
		return yield(nil, &manifest.Error{File: path, Message: err.Error()})
	}
	if !info.IsDir() {
		if excludes(path, false, excluded) {
			r.leaveOut(path, Excluded, "")
			return true
		}
		return r.file(&manifest.Reader{File: path}, yield)
	}
	return r.folder(path, excluded, yield)
}

// excluded are the patterns of the caller that hold for a path and what is below it.
func (r *Reader) excluded(path string) (ignored, error) {
	base := "."
	if !filepath.IsLocal(path) {
		base = filepath.Clean(path)
	}
	patterns, err := parsePatterns(base, strings.NewReader(strings.Join(r.Exclude, "\n")))
	if err != nil {
		return nil, fmt.Errorf("excluded: %w", err)
	}
	return patterns, nil
}

func (r *Reader) file(m *manifest.Reader, yield func(*manifest.Document, *manifest.Error) bool) bool {
	f, err := os.Open(m.File)
	if err != nil {
		return yield(nil, manifest.Unread(m.File, err))
	}
	defer f.Close()
	return r.stream(m, f, yield)
}

// folder reads a folder and what is below it, in the order of names.
func (r *Reader) folder(path string, excluded ignored, yield func(*manifest.Document, *manifest.Error) bool) bool {
	f := folder{reader: r, excluded: excluded}
	// The ignore files of the folders above, from the working directory on.
	if top := filepath.Clean(path); filepath.IsLocal(path) && top != "." {
		above := "."
		for part := range strings.SplitSeq(filepath.ToSlash(top), "/") {
			f.ignoreFile(above)
			above = filepath.Join(above, part)
		}
	}
	(&manifest.Folder{Endings: manifest.Endings, Found: f.file, Enter: f.enter, Excludes: f.passOver}).Walk(path)
	if len(f.found) == 0 && !f.leftOut {
		return yield(nil, &manifest.Error{File: path, Message: "no " + strings.Join(manifest.Endings, ", ") + " file in this folder"})
	}
	f.settle()
	for batch := range slices.Chunk(f.found, batchPerProcessor*runtime.GOMAXPROCS(0)) {
		ahead := r.ahead(batch)
		for i, found := range batch {
			var goesOn bool
			if ahead[i] != nil {
				goesOn = ahead[i].give(r, yield)
			} else {
				goesOn = r.made(found, yield)
			}
			if !goesOn {
				return false
			}
		}
	}
	return true
}

// batchPerProcessor is how many files of a folder are read ahead of their turn. YAML takes most of the time before a review can begin.
const batchPerProcessor = 4

// ahead reads files, on all processors. What is no file, but is rendered or wrong, is nil.
func (r *Reader) ahead(batch []found) []*fileRead {
	read := make([]*fileRead, len(batch))
	var workers errgroup.Group
	workers.SetLimit(runtime.GOMAXPROCS(0))
	for i, f := range batch {
		if f.wrong == "" && !f.chart && f.kustomization == nil {
			read[i] = &fileRead{reader: manifest.Reader{File: f.path, Found: !r.Plain}}
			workers.Go(read[i].read)
		}
	}
	_ = workers.Wait() // each has its own error
	return read
}

// fileRead is a file that was read ahead of its turn.
type fileRead struct {
	reader manifest.Reader
	pairs  []pair
	failed error // to open it
}

// pair is a document, or what is wrong in place of it.
type pair struct {
	document *manifest.Document
	wrong    *manifest.Error
}

func (f *fileRead) read() error {
	from, err := os.Open(f.reader.File)
	if err != nil {
		f.failed = err
		return nil
	}
	defer from.Close()
	f.reader.Read(from, func(d *manifest.Document, wrong *manifest.Error) bool {
		f.pairs = append(f.pairs, pair{d, wrong})
		return true
	})
	return nil
}

// give gives what was read, as stream does. False: no more is wanted.
func (f *fileRead) give(r *Reader, yield func(*manifest.Document, *manifest.Error) bool) bool {
	if f.failed != nil {
		return yield(nil, manifest.Unread(f.reader.File, f.failed))
	}
	r.Files++
	for _, p := range f.pairs {
		if !yield(p.document, p.wrong) {
			return false
		}
	}
	r.read(&f.reader)
	return true
}

// made gives what is made of what was found in a folder, or is wrong there. False: no more is wanted.
func (r *Reader) made(f found, yield func(*manifest.Document, *manifest.Error) bool) bool {
	switch {
	case f.wrong != "":
		return yield(nil, &manifest.Error{File: f.path, Message: f.wrong})
	case f.chart:
		text, err := r.renderChart(f.path)
		if err != nil {
			return yield(nil, &manifest.Error{File: f.path, Message: err.Error()})
		}
		for _, t := range templates(f.path, text) {
			if !r.stream(&manifest.Reader{File: t.file, Rendered: true}, bytes.NewReader(t.text), yield) {
				return false
			}
		}
		return true
	}
	text, err := f.kustomization.build()
	if err != nil {
		return yield(nil, &manifest.Error{File: f.path, Message: err.Error()})
	}
	return r.stream(&manifest.Reader{File: f.path, Rendered: true}, bytes.NewReader(text), yield)
}

// folder is what is in a folder and below it.
type folder struct {
	reader *Reader
	// ignored by files of the folders, the deepest last; excluded by the caller, who has the last word.
	ignored, excluded ignored
	found             []found
	// leftOut says that there was something, if nothing to read.
	leftOut bool
}

// found is a file to read, a chart or a kustomization to render, or what is wrong there.
type found struct {
	path, wrong   string
	chart         bool
	kustomization *kustomization
}

func (f *folder) fail(path, message string) {
	f.found = append(f.found, found{path: path, wrong: message})
}

func (f *folder) leaveOut(path string, as As, why string) {
	f.leftOut = true
	f.reader.leaveOut(path, as, why)
}

// ignoreFile adds the patterns of a folder.
func (f *folder) ignoreFile(dir string) {
	patterns, err := readIgnoreFile(dir)
	if err != nil {
		f.fail(filepath.Join(dir, IgnoreFile), manifest.Reason(err))
	}
	f.ignored = append(f.ignored, patterns...)
}

// file adds a file to read, or what is wrong there.
func (f *folder) file(path string, err error) {
	if link, ok := errors.AsType[*manifest.DeadLink](err); ok {
		f.leaveOut(path, DeadLink, link.To)
		return
	}
	if err != nil {
		f.fail(path, manifest.Reason(err))
		return
	}
	f.found = append(f.found, found{path: path})
}

// enter reads what a folder says of itself. Its patterns hold until it is left.
func (f *folder) enter(dir string) (leave func()) {
	before := slices.Clip(f.ignored)
	leave = func() { f.ignored = before }
	f.ignoreFile(dir)
	if f.reader.Plain {
		return leave
	}
	if isChart(dir) && !f.excludes(filepath.Join(dir, chartFile), false) {
		leave()
		f.chart(dir)
		return nil
	}
	if k := readKustomization(dir); k != nil && !f.excludes(k.file, false) {
		f.found = append(f.found, found{path: k.file, kustomization: k})
	}
	return leave
}

// chart takes the place of all that is in its folder: templates are no YAML, values no manifests.
func (f *folder) chart(dir string) {
	if isLibrary(dir) {
		f.leaveOut(dir, LibraryChart, "")
		return
	}
	if slices.Contains(f.reader.Render, RenderHelm) {
		f.found = append(f.found, found{path: dir, chart: true})
		return
	}
	f.leaveOut(dir, HelmChart, "--render="+RenderHelm)
}

// settle decides what becomes of kustomizations, and of the files that they name.
func (f *folder) settle() {
	var all kustomizations
	files := map[string]bool{}
	for _, found := range f.found {
		if found.kustomization != nil {
			all = append(all, found.kustomization)
			files[absolute(found.path)] = true
		}
	}
	if len(all) == 0 {
		return
	}
	parts := all.parts()
	built := newClosure()
	var wrong map[*kustomization]error
	if slices.Contains(f.reader.Render, RenderKustomize) {
		built, wrong = all.used()
	}
	kept := f.found[:0]
	for _, found := range f.found {
		path := absolute(found.path)
		switch k := found.kustomization; {
		case k != nil && wrong == nil:
			f.leaveOut(filepath.Dir(found.path), Kustomization, "--render="+RenderKustomize)
		case k != nil:
			// One that another is built of is applied as a part of that.
			if !built.folders[filepath.Dir(path)] && f.builds(&found, wrong[k]) {
				kept = append(kept, found)
			}
		case files[path], built.files[path]:
		case parts[path]:
			f.leaveOut(found.path, KustomizationPart, "")
		default:
			kept = append(kept, found)
		}
	}
	f.found = kept
}

// builds reports whether a kustomization is built, or its error told.
func (f *folder) builds(k *found, wrong error) bool {
	notOurs := func(why error) bool { return errors.Is(wrong, why) }
	if slices.ContainsFunc([]error{errElsewhere, errCharts, errPlugin, errAlone}, notOurs) {
		f.leaveOut(filepath.Dir(k.path), Kustomization, wrong.Error())
		return false
	}
	if wrong != nil {
		k.wrong = wrong.Error()
	}
	return true
}

func (f *folder) excludes(path string, folder bool) bool {
	return excludes(path, folder, f.excluded, f.ignored)
}

// passOver reports whether a path is excluded, and tells it.
func (f *folder) passOver(path string, folder bool) bool {
	excluded := f.excludes(path, folder)
	if excluded {
		f.leaveOut(path, Excluded, "")
	}
	return excluded
}
