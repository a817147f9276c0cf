package cgroup

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// V1 is a Tree on the files of the v1 hierarchies. The same path is one cgroup in all of them: it is gone when it is gone from
// each. A file whose hierarchy alone lacks the cgroup does not exist. It keeps nothing open.
type V1 struct {
	byController map[string]hierarchy
	all          []hierarchy // each once, those whose processes are asked first
}

// NewV1 finds the hierarchies below mountpoint, which may be elsewhere than /sys/fs/cgroup, in procRoot/self/mountinfo.
func NewV1(mountpoint, procRoot string) (*V1, error) {
	mountinfo, err := os.ReadFile(filepath.Join(procRoot, "self", "mountinfo"))
	if err != nil {
		return nil, fmt.Errorf("finding the cgroup hierarchies: %w", err)
	}
	found := hierarchies(string(mountinfo), mountpoint)
	if len(found) == 0 {
		return nil, fmt.Errorf("no cgroup v1 hierarchy is mounted below %s", mountpoint)
	}
	return newV1(found), nil
}

// asked is the order in which hierarchies are read for a cgroup's processes: the freezer first, since Kill stops them there.
var asked = []string{"freezer", "pids", "memory", "cpu", "cpuset"}

func newV1(found map[string]hierarchy) *V1 {
	v := &V1{byController: found}
	for _, controller := range append(slices.Clone(asked), slices.Sorted(maps.Keys(found))...) {
		if h, ok := found[controller]; ok && !slices.Contains(v.all, h) {
			v.all = append(v.all, h)
		}
	}
	return v
}

var _ Tree = (*V1)(nil)

// of is the hierarchy that has a file: memory.limit_in_bytes is the memory controller's; cgroup.procs, tasks and the like are
// everywhere.
func (v *V1) of(file string) (hierarchy, bool) {
	controller, _, _ := strings.Cut(file, ".")
	if h, ok := v.byController[controller]; ok {
		return h, true
	}
	return v.all[0], controller == "cgroup" || !strings.Contains(file, ".")
}

// Read implements Tree.
func (v *V1) Read(cgroup string, files ...string) (map[string]string, error) {
	contents, there := make(map[string]string, len(files)), false
	for _, file := range files {
		if err := checkFile(file); err != nil {
			return nil, err
		}
	}
	for _, h := range v.all {
		mine := slices.DeleteFunc(slices.Clone(files), func(file string) bool { of, ok := v.of(file); return !ok || of != h })
		if len(mine) == 0 {
			continue
		}
		read, err := h.readFiles(cgroup, mine)
		if errors.Is(err, ErrGone) {
			continue
		}
		if err != nil {
			return nil, err
		}
		there = true
		maps.Copy(contents, read)
	}
	if !there {
		return contents, v.stillThere(cgroup)
	}
	return contents, nil
}

// Write implements Tree.
func (v *V1) Write(ctx context.Context, cgroup string, files []File) (int, error) {
	if len(files) == 0 {
		return 0, v.stillThere(cgroup)
	}
	return writeInOrder(ctx, files, func(f File) (bool, error) {
		wrote, err := v.write(cgroup, f)
		if errors.Is(err, ErrGone) {
			if err := v.stillThere(cgroup); err != nil {
				return false, err
			}
			err = fmt.Errorf("writing %s of %s: %w", f.Name, cgroup, ErrNoFile)
		}
		return wrote, err
	})
}

// write fails with ErrGone where this file's hierarchy does not have the cgroup.
func (v *V1) write(cgroup string, f File) (bool, error) {
	if err := checkFile(f.Name); err != nil {
		return false, err
	}
	h, ok := v.of(f.Name)
	if !ok {
		return false, fmt.Errorf("writing %s of %s: its controller is not mounted: %w", f.Name, cgroup, ErrGone)
	}
	g, err := h.open(cgroup)
	if err != nil {
		return false, err
	}
	defer g.close()
	return g.write(f.Name, f.Value)
}

// stillThere is nil if any hierarchy has the cgroup, else ErrGone.
func (v *V1) stillThere(cgroup string) error {
	for _, h := range v.all {
		if there, err := h.exists(cgroup); err != nil || there {
			return err
		}
	}
	return fmt.Errorf("%s: %w", cgroup, ErrGone)
}

