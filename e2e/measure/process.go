package measure

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Memory of a process in bytes. Anonymous is what it wrote itself: heap and stacks. File are pages of its program, which the kernel can
// drop.
type Memory struct{ Resident, Anonymous, File, Peak float64 }

// tick is the unit of CPU time in /proc/PID/stat; the kernel shows every architecture's user space 100 Hz.
const tick = 10 * time.Millisecond

// CPU is the time that a process has used.
func CPU(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("read a process's CPU time: %w", err)
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

// MemoryOf is what a process has.
func MemoryOf(pid int) (Memory, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return Memory{}, fmt.Errorf("read a process's memory: %w", err)
	}
	return parseMemory(text)
}

func parseMemory(status []byte) (Memory, error) {
	var m Memory
	left := map[string]*float64{"VmRSS:": &m.Resident, "RssAnon:": &m.Anonymous, "RssFile:": &m.File, "VmHWM:": &m.Peak}
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
