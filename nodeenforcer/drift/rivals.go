package drift

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgroupfile"
	"github.com/podgrace/podgrace/nodeenforcer/plan"
)

// RivalLimit and RivalWindow are the defaults for Rivals: three reverts within an hour. The kubelet, which writes the QoS level once a
// minute, is found after three minutes; a person who changes a value once a day is no rival.
const (
	RivalLimit  = 3
	RivalWindow = time.Hour
)

// Rivals keeps what was written and counts its reverts by other writers. A file that was reverted too often is given up until its plan
// changes, it holds its planned value after all, or the group is gone.
type Rivals struct {
	limit  int
	window time.Duration
	files  map[rivalKey]*rival
}

type rivalKey struct{ path, file string }

type rival struct {
	where   Where
	wrote   string
	pids    map[int]bool // of a process's value: those that were written
	pending bool         // not found reverted since it was written
	reverts []time.Time
	givenUp bool
}

// Revert is a file that is given up.
type Revert struct {
	Where
	File string
	// Wrote is our value, Found the other's.
	Wrote, Found string
	// Times that it was reverted.
	Times int
}

// NewRivals gives a file up when it was reverted limit times (at least once) within a window.
func NewRivals(limit int, window time.Duration) *Rivals {
	return &Rivals{limit: max(limit, 1), window: window, files: map[rivalKey]*rival{}}
}

// GivenUp reports whether a file is given up; for Options.
func (r *Rivals) GivenUp(path, file string) bool {
	known := r.files[rivalKey{path, file}]
	return known != nil && known.givenUp
}

// Wrote records a successful operation.
func (r *Rivals) Wrote(op Operation) {
	r.wrote(op.Where, op.File, op.To)
}

// WroteProcess records a successful operation on a process. A container's processes are given up together.
func (r *Rivals) WroteProcess(op ProcessOperation) {
	known := r.wrote(op.Where, plan.OOMScoreFile, strconv.Itoa(op.To))
	if known.pids == nil {
		known.pids = map[int]bool{}
	}
	known.pids[op.PID] = true
}

func (r *Rivals) wrote(where Where, file, value string) *rival {
	key := rivalKey{where.Path, file}
	known := r.files[key]
	if known == nil {
		known = &rival{where: where}
		r.files[key] = known
	}
	known.wrote, known.pending = value, true
	return known
}

// Observe takes what was read, before Diff and with the same options. It returns the files that are given up now, sorted.
func (r *Rivals) Observe(now time.Time, want *plan.Tree, have Have, options Options) []Revert {
	page := options.page()
	planned := make(map[string]*plan.Group, len(want.Groups))
	for i := range want.Groups {
		planned[want.Groups[i].Path] = &want.Groups[i]
	}
	resized := func(pod types.NamespacedName) bool {
		return pod.Name != "" && options.Resized != nil && options.Resized(pod)
	}
	return r.observe(now, false, resized, func(key rivalKey, known *rival) (found string, holds, keep bool) {
		found, ok := have[key.path].Files[key.file]
		g := planned[key.path]
		keep = ok && g != nil && means(key.file, g.Files[key.file].Want, known.wrote, page)
		return found, means(key.file, found, known.wrote, page), keep
	})
}

// ObserveProcesses is Observe for processes; have as in ProcessOperations. A process that came since counts too, unless it has what the runtime
// starts processes with: of what the container forks each has its parent's value, which is ours (fork(2)), until it sets another.
func (r *Rivals) ObserveProcesses(now time.Time, want *plan.Tree, have map[string]map[int]int) []Revert {
	planned, started := make(map[string]string, len(want.Processes)), make(map[string]int, len(want.Processes))
	for _, p := range want.Processes {
		planned[p.Path], started[p.Path] = strconv.Itoa(p.OOMScoreAdj), p.Started
	}
	return r.observe(now, true, func(types.NamespacedName) bool { return false }, func(key rivalKey, known *rival) (found string, holds, keep bool) {
		processes, ok := have[key.path]
		for _, pid := range slices.Sorted(maps.Keys(known.pids)) {
			adj, alive := processes[pid]
			if !alive {
				delete(known.pids, pid)
			} else if value := strconv.Itoa(adj); value != known.wrote {
				return value, false, ok && planned[key.path] == known.wrote
			}
		}
		for _, pid := range slices.Sorted(maps.Keys(processes)) {
			if value := strconv.Itoa(processes[pid]); !known.pids[pid] && value != known.wrote && processes[pid] != started[key.path] {
				return value, false, ok && planned[key.path] == known.wrote
			}
		}
		return known.wrote, true, ok && planned[key.path] == known.wrote
	})
}

// observe looks at every file, or every process, by what it is found to hold, whether that is what was written, and whether it
// is to be kept in mind. What it is found to hold in a resized pod is the kubelet's, which is no rival: it does not write it again.
func (r *Rivals) observe(now time.Time, processes bool, resized func(types.NamespacedName) bool, at func(rivalKey, *rival) (found string, holds, keep bool)) []Revert {
	var out []Revert
	for key, known := range r.files {
		if (known.pids != nil) != processes {
			continue
		}
		found, holds, keep := at(key, known)
		switch {
		case !keep:
			delete(r.files, key)
		case holds:
			// It is tried again, and what was counted stays: one that reverts once a minute lets it hold in between.
			known.givenUp = false
		case resized(known.where.Pod):
			known.pending = false
		case r.reverted(known, now):
			out = append(out, Revert{Where: known.where, File: key.file, Wrote: known.wrote, Found: found, Times: len(known.reverts)})
		}
	}
	slices.SortFunc(out, func(a, b Revert) int { return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.File, b.File)) })
	return out
}

// reverted counts a revert, once for each time that the file was written, and reports whether the file is given up by it.
func (r *Rivals) reverted(known *rival, now time.Time) bool {
	if !known.pending {
		return false
	}
	known.pending = false
	known.reverts = slices.DeleteFunc(known.reverts, func(at time.Time) bool { return now.Sub(at) > r.window })
	known.reverts = append(known.reverts, now)
	known.givenUp = len(known.reverts) >= r.limit
	return known.givenUp
}

// means reports whether two contents are the same to the kernel.
func means(file, a, b string, page int64) bool {
	if a == b {
		return true
	}
	v, err := cgroupfile.Read(file, a, page)
	w, err2 := cgroupfile.Read(file, b, page)
	return err == nil && err2 == nil && v.Same(w)
}
