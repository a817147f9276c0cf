// Package folder finds the files that a folder stands for where a person names one: those of the folders in it, too.
package folder

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// passedOver are folders of tools that keep YAML of their own, and never what is applied to a cluster. Other hidden folders are read.
var passedOver = []string{".git", ".hg", ".svn", ".github", ".gitlab", ".circleci", ".idea", ".vscode", ".terraform"}

// Walk gives the files of a folder and of the folders in it that have one of the endings, in the order of names, and what can't be read.
// Symbolic links are followed. Hidden files are left out: tools keep their settings in them; and so is what begins with two dots, as
// ..data of a mounted ConfigMap, whose files are reached by links beside it. found: there was something to give; goesOn is false
// where yield wanted no more.
func Walk(dir string, endings []string, yield func(path string, err error) bool) (found, goesOn bool) {
	w := walker{endings: endings, yield: yield, seen: map[string]bool{}}
	goesOn = w.walk(dir)
	return w.found, goesOn
}

type walker struct {
	endings []string
	yield   func(string, error) bool
	// seen folders by their real path: symbolic links may form loops, or lead to one folder by 2^n ways.
	seen  map[string]bool
	found bool
}

func (w *walker) give(path string, err error) bool {
	w.found = true
	return w.yield(path, err)
}

func (w *walker) walk(dir string) bool {
	where, err := filepath.Abs(dir)
	if err != nil {
		return w.give(dir, err)
	}
	if where, err = filepath.EvalSymlinks(where); err != nil {
		return w.give(dir, err)
	}
	if w.seen[where] {
		return true
	}
	w.seen[where] = true
	entries, err := os.ReadDir(dir)
	if err != nil && !w.give(dir, err) {
		return false
	}
	for _, e := range entries {
		if !PassesOver(e.Name()) && !w.entry(filepath.Join(dir, e.Name()), e) {
			return false
		}
	}
	return true
}

// PassesOver says whether what has a name in a folder is left out, whatever it is.
func PassesOver(name string) bool {
	return strings.HasPrefix(name, "..") || slices.Contains(passedOver, name)
}

func (w *walker) entry(path string, e fs.DirEntry) bool {
	wanted := !strings.HasPrefix(e.Name(), ".") && slices.Contains(w.endings, strings.ToLower(filepath.Ext(path)))
	mode := e.Type()
	if mode&fs.ModeSymlink != 0 {
		info, err := os.Stat(path)
		if err != nil {
			return !wanted || w.give(path, err)
		}
		mode = info.Mode().Type()
	}
	switch {
	case mode.IsDir():
		return w.walk(path)
	case !wanted:
		return true
	case !mode.IsRegular():
		return w.give(path, errors.New("not a regular file")) // to open a pipe would wait for its writer
	}
	return w.give(path, nil)
}
