package nodeenforcer

import (
	"sync"

	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgrouptest"
)

// watchedTree is a tree that remembers what was read, and can refuse it.
type watchedTree struct {
	*cgrouptest.Fake
	mu     sync.Mutex
	read   []string
	refuse map[string]error // by path
	lists  map[string]error // by path, of its processes
}

func (w *watchedTree) Read(path string, files ...string) (map[string]string, error) {
	w.mu.Lock()
	w.read = append(w.read, path)
	w.mu.Unlock()
	if err := w.refuse[path]; err != nil {
		return nil, err
	}
	return w.Fake.Read(path, files...)
}

func (w *watchedTree) Processes(path string) ([]int, error) {
	if err := w.lists[path]; err != nil {
		return nil, err
	}
	return w.Fake.Processes(path)
}

// seen are the groups that were read since it was last asked.
func (w *watchedTree) seen() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	read := w.read
	w.read = nil
	return read
}

func (b *bed) watch() *watchedTree {
	w := &watchedTree{Fake: b.Cgroups, refuse: map[string]error{}, lists: map[string]error{}}
	b.enforcer.Cgroups = w
	return w
}
