package input

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// endings of the files that are read from a folder. A file that is named is read whatever its ending.
var endings = []string{".yaml", ".yml", ".json", ".jsonl", ".ndjson"}

// path reads what one path of the caller stands for. False: no more is wanted.
func (r *Reader) path(path string, yield func(*Document, *Error) bool) bool {
	if path == "-" {
		if r.stdinRead || r.Stdin == nil {
			return yield(nil, &Error{File: path, Message: "standard input can be read only once, and was read already"})
		}
		r.stdinRead = true
		return r.stream(path, r.Stdin, yield)
	}
	info, err := os.Stat(path)
	if err != nil {
		return yield(nil, &Error{File: path, Message: reason(err)})
	}
	if !info.IsDir() {
		return r.file(path, yield)
	}
	f := folder{reader: r, yield: yield, seen: map[string]bool{}}
	if !f.walk(path) {
		return false
	}
	if !f.found {
		return yield(nil, &Error{File: path, Message: "no " + strings.Join(endings, ", ") + " file in this folder"})
	}
	return true
}

func (r *Reader) file(path string, yield func(*Document, *Error) bool) bool {
	f, err := os.Open(path)
	if err != nil {
		return yield(nil, &Error{File: path, Message: reason(err)})
	}
	defer f.Close()
	return r.stream(path, f, yield)
}

// folder reads a folder and what is below it, in the order of names.
type folder struct {
	reader *Reader
	yield  func(*Document, *Error) bool
	// seen folders by their real path: symbolic links may form loops, or lead to one folder by 2^n ways.
	seen map[string]bool
	// found says that there was something to read, or to complain about.
	found bool
}

func (f *folder) fail(path string, message string) bool {
	f.found = true
	return f.yield(nil, &Error{File: path, Message: message})
}

func (f *folder) walk(dir string) bool {
	where, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return f.fail(dir, reason(err))
	}
	if f.seen[where] {
		return true
	}
	f.seen[where] = true
	entries, err := os.ReadDir(dir)
	if err != nil && !f.fail(dir, reason(err)) {
		return false
	}
	for _, e := range entries {
		// Hidden: .git, .github; and ..data of a mounted ConfigMap, whose files are reached by links beside it.
		if !strings.HasPrefix(e.Name(), ".") && !f.entry(filepath.Join(dir, e.Name()), e) {
			return false
		}
	}
	return true
}

func (f *folder) entry(path string, e fs.DirEntry) bool {
	wanted := slices.Contains(endings, strings.ToLower(filepath.Ext(path)))
	mode := e.Type()
	if mode&fs.ModeSymlink != 0 {
		info, err := os.Stat(path)
		if err != nil {
			return !wanted || f.fail(path, reason(err))
		}
		mode = info.Mode().Type()
	}
	switch {
	case mode.IsDir():
		return f.walk(path)
	case !wanted:
		return true
	case !mode.IsRegular():
		return f.fail(path, "not a regular file") // to open a pipe would wait for its writer
	}
	f.found = true
	return f.reader.file(path, f.yield)
}

// reason is the error without the path, which the Error has.
func reason(err error) string {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		err = path.Err
	}
	return err.Error()
}
