package cgroup

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path"
	"path/filepath"
	"time"

	"github.com/containerd/cgroups/v3/cgroup1"
	stats1 "github.com/containerd/cgroups/v3/cgroup1/stats"
	"github.com/containerd/cgroups/v3/cgroup2"
	stats2 "github.com/containerd/cgroups/v3/cgroup2/stats"
	"golang.org/x/sys/unix"
)

// Statistics are what the kernel counts of a cgroup and those below it. A part is nil where it counts none: its controller is not enabled there, or the
// version does not have it. They are for people and metrics; what is decided by reads fewer files (usage.go).
type Statistics struct {
	Memory *MemoryStatistics `json:"memory,omitempty"`
	CPU    *CPUStatistics    `json:"cpu,omitempty"`
	IO     *IOStatistics     `json:"io,omitempty"`
	PIDs   *PIDStatistics    `json:"pids,omitempty"`
	// CPUPressure, MemoryPressure and IOPressure: v2 with PSI.
	CPUPressure    *Pressure `json:"cpuPressure,omitempty"`
	MemoryPressure *Pressure `json:"memoryPressure,omitempty"`
	IOPressure     *Pressure `json:"ioPressure,omitempty"`
}

// Unlimited is a limit that there is not.
const Unlimited = int64(math.MaxInt64)

// MemoryStatistics are in bytes.
type MemoryStatistics struct {
	Memory
	Anon int64 `json:"anonBytes"`
	// Peak of the usage; on v2 from Linux 5.19.
	Peak   int64        `json:"peakBytes"`
	Limit  int64        `json:"-"`
	Events MemoryEvents `json:"events"`
}

// MemoryEvents are counted since the cgroup was made. v1 counts how often usage met the limit (Max) and, from Linux 4.13, OOMKills.
type MemoryEvents struct {
	// Low: reclaimed although under its protection. High: throttled at memory.high. Max: usage met the limit. OOM: the kernel found nothing to free.
	Low  int64 `json:"low"`
	High int64 `json:"high"`
	Max  int64 `json:"max"`
	OOM  int64 `json:"oom"`
	// OOMKills are processes that the kernel killed.
	OOMKills int64 `json:"oomKills"`
}

// CPUStatistics are times that processes ran, and how often they waited for their quota.
type CPUStatistics struct {
	Usage            time.Duration `json:"usageNanoseconds"`
	Throttled        time.Duration `json:"throttledNanoseconds"`
	Periods          int64         `json:"periods"`
	ThrottledPeriods int64         `json:"throttledPeriods"`
}

// IOStatistics are of all devices together.
type IOStatistics struct {
	ReadBytes  int64 `json:"readBytes"`
	WriteBytes int64 `json:"writeBytes"`
}

// PIDStatistics are processes and threads.
type PIDStatistics struct {
	Current int64 `json:"current"`
	Limit   int64 `json:"-"`
}

// Counter tells what the kernel counts.
type Counter interface {
	// Stat reads the statistics of a cgroup. ErrGone where it does not exist, or goes meanwhile.
	Stat(path string) (Statistics, error)
}

// statV2 is what is read: all but rdma and hugetlb, of which nobody asks.
const statV2 = cgroup2.StatPids | cgroup2.StatCPU | cgroup2.StatMemory | cgroup2.StatMemoryEvents | cgroup2.StatIO

// Stat implements Counter. The library returns zeros for what is not there, so it is looked first which files there are, and last whether that very cgroup still
// is.
func (v *V2) Stat(cgroup string) (Statistics, error) {
	g, err := v.open(cgroup)
	if err != nil {
		return Statistics{}, err
	}
	defer g.close()
	manager, err := cgroup2.Load(cgroup, cgroup2.WithMountpoint(v.mountpoint))
	if err != nil {
		return Statistics{}, fmt.Errorf("reading the statistics of %s: %w", cgroup, err)
	}
	m, err := manager.StatFiltered(statV2)
	if gone := g.stillThere(); gone != nil {
		return Statistics{}, gone
	}
	if err != nil {
		return Statistics{}, g.of.failed("reading the statistics of", cgroup, err)
	}
	var s Statistics
	if g.has("memory.current") {
		s.Memory = memoryV2(m.Memory, m.MemoryEvents)
	}
	if g.has("cpu.stat") {
		c := m.CPU
		s.CPU = &CPUStatistics{Usage: microseconds(c.UsageUsec), Throttled: microseconds(c.ThrottledUsec), Periods: signed(c.NrPeriods), ThrottledPeriods: signed(c.NrThrottled)}
	}
	if g.has("io.stat") {
		s.IO = &IOStatistics{}
		for _, device := range m.Io.Usage {
			s.IO.ReadBytes += signed(device.Rbytes)
			s.IO.WriteBytes += signed(device.Wbytes)
		}
	}
	if g.has("pids.current") {
		s.PIDs = &PIDStatistics{Current: signed(m.Pids.Current), Limit: signed(m.Pids.Limit)}
	}
	s.CPUPressure, s.MemoryPressure, s.IOPressure = pressureOf(m.CPU.PSI), pressureOf(m.Memory.PSI), pressureOf(m.Io.PSI)
	return s, nil
}

func memoryV2(m *stats2.MemoryStat, e *stats2.MemoryEvents) *MemoryStatistics {
	s := &MemoryStatistics{Memory: Memory{Usage: signed(m.Usage), InactiveFile: signed(m.InactiveFile)}, Anon: signed(m.Anon), Peak: signed(m.MaxUsage), Limit: signed(m.UsageLimit)}
	if e != nil {
		s.Events = MemoryEvents{Low: signed(e.Low), High: signed(e.High), Max: signed(e.Max), OOM: signed(e.Oom), OOMKills: signed(e.OomKill)}
	}
	return s
}

