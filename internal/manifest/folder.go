package manifest

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Endings of the files that may have manifests, by which they are chosen in a folder. A file that is named is read whatever its ending.
var Endings = []string{".yaml", ".yml", ".json", ".jsonl", ".ndjson"}

// passedOver are folders of tools that keep YAML of their own, and never what is applied to a cluster: .podgrace is where a job of continuous integration
// has a clone of Podgrace (deploy/ci). Other hidden folders are read.
var passedOver = []string{".git", ".hg", ".svn", ".github", ".gitlab", ".circleci", ".devcontainer", ".idea", ".vscode", ".terraform", ".podgrace"}

// DeadLink is the error of a symbolic link that leads nowhere.
type DeadLink struct{ To string }

func (l *DeadLink) Error() string { return "a link to " + l.To + ", which is not there" }

// Folder finds the files that a folder stands for where a person names one: those of the folders in it, too, in the order of names.
// Symbolic links are followed. Hidden files are left out: tools keep their settings in them; and so is what begins with two dots, as
// ..data of a mounted ConfigMap, whose files are reached by links beside it.
type Folder struct {
	// Endings of the files that are wanted.
	Endings []string
	// Found is told of each file, or of what can't be read.
	Found func(path string, err error)
	// Enter is asked before what is in a folder is looked at, and returns what to do after it; nil: the folder is passed over. It may be nil
	// itself: all folders are looked into.
	Enter func(dir string) (leave func())
	// Excludes reports whether a file or folder is passed over. It may be nil: none is.
	Excludes func(path string, folder bool) bool

	// seen folders by their real path: symbolic links may form loops, or lead to one folder by 2^n ways.
	seen map[string]bool
}

// Walk looks into a folder.
func (f *Folder) Walk(dir string) {
	where, err := realPath(dir)
	if err != nil {
		f.Found(dir, err)
		return
	}
	if f.seen[where] {
		return
	}
	if f.seen == nil {
		f.seen = map[string]bool{}
	}
	f.seen[where] = true
	entries, err := os.ReadDir(dir)
	if err != nil {
		f.Found(dir, err)
	}
	if f.Enter != nil {
		leave := f.Enter(dir)
		if leave == nil {
			return
		}
		defer leave()
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), "..") && !slices.Contains(passedOver, e.Name()) {
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

func (f *Folder) entry(path string, e fs.DirEntry) {
	wanted := !strings.HasPrefix(e.Name(), ".") && HasEnding(path, f.Endings...)
	mode := e.Type()
	if mode&fs.ModeSymlink != 0 {
		info, err := os.Stat(path)
		if err != nil {
			if wanted && !f.excludes(path, false) {
				f.Found(path, linkError(path, err))
			}
			return
		}
		mode = info.Mode().Type()
	}
	switch {
	case !wanted && !mode.IsDir() || f.excludes(path, mode.IsDir()):
	case mode.IsDir():
		f.Walk(path)
	case !mode.IsRegular():
		f.Found(path, errors.New("not a regular file")) // to open a pipe would wait for its writer
	default:
		f.Found(path, nil)
	}
}

// linkError is why a symbolic link can't be followed.
func linkError(path string, err error) error {
	to, unread := os.Readlink(path)
	if !errors.Is(err, fs.ErrNotExist) || unread != nil {
		return err
	}
	return &DeadLink{To: to}
}

func (f *Folder) excludes(path string, folder bool) bool {
	return f.Excludes != nil && f.Excludes(path, folder)
}

// HasEnding reports whether a file has one of the endings.
func HasEnding(path string, endings ...string) bool {
	return slices.Contains(endings, strings.ToLower(filepath.Ext(path)))
}
