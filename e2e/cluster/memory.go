package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// MemoryCgroup bounds the memory of the processes in it, as a container's limit does, under either version of cgroups.
type MemoryCgroup struct {
	mount cgroupMount
	name  string
}

// NewMemoryCgroup makes one below the root. An error says why this machine can't.
func NewMemoryCgroup(name string, limit int64) (*MemoryCgroup, error) {
	mountinfo, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("finding cgroups: %w", err)
	}
	mount, ok := memoryMount(cgroupMounts(string(mountinfo)))
	if !ok {
		return nil, errors.New("no cgroup hierarchy has the memory controller")
	}
	if mount.unified {
		enableControllers(mount.point)
	}
	g := &MemoryCgroup{mount: mount, name: name}
	if err := os.Mkdir(g.path(""), 0o755); err != nil {
		return nil, fmt.Errorf("making a cgroup: %w", err)
	}
	file := "memory.limit_in_bytes"
	if mount.unified {
		file = "memory.max"
		_ = os.WriteFile(g.path("memory.swap.max"), []byte("0"), 0o644) // a kernel without swap has none
	}
	if err := os.WriteFile(g.path(file), []byte(strconv.FormatInt(limit, 10)), 0o644); err != nil {
		return nil, errors.Join(fmt.Errorf("limiting memory: %w", err), os.Remove(g.path("")))
	}
	return g, nil
}

// memoryMount is the hierarchy with the memory controller.
func memoryMount(mounts []cgroupMount) (cgroupMount, bool) {
	for _, mount := range mounts {
		file, needs := "memory.limit_in_bytes", ""
		if mount.unified {
			file, needs = "cgroup.controllers", "memory"
		}
		text, err := os.ReadFile(filepath.Join(mount.point, file))
		if err == nil && strings.Contains(string(text), needs) {
			return mount, true
		}
	}
	return cgroupMount{}, false
}

func (g *MemoryCgroup) path(file string) string { return filepath.Join(g.mount.point, g.name, file) }

// Wrap writes a script that runs a program in the cgroup from its first instruction on, and returns the script's path.
func (g *MemoryCgroup) Wrap(dir, program string) (string, error) {
	script := filepath.Join(dir, filepath.Base(program)+"-in-"+g.name)
	text := fmt.Sprintf("#!/bin/sh\necho $$ > '%s' && exec '%s' \"$@\"\n", g.path("cgroup.procs"), program)
	if err := os.WriteFile(script, []byte(text), 0o755); err != nil {
		return "", fmt.Errorf("writing the wrapper of %s: %w", program, err)
	}
	return script, nil
}

// Peak is the most memory that there was in use at once, in bytes; 0 where the kernel does not report it (before 5.19, under v2).
func (g *MemoryCgroup) Peak() (int64, error) {
	file := "memory.max_usage_in_bytes"
	if g.mount.unified {
		file = "memory.peak"
	}
	text, err := os.ReadFile(g.path(file))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("reading a cgroup: %w", err)
	}
	return strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
}

// Kills is how many processes the kernel ended because the memory was used up.
func (g *MemoryCgroup) Kills() (int, error) {
	file := "memory.oom_control"
	if g.mount.unified {
		file = "memory.events"
	}
	text, err := os.ReadFile(g.path(file))
	if err != nil {
		return 0, fmt.Errorf("reading a cgroup: %w", err)
	}
	return killsIn(string(text))
}

func killsIn(events string) (int, error) {
	for line := range strings.Lines(events) {
		if fields := strings.Fields(line); len(fields) == 2 && fields[0] == "oom_kill" {
			return strconv.Atoi(fields[1])
		}
	}
	return 0, errors.New("this kernel does not count kills in a cgroup")
}

// Remove waits for the processes in it to end.
func (g *MemoryCgroup) Remove(ctx context.Context) error {
	return removeCgroups(ctx, []cgroupMount{g.mount}, g.name)
}
