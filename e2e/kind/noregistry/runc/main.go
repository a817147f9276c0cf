// Command runc stands before the real runc where this machine lacks capabilities that a container engine asks for: a
// privileged container asks for all there are, and runc refuses what it does not have itself. It takes them out of what is
// asked for, with what needs CAP_SYS_RESOURCE: limits above our own and a lower oom_score_adj.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

func main() {
	fmt.Fprintln(os.Stderr, "runc:", run(os.Args[1:]))
	os.Exit(1)
}

// run becomes the real runc, so that it returns only errors.
func run(args []string) error {
	if file, container := specification(args); file != "" {
		if err := rewrite(file, container); err != nil {
			return err
		}
	}
	real, err := realRunc()
	if err != nil {
		return err
	}
	return syscall.Exec(real, append([]string{"runc"}, args...), os.Environ())
}

// realRunc is the next one on the PATH or in Debian's place that is not this program.
func realRunc() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("finding runc: %w", err)
	}
	for _, dir := range append(filepath.SplitList(os.Getenv("PATH")), "/usr/sbin", "/usr/bin") {
		path, err := exec.LookPath(filepath.Join(dir, "runc"))
		if resolved, linkErr := filepath.EvalSymlinks(path); err == nil && linkErr == nil && resolved != self {
			return path, nil
		}
	}
	return "", errors.New("there is no other runc")
}

// specification finds the JSON file that says what to start: a container's with create and run, a process's with exec.
func specification(args []string) (file string, container bool) {
	switch {
	case slices.Contains(args, "create"), slices.Contains(args, "run"):
		return filepath.Join(option(args, "--bundle", "-b"), "config.json"), true
	case slices.Contains(args, "exec"):
		return option(args, "--process", "-p"), false
	}
	return "", false
}

func option(args []string, names ...string) string {
	for i, arg := range args {
		name, value, given := strings.Cut(arg, "=")
		if !slices.Contains(names, name) {
			continue
		}
		if given {
			return value
		}
		if i+1 < len(args) {
			return args[i+1]
		}
	}
	return ""
}

func rewrite(file string, container bool) error {
	lacks, err := lacking()
	if err != nil || len(lacks) == 0 {
		return err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("reading what to start: %w", err)
	}
	var spec map[string]any
	if err := json.Unmarshal(text, &spec); err != nil {
		return fmt.Errorf("reading %s: %w", file, err)
	}
	process := spec
	if container {
		process, _ = spec["process"].(map[string]any)
	}
	strip(process, lacks)
	if text, err = json.Marshal(spec); err != nil {
		return fmt.Errorf("writing %s: %w", file, err)
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return fmt.Errorf("writing what to start: %w", err)
	}
	return nil
}

// optional are the capabilities that this machine may lack, by their numbers.
var optional = map[int]string{unix.CAP_SYS_RESOURCE: "CAP_SYS_RESOURCE"}

// lacking lists the capabilities that we cannot give.
func lacking() ([]string, error) {
	var lacks []string
	for number, name := range optional {
		held, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, uintptr(number), 0, 0, 0)
		if err != nil {
			return nil, fmt.Errorf("reading our capabilities: %w", err)
		}
		if held == 0 {
			lacks = append(lacks, name)
		}
	}
	return lacks, nil
}

// strip takes out of a process of the OCI runtime specification what we cannot give.
func strip(process map[string]any, lacks []string) {
	sets, _ := process["capabilities"].(map[string]any)
	for set, names := range sets {
		list, _ := names.([]any)
		sets[set] = slices.DeleteFunc(list, func(name any) bool { return slices.Contains(lacks, fmt.Sprint(name)) })
	}
	if score, ok := process["oomScoreAdj"].(float64); ok && score < 0 {
		delete(process, "oomScoreAdj")
	}
	delete(process, "rlimits")
}