func pressureOf(p *stats2.PSIStats) *Pressure {
	if p == nil || p.Some == nil {
		return nil
	}
	stall := func(d *stats2.PSIData) Stall {
		if d == nil { // cpu has no full before Linux 5.13
			return Stall{}
		}
		return Stall{Avg10: d.Avg10, Avg60: d.Avg60, Avg300: d.Avg300, Total: microseconds(d.Total)}
	}
	return &Pressure{Some: stall(p.Some), Full: stall(p.Full)}
}

// has tells whether the cgroup has a file.
func (g *group) has(file string) bool {
	fd, err := openat(g.fd, file, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC)
	if err != nil {
		return false
	}
	_ = unix.Close(fd) // nothing was written through it
	return true
}

// Stat implements Counter.
func (v *V1) Stat(cgroup string) (Statistics, error) {
	if err := v.stillThere(cgroup); err != nil {
		return Statistics{}, err
	}
	loaded, err := cgroup1.Load(cgroup1.StaticPath(cgroup), cgroup1.WithHierarchy(v.counted))
	if errors.Is(err, cgroup1.ErrCgroupDeleted) { // from those that count
		return Statistics{}, v.stillThere(cgroup)
	}
	if err != nil {
		return Statistics{}, fmt.Errorf("reading the statistics of %s: %w", cgroup, err)
	}
	m, err := loaded.Stat(notExisting)
	if gone := v.stillThere(cgroup); gone != nil {
		return Statistics{}, gone
	}
	if err != nil {
		return Statistics{}, fmt.Errorf("reading the statistics of %s: %w", cgroup, err)
	}
	var s Statistics
	for _, subsystem := range loaded.Subsystems() {
		if subsystem.Name() == cgroup1.Cpuacct {
			t := m.CPU.Throttling
			s.CPU = &CPUStatistics{Usage: time.Duration(signed(m.CPU.Usage.Total)), Throttled: time.Duration(signed(t.ThrottledTime)), Periods: signed(t.Periods), ThrottledPeriods: signed(t.ThrottledPeriods)}
		}
	}
	if m.Memory != nil && m.Memory.Usage != nil {
		s.Memory = memoryV1(m.Memory, m.MemoryOomControl)
	}
	if m.Blkio != nil {
		s.IO = ioV1(m.Blkio.IoServiceBytesRecursive)
	}
	if m.Pids != nil {
		s.PIDs = &PIDStatistics{Current: signed(m.Pids.Current), Limit: limitV1(m.Pids.Limit)}
	}
	return s, nil
}

// notExisting passes over what a hierarchy does not have: the cgroup was removed from it, or the file is of other kernels.
func notExisting(err error) error {
	if errors.Is(err, unix.ENODEV) {
		return nil
	}
	return cgroup1.IgnoreNotExist(err)
}

// counted are the library's controllers, as far as their hierarchies are where it looks for them: in a folder of the controller's name, or by a link of that name,
// which systemd makes for those that share a hierarchy. Of memory it reads what all kernels have.
func (v *V1) counted() ([]cgroup1.Subsystem, error) {
	var all []cgroup1.Subsystem
	for name, made := range map[string]func(root string) cgroup1.Subsystem{
		"memory": func(root string) cgroup1.Subsystem {
			return cgroup1.NewMemory(root, cgroup1.IgnoreModules("memsw", "kmem", "kmem.tcp"))
		},
		"cpu":     func(root string) cgroup1.Subsystem { return cgroup1.NewCpu(root) },
		"cpuacct": func(root string) cgroup1.Subsystem { return cgroup1.NewCpuacct(root) },
		"pids":    func(root string) cgroup1.Subsystem { return cgroup1.NewPids(root) },
		"blkio":   func(root string) cgroup1.Subsystem { return cgroup1.NewBlkio(root) },
	} {
		if h, ok := v.byController[name]; ok && h.named(name) {
			all = append(all, made(path.Dir(h.mountpoint)))
		}
	}
	return all, nil
}

// named tells whether the hierarchy is reached by the controller's name.
func (h hierarchy) named(controller string) bool {
	if path.Base(h.mountpoint) == controller {
		return true
	}
	link, err := os.Stat(filepath.Join(path.Dir(h.mountpoint), controller))
	if err != nil {
		return false
	}
	self, err := os.Stat(h.mountpoint)
	return err == nil && os.SameFile(link, self)
}

func memoryV1(m *stats1.MemoryStat, oom *stats1.MemoryOomControl) *MemoryStatistics {
	s := &MemoryStatistics{
		Memory: Memory{Usage: signed(m.Usage.Usage), InactiveFile: signed(m.TotalInactiveFile)},
		Anon:   signed(m.TotalRSS), Peak: signed(m.Usage.Max), Limit: limitV1(m.Usage.Limit), Events: MemoryEvents{Max: signed(m.Usage.Failcnt)},
	}
	if oom != nil {
		s.Events.OOMKills = signed(oom.OomKill)
	}
	return s
}

func ioV1(entries []*stats1.BlkIOEntry) *IOStatistics {
	s := &IOStatistics{}
	for _, e := range entries {
		switch e.Op {
		case "Read":
			s.ReadBytes += signed(e.Value)
		case "Write":
			s.WriteBytes += signed(e.Value)
		}
	}
	return s
}

// limitV1 is a limit of v1. Where there is none, that of memory is a number of bytes near the largest, and the library says 0 for the "max" of pids.
func limitV1(n uint64) int64 {
	if n == 0 || n >= 1<<62 {
		return Unlimited
	}
	return signed(n)
}

func signed(n uint64) int64 { return int64(min(n, math.MaxInt64)) }

func microseconds(n uint64) time.Duration { return time.Duration(signed(n)) * time.Microsecond }
