// Package ledger is the node enforcer's memory of what files of cgroups held before it wrote them, for what is to be taken back later:
// perhaps by the next process, after a crash, but never after a restart of the machine, which cgroups don't outlive either.
package ledger

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podgrace/podgrace/nodeenforcer/cgroup"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgroupfile"
)

// Key identifies a file of a cgroup.
type Key struct {
	Path string `json:"path"`
	File string `json:"file"`
}

// Entry is what a file held before we wrote it first, and what we wrote last.
type Entry struct {
	Key
	// Pod is the UID of the pod for whose sake it was written; empty: of none in particular.
	Pod   types.UID `json:"uid,omitempty"`
	Was   string    `json:"was"`
	Wrote string    `json:"wrote"`
	// Then is what was written after that, or was about to be; empty: nothing.
	Then string `json:"then,omitempty"`
}

// Ours reports whether a file with this content holds what we wrote. If not it is somebody else's by now. What others wrote for single devices
// (io.weight: "default 100", then "8:0 200") does not matter.
func (e Entry) Ours(content string) bool {
	return cgroupfile.Holds(content, e.Wrote) || e.Then != "" && cgroupfile.Holds(content, e.Then)
}

// replaced is what of a value we wrote over: of a file with a line for each device, the lines for which we wrote one. The kernel takes one line
// a write (block/bfq-cgroup.c, block/blk-iocost.c ioc_weight_write), and the others were not ours.
func (e Entry) replaced(value string) string {
	if !strings.Contains(value, "\n") {
		return value
	}
	var lines []string
	for line := range strings.SplitSeq(value, "\n") {
		if device, _, keyed := strings.Cut(line, " "); keyed && strings.HasPrefix(e.Wrote, device+" ") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}

// ReadWriter is what Restore needs of cgroups.
type ReadWriter interface {
	Read(path string, files ...string) (map[string]string, error)
	Write(ctx context.Context, path string, files []cgroup.File) (int, error)
}

// Restore writes a value into a file that still holds what we wrote, and reports whether it wrote it.
func (e Entry) Restore(ctx context.Context, cgroups ReadWriter, to string) (bool, error) {
	files, err := cgroups.Read(e.Path, e.File)
	if err != nil || !e.Ours(files[e.File]) {
		return false, err
	}
	n, err := cgroups.Write(ctx, e.Path, []cgroup.File{{Name: e.File, Value: e.replaced(to)}})
	return n > 0, err
}

// Ledger keeps entries. It is safe for concurrent use.
type Ledger struct {
	// File to keep them in. It belongs on a tmpfs that outlives the enforcer, such as /run; nothing is synced. Empty: they are
	// forgotten with the process.
	File string
	// Folder of an earlier enforcer, which kept the memory.high of each pod in a file there. What it holds is taken over once.
	Folder string

	mu      sync.Mutex
	loaded  bool
	newer   error // the file is a newer enforcer's: it stays as it is
	dirty   bool
	entries map[Key]Entry
}

// Put stores entries. It is called before the write that they describe: a write that is not in the ledger can't be undone. The newest entry
// of a file counts.
func (l *Ledger) Put(entries ...Entry) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.load()
	if l.newer != nil {
		return l.newer
	}
	for _, e := range entries {
		if known, ok := l.entries[e.Key]; !ok || known != e {
			l.entries[e.Key], l.dirty = e, true
		}
	}
	return errors.Join(err, l.save())
}

// Drop removes the entries of files.
func (l *Ledger) Drop(keys ...Key) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.load()
	if l.newer != nil {
		return l.newer
	}
	for _, key := range keys {
		if _, ok := l.entries[key]; ok {
			delete(l.entries, key)
			l.dirty = true
		}
	}
	return errors.Join(err, l.save())
}

// All are the entries by path and file. One that can't be read is reported once, in the error; a file of a newer version always.
func (l *Ledger) All() ([]Entry, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.load()
	if l.newer != nil {
		return nil, l.newer
	}
	err = errors.Join(err, l.save())
	return slices.SortedFunc(maps.Values(l.entries), inOrder), err
}

func inOrder(a, b Entry) int { return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.File, b.File)) }

// load reads what there is at the first use.
func (l *Ledger) load() error {
	if l.loaded {
		return nil
	}
	l.loaded, l.entries = true, map[Key]Entry{}
	old, err := readFolder(l.Folder)
	l.dirty = len(old) > 0
	list, err2 := readFile(l.File)
	if errors.As(err2, &newer{}) {
		l.newer = err2
		return l.newer
	}
	for _, e := range slices.Concat(old, list) {
		l.entries[e.Key] = e
	}
	return errors.Join(err, err2)
}

// version is of the format of the file: entries is a list. Before the first one the file was that list alone.
const version = 1

type stored struct {
	Version int     `json:"version"`
	Entries []Entry `json:"entries"`
}

// newer is the error for a file of a later version. It is neither read nor replaced, since what is in it would be lost; so nothing can be noted, and
// nothing is written that would have to be.
type newer struct {
	file    string
	version int
}

func (n newer) Error() string {
	return fmt.Sprintf("read what was written before: %s is of version %d, this program reads %d", n.file, n.version, version)
}

// readFile reads the entries. Those of an earlier enforcer have the same names, in capitals.
func readFile(name string) (list []Entry, err error) {
	if name == "" {
		return nil, nil
	}
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil && bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")) {
		var s struct {
			Version int             `json:"version"`
			Entries json.RawMessage `json:"entries"` // of a newer version it may be anything
		}
		if err = json.Unmarshal(text, &s); err == nil && s.Version > version {
			return nil, newer{name, s.Version}
		}
		if err == nil {
			err = json.Unmarshal(s.Entries, &list)
		}
	} else if err == nil {
		err = json.Unmarshal(text, &list)
	}
	if err != nil {
		return nil, fmt.Errorf("read what was written before: %w", err)
	}
	return list, nil
}

func readFolder(name string) (list []Entry, err error) {
	files, _ := os.ReadDir(name) // there is none, but after an upgrade
	for _, file := range files {
		if !strings.HasSuffix(file.Name(), ".json") {
			continue
		}
		e := Entry{Key: Key{File: "memory.high"}}
		text, readErr := os.ReadFile(filepath.Join(name, file.Name()))
		if readErr == nil {
			readErr = json.Unmarshal(text, &e)
		}
		if readErr != nil {
			err = errors.Join(err, fmt.Errorf("read what was written before: %s: %w", file.Name(), readErr))
			continue
		}
		list = append(list, e)
	}
	return list, err
}

// save replaces the file atomically.
func (l *Ledger) save() error {
	if !l.dirty || l.File == "" {
		return nil
	}
	text, err := json.Marshal(stored{Version: version, Entries: slices.SortedFunc(maps.Values(l.entries), inOrder)})
	if err == nil {
		err = os.MkdirAll(filepath.Dir(l.File), 0o700)
	}
	if err == nil {
		err = os.WriteFile(l.File+".new", text, 0o600)
	}
	if err == nil {
		err = os.Rename(l.File+".new", l.File)
	}
	if err == nil && l.Folder != "" {
		err = os.RemoveAll(l.Folder)
	}
	if err != nil {
		return fmt.Errorf("note what is written, to undo it: %w", err)
	}
	l.dirty = false
	return nil
}
