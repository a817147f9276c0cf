package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// MemTotal is the memory of the whole machine, in bytes: what its root cgroup could use.
func MemTotal(procRoot string) (int64, error) {
	total, ok, err := memInfo(procRoot, "MemTotal")
	if err == nil && !ok {
		err = errors.New("read meminfo: it has no MemTotal")
	}
	return total, err
}

// Hugetlb is the memory that is set aside for huge pages, in bytes, whether they are used or not: no cgroup's memory is made of it
// (mm/hugetlb.c hugetlb_report_meminfo, all sizes together). 0 where the kernel has none.
func Hugetlb(procRoot string) (int64, error) {
	bytes, _, err := memInfo(procRoot, "Hugetlb")
	return bytes, err
}

func memInfo(procRoot, name string) (bytes int64, ok bool, err error) {
	text, err := os.ReadFile(filepath.Join(procRoot, "meminfo"))
	if err != nil {
		return 0, false, fmt.Errorf("read meminfo: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, found := strings.CutPrefix(line, name+":"); found {
			kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			if err != nil {
				return 0, false, fmt.Errorf("read meminfo: %s: %w", name, err)
			}
			return kib << 10, true, nil
		}
	}
	return 0, false, nil
}

// MaxPIDs is how many processes the kernel allows: the lower of pid_max and threads-max, as the kubelet counts
// (pkg/kubelet/stats/pidlimit/pidlimit_linux.go, 1.36.3).
func MaxPIDs(procRoot string) (int64, error) {
	limit := int64(-1)
	for _, name := range []string{"pid_max", "threads-max"} {
		text, err := os.ReadFile(filepath.Join(procRoot, "sys", "kernel", name))
		if err != nil {
			return 0, fmt.Errorf("read the limit of processes: %w", err)
		}
		n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read the limit of processes: %s: %w", name, err)
		}
		if limit < 0 || n < limit {
			limit = n
		}
	}
	return limit, nil
}

// Lister is the part of a Tree that tells which processes are in a cgroup.
type Lister interface {
	Processes(path string) ([]int, error)
}

// OOMScoreAdj reads a process's oom_score_adj, -1000 to 1000. ErrGone where the process has ended.
func OOMScoreAdj(procRoot string, pid int) (int, error) {
	text, err := os.ReadFile(oomFile(procRoot, pid))
	if err != nil {
		return 0, processErr("reading oom_score_adj", pid, err)
	}
	value, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0, fmt.Errorf("reading oom_score_adj of process %d: %w", pid, err)
	}
	return value, nil
}

// oomBatch bounds how many files are open at once.
const oomBatch = 256

// SetOOMScoreAdj makes processes of a cgroup have this oom_score_adj and returns those that it had to write. Who has ended or is not (any more) in
// the cgroup or below it is left out; ErrGone where the cgroup is gone. The error has what failed; the others were written.
//
// A process's number may be another one's by the time it is used. So the file is opened first, which binds it to one process (a
// write fails with ESRCH once that has ended), and only then the cgroup is asked whether the number is in it. It is the cgroup
// that is asked, not /proc/PID/cgroup: in a cgroup namespace of our own, as a DaemonSet's pod has one, that file names other
// cgroups only relative to ours.
//
// The cgroup is listed once for many processes: whoever may start processes must not make our work grow with their square.
func SetOOMScoreAdj(procRoot string, tree Lister, path string, pids []int, value int) (written []int, err error) {
	var errs []error
	for batch := range slices.Chunk(pids, oomBatch) {
		wrote, err := setBatch(procRoot, tree, path, batch, value)
		written = append(written, wrote...)
		if errors.Is(err, ErrGone) {
			return written, errors.Join(append(errs, err)...)
		}
		errs = append(errs, err)
	}
	return written, errors.Join(errs...)
}

func setBatch(procRoot string, tree Lister, path string, pids []int, value int) (written []int, err error) {
	var errs []error
	held := make(map[int]*os.File, len(pids))
	defer func() {
		for _, file := range held {
			errs = append(errs, file.Close())
		}
		err = errors.Join(errs...)
	}()
	for _, pid := range pids {
		file, err := os.OpenFile(oomFile(procRoot, pid), os.O_RDWR, 0)
		if err := processErr("opening oom_score_adj", pid, err); err == nil {
			held[pid] = file
		} else if !errors.Is(err, ErrGone) {
			errs = append(errs, err)
		}
	}
	if len(held) == 0 {
		return nil, nil
	}
	inside, err := tree.Processes(path)
	if err != nil {
		errs = append(errs, err)
		return nil, nil
	}
	for _, pid := range inside {
		file, ok := held[pid]
		if !ok {
			continue
		}
		wrote, err := setOOMScoreAdj(file, pid, value)
		if err != nil && !errors.Is(err, ErrGone) {
			errs = append(errs, err)
		}
		if wrote {
			written = append(written, pid)
		}
	}
	return written, nil
}

func setOOMScoreAdj(file *os.File, pid, value int) (written bool, err error) {
	var have [16]byte
	n, err := file.ReadAt(have[:], 0)
	if err != nil && n == 0 {
		return false, processErr("reading oom_score_adj", pid, err)
	}
	want := strconv.Itoa(value)
	if strings.TrimSpace(string(have[:n])) == want {
		return false, nil
	}
	if _, err := file.WriteAt([]byte(want), 0); err != nil {
		return false, processErr("writing oom_score_adj", pid, err)
	}
	return true, nil
}

func oomFile(procRoot string, pid int) string {
	return filepath.Join(procRoot, strconv.Itoa(pid), "oom_score_adj")
}

// processErr distinguishes a process that has ended (no folder, or ESRCH from a file of it) from other errors.
func processErr(doing string, pid int, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("%s: process %d has ended: %w", doing, pid, ErrGone)
	}
	return fmt.Errorf("%s of process %d: %w", doing, pid, err)
}
