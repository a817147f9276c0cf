package pressure

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"k8s.io/utils/clock"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgroupfile"
)

// Sensor measures what is left of the node's resources, as the kubelet counts it.
type Sensor struct {
	// CgroupRoot is where the host's cgroups of this version are mounted, ProcRoot its /proc.
	CgroupRoot, ProcRoot string
	Version              cgroupfile.Version
	// KubeletRoot is the kubelet's folder, of the file system nodefs; ImageRoot the container runtime's, of imagefs.
	KubeletRoot, ImageRoot string
	// Disks are the folders by which file systems are measured; nil: KubeletRoot and ImageRoot, whatever is there.
	Disks *Disks
	Clock clock.PassiveClock
	// Aside is a test's (Aside.Go).
	Aside func(func())

	capacity int64 // of memory; it never changes
	stat     string
	// fileSystems by the folder that is asked about.
	fileSystems map[string]*fileSystem
}

// Measure samples the signals that have thresholds. One that can't be measured is missing from the result, and in the error. File systems are
// measured aside: the sample is what was known the last time, and missing the first.
func (s *Sensor) Measure(thresholds Thresholds) (Signals, error) {
	signals := Signals{}
	var errs []error
	for _, t := range thresholds.List {
		if _, ok := signals[t.Signal]; ok {
			continue
		}
		sample, err := s.measure(t.Signal)
		if errors.Is(err, errPending) {
			continue
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("measure %s: %w", t.Signal, err))
			continue
		}
		if sample.Time.IsZero() {
			sample.Time = s.Clock.Now()
		}
		signals[t.Signal] = sample
	}
	return signals, errors.Join(errs...)
}

func (s *Sensor) measure(signal v1alpha1.EvictionSignal) (Sample, error) {
	switch signal {
	case v1alpha1.SignalMemoryAvailable:
		return s.memory()
	case v1alpha1.SignalNodeFsAvailable, v1alpha1.SignalImageFsAvailable:
		return s.space(s.disk(signal))
	case v1alpha1.SignalNodeFsInodesFree, v1alpha1.SignalImageFsInodesFree:
		return s.inodes(s.disk(signal))
	case v1alpha1.SignalPIDAvailable:
		return s.pids()
	}
	return Sample{}, errors.New("it is not known here")
}

// disk is the one that a signal is about.
func (s *Sensor) disk(signal v1alpha1.EvictionSignal) Disk {
	disks := s.Disks
	if disks == nil {
		disks = &Disks{Node: Disk{Path: s.KubeletRoot}, Image: Disk{Path: s.ImageRoot}}
	}
	return disks.Of(signal)
}

// memory is the machine's without the working set of the root cgroup: its usage without inactive page cache. The root of v2 has
// no memory.current; there the usage is anonymous and file memory (opencontainers/cgroups fs2/memory.go rootStatsFromMeminfo,
// cadvisor setMemoryStats, as in Kubernetes 1.36.3). What the kernel itself takes is in neither, and nor are huge pages, which nobody can have
// for anything else: they are taken off, as the kubelet takes them off what is allocatable (pkg/kubelet/nodestatus/setters.go MachineInfo).
func (s *Sensor) memory() (Sample, error) {
	if s.capacity == 0 {
		total, err := cgroup.MemTotal(s.ProcRoot)
		if err != nil {
			return Sample{}, err
		}
		s.capacity, s.stat = total, filepath.Join(s.CgroupRoot, "memory.stat")
		if s.Version == cgroupfile.V1 {
			s.stat = filepath.Join(s.CgroupRoot, "memory", "memory.stat")
		}
	}
	used, inactive, err := s.used()
	if err != nil {
		return Sample{}, err
	}
	huge, err := cgroup.Hugetlb(s.ProcRoot)
	if err != nil {
		return Sample{}, err
	}
	return Sample{Available: s.capacity - huge - max(0, used-inactive), Capacity: s.capacity}, nil
}

func (s *Sensor) used() (used, inactive int64, err error) {
	text, err := os.ReadFile(s.stat)
	if err != nil {
		return 0, 0, err
	}
	if s.Version == cgroupfile.V1 {
		usage, err := os.ReadFile(filepath.Join(filepath.Dir(s.stat), "memory.usage_in_bytes"))
		if err != nil {
			return 0, 0, err
		}
		n, err := strconv.ParseInt(strings.TrimSpace(string(usage)), 10, 64)
		if err != nil {
			return 0, 0, fmt.Errorf("memory.usage_in_bytes: %w", err)
		}
		found, err := statFields(string(text), "total_inactive_file")
		if err != nil {
			return 0, 0, err
		}
		return n, found[0], nil
	}
	found, err := statFields(string(text), "anon", "file", "inactive_file")
	if err != nil {
		return 0, 0, err
	}
	return found[0] + found[1], found[2], nil
}

// statFields are the values of lines "name value".
func statFields(text string, names ...string) ([]int64, error) {
	values, found := make([]int64, len(names)), map[string]bool{}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		for i, want := range names {
			if name != want {
				continue
			}
			n, err := strconv.ParseInt(value, 10, 64)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			values[i], found[name] = n, true
		}
		if len(found) == len(names) {
			return values, nil
		}
	}
	return nil, fmt.Errorf("there is not each of %s", strings.Join(names, ", "))
}

// pids are processes and threads, as /proc/loadavg counts them (pkg/kubelet/stats/pidlimit/pidlimit_linux.go, 1.36.3).
func (s *Sensor) pids() (Sample, error) {
	limit, err := cgroup.MaxPIDs(s.ProcRoot)
	if err != nil {
		return Sample{}, err
	}
	text, err := os.ReadFile(filepath.Join(s.ProcRoot, "loadavg"))
	if err != nil {
		return Sample{}, err
	}
	var load float64
	var running, all int64
	if _, err := fmt.Sscanf(string(text), "%f %f %f %d/%d", &load, &load, &load, &running, &all); err != nil {
		return Sample{}, fmt.Errorf("loadavg: %w", err)
	}
	return Sample{Available: limit - all, Capacity: limit}, nil
}
