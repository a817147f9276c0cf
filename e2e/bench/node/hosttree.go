package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
	"k8s.io/utils/clock"

	"github.com/podgrace/podgrace/nodeenforcer/cgroup"
	"github.com/podgrace/podgrace/nodeenforcer/drift"
	"github.com/podgrace/podgrace/nodeenforcer/plan"
	"github.com/podgrace/podgrace/nodeenforcer/repair"
)

const (
	hostCgroups = "/sys/fs/cgroup"
	hostProc    = "/proc"
	rootPrefix  = "/podgrace-bench-"
)

// controllers are the hierarchies in which the trees are made: those with planned files, and the freezer, which is asked for the
// processes of a cgroup.
var controllers = []string{"cpu", "memory", "pids", "freezer"}

// hostTree is a tree of cgroups of this machine, below a root that is ours alone.
type hostTree struct {
	root    string // below the hierarchies
	cgroups *cgroup.V1
	holder  *holder
}

// ourRoot is this process's.
func ourRoot() string { return rootPrefix + strconv.Itoa(os.Getpid()) }

// kubeletConfig puts kubepods below our root.
func kubeletConfig() *kubeletv1beta1.KubeletConfiguration {
	c := &kubeletv1beta1.KubeletConfiguration{CgroupRoot: ourRoot(), CgroupDriver: "cgroupfs"}
	c.APIVersion, c.Kind = kubeletv1beta1.SchemeGroupVersion.String(), "KubeletConfiguration"
	return c
}

// newHostTree makes the planned cgroups, with a process in each container. It takes away what a bench that was killed left.
func newHostTree(ctx context.Context, tree *plan.Tree) (_ *hostTree, err error) {
	cgroups, err := cgroup.NewV1(hostCgroups, hostProc)
	if err != nil {
		return nil, fmt.Errorf("-plan and -steady work on cgroup v1: %w", err)
	}
	if os.Geteuid() != 0 {
		return nil, errors.New("-plan and -steady make cgroups: they need root")
	}
	if err := sweep(ctx); err != nil {
		return nil, err
	}
	t := &hostTree{root: ourRoot(), cgroups: cgroups, holder: newHolder()}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.remove())
		}
	}()
	for _, g := range tree.Groups {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := t.make(g.Path); err != nil {
			return nil, err
		}
	}
	if err := t.populate(ctx, tree); err != nil {
		return nil, err
	}
	return t, nil
}

func (t *hostTree) make(path string) error {
	for _, c := range controllers {
		if err := os.MkdirAll(filepath.Join(hostCgroups, c, path), 0o755); err != nil {
			return fmt.Errorf("make a cgroup: %w", err)
		}
	}
	return nil
}

// populate starts one process for each container, but for those whose planned oom_score_adj is below 0: to write that takes
// CAP_SYS_RESOURCE, which root may lack in a container.
func (t *hostTree) populate(ctx context.Context, tree *plan.Tree) error {
	for _, p := range tree.Processes {
		if p.OOMScoreAdj < 0 {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		pid, err := t.holder.start()
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(hostCgroups, "freezer", p.Path, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0); err != nil {
			return fmt.Errorf("put a process into its cgroup: %w", err)
		}
		if err := setOOMScoreAdj(pid, p.OOMScoreAdj); err != nil {
			return err
		}
	}
	return nil
}

func setOOMScoreAdj(pid, to int) error {
	if err := os.WriteFile(filepath.Join(hostProc, strconv.Itoa(pid), "oom_score_adj"), []byte(strconv.Itoa(to)), 0); err != nil {
		return fmt.Errorf("set oom_score_adj: %w", err)
	}
	return nil
}

// enforcer is a new one: it remembers no rival, and looks at all in its first round.
func (t *hostTree) enforcer() *repair.Enforcer {
	return &repair.Enforcer{Cgroups: t.cgroups, ProcRoot: hostProc, Clock: clock.RealClock{}, Rivals: drift.NewRivals(drift.RivalLimit, drift.RivalWindow)}
}

// remove takes all away.
func (t *hostTree) remove() error {
	return errors.Join(t.holder.stop(), removeRoot(t.root))
}

// removeRoot removes a root from all hierarchies.
func removeRoot(root string) error {
	var errs []error
	for _, c := range controllers {
		errs = append(errs, removeCgroups(filepath.Join(hostCgroups, c, root)))
	}
	return errors.Join(errs...)
}

// removeCgroups removes folders from the leaves up, as cgroups want it. A process that ended leaves its cgroup a moment later.
func removeCgroups(root string) error {
	var dirs []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			dirs = append(dirs, path)
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	errs := []error{err}
	for _, dir := range slices.Backward(dirs) {
		errs = append(errs, removeCgroup(dir))
	}
	return errors.Join(errs...)
}

func removeCgroup(dir string) error {
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		err := os.Remove(dir)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if !errors.Is(err, syscall.EBUSY) || time.Since(began) > 5*time.Second {
			return fmt.Errorf("remove a cgroup: %w", err)
		}
	}
}

// sweep removes the roots of benches that do not run any more. Their processes ended with them.
func sweep(ctx context.Context) error {
	var errs []error
	for _, c := range controllers {
		left, err := filepath.Glob(filepath.Join(hostCgroups, c, rootPrefix+"*"))
		errs = append(errs, err)
		for _, dir := range left {
			pid := strings.TrimPrefix(filepath.Base(dir), strings.TrimPrefix(rootPrefix, "/"))
			if _, err := os.Stat(filepath.Join(hostProc, pid)); !errors.Is(err, fs.ErrNotExist) {
				continue
			}
			errs = append(errs, ctx.Err(), removeCgroups(dir))
		}
	}
	return errors.Join(errs...)
}
