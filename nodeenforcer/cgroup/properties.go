package cgroup

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/coreos/go-systemd/v22/dbus"
	godbus "github.com/godbus/dbus/v5"

	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgroupfile"
)

// controllerSet are the files of one controller that systemd has properties for.
type controllerSet struct {
	files []string
	// properties translates the files' values; a file that is absent is not set.
	properties func(values map[string]string) ([]dbus.Property, error)
	// resets are files without a property that systemd writes all the same when it applies the controller.
	resets []string
}

// setsV2 and setsV1 hold what systemd sets by itself on either version (systemd v252: src/core/cgroup.c, cgroup_context_apply).
// It has none that could be set for memory.oom.group, cpu.max.burst, hugetlb.*, and for cpuset on v1.
var (
	setsV2 = []controllerSet{
		{files: []string{"cpu.weight", "cpu.max"}, properties: each(map[string]translation{"cpu.weight": plain("CPUWeight"), "cpu.max": cpuMax})},
		{files: []string{"memory.min", "memory.low", "memory.high", "memory.max", "memory.swap.max"}, properties: each(map[string]translation{
			"memory.min": plain("MemoryMin"), "memory.low": plain("MemoryLow"), "memory.high": plain("MemoryHigh"),
			"memory.max": plain("MemoryMax"), "memory.swap.max": plain("MemorySwapMax"),
		}), resets: []string{"memory.oom.group"}}, // by OOMPolicy, which a scope's maker can set and nobody later
		{files: []string{"pids.max"}, properties: each(map[string]translation{"pids.max": tasksMax})},
		{files: []string{"io.weight"}, properties: each(map[string]translation{"io.weight": ioWeight})},
		{files: []string{"cpuset.cpus", "cpuset.mems"}, properties: each(map[string]translation{"cpuset.cpus": mask("AllowedCPUs"), "cpuset.mems": mask("AllowedMemoryNodes")})},
	}
	setsV1 = []controllerSet{
		{files: []string{"cpu.shares", "cpu.cfs_quota_us", "cpu.cfs_period_us"}, properties: cpuV1},
		{files: []string{"memory.limit_in_bytes"}, properties: each(map[string]translation{"memory.limit_in_bytes": plain("MemoryLimit")})},
		{files: []string{"pids.max"}, properties: each(map[string]translation{"pids.max": tasksMax})},
		{files: []string{"blkio.weight"}, properties: each(map[string]translation{"blkio.weight": plain("BlockIOWeight")})},
	}
)

// translation makes properties of one file's value.
type translation func(value string) ([]dbus.Property, error)

// each translates file by file, in no order: systemd has its own.
func each(translations map[string]translation) func(map[string]string) ([]dbus.Property, error) {
	return func(values map[string]string) ([]dbus.Property, error) {
		var all []dbus.Property
		for file, translate := range translations {
			value, ok := values[file]
			if !ok {
				continue
			}
			properties, err := translate(value)
			if err != nil {
				return nil, fmt.Errorf("%s=%q has no property of systemd: %w", file, value, err)
			}
			all = append(all, properties...)
		}
		return all, nil
	}
}

// plain is a number; no limit is the greatest one.
func plain(property string) translation {
	return func(value string) ([]dbus.Property, error) {
		number, err := limit(value)
		return []dbus.Property{newProperty(property, number)}, err
	}
}

// unlimitedV1 is what memory.limit_in_bytes holds where nothing was set: the greatest number of whole pages.
const unlimitedV1 = math.MaxInt64 &^ 0xfff

func limit(value string) (uint64, error) {
	if value == "max" || value == "-1" {
		return math.MaxUint64, nil
	}
	number, err := strconv.ParseUint(value, 10, 64)
	if err == nil && number >= unlimitedV1 {
		number = math.MaxUint64
	}
	return number, err
}

// tasksMax: systemd does not take 0. The file is written as it should be in any case.
func tasksMax(value string) ([]dbus.Property, error) {
	number, err := limit(value)
	return []dbus.Property{newProperty("TasksMax", max(1, number))}, err
}

// ioWeight is of the line for all devices.
func ioWeight(value string) ([]dbus.Property, error) {
	first, _, _ := strings.Cut(value, "\n")
	return plain("IOWeight")(strings.TrimPrefix(first, "default "))
}

