package volumelock

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// Witness knows which machines have which volumes mounted for writing, whatever the API server has been told: it stands for the storage. Two at once are what must never be, but of a volume that is shared.
type Witness struct {
	mu         sync.Mutex
	writers    map[string]map[string]bool // machines, by volume
	cut        map[string]map[string]bool // machines whose writes do not arrive, by volume
	shared     map[string]bool            // volumes that several machines may write to
	violations []string
	mounts     int
}

// NewWitness returns one that has seen nothing.
func NewWitness() *Witness {
	return &Witness{writers: map[string]map[string]bool{}, cut: map[string]map[string]bool{}, shared: map[string]bool{}}
}

// Mounted is told by a machine that has mounted a volume.
func (w *Witness) Mounted(machine, volume string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	put(w.writers, volume, machine)
	w.mounts++
	if now := w.of(volume); len(now) > 1 && !w.shared[volume] {
		w.violations = append(w.violations, fmt.Sprintf("%s: %s can write to volume %s at once", time.Now().Format(time.StampMilli), strings.Join(now, " and "), volume))
	}
}

// Share is a volume that several machines may write to at once.
func (w *Witness) Share(volume string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.shared[volume] = true
}

// Unmounted is told by a machine that has unmounted a volume.
func (w *Witness) Unmounted(machine, volume string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.writers[volume], machine)
}

// Off is a machine whose power is off, or that starts again: it has nothing mounted.
func (w *Witness) Off(machine string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, of := range []map[string]map[string]bool{w.writers, w.cut} {
		for _, machines := range of {
			delete(machines, machine)
		}
	}
}

// Cut is a machine that the storage does not let at a volume any more, until it is off.
func (w *Witness) Cut(machine, volume string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	put(w.cut, volume, machine)
}

func put(in map[string]map[string]bool, volume, machine string) {
	if in[volume] == nil {
		in[volume] = map[string]bool{}
	}
	in[volume][machine] = true
}

// Writers are the machines that can write to a volume.
func (w *Witness) Writers(volume string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.of(volume)
}

func (w *Witness) of(volume string) []string {
	all := slices.Sorted(maps.Keys(w.writers[volume]))
	return slices.DeleteFunc(all, func(machine string) bool { return w.cut[volume][machine] })
}

// Seen is how often something was mounted, and when two could write at once.
func (w *Witness) Seen() (mounts int, violations []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mounts, slices.Clone(w.violations)
}
