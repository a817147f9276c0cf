package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/podgrace/podgrace/e2e/podgrace"
)

// memory of a process in bytes. Anonymous is what it wrote itself; file are pages of its program, which the kernel can drop.
type memory struct{ resident, anonymous, file, peak float64 }

// tick is the unit of CPU time in /proc/PID/stat; the kernel shows every architecture's user space 100 Hz.
const tick = 10 * time.Millisecond

// look reads what the program has done and used so far.
func look(ctx context.Context, e *podgrace.Enforcer) (s steady, err error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", e.PID))
	if err != nil {
		return s, fmt.Errorf("read the enforcer's CPU time: %w", err)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", e.PID))
	if err != nil {
		return s, fmt.Errorf("read the enforcer's memory: %w", err)
	}
	text, err := metrics(ctx, e.MetricsURL+"/metrics")
	if err != nil {
		return s, err
	}
	if s.cpu, err = parseCPU(string(stat)); err != nil {
		return s, err
	}
	if s.memory, err = parseMemory(status); err != nil {
		return s, err
	}
	for series, into := range map[string]*float64{
		"podgrace_node_writes_total": &s.writes, "podgrace_node_round_failures_total": &s.failures, "podgrace_node_cgroups": &s.cgroups, "podgrace_node_drift_files": &s.drift,
		`podgrace_node_round_seconds_count{scope="full"}`: &s.full, `podgrace_node_round_seconds_count{scope="changed"}`: &s.partial, "go_memstats_heap_inuse_bytes": &s.heap,
	} {
		if *into, err = sum(text, series); err != nil {
			return s, err
		}
	}
	return s, nil
}

func metrics(ctx context.Context, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", fmt.Errorf("read the enforcer's metrics: %w", err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", fmt.Errorf("read the enforcer's metrics: %w", err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return "", fmt.Errorf("read the enforcer's metrics: %w", err)
	}
	return string(text), nil
}

var series = regexp.MustCompile(`(?m)^([^#\s{]+(?:\{[^}]*\})?) (\S+)$`)

// sum adds up the series of a metric, or of what begins so with a brace. A metric that has none yet is 0.
func sum(text, prefix string) (float64, error) {
	total := 0.0
	for _, m := range series.FindAllStringSubmatch(text, -1) {
		if m[1] != prefix && !strings.HasPrefix(m[1], prefix+"{") {
			continue
		}
		n, err := strconv.ParseFloat(m[2], 64)
		if err != nil {
			return 0, fmt.Errorf("read metric %s: %w", m[1], err)
		}
		total += n
	}
	return total, nil
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

func parseMemory(status []byte) (memory, error) {
	var m memory
	left := map[string]*float64{"VmRSS:": &m.resident, "RssAnon:": &m.anonymous, "RssFile:": &m.file, "VmHWM:": &m.peak}
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
		return m, errors.New("unexpected /proc/PID/status: not all of VmRSS, RssAnon, RssFile and VmHWM are there")
	}
	return m, nil
}
