package cgrouptest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/podgrace/podgrace/nodeenforcer/cgroup"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgroupfile"
)

// Fake is a Tree in memory. It is safe for concurrent use. Its methods beyond those of Tree play the other parts: the kernel, the
// kubelet, a rival writer.
type Fake struct {
	mu     sync.Mutex
	groups map[string]*fakeGroup
	writes []Written
	killed []int
	faults
}

type fakeGroup struct {
	files  map[string]string
	pids   []int
	frozen bool
}

// Written is a write that was done: one that differed.
type Written struct{ Path, File, Value string }

var _ cgroup.Tree = (*Fake)(nil)

// NewFake has a root and nothing else.
func NewFake() *Fake {
	return &Fake{groups: map[string]*fakeGroup{"/": {files: map[string]string{}}}, faults: newFaults()}
}

// Add makes a cgroup, and those above it without files, or adds files and processes to one.
func (f *Fake) Add(at string, files map[string]string, pids ...int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for ; at != "/"; at, files, pids = path.Dir(at), nil, nil {
		g, ok := f.groups[at]
		if !ok {
			g = &fakeGroup{files: map[string]string{}}
			f.groups[at] = g
		}
		maps.Copy(g.files, files)
		g.pids = append(g.pids, pids...)
	}
}

// Remove removes a cgroup and all below it.
func (f *Fake) Remove(at string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.remove(at)
}

func (f *Fake) remove(at string) {
	maps.DeleteFunc(f.groups, func(name string, _ *fakeGroup) bool { return below(name, at) })
}

// Set is another writer: it is not counted, and no fault hits it. A file that is not there appears.
func (f *Fake) Set(at, file, value string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if g, ok := f.groups[at]; ok {
		g.files[file] = value
	}
}

// Get is what a file holds; ok is false where there is none.
func (f *Fake) Get(at, file string) (value string, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if g := f.groups[at]; g != nil {
		value, ok = g.files[file]
	}
	return value, ok
}

// Paths are the cgroups there are, sorted.
func (f *Fake) Paths() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Sorted(maps.Keys(f.groups))
}

// Writes are those done so far, in their order.
func (f *Fake) Writes() []Written {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.writes)
}

// Killed are the processes killed so far, in their order.
func (f *Fake) Killed() []int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.killed)
}

// SetUsage sets the files that cgroup.ReadMemory and cgroup.ReadPIDs read, as v2 has them. Bytes, and processes.
func (f *Fake) SetUsage(at string, memory, inactiveFile, pids int64) {
	f.Set(at, "memory.current", fmt.Sprint(memory))
	f.Set(at, "memory.stat", fmt.Sprintf("anon %d\ninactive_file %d", memory-inactiveFile, inactiveFile))
	f.Set(at, "pids.current", fmt.Sprint(pids))
}

// Read implements cgroup.Tree.
func (f *Fake) Read(at string, files ...string) (map[string]string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	g, err := f.group("reading", at)
	if err != nil {
		return nil, err
	}
	contents := make(map[string]string, len(files))
	for _, file := range files {
		if err := plainName(file); err != nil {
			return nil, err
		}
		if value, ok := g.files[file]; ok {
			contents[file] = strings.TrimSpace(value)
		}
		if err := f.step(f, at); err != nil {
			return nil, err
		}
	}
	return contents, nil
}

// Write implements cgroup.Tree.
func (f *Fake) Write(ctx context.Context, at string, files []cgroup.File) (written int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, err := f.group("writing", at); err != nil {
		return 0, err
	}
	for _, file := range files {
		if err := ctx.Err(); err != nil {
			return written, fmt.Errorf("writing %s: %w", file.Name, err)
		}
		wrote, err := f.write(at, file)
		if err != nil {
			return written, err
		}
		if wrote {
			written++
		}
	}
	return written, nil
}

func (f *Fake) write(at string, file cgroup.File) (bool, error) {
	if err := plainName(file.Name); err != nil {
		return false, err
	}
	g, err := f.group("writing "+file.Name, at)
	if err != nil {
		return false, err
	}
	have, ok := g.files[file.Name]
	if !ok {
		return false, fmt.Errorf("writing %s of %s: %w", file.Name, at, cgroup.ErrNoFile)
	}
	if cgroupfile.Holds(have, file.Value) {
		return false, f.step(f, at)
	}
	if err := f.refused(at, file); err != nil {
		return false, fmt.Errorf("writing %q to %s of %s: %w", file.Value, file.Name, at, err)
	}
	g.files[file.Name] = strings.TrimSpace(file.Value)
	f.writes = append(f.writes, Written{at, file.Name, strings.TrimSpace(file.Value)})
	f.rivals(g, at, file.Name)
	return true, f.step(f, at)
}

