package suite

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/podgrace/podgrace/manifest"
)

// update writes what happened into the files of cases that failed or expect nothing. A file that can't be written is an error, and
// its cases stay as they were judged.
func (r *Report) update(suites []*Suite) {
	done := map[*file]bool{}
	for _, s := range suites {
		if done[s.file] {
			continue
		}
		done[s.file] = true
		var failed []*Outcome
		for _, o := range r.Cases {
			if o.suite.file == s.file && o.Status == Failed {
				failed = append(failed, o)
			}
		}
		if len(failed) == 0 {
			continue
		}
		if err := s.file.update(suites, failed); err != nil {
			r.Errors = append(r.Errors, err)
			continue
		}
		for _, o := range failed {
			o.Status = Updated
		}
	}
}

// update rewrites the file in one step.
func (f *file) update(suites []*Suite, failed []*Outcome) *manifest.Error {
	text, wrong := f.rewrite(suites, failed)
	if wrong != nil {
		return wrong
	}
	if err := f.write(text); err != nil {
		return &manifest.Error{File: f.name, Message: "update: " + err.Error()}
	}
	f.text = text
	return nil
}

// rewrite is the file's text with what happened, proven: all else is as it was, and the cases pass.
func (f *file) rewrite(suites []*Suite, failed []*Outcome) ([]byte, *manifest.Error) {
	e := newEditor(f.text)
	for _, o := range failed {
		if err := e.change(o.suite, o.of.index, o.changes()); err != nil {
			return nil, cantUpdate(o, err)
		}
	}
	text := e.text()
	after, wrong := parse(f.name, text)
	if len(wrong) > 0 {
		return nil, cantUpdate(failed[0], fmt.Errorf("%w (line %d: %s)", errPlace, wrong[0].Line, wrong[0].Message))
	}
	before := f.suites(suites)
	if len(before) != len(after) {
		return nil, cantUpdate(failed[0], errPlace)
	}
	for i, s := range before {
		if skeleton(s, failed) != skeleton(after[i], failed) {
			return nil, cantUpdate(failed[0], errPlace)
		}
		for _, o := range failed {
			if o.suite != s {
				continue
			}
			if then := after[i].Cases[o.of.index].Then; then.empty() || len(then.check(o.Result)) > 0 {
				return nil, cantUpdate(o, errPlace)
			}
		}
	}
	return text, nil
}

func cantUpdate(o *Outcome, err error) *manifest.Error {
	return &manifest.Error{File: o.Source.File, Line: o.Source.Line, Message: fmt.Sprintf("update case %q: %v", o.Case, err)}
}

// suites are those of the file, in its order.
func (f *file) suites(all []*Suite) []*Suite {
	var own []*Suite
	for _, s := range all {
		if s.file == f {
			own = append(own, s)
		}
	}
	return own
}

// skeleton is a suite without what an update may change.
func skeleton(s *Suite, failed []*Outcome) string {
	whole, _ := valueOf(s.json).(map[string]any)
	cases, _ := whole["cases"].([]any)
	for _, o := range failed {
		if o.suite.Name != s.Name || o.of.index >= len(cases) {
			continue
		}
		if one, ok := cases[o.of.index].(map[string]any); ok && one["name"] == o.Case {
			delete(one, "then")
		}
	}
	return canonical(whole)
}

// write replaces the file, or what a link of its name leads to, unless somebody else has changed it meanwhile.
func (f *file) write(text []byte) error {
	name, err := filepath.EvalSymlinks(f.name)
	if err != nil {
		return err
	}
	now, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	if !bytes.Equal(now, f.text) {
		return errors.New("the file was changed meanwhile")
	}
	return replace(name, text)
}

// replace gives a file that is there another text in one step, and keeps its permissions. Not by renameio, which has nothing for Windows: os.Rename
// replaces a file there as well (MoveFileEx with MOVEFILE_REPLACE_EXISTING; os/file_windows.go, Go 1.26), unless another program has it open.
func replace(name string, text []byte) error {
	info, err := os.Stat(name)
	if err != nil {
		return err
	}
	to, err := os.CreateTemp(filepath.Dir(name), ".podgrace-*")
	if err != nil {
		return err
	}
	defer os.Remove(to.Name()) //nolint:errcheck // it is gone where it became the file
	defer to.Close()
	if _, err := to.Write(text); err != nil {
		return err
	}
	if err := cmp.Or(to.Chmod(info.Mode().Perm()), to.Sync(), to.Close()); err != nil {
		return err
	}
	return os.Rename(to.Name(), name)
}
