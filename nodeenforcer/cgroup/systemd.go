package cgroup

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/coreos/go-systemd/v22/dbus"

	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgroupfile"
)

// Systemd is a Tree whose writes persist, because they are made through systemd. systemd overwrites a value that it does not know as soon as
// it applies the unit's properties again. It does so on daemon-reload and on every change of any property (by the kubelet, the runtime,
// an administrator), and always for all of the unit's controllers, whichever one changed. (systemd v252: src/core/cgroup.c,
// unit_update_cgroup calls cgroup_context_apply with the whole target mask)
//
// A file that has no property, but that systemd resets along with the properties (memory.oom.group, systemd v252), is restored after our
// own writes. It does not survive a daemon-reload or another writer's change: the next reconciliation has to find that.
//
// A write sets all of the unit's properties, not only those that were asked for. The others get the values that their files hold now:
// otherwise systemd would write into those files the values that it remembers, which may be older. A change that somebody else makes
// between our read and our write, about a millisecond, is lost. Afterwards each file is checked and written if need be, since systemd
// applies properties after it has answered, and only logs what the kernel refuses.
type Systemd struct {
	Tree
	sets []controllerSet
	dial Dialer
	mu   sync.Mutex
	bus  Bus // nil: not connected
}

// NewSystemd wraps the tree of files. It connects at the first write.
func NewSystemd(files Tree, version cgroupfile.Version, dial Dialer) *Systemd {
	sets := setsV2
	if version == cgroupfile.V1 {
		sets = setsV1
	}
	return &Systemd{Tree: files, sets: sets, dial: dial}
}

// Write implements Tree. A file without a property is written as a plain file. A quota is rounded up to a whole percent of a CPU, since
// systemd can't store a finer one. Consecutive files with a property are set in one call. A property whose file does not exist is not
// set: systemd would enable its controller. It fails with ErrUnanswered where systemd takes longer than busPatience.
func (s *Systemd) Write(ctx context.Context, cgroup string, files []File) (int, error) {
	written, err := s.write(ctx, cgroup, files)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil { // ours passed, not the caller's
		err = fmt.Errorf("%w: %w", ErrUnanswered, err)
	}
	return written, err
}

func (s *Systemd) write(ctx context.Context, cgroup string, files []File) (int, error) {
	unit, ok := unitOf(cgroup)
	if !ok {
		return s.Tree.Write(ctx, cgroup, files)
	}
	unlock, err := s.alone(ctx, cgroup, files)
	if err != nil {
		return 0, err
	}
	defer unlock()
	have, err := s.Read(cgroup, s.filesToRead(files)...)
	if err != nil {
		return 0, err
	}
	written := 0
	for _, run := range s.runs(files) {
		write := s.Tree.Write
		if len(s.touched(run)) > 0 {
			write = func(ctx context.Context, cgroup string, run []File) (int, error) {
				return s.writeRun(ctx, cgroup, unit, run, have)
			}
		}
		n, err := write(ctx, cgroup, run)
		written += n
		if err != nil {
			return written, err
		}
	}
	return written, nil
}

// alone waits until no other enforcer writes to the cgroup through systemd, if one of the files is written through systemd.
func (s *Systemd) alone(ctx context.Context, cgroup string, files []File) (unlock func(), err error) {
	tree, ok := s.Tree.(interface {
		lock(ctx context.Context, cgroup string) (unlock func(), err error)
	})
	if !ok || len(s.touched(files)) == 0 {
		return func() {}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, busPatience)
	defer cancel()
	return tree.lock(ctx, cgroup)
}

// runs cuts files where those with a property follow those without, or the other way round.
func (s *Systemd) runs(files []File) [][]File {
	var runs [][]File
	start := 0
	for i := range files {
		if i+1 == len(files) || (len(s.touched(files[i:i+1])) > 0) != (len(s.touched(files[i+1:i+2])) > 0) {
			runs, start = append(runs, files[start:i+1]), i+1
		}
	}
	return runs
}

