package cgroup

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Reader is the part of a Tree that the readings need.
type Reader interface {
	Read(path string, files ...string) (map[string]string, error)
}

// Memory is what a cgroup uses, in bytes.
type Memory struct {
	Usage        int64 `json:"usageBytes"`        // memory.current, memory.usage_in_bytes
	InactiveFile int64 `json:"inactiveFileBytes"` // page cache that the kernel takes back first
}

// WorkingSet is the usage without inactive page cache, as the kubelet counts it for eviction. (cadvisor: container/libcontainer/handler.go,
// setMemoryStats)
func (m Memory) WorkingSet() int64 { return max(0, m.Usage-m.InactiveFile) }

// ReadMemory reads a cgroup's memory, of either version. ErrNoFile where its controller is not enabled, and at the root of v2.
func ReadMemory(tree Reader, path string) (Memory, error) {
	contents, err := tree.Read(path, "memory.current", "memory.stat")
	if err != nil {
		return Memory{}, err
	}
	usage, inactive := "memory.current", "inactive_file"
	if _, ok := contents[usage]; !ok {
		usage, inactive = "memory.usage_in_bytes", "total_inactive_file"
		current, err := tree.Read(path, usage)
		if err != nil {
			return Memory{}, err
		}
		contents[usage] = current[usage]
	}
	var m Memory
	if m.Usage, err = number(path, usage, contents[usage]); err != nil {
		return Memory{}, err
	}
	m.InactiveFile, err = number(path, "memory.stat", field(contents["memory.stat"], inactive))
	return m, err
}

// ReadPIDs reads how many processes and threads a cgroup has, those below it included.
func ReadPIDs(tree Reader, path string) (int64, error) {
	contents, err := tree.Read(path, "pids.current")
	if err != nil {
		return 0, err
	}
	return number(path, "pids.current", contents["pids.current"])
}

// Pressure is a pressure file (v2; Documentation/accounting/psi.rst).
type Pressure struct {
	Some Stall `json:"some"`
	Full Stall `json:"full"`
}

// Stall is one line of it: the shares of time that tasks waited, in percent, over 10, 60 and 300 seconds, and the sum ever since.
// The averages lag: a stall of a second may still read 0. Use the difference of two totals.
type Stall struct {
	Avg10  float64       `json:"avg10"`
	Avg60  float64       `json:"avg60"`
	Avg300 float64       `json:"avg300"`
	Total  time.Duration `json:"totalNanoseconds"`
}

// ReadPressure reads a cgroup's RESOURCE.pressure: cpu, io or memory. ErrNoFile where the kernel does not keep it.
func ReadPressure(tree Reader, path, resource string) (Pressure, error) {
	file := resource + ".pressure"
	contents, err := tree.Read(path, file)
	if err != nil {
		return Pressure{}, err
	}
	text, ok := contents[file]
	if !ok {
		return Pressure{}, fmt.Errorf("reading %s of %s: %w", file, path, ErrNoFile)
	}
	pressure, err := parsePressure(text)
	if err != nil {
		return Pressure{}, fmt.Errorf("reading %s of %s: %w", file, path, err)
	}
	return pressure, nil
}

// NodePressure reads the whole node's pressure of a resource: cpu, io or memory.
func NodePressure(procRoot, resource string) (Pressure, error) {
	text, err := os.ReadFile(filepath.Join(procRoot, "pressure", resource))
	if err != nil {
		return Pressure{}, fmt.Errorf("reading the pressure of %s: %w", resource, err)
	}
	pressure, err := parsePressure(string(text))
	if err != nil {
		return Pressure{}, fmt.Errorf("reading the pressure of %s: %w", resource, err)
	}
	return pressure, nil
}

// parsePressure takes lines as "some avg10=0.00 avg60=0.00 avg300=0.00 total=0", the total in microseconds.
func parsePressure(text string) (Pressure, error) {
	var p Pressure
	for line := range strings.Lines(text) {
		var s Stall
		var kind string
		var total int64
		if _, err := fmt.Sscanf(line, "%s avg10=%f avg60=%f avg300=%f total=%d", &kind, &s.Avg10, &s.Avg60, &s.Avg300, &total); err != nil {
			return Pressure{}, fmt.Errorf("in %q: %w", strings.TrimSpace(line), err)
		}
		for _, share := range []float64{s.Avg10, s.Avg60, s.Avg300} {
			if math.IsNaN(share) || share < 0 || share > 100 {
				return Pressure{}, fmt.Errorf("in %q: %v is no percentage", strings.TrimSpace(line), share)
			}
		}
		if total < 0 || total > math.MaxInt64/int64(time.Microsecond) {
			return Pressure{}, fmt.Errorf("in %q: a total of %d µs", strings.TrimSpace(line), total)
		}
		s.Total = time.Duration(total) * time.Microsecond
		switch kind {
		case "some":
			p.Some = s
		case "full":
			p.Full = s
		}
	}
	return p, nil
}

// field finds the value of "name value" among lines.
func field(text, name string) string {
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// number parses one that is not below 0; nothing to parse is ErrNoFile.
func number(path, file, text string) (int64, error) {
	if text == "" {
		return 0, fmt.Errorf("reading %s of %s: %w", file, path, ErrNoFile)
	}
	value, err := strconv.ParseInt(text, 10, 64)
	if err == nil && value < 0 {
		err = fmt.Errorf("%d is below 0", value)
	}
	if err != nil {
		return 0, fmt.Errorf("reading %s of %s: %w", file, path, err)
	}
	return value, nil
}
