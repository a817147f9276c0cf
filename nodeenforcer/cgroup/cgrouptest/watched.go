package cgrouptest

import (
	"sync"
)

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
