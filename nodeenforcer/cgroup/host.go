package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// MemTotal is the memory of the whole machine, in bytes: what its root cgroup could use.
func MemTotal(procRoot string) (int64, error) {
	text, err := os.ReadFile(filepath.Join(procRoot, "meminfo"))
	if err != nil {
		return 0, fmt.Errorf("read meminfo: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, found := strings.CutPrefix(line, "MemTotal:"); found {
			kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			if err != nil {
				return 0, fmt.Errorf("read meminfo: MemTotal: %w", err)
			}
			return kib << 10, nil
		}
	}
	return 0, errors.New("read meminfo: it has no MemTotal")
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
