package cgrouptest

import (
	"fmt"
	"sync"

	"github.com/podgrace/podgrace/nodeenforcer/cgroup"
)

// faults are what a Fake was told to do wrong. Its methods are called with the Fake's lock held, those that a test calls excepted.
type faults struct {
	vanish  map[string]int // by path: operations left
	refuse  map[string]error
	reverts map[string]string // by file: what the rival writes
	left    map[string]int    // by file: how often it still does; negative: for ever
}

func newFaults() faults {
	return faults{vanish: map[string]int{}, refuse: map[string]error{}, reverts: map[string]string{}, left: map[string]int{}}
}

// VanishAfter removes a cgroup, and all below it, after so many operations on it: a file read, a file written or left alone, a
// list, a kill. The operation that it vanishes under fails with ErrGone; 0 is the very next one.
func (f *Fake) VanishAfter(at string, operations int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.vanish[at] = operations
}

// Refuse makes writes to a file fail (EBUSY, EINVAL); with a value, only writes of this value. nil takes it back. Kill is a
// write of cgroup.kill.
func (f *Fake) Refuse(at string, file cgroup.File, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refuse[fileKey(at, file.Name)+"="+file.Value] = err
}

// Revert is a rival who puts his value back after each write to a file, so many times; a negative number is for ever.
func (f *Fake) Revert(at, file, value string, times int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reverts[fileKey(at, file)], f.left[fileKey(at, file)] = value, times
}

func (f *faults) refused(at string, file cgroup.File) error {
	if err := f.refuse[fileKey(at, file.Name)+"="]; err != nil {
		return err
	}
	return f.refuse[fileKey(at, file.Name)+"="+file.Value]
}

func (f *faults) rivals(g *fakeGroup, at, file string) {
	key := fileKey(at, file)
	if value, ok := f.reverts[key]; ok && f.left[key] != 0 {
		g.files[file] = value
		f.left[key]--
	}
}

// step counts an operation and is ErrGone if the cgroup vanished under it.
func (f *faults) step(tree *Fake, at string) error {
	left, ok := f.vanish[at]
	if !ok {
		return nil
	}
	if left > 0 {
		f.vanish[at] = left - 1
		return nil
	}
	delete(f.vanish, at)
	tree.remove(at)
	return fmt.Errorf("%s: %w", at, cgroup.ErrGone)
}

func fileKey(at, file string) string { return at + " " + file }

// Watched is a tree that remembers what was read, and can refuse it.
type Watched struct {
	*Fake
	mu     sync.Mutex
	read   []string
	Refuse map[string]error // to be read, by path
	Lists  map[string]error // to have its processes listed, by path
}

// Read is for cgroup.Reader.
func (w *Watched) Read(path string, files ...string) (map[string]string, error) {
	w.mu.Lock()
	w.read = append(w.read, path)
	w.mu.Unlock()
	if err := w.Refuse[path]; err != nil {
		return nil, err
	}
	return w.Fake.Read(path, files...)
}

// Processes is for cgroup.Reader.
func (w *Watched) Processes(path string) ([]int, error) {
	if err := w.Lists[path]; err != nil {
		return nil, err
	}
	return w.Fake.Processes(path)
}

// Seen are the groups that were read since it was last asked.
func (w *Watched) Seen() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	read := w.read
	w.read = nil
	return read
}

// Watch a fake.
func Watch(f *Fake) *Watched {
	return &Watched{Fake: f, Refuse: map[string]error{}, Lists: map[string]error{}}
}