// Children implements Tree: of all hierarchies together.
func (v *V1) Children(cgroup string) ([]string, error) {
	var names []string
	there := false
	for _, h := range v.all {
		more, err := h.childrenOf(cgroup)
		if err != nil && !errors.Is(err, ErrGone) {
			return nil, err
		}
		there = there || err == nil
		names = append(names, more...)
	}
	if !there {
		return nil, fmt.Errorf("listing %s: %w", cgroup, ErrGone)
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// Processes implements Tree: by the first hierarchy that has the cgroup.
func (v *V1) Processes(cgroup string) ([]int, error) {
	for _, h := range v.all {
		pids, err := h.processesOf(cgroup)
		if !errors.Is(err, ErrGone) {
			return pids, err
		}
	}
	return nil, fmt.Errorf("listing the processes of %s: %w", cgroup, ErrGone)
}

// Kill implements Tree: frozen, the processes can't fork while each gets its SIGKILL; it takes effect when they thaw. Then, or
// where there is no freezer, it kills one by one until the cgroup is empty.
func (v *V1) Kill(ctx context.Context, cgroup string) error {
	if err := killable(cgroup); err != nil {
		return err
	}
	list := func() ([]int, error) { return v.Processes(cgroup) }
	if err := v.killFrozen(ctx, cgroup, list); err != nil {
		return err
	}
	return killEach(ctx, cgroup, list)
}

// killFrozen is of use only if it works: its failure to freeze is not an error, since killEach comes next. It thaws whatever
// happens, for a cgroup that stays frozen can't be stopped by anybody.
func (v *V1) killFrozen(ctx context.Context, cgroup string, list func() ([]int, error)) (err error) {
	pids, err := list()
	if err != nil || len(pids) == 0 {
		return err
	}
	freezer, ok := v.byController["freezer"]
	if !ok {
		return nil
	}
	g, err := freezer.open(cgroup)
	if errors.Is(err, ErrGone) { // from this hierarchy only, or list says it next
		return nil
	}
	if err != nil {
		return err
	}
	defer g.close()
	defer func() {
		if thawErr := g.writeFile(stateFileV1, thawedV1); thawErr != nil && err == nil && g.stillThere() == nil {
			err = fmt.Errorf("thawing %s: %w", cgroup, thawErr)
		}
	}()
	freeze(ctx, g)
	if pids, err = list(); err != nil {
		return err
	}
	return signalAll(pids, list)
}

// freezePatience bounds the wait for FROZEN where it is only to help a kill.
const freezePatience = 50 * time.Millisecond

// freeze tries to.
func freeze(ctx context.Context, g *group) {
	ctx, cancel := context.WithTimeout(ctx, freezePatience)
	defer cancel()
	_ = g.awaitStateV1(ctx, frozenV1) // what comes next does without
}

// Mountpoints are where the hierarchies are mounted.
func (v *V1) Mountpoints() []string {
	var points []string
	for _, h := range v.all {
		points = append(points, h.mountpoint)
	}
	return points
}

// hierarchies finds the v1 hierarchies mounted at or below mountpoint in the text of /proc/PID/mountinfo (proc(5)): by controller,
// where it is. Co-mounted controllers (cpu,cpuacct) share one. Hierarchies without a controller (name=systemd) are left out, and
// so is a unified hierarchy beside them.
func hierarchies(mountinfo, mountpoint string) map[string]hierarchy {
	found := map[string]hierarchy{}
	for line := range strings.Lines(mountinfo) {
		before, after, _ := strings.Cut(line, " - ")
		mount, kind := strings.Fields(before), strings.Fields(after)
		if len(mount) < 5 || len(kind) < 3 || kind[0] != "cgroup" {
			continue
		}
		at := unescape(mount[4])
		if at != path.Clean(mountpoint) && !strings.HasPrefix(at, path.Clean(mountpoint)+"/") {
			continue
		}
		for _, controller := range controllers(kind[2]) {
			// Where the node is a container itself, as of kind, a part of each hierarchy is mounted once more below it.
			if outer, ok := found[controller]; !ok || len(at) < len(outer.mountpoint) {
				found[controller] = hierarchy{at}
			}
		}
	}
	return found
}

// controllers are those of a file system's options that name one.
func controllers(options string) []string {
	return slices.DeleteFunc(strings.Split(options, ","), func(option string) bool {
		return strings.Contains(option, "=") || slices.Contains([]string{"ro", "rw", "xattr", "clone_children", "noprefix", "none", "all"}, option)
	})
}

// unescape undoes the octal escapes of mountinfo.
func unescape(text string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(text)
}