// Children implements cgroup.Tree.
func (f *Fake) Children(at string) ([]string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, err := f.group("listing", at); err != nil {
		return nil, err
	}
	var names []string
	for name := range f.groups {
		if name != "/" && path.Dir(name) == at {
			names = append(names, path.Base(name))
		}
	}
	slices.Sort(names)
	return names, f.step(f, at)
}

// Processes implements cgroup.Tree.
func (f *Fake) Processes(at string) ([]int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, err := f.group("listing the processes of", at); err != nil {
		return nil, err
	}
	return f.processes(at), f.step(f, at)
}

// Kill implements cgroup.Tree.
func (f *Fake) Kill(ctx context.Context, at string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if at == "/" {
		return errors.New("the root cgroup is never killed")
	}
	if _, err := f.group("killing", at); err != nil {
		return err
	}
	if err := errors.Join(ctx.Err(), f.refused(at, cgroup.File{Name: "cgroup.kill", Value: "1"})); err != nil {
		return fmt.Errorf("killing %s: %w", at, err)
	}
	f.killed = append(f.killed, f.processes(at)...)
	for name, g := range f.groups {
		if below(name, at) {
			g.pids = nil
		}
	}
	return f.step(f, at)
}

// Stat implements cgroup.Tree, by the files that cgroup.ReadMemory, ReadPIDs and ReadPressure read.
func (f *Fake) Stat(at string) (s cgroup.Statistics, err error) {
	if _, err := f.Read(at); err != nil {
		return s, err
	}
	if memory, err := cgroup.ReadMemory(f, at); err == nil {
		s.Memory = &cgroup.MemoryStatistics{Memory: memory}
	}
	if pids, err := cgroup.ReadPIDs(f, at); err == nil {
		s.PIDs = &cgroup.PIDStatistics{Current: pids, Limit: cgroup.Unlimited}
	}
	for resource, into := range map[string]**cgroup.Pressure{"cpu": &s.CPUPressure, "memory": &s.MemoryPressure, "io": &s.IOPressure} {
		if p, err := cgroup.ReadPressure(f, at, resource); err == nil {
			*into = &p
		}
	}
	_, err = f.Read(at) // it may have vanished meanwhile
	return s, err
}

// Freeze implements cgroup.Tree. Refuse of cgroup.freeze makes it fail.
func (f *Fake) Freeze(ctx context.Context, at string) error { return f.setFrozen(ctx, at, "1") }

// Thaw implements cgroup.Tree.
func (f *Fake) Thaw(ctx context.Context, at string) error { return f.setFrozen(ctx, at, "0") }

func (f *Fake) setFrozen(ctx context.Context, at, value string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if at == "/" {
		return errors.New("the root cgroup is never frozen")
	}
	g, err := f.group("freezing", at)
	if err != nil {
		return err
	}
	if err := errors.Join(ctx.Err(), f.refused(at, cgroup.File{Name: "cgroup.freeze", Value: value})); err != nil {
		return fmt.Errorf("writing %q to cgroup.freeze of %s: %w", value, at, err)
	}
	g.frozen = value == "1"
	return f.step(f, at)
}

// Frozen tells whether a cgroup, or one above it, is frozen.
func (f *Fake) Frozen(at string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for name, g := range f.groups {
		if g.frozen && below(at, name) {
			return true
		}
	}
	return false
}

func (f *Fake) processes(at string) []int {
	var pids []int
	for name, g := range f.groups {
		if below(name, at) {
			pids = append(pids, g.pids...)
		}
	}
	slices.Sort(pids)
	return pids
}

// group is ErrGone where there is none.
func (f *Fake) group(doing, at string) (*fakeGroup, error) {
	if !strings.HasPrefix(at, "/") || path.Clean(at) != at || strings.ContainsRune(at, 0) {
		return nil, fmt.Errorf("%q is not the path of a cgroup", at)
	}
	g, ok := f.groups[at]
	if !ok {
		return nil, fmt.Errorf("%s %s: %w", doing, at, cgroup.ErrGone)
	}
	return g, nil
}

// below tells whether a cgroup is another or below it.
func below(name, at string) bool { return name == at || at == "/" || strings.HasPrefix(name, at+"/") }

func plainName(file string) error {
	if file == "" || file == "." || file == ".." || strings.ContainsAny(file, "/\x00") {
		return fmt.Errorf("%q is not the name of a cgroup's file: %w", file, unix.EINVAL)
	}
	return nil
}