// writeRun writes files that have properties, and notes in have what they hold then.
func (s *Systemd) writeRun(ctx context.Context, cgroup, unit string, files []File, have map[string]string) (int, error) {
	want, missing := possible(files, have)
	properties, err := s.properties(want, have)
	if err != nil {
		return 0, fmt.Errorf("writing %s: %w", cgroup, err)
	}
	if err := s.set(ctx, cgroup, unit, properties); err != nil {
		return 0, err
	}
	if len(properties) > 0 {
		if err := s.putBack(ctx, cgroup, unit, have); err != nil {
			return 0, err
		}
	}
	written, err := writeInOrder(ctx, want, func(f File) (bool, error) {
		if _, err := s.Tree.Write(ctx, cgroup, []File{f}); err != nil {
			return false, cameAgain(cgroup, err)
		}
		differed := !cgroupfile.Holds(have[f.Name], f.Value)
		have[f.Name] = strings.TrimSpace(f.Value)
		return differed, nil
	})
	if err == nil && missing != "" {
		_, err = s.Tree.Write(ctx, cgroup, []File{{Name: missing}}) // reports whether the file alone is missing
	}
	return written, err
}

// putBack restores the files that systemd resets along with the properties that were set. systemd applies properties after it has
// answered, but before it handles the next call (src/core/manager.c, manager_loop: the queue of cgroups to realize is emptied first). So
// a call that changes nothing is made first, to wait for it.
func (s *Systemd) putBack(ctx context.Context, cgroup, unit string, have map[string]string) error {
	var lost []File
	for _, set := range s.sets {
		for _, name := range set.resets {
			if value, ok := have[name]; ok {
				lost = append(lost, File{Name: name, Value: value})
			}
		}
	}
	if len(lost) == 0 {
		return nil
	}
	bus, err := s.connected(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, busPatience)
	defer cancel()
	if err := bus.SetUnitPropertiesContext(ctx, unit, true); err != nil {
		return fmt.Errorf("writing %s: waiting for systemd: %w", cgroup, err)
	}
	_, err = s.Tree.Write(ctx, cgroup, lost)
	return cameAgain(cgroup, err)
}

// cameAgain is for an error about a file that was there: this is another cgroup of its name.
func cameAgain(cgroup string, err error) error {
	if errors.Is(err, ErrNoFile) {
		return fmt.Errorf("writing %s, which went and came again: %w", cgroup, ErrGone)
	}
	return err
}

// unitOf is the unit of a cgroup: systemd names a cgroup after it. One below a unit that is not one itself was made by whoever
// the unit is delegated to.
func unitOf(cgroup string) (string, bool) {
	name := path.Base(cgroup)
	kind := path.Ext(name)
	return name, name != kind && slices.Contains([]string{".slice", ".scope", ".service"}, kind)
}

// filesToRead are the files and, if one of them has a property, all that systemd writes along with it.
func (s *Systemd) filesToRead(files []File) []string {
	var names []string
	for _, file := range files {
		names = append(names, file.Name)
	}
	if len(s.touched(files)) > 0 {
		for _, set := range s.sets {
			names = append(append(names, set.files...), set.resets...)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// touched are the sets that have one of the files.
func (s *Systemd) touched(files []File) []controllerSet {
	return slices.DeleteFunc(slices.Clone(s.sets), func(set controllerSet) bool {
		return !slices.ContainsFunc(files, func(f File) bool { return slices.Contains(set.files, f.Name) })
	})
}

// possible is the files with values that systemd can keep, up to the first that does not exist.
func possible(files []File, have map[string]string) (want []File, missing string) {
	values := with(have, files)
	for _, file := range files {
		if _, ok := have[file.Name]; !ok {
			return want, file.Name
		}
		want = append(want, durable(file, values))
	}
	return want, ""
}

// properties are all of the unit's if a file differs, else none. A file that holds nothing (no CPUs of its own) is left to systemd,
// whose default that is.
func (s *Systemd) properties(want []File, have map[string]string) ([]dbus.Property, error) {
	if !slices.ContainsFunc(want, func(f File) bool { return !cgroupfile.Holds(have[f.Name], f.Value) }) {
		return nil, nil
	}
	kept := maps.Clone(have)
	maps.DeleteFunc(kept, func(_, value string) bool { return value == "" })
	values := with(kept, want)
	var all []dbus.Property
	for _, set := range s.sets {
		properties, err := set.properties(values)
		if err != nil {
			return nil, err
		}
		all = append(all, properties...)
	}
	return all, nil
}

// with is what the files hold when these are written.
func with(have map[string]string, files []File) map[string]string {
	values := maps.Clone(have)
	for _, file := range files {
		values[file.Name] = strings.TrimSpace(file.Value)
	}
	return values
}
