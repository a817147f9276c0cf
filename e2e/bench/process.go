package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

// memory of a process in bytes. Anonymous is what it wrote itself: heap and stacks; the rest are pages of its program
// file, which the kernel can drop.
type memory struct{ resident, anonymous, peak float64 }

// tick is the unit of CPU time in /proc/PID/stat; the kernel shows every architecture's user space 100 Hz.
const tick = 10 * time.Millisecond

func cpuOf(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("read a server's CPU time: %w", err)
	}
	return parseCPU(string(text))
}

// parseCPU adds utime and stime, the 14th and 15th field of proc(5). The second, the program's name, may hold spaces.
func parseCPU(stat string) (time.Duration, error) {
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) < 13 {
		return 0, fmt.Errorf("unexpected /proc/PID/stat: %q", stat)
	}
	user, err := strconv.ParseInt(fields[11], 10, 64)
	system, err2 := strconv.ParseInt(fields[12], 10, 64)
	if err := errors.Join(err, err2); err != nil {
		return 0, fmt.Errorf("unexpected /proc/PID/stat: %w", err)
	}
	return time.Duration(user+system) * tick, nil
}

func memoryOf(pid int) (memory, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return memory{}, fmt.Errorf("read a server's memory: %w", err)
	}
	return parseMemory(text)
}

func parseMemory(status []byte) (memory, error) {
	var m memory
	left := map[string]*float64{"VmRSS:": &m.resident, "RssAnon:": &m.anonymous, "VmHWM:": &m.peak}
	for line := range bytes.Lines(status) {
		fields := strings.Fields(string(line))
		if len(fields) != 3 || left[fields[0]] == nil {
			continue
		}
		kib, err := strconv.ParseFloat(fields[1], 64)
		if err != nil {
			return m, fmt.Errorf("unexpected /proc/PID/status: %q", line)
		}
		*left[fields[0]] = kib * 1024
		delete(left, fields[0])
	}
	if len(left) > 0 {
		return m, errors.New("unexpected /proc/PID/status: not all of VmRSS, RssAnon and VmHWM are there")
	}
	return m, nil
}

// metrics reads what a server tells of itself.
func (s *side) metrics(ctx context.Context) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.metricsURL, nil)
	if err != nil {
		return "", fmt.Errorf("read the metrics of %s: %w", s.name, err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", fmt.Errorf("read the metrics of %s: %w", s.name, err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return "", fmt.Errorf("read the metrics of %s: %w", s.name, err)
	}
	return string(text), nil
}

// allocations reads the Go runtime's counters.
func (s *side) allocations(ctx context.Context) (size, objects float64, err error) {
	text, err := s.metrics(ctx)
	if err != nil {
		return 0, 0, err
	}
	if size, objects, err = parseAllocations(strings.NewReader(text)); err != nil {
		return 0, 0, fmt.Errorf("read the metrics of %s: %w", s.name, err)
	}
	return size, objects, nil
}

func parseAllocations(text io.Reader) (size, objects float64, err error) {
	left := map[string]*float64{"go_memstats_alloc_bytes_total": &size, "go_memstats_mallocs_total": &objects}
	lines := bufio.NewScanner(text)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), " ")
		if left[name] == nil {
			continue
		}
		if *left[name], err = strconv.ParseFloat(value, 64); err != nil {
			return 0, 0, fmt.Errorf("unexpected value: %q", lines.Text())
		}
		delete(left, name)
	}
	if lines.Err() == nil && len(left) > 0 {
		return 0, 0, errors.New("the Go runtime's counters are not all there")
	}
	return size, objects, lines.Err()
}
