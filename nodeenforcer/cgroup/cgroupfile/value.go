// Package cgroupfile is the language of cgroups' files: which versions of them there are (Version), what a file means for the groups below (KindOf),
// what its contents say (Read, Holds), and which quotas systemd can keep (SystemdQuota). It is pure: package plan says in this language
// what a file should hold, package drift compares it with what it holds, package cgroup writes it.
package cgroupfile

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"k8s.io/utils/cpuset"
)

// Form is the language of a file.
type Form int

// The forms.
const (
	FormText   Form = iota // compared as text
	FormWeight             // a number, or "default" and a number, lines for devices below it
	FormAmount             // "max", -1 or a number
	FormRate               // quota and period
	FormSet                // a list of CPUs or memory nodes
)

// Role is what a file means for the groups below.
type Role int

// The roles.
const (
	RoleNone       Role = iota
	RoleLimit           // no group below gets more; without a limit of its own a group has the one above
	RoleProtection      // what a group above does not have, none below has
)

// Kind is what is to be known about a file. Rank orders a group's files: what bounds others comes first when it is raised.
type Kind struct {
	Form Form
	Role Role
	unit int64 // the kernel rounds down to it
	Rank int
}

// The bandwidth of CPUs in v1, and the bounds of values.
const (
	CFSQuota  = "cpu.cfs_quota_us"
	CFSPeriod = "cpu.cfs_period_us"
	// DefaultPeriod in microseconds (kernel/sched/core.c default_bw_period_us).
	DefaultPeriod = 100_000
	// unlimitedAbove: v1 prints what has no limit as 2^63 rounded down to a page or a huge page, 9223372036854771712 with pages of
	// 4 KiB (mm/page_counter.c). The kubelet's 1<<62 of hugetlb is a limit like any other.
	unlimitedAbove = uint64(1) << 62
	// MaxCPU bounds the lists that are expanded; the kernel's NR_CPUS is at most 8192.
	MaxCPU = 1 << 16
)

// KindOf knows the files of both versions. v1: memory.memsw.limit_in_bytes is never below memory.limit_in_bytes
// (mm/memcontrol-v1.c mem_cgroup_resize_max).
func KindOf(file string, page int64) Kind {
	switch file {
	case "memory.memsw.limit_in_bytes":
		return Kind{FormAmount, RoleLimit, page, 0}
	case "memory.max", "memory.limit_in_bytes":
		return Kind{FormAmount, RoleLimit, page, 1}
	case "memory.high":
		return Kind{FormAmount, RoleLimit, page, 2}
	case "memory.low":
		return Kind{FormAmount, RoleProtection, page, 3}
	case "memory.min":
		return Kind{FormAmount, RoleProtection, page, 4}
	case "memory.swap.max":
		return Kind{FormAmount, RoleLimit, page, 5}
	case "memory.soft_limit_in_bytes":
		return Kind{FormAmount, RoleNone, page, 5}
	case "pids.max":
		return Kind{FormAmount, RoleLimit, 1, 5}
	case CFSQuota, CFSPeriod:
		return Kind{FormAmount, RoleLimit, 1, 5}
	case "cpu.max":
		return Kind{FormRate, RoleLimit, 1, 5}
	case "cpuset.cpus", "cpuset.mems":
		return Kind{FormSet, RoleLimit, 1, 5}
	case "cpu.weight", "cpu.shares", "io.weight", "io.bfq.weight", "blkio.weight", "blkio.bfq.weight":
		return Kind{FormWeight, RoleNone, 1, 5}
	}
	if size, ok := hugePage(file); ok {
		return Kind{FormAmount, RoleLimit, size, 5}
	}
	return Kind{Form: FormText, Rank: 5}
}

// hugePage returns the page size of a hugetlb limit, hugetlb.2MB.max or hugetlb.1GB.limit_in_bytes.
func hugePage(file string) (int64, bool) {
	rest, ok := strings.CutPrefix(file, "hugetlb.")
	if !ok {
		return 0, false
	}
	size, file, _ := strings.Cut(rest, ".")
	switch file {
	case "max", "rsvd.max", "limit_in_bytes", "rsvd.limit_in_bytes":
	default:
		return 0, false
	}
	for i, unit := range []string{"KB", "MB", "GB"} {
		if digits, ok := strings.CutSuffix(size, unit); ok {
			n, err := strconv.ParseInt(digits, 10, 32)
			return n << (10 * (i + 1)), err == nil && n > 0
		}
	}
	return 0, false
}

// Value is a file's content, understood.
type Value struct {
	Kind      Kind
	unlimited bool
	Number    int64 // amount, weight, quota
	period    int64 // of a rate
	Set       cpuset.CPUSet
	text      string
}

// Read understands a file's content. The error says what is wrong with it.
func Read(file, content string, page int64) (Value, error) {
	v := Value{Kind: KindOf(file, page)}
	var err error
	switch v.Kind.Form {
	case FormText:
		v.text = strings.Join(strings.Fields(content), " ")
	case FormWeight:
		line, _, _ := strings.Cut(content, "\n")
		v.Number, err = strconv.ParseInt(strings.TrimSpace(strings.TrimPrefix(line, "default")), 10, 64)
	case FormAmount:
		v.Number, v.unlimited, err = readAmount(content, v.Kind.unit)
	case FormRate:
		err = v.readRate(content)
	case FormSet:
		v.Set, err = ReadSet(content)
		// An empty list of v2 is the parent's. In v1 it is so before the group's first process only, and allows none.
		v.unlimited = err == nil && v.Set.IsEmpty()
	}
	if err != nil {
		return v, fmt.Errorf("read %q as %s: %w", content, file, err)
	}
	return v, nil
}

