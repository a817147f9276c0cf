package plan

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"

	"k8s.io/utils/cpuset"
)

// form is the language of a file.
type form int

const (
	formText   form = iota // compared as text
	formWeight             // a number, or "default" and a number, lines for devices below it
	formAmount             // "max", -1 or a number
	formRate               // quota and period
	formSet                // a list of CPUs or memory nodes
)

// role is what a file means for the groups below.
type role int

const (
	roleNone       role = iota
	roleLimit           // no group below gets more; without a limit of its own a group has the one above
	roleProtection      // what a group above does not have, none below has
)

// kind is what is to be known about a file. rank orders a group's files: what bounds others comes first when it is raised.
type kind struct {
	form form
	role role
	unit int64 // the kernel rounds down to it
	rank int
}

const (
	fileQuota  = "cpu.cfs_quota_us"
	filePeriod = "cpu.cfs_period_us"
	// defaultPeriod in microseconds (kernel/sched/core.c default_bw_period_us).
	defaultPeriod = 100_000
	// unlimitedAbove: v1 prints what has no limit as 2^63 rounded down to a page or a huge page, 9223372036854771712 with pages of
	// 4 KiB (mm/page_counter.c). The kubelet's 1<<62 of hugetlb is a limit like any other.
	unlimitedAbove = uint64(1) << 62
	// maxCPU bounds the lists that are expanded; the kernel's NR_CPUS is at most 8192.
	maxCPU = 1 << 16
)

// kindOf knows the files of both versions. v1: memory.memsw.limit_in_bytes is never below memory.limit_in_bytes
// (mm/memcontrol-v1.c mem_cgroup_resize_max).
func kindOf(file string, page int64) kind {
	switch file {
	case "memory.memsw.limit_in_bytes":
		return kind{formAmount, roleLimit, page, 0}
	case "memory.max", "memory.limit_in_bytes":
		return kind{formAmount, roleLimit, page, 1}
	case "memory.high":
		return kind{formAmount, roleLimit, page, 2}
	case "memory.low":
		return kind{formAmount, roleProtection, page, 3}
	case "memory.min":
		return kind{formAmount, roleProtection, page, 4}
	case "memory.swap.max":
		return kind{formAmount, roleLimit, page, 5}
	case "memory.soft_limit_in_bytes":
		return kind{formAmount, roleNone, page, 5}
	case "pids.max":
		return kind{formAmount, roleLimit, 1, 5}
	case fileQuota, filePeriod:
		return kind{formAmount, roleLimit, 1, 5}
	case "cpu.max":
		return kind{formRate, roleLimit, 1, 5}
	case "cpuset.cpus", "cpuset.mems":
		return kind{formSet, roleLimit, 1, 5}
	case "cpu.weight", "cpu.shares", "io.weight", "io.bfq.weight", "blkio.weight", "blkio.bfq.weight":
		return kind{formWeight, roleNone, 1, 5}
	}
	if size, ok := hugePage(file); ok {
		return kind{formAmount, roleLimit, size, 5}
	}
	return kind{form: formText, rank: 5}
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

// usageBound says whether a limit is on what Observed.MemoryUsage measures. (Usage with swap is at least as much.)
func usageBound(file string) bool {
	switch file {
	case "memory.max", "memory.high", "memory.limit_in_bytes", "memory.memsw.limit_in_bytes":
		return true
	}
	return false
}

// diffValue is a file's content, understood.
type diffValue struct {
	kind      kind
	unlimited bool
	number    int64 // amount, weight, quota
	period    int64 // of a rate
	set       cpuset.CPUSet
	text      string
}

// readValue understands a file's content. The error says what is wrong with it.
func readValue(file, content string, page int64) (diffValue, error) {
	v := diffValue{kind: kindOf(file, page)}
	var err error
	switch v.kind.form {
	case formText:
		v.text = strings.Join(strings.Fields(content), " ")
	case formWeight:
		line, _, _ := strings.Cut(content, "\n")
		v.number, err = strconv.ParseInt(strings.TrimSpace(strings.TrimPrefix(line, "default")), 10, 64)
	case formAmount:
		v.number, v.unlimited, err = readAmount(content, v.kind.unit)
	case formRate:
		err = v.readRate(content)
	case formSet:
		v.set, err = readSet(content)
		// An empty list of v2 is the parent's. In v1 it is so before the group's first process only, and allows none.
		v.unlimited = err == nil && v.set.IsEmpty()
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
func (v *diffValue) readRate(content string) error {
	quota, period, both := strings.Cut(content, " ")
	v.period = defaultPeriod
	var err error
	if both {
		if v.period, err = strconv.ParseInt(period, 10, 64); err != nil {
			return err
		}
		if v.period <= 0 {
			return fmt.Errorf("a period of %d", v.period)
		}
	}
	v.number, v.unlimited, err = readAmount(quota, 1)
	return err
}

// readSet reads a list such as 0-1,3.
func readSet(content string) (cpuset.CPUSet, error) {
	for number := range strings.FieldsFuncSeq(content, func(r rune) bool { return r == ',' || r == '-' }) {
		if n, err := strconv.Atoi(number); err != nil || n > maxCPU {
			return cpuset.New(), fmt.Errorf("number %q is not below %d", number, maxCPU)
		}
	}
	return cpuset.Parse(content)
}

// same says whether the kernel would do the same with both.
func (v diffValue) same(w diffValue) bool {
	switch {
	case v.unlimited || w.unlimited:
		return v.unlimited == w.unlimited
	case v.kind.form == formSet:
		return v.set.Equals(w.set)
	default:
		return v.number == w.number && v.period == w.period && v.text == w.text
	}
}

// within says whether v allows or promises no more than w.
func (v diffValue) within(w diffValue) bool {
	switch {
	case w.unlimited:
		return true
	case v.unlimited:
		return false
	case v.kind.form == formSet:
		return v.set.IsSubsetOf(w.set)
	case v.kind.form == formRate:
		vh, vl := bits.Mul64(uint64(v.number), uint64(w.period))
		wh, wl := bits.Mul64(uint64(w.number), uint64(v.period))
		return vh < wh || vh == wh && vl <= wl
	default:
		return v.number <= w.number
	}
}

// exceeds says whether v, of a group, is more than w, of the group above, promises. Without a limit of its own a group has
// the other's.
func (v diffValue) exceeds(w diffValue) bool {
	return !v.inherits() && !v.within(w)
}

// inherits says whether the group has no limit of its own.
func (v diffValue) inherits() bool {
	return v.unlimited && v.kind.role == roleLimit
}