// cpuMax translates "QUOTA PERIOD" or "max PERIOD", in microseconds.
func cpuMax(value string) ([]dbus.Property, error) {
	quota, period, err := quotaOf(value)
	if err != nil {
		return nil, err
	}
	return quotaProperties(quota, period), nil
}

func cpuV1(values map[string]string) ([]dbus.Property, error) {
	all, err := each(map[string]translation{"cpu.shares": plain("CPUShares")})(values)
	quotaText, ok := values["cpu.cfs_quota_us"]
	periodText, both := values["cpu.cfs_period_us"]
	if err != nil || !ok || !both {
		return all, err
	}
	quota, err := limit(quotaText)
	if err != nil {
		return nil, fmt.Errorf("cpu.cfs_quota_us=%q has no property of systemd: %w", quotaText, err)
	}
	period, err := strconv.ParseUint(periodText, 10, 64)
	if err != nil || period == 0 {
		return nil, fmt.Errorf("cpu.cfs_period_us=%q has no property of systemd", periodText)
	}
	return append(all, quotaProperties(quota, period)...), nil
}

func quotaProperties(quota, period uint64) []dbus.Property {
	perSecond := uint64(math.MaxUint64)
	if quota != math.MaxUint64 {
		perSecond = cgroupfile.QuotaPerSecond(quota, period)
	}
	return []dbus.Property{newProperty("CPUQuotaPerSecUSec", perSecond), newProperty("CPUQuotaPeriodUSec", period)}
}

// durable is the value nearest to a file's that systemd can keep.
func durable(file File, values map[string]string) File {
	switch file.Name {
	case "cpu.max":
		if quota, period, err := quotaOf(file.Value); err == nil && quota != math.MaxUint64 {
			file.Value = fmt.Sprintf("%d %d", cgroupfile.SystemdQuota(int64(quota), int64(period)), period)
		}
	case "cpu.cfs_quota_us":
		quota, err := limit(strings.TrimSpace(file.Value))
		period, periodErr := strconv.ParseUint(values["cpu.cfs_period_us"], 10, 64)
		if err == nil && periodErr == nil && quota != math.MaxUint64 && period > 0 {
			file.Value = strconv.FormatInt(cgroupfile.SystemdQuota(int64(quota), int64(period)), 10)
		}
	}
	return file
}

// quotaOf reads cpu.max; the kernel takes a lone quota too, with the default period of 100 ms.
func quotaOf(value string) (quota, period uint64, err error) {
	fields := strings.Fields(value)
	if len(fields) == 0 || len(fields) > 2 {
		return 0, 0, errors.New("not QUOTA PERIOD")
	}
	if quota, err = limit(fields[0]); err != nil {
		return 0, 0, err
	}
	period = cgroupfile.DefaultPeriod
	if len(fields) == 2 {
		period, err = strconv.ParseUint(fields[1], 10, 64)
	}
	if err == nil && (period == 0 || period > 1_000_000 || quota != math.MaxUint64 && quota > math.MaxUint64/1_000_000) {
		err = errors.New("out of range")
	}
	return quota, period, err
}

// maxCPUs bounds a mask: the kernel's CONFIG_NR_CPUS is at most 8192.
const maxCPUs = 8192

// mask is a bit for each CPU or memory node, the lowest in the first byte's lowest bit. No list is an empty mask.
func mask(property string) translation {
	return func(value string) ([]dbus.Property, error) {
		bits := []byte{}
		for span := range strings.SplitSeq(value, ",") {
			if span == "" {
				continue
			}
			from, to, isRange := strings.Cut(span, "-")
			if !isRange {
				to = from
			}
			first, err := strconv.ParseUint(from, 10, 16)
			last, lastErr := strconv.ParseUint(to, 10, 16)
			if err != nil || lastErr != nil || last < first || last >= maxCPUs {
				return nil, fmt.Errorf("%q is not a range of CPUs", span)
			}
			for cpu := first; cpu <= last; cpu++ {
				for uint64(len(bits)) <= cpu/8 {
					bits = append(bits, 0)
				}
				bits[cpu/8] |= 1 << (cpu % 8)
			}
		}
		return []dbus.Property{newProperty(property, bits)}, nil
	}
}

func newProperty(name string, value any) dbus.Property {
	return dbus.Property{Name: name, Value: godbus.MakeVariant(value)}
}
