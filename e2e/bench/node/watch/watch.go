package watch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Interval is how often the watcher looks.
const Interval = 10 * time.Millisecond

// Sight is what was seen. A time is zero where the thing did not happen.
type Sight struct {
	// Began is when the first look was taken, Available what was left then, in bytes.
	Began     time.Time `json:"began"`
	Available int64     `json:"available"`
	// Crossed: less than the threshold was left for the first time.
	Crossed time.Time `json:"crossed"`
	// Contained: memory.high of the pod was not max any more.
	Contained time.Time `json:"contained"`
	// Gone: the hog's process was no more, or a zombie, which has no memory any more.
	Gone time.Time `json:"gone"`
	// Lowest is the least that was left, in bytes.
	Lowest int64 `json:"lowest"`
}

// Options say what to look at.
type Options struct {
	// Root is where cgroup v2 is mounted, Proc is /proc.
	Root, Proc string
	// Pod is the folder of the hog's pod's cgroup. It need not exist yet.
	Pod string
	// Threshold in bytes.
	Threshold int64
}

// Watch returns when the hog was there and is gone, or when the context ends: then with what was seen so far.
func Watch(ctx context.Context, o Options) (Sight, error) {
	total, err := value(filepath.Join(o.Proc, "meminfo"), "MemTotal:")
	if err != nil {
		return Sight{}, err
	}
	w := watcher{Options: o, capacity: total << 10}
	tick := time.NewTicker(Interval)
	defer tick.Stop()
	for {
		if done, err := w.look(); err != nil || done {
			return w.seen, err
		}
		select {
		case <-ctx.Done():
			return w.seen, fmt.Errorf("the hog is not gone: %w", ctx.Err())
		case <-tick.C:
		}
	}
}

type watcher struct {
	Options
	capacity int64
	pid      string // of the hog; empty: not there yet
	seen     Sight
}

// look takes one look. It is true when the hog is gone.
func (w *watcher) look() (bool, error) {
	used, err := workingSet(filepath.Join(w.Root, "memory.stat"))
	if err != nil {
		return false, err
	}
	now, left := time.Now(), w.capacity-used
	if w.seen.Began.IsZero() {
		w.seen.Began, w.seen.Available, w.seen.Lowest = now, left, left
	}
	w.seen.Lowest = min(w.seen.Lowest, left)
	// Less than, as the kubelet has it (pkg/kubelet/eviction/helpers.go thresholdsMet, 1.36.3).
	if w.seen.Crossed.IsZero() && left < w.Threshold {
		w.seen.Crossed = now
	}
	if w.seen.Contained.IsZero() {
		if high, err := os.ReadFile(filepath.Join(w.Pod, "memory.high")); err == nil && strings.TrimSpace(string(high)) != "max" {
			w.seen.Contained = now
		}
	}
	if w.pid == "" {
		w.pid = w.hog()
		return false, nil
	}
	if ended(filepath.Join(w.Proc, w.pid, "stat")) {
		w.seen.Gone = time.Now()
		return true, nil
	}
	return false, nil
}

// hog finds the process in the pod that eats; its sandbox and what the runtime runs before it do not.
func (w *watcher) hog() string {
	files, _ := filepath.Glob(filepath.Join(w.Pod, "*", "cgroup.procs")) // the pattern is well-formed
	for _, file := range files {
		text, _ := os.ReadFile(file) // a cgroup that went has no hog
		for pid := range strings.FieldsSeq(string(text)) {
			command, _ := os.ReadFile(filepath.Join(w.Proc, pid, "cmdline")) // as above
			if args := strings.Split(string(command), "\x00"); len(args) > 1 && args[1] == "eat" {
				return pid
			}
		}
	}
	return ""
}

// ended is true where the process is no more or a zombie: its memory is given back before it is one (kernel/exit.c do_exit).
func ended(stat string) bool {
	text, err := os.ReadFile(stat)
	if err != nil {
		return true
	}
	_, after, _ := strings.Cut(string(text), ") ")
	return strings.HasPrefix(after, "Z") || strings.HasPrefix(after, "X")
}

// workingSet is the node's as the kubelet counts it on cgroup v2: anonymous and file memory without inactive page cache
// (opencontainers/cgroups fs2/memory.go rootStatsFromMeminfo, cadvisor setMemoryStats, as in Kubernetes 1.36.3).
func workingSet(stat string) (int64, error) {
	text, err := os.ReadFile(stat)
	if err != nil {
		return 0, err
	}
	return parseWorkingSet(string(text))
}

func parseWorkingSet(text string) (int64, error) {
	var sum [3]int64
	for i, name := range []string{"anon", "file", "inactive_file"} {
		var err error
		if sum[i], err = field(text, name); err != nil {
			return 0, err
		}
	}
	return max(0, sum[0]+sum[1]-sum[2]), nil
}

func value(file, name string) (int64, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	return field(string(text), name)
}

// field is the number in the line that begins with this name.
func field(text, name string) (int64, error) {
	for line := range strings.Lines(text) {
		if words := strings.Fields(line); len(words) > 1 && words[0] == name {
			return strconv.ParseInt(words[1], 10, 64)
		}
	}
	return 0, errors.New("there is no " + name)
}
