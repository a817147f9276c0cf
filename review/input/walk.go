package input

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	policyfolder "github.com/podgrace/podgrace/policyfile/folder"
)

// endings of the files that are read from a folder. A file that is named is read whatever its ending.
var endings = []string{".yaml", ".yml", ".json", ".jsonl", ".ndjson"}

// path reads what one path of the caller stands for. False: no more is wanted.
func (r *Reader) path(path string, yield func(*Document, *Error) bool) bool {
	if path == stdin {
		if r.stdinRead || r.Stdin == nil {
			return yield(nil, &Error{File: path, Message: "standard input can be read only once, and was read already"})
		}
		r.stdinRead = true
		return r.stream(&sink{file: path, yield: yield}, r.Stdin)
	}
	info, err := os.Stat(path)
	if err != nil {
		return yield(nil, &Error{File: path, Message: reason(err)})
	}
	excluded, err := r.excluded(path)
	if err != nil {
		return yield(nil, &Error{File: path, Message: err.Error()})
	}
	if !info.IsDir() {
		if excludes(path, false, excluded) {
			r.leaveOut(path, Excluded, "")
			return true
		}
		return r.file(&sink{file: path, yield: yield})
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

func (r *Reader) file(out *sink) bool {
	f, err := os.Open(out.file)
	if err != nil {
		return out.yield(nil, &Error{File: out.file, Message: reason(err)})
	}
	defer f.Close()
	return r.stream(out, f)
}

// folder reads a folder and what is below it, in the order of names.
func (r *Reader) folder(path string, excluded ignored, yield func(*Document, *Error) bool) bool {
	f := folder{reader: r, excluded: excluded, seen: map[string]bool{}}
	// The ignore files of the folders above, from the working directory on.
	if top := filepath.Clean(path); filepath.IsLocal(path) && top != "." {
		above := "."
		for part := range strings.SplitSeq(filepath.ToSlash(top), "/") {
			f.ignoreFile(above)
			above = filepath.Join(above, part)
		}
	}
	f.walk(path)
	if len(f.found) == 0 && !f.leftOut {
		return yield(nil, &Error{File: path, Message: "no " + strings.Join(endings, ", ") + " file in this folder"})
	}
	f.settle()
	for _, found := range f.found {
		if !r.found(found, yield) {
			return false
		}
	}
	return true
}

// found reads what was found in a folder. False: no more is wanted.
func (r *Reader) found(f found, yield func(*Document, *Error) bool) bool {
	switch {
	case f.wrong != "":
		return yield(nil, &Error{File: f.path, Message: f.wrong})
	case f.chart:
		text, err := r.renderChart(f.path)
		if err != nil {
			return yield(nil, &Error{File: f.path, Message: err.Error()})
		}
		for _, t := range templates(f.path, text) {
			if !r.stream(&sink{file: t.file, rendered: true, yield: yield}, bytes.NewReader(t.text)) {
				return false
			}
		}
		return true
	case f.kustomization != nil:
		text, err := f.kustomization.build()
		if err != nil {
			return yield(nil, &Error{File: f.path, Message: err.Error()})
		}
		return r.stream(&sink{file: f.path, rendered: true, yield: yield}, bytes.NewReader(text))
	}
	return r.file(&sink{file: f.path, found: !r.Plain, yield: yield})
}

// folder is what is in a folder and below it.
type folder struct {
	reader *Reader
	// ignored by files of the folders, the deepest last; excluded by the caller, who has the last word.
	ignored, excluded ignored
	// seen folders by their real path: symbolic links may form loops, or lead to one folder by 2^n ways.
	seen  map[string]bool
	found []found
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
		f.fail(filepath.Join(dir, IgnoreFile), reason(err))
	}
	f.ignored = append(f.ignored, patterns...)
}

func (f *folder) walk(dir string) {
	where, err := realPath(dir)
	if err != nil {
		f.fail(dir, reason(err))
		return
	}
	if f.seen[where] {
		return
	}
	f.seen[where] = true
	entries, err := os.ReadDir(dir)
	if err != nil {
		f.fail(dir, reason(err))
	}
	defer func(before ignored) { f.ignored = before }(slices.Clip(f.ignored))
	f.ignoreFile(dir)
	if !f.reader.Plain && isChart(dir) && !f.excludes(filepath.Join(dir, chartFile), false) {
		f.chart(dir)
		return
	}
	if !f.reader.Plain {
		if k := readKustomization(dir); k != nil && !f.excludes(k.file, false) {
			f.found = append(f.found, found{path: k.file, kustomization: k})
		}
	}
	for _, e := range entries {
		if !policyfolder.PassesOver(e.Name()) {
			f.entry(filepath.Join(dir, e.Name()), e)
		}
	}
}

// realPath is the one of all paths to a folder that is the same for each of them.
func realPath(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(dir)
}

func (f *folder) entry(path string, e fs.DirEntry) {
	wanted := !strings.HasPrefix(e.Name(), ".") && slices.Contains(endings, strings.ToLower(filepath.Ext(path)))
	mode := e.Type()
	if mode&fs.ModeSymlink != 0 {
		info, err := os.Stat(path)
		if err != nil {
			if wanted && !f.excludes(path, false) {
				f.fail(path, reason(err))
			}
			return
		}
		mode = info.Mode().Type()
	}
	switch {
	case !wanted && !mode.IsDir():
	case f.excludes(path, mode.IsDir()):
		f.leaveOut(path, Excluded, "")
	case mode.IsDir():
		f.walk(path)
	case !mode.IsRegular():
		f.fail(path, "not a regular file") // to open a pipe would wait for its writer
	default:
		f.found = append(f.found, found{path: path})
	}
}

// chart takes the place of all that is in its folder: templates are no YAML, values no manifests.
func (f *folder) chart(dir string) {
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
	var used, folders map[string]bool
	var wrong map[*kustomization]error
	if slices.Contains(f.reader.Render, RenderKustomize) {
		used, folders, wrong = all.used()
	}
	kept := f.found[:0]
	for _, found := range f.found {
		path := absolute(found.path)
		switch k := found.kustomization; {
		case k != nil && wrong == nil:
			f.leaveOut(filepath.Dir(found.path), Kustomization, "--render="+RenderKustomize)
		case k != nil:
			// One that another is built of is applied as a part of that.
			if !folders[filepath.Dir(path)] && f.builds(&found, wrong[k]) {
				kept = append(kept, found)
			}
		case files[path], used[path]:
		case parts[path]:
			f.leaveOut(found.path, KustomizationPart, "")
		default:
			kept = append(kept, found)
		}
	}
	f.found = kept
}

// builds says whether a kustomization is built, or its error told.
func (f *folder) builds(k *found, wrong error) bool {
	if errors.Is(wrong, errElsewhere) || errors.Is(wrong, errAlone) {
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

// reason is the error without the path, which the Error has.
func reason(err error) string {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		err = path.Err
	}
	return err.Error()
}