// readAmount reads "max", v1's -1 and its largest number as unlimited, and others rounded down to a unit.
func readAmount(content string, unit int64) (n int64, unlimited bool, err error) {
	if content == "max" || content == "-1" {
		return 0, true, nil
	}
	u, err := strconv.ParseUint(content, 10, 64)
	if err != nil {
		return 0, false, err
	}
	if u > unlimitedAbove {
		return 0, true, nil
	}
	n = int64(u)
	return n - n%unit, false, nil
}

// readRate reads "max 100000", "25000 100000", or the first of both, as cpu.max takes it.
func (v *Value) readRate(content string) error {
	quota, period, ok := strings.Cut(content, " ")
	v.period = DefaultPeriod
	var err error
	if ok {
		if v.period, err = strconv.ParseInt(period, 10, 64); err != nil {
			return err
		}
		if v.period <= 0 {
			return fmt.Errorf("a period of %d", v.period)
		}
	}
	v.Number, v.unlimited, err = readAmount(quota, 1)
	return err
}

// ReadSet reads a list such as 0-1,3.
func ReadSet(content string) (cpuset.CPUSet, error) {
	for number := range strings.FieldsFuncSeq(content, func(r rune) bool { return r == ',' || r == '-' }) {
		if n, err := strconv.Atoi(number); err != nil || n > MaxCPU {
			return cpuset.New(), fmt.Errorf("number %q is not below %d", number, MaxCPU)
		}
	}
	return cpuset.Parse(content)
}

// Same reports whether the kernel would do the same with both.
func (v Value) Same(w Value) bool {
	switch {
	case v.unlimited || w.unlimited:
		return v.unlimited == w.unlimited
	case v.Kind.Form == FormSet:
		return v.Set.Equals(w.Set)
	default:
		return v.Number == w.Number && v.period == w.period && v.text == w.text
	}
}

// Within reports whether v allows or promises no more than w.
func (v Value) Within(w Value) bool {
	switch {
	case w.unlimited:
		return true
	case v.unlimited:
		return false
	case v.Kind.Form == FormSet:
		return v.Set.IsSubsetOf(w.Set)
	case v.Kind.Form == FormRate:
		vh, vl := bits.Mul64(uint64(v.Number), uint64(w.period))
		wh, wl := bits.Mul64(uint64(w.Number), uint64(v.period))
		return vh < wh || vh == wh && vl <= wl
	default:
		return v.Number <= w.Number
	}
}

// Exceeds reports whether v, of a group, is more than w, of the group above, promises. Without a limit of its own a group has
// the other's.
func (v Value) Exceeds(w Value) bool {
	return !v.Inherits() && !v.Within(w)
}

// Inherits reports whether the group has no limit of its own.
func (v Value) Inherits() bool {
	return v.unlimited && v.Kind.Role == RoleLimit
}

// Version is the kernel's cgroup version: which files there are, and what they are called.
type Version int

// The versions. A hybrid machine, whose unified hierarchy has no controllers, is V1, as it is for the kubelet.
const (
	V1 Version = 1
	V2 Version = 2
)

// Holds tells whether a file with these contents holds a value already. Spaces and newlines around both don't count. Of a file
// with a line for each device (io.weight: "default 100", then "8:0 200") it is enough that it has the lines of the value: what
// was said of other devices is somebody else's.
func Holds(contents, value string) bool {
	contents, value = strings.TrimSpace(contents), strings.TrimSpace(value)
	if contents == value {
		return true
	}
	if value == "" {
		return false
	}
	lines := strings.Split(contents, "\n")
	for line := range strings.SplitSeq(value, "\n") {
		if !slices.Contains(lines, line) {
			return false
		}
	}
	return true
}

const (
	// second in microseconds.
	second = 1_000_000
	// percent is what systemd keeps of a quota in its drop-in file: whole hundredths of a CPU, in microseconds per second.
	percent = 10_000
)

// QuotaPerSecond is a quota of a period as systemd keeps it, in microseconds per second. It is rounded up to a whole percent of a CPU, as
// the kubelet's cgroup manager does (opencontainers/cgroups v0.0.6 systemd/common.go, addCPUQuota): a daemon-reload would round it
// otherwise, perhaps down, under the sum of the children.
func QuotaPerSecond(quota, period uint64) uint64 {
	perSecond := quota * second / period
	return (perSecond + percent - 1) / percent * percent
}

// SystemdQuota is the quota of a period that systemd's users write to the file: rounded up to QuotaPerSecond where that is more.
func SystemdQuota(quota, period int64) int64 {
	if quota > math.MaxInt64/second {
		return quota
	}
	rounded := int64(QuotaPerSecond(uint64(quota), uint64(period)))
	if rounded == quota*second/period {
		return quota
	}
	return rounded * period / second
}
