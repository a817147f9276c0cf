package suite

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"

	"github.com/podgrace/podgrace/cli/input"
	"github.com/podgrace/podgrace/internal/manifest"
)

// Load finds the suites of files and folders, in the order of the paths and of names within a folder. In a folder, what is no suite
// is passed over, even if it can't be read: a suite that needs it says so. What is wrong is in the errors, and the other
// suites are returned all the same.
func Load(paths ...string) ([]*Suite, []*manifest.Error) {
	var suites []*Suite
	var errs []*manifest.Error
	var seen []string
	for _, path := range paths {
		names, wrong := find(path)
		errs = append(errs, wrong...)
		for _, name := range names {
			if slices.Contains(seen, name) {
				continue
			}
			seen = append(seen, name)
			text, err := os.ReadFile(name)
			if err != nil {
				errs = append(errs, manifest.Unread(name, err))
				continue
			}
			found, wrong := parse(name, text)
			suites, errs = append(suites, found...), append(errs, wrong...)
		}
	}
	return suites, errs
}

// find returns the files with suites that a path stands for.
func find(path string) ([]string, []*manifest.Error) {
	info, err := os.Stat(path)
	switch {
	case path == "-":
		return nil, []*manifest.Error{{File: path, Message: "a suite is a file: its paths are relative to it"}}
	case err != nil:
		return nil, []*manifest.Error{manifest.Unread(path, err)}
	case !info.IsDir():
		return []string{filepath.Clean(path)}, nil
	}
	var names []string
	var errs []*manifest.Error
	for d, wrong := range (&input.Reader{Plain: true}).Read(path) {
		switch {
		case wrong != nil && !harmless(wrong.File):
			errs = append(errs, wrong)
		case wrong == nil && d.Kind == Kind && !slices.Contains(names, d.File):
			names = append(names, d.File)
		}
	}
	if len(names) == 0 && len(errs) == 0 {
		errs = []*manifest.Error{{File: path, Message: "no file of kind " + Kind + " in this folder"}}
	}
	return names, errs
}

// harmless reports whether a file that is wrong is no suite for certain: it has not even the word.
func harmless(name string) bool {
	info, err := os.Stat(name)
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	text, err := os.ReadFile(name)
	return err == nil && !bytes.Contains(text, []byte(Kind))
}

// parse reads the suites of a file.
func parse(name string, text []byte) ([]*Suite, []*manifest.Error) {
	var suites []*Suite
	var errs []*manifest.Error
	lines := manifest.LinesOf(text)
	f := &file{name: name, text: text}
	found := false
	for d, wrong := range manifest.Read(name, bytes.NewReader(text)) {
		if wrong != nil {
			errs = append(errs, wrong)
			continue
		}
		if d.Kind != Kind {
			continue
		}
		found = true
		node := lines[d.Line]
		if node != nil && node.Column > 1 {
			node = nil // an item of a list, which is not updated in place
		}
		s, wrong := decode(d, node)
		errs = append(errs, wrong...)
		if s != nil {
			s.file = f
			suites = append(suites, s)
		}
	}
	if !found && len(errs) == 0 {
		errs = append(errs, &manifest.Error{File: name, Message: "no document of kind " + Kind})
	}
	return suites, errs
}
