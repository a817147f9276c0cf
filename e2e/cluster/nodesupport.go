package cluster

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// nodeNeeds are the programs of StartKubelet and the Debian packages that have them.
var nodeNeeds = []struct{ path, pkg string }{
	{"containerd", "containerd"},
	{"ctr", "containerd"},
	{"containerd-shim-runc-v2", "containerd"},
	{"runc", "runc"},
	{"ip", "iproute2"},
	{networkPlugins + "/bridge", "containernetworking-plugins"},
	{networkPlugins + "/host-local", "containernetworking-plugins"},
	{networkPlugins + "/loopback", "containernetworking-plugins"},
}

// NodeSupported says why this machine cannot run a node, or nil.
func NodeSupported() error {
	if runtime.GOOS != "linux" {
		return fmt.Errorf("a node needs Linux, not %s", runtime.GOOS)
	}
	if os.Geteuid() != 0 {
		return errors.New("a node needs root")
	}
	if packages := missingPackages(found); len(packages) > 0 {
		return fmt.Errorf("a node needs the Debian packages %s", strings.Join(packages, ", "))
	}
	mountinfo, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return fmt.Errorf("reading the mounts: %w", err)
	}
	if err := cgroupsWritable(cgroupMounts(string(mountinfo))); err != nil {
		return err
	}
	if pid := foreignKubelet("/proc"); pid != 0 {
		return fmt.Errorf("this machine is a node already: process %d is a kubelet", pid)
	}
	return nil
}

// missingPackages lists the packages of which found lacks a program, each once.
func missingPackages(found func(path string) bool) []string {
	var packages []string
	for _, need := range nodeNeeds {
		if !found(need.path) && !slices.Contains(packages, need.pkg) {
			packages = append(packages, need.pkg)
		}
	}
	return packages
}

func found(path string) bool {
	_, err := exec.LookPath(path)
	return err == nil
}

// cgroupsWritable tries what a node does first. A container often sees its cgroups read-only.
func cgroupsWritable(mounts []cgroupMount) error {
	if len(mounts) == 0 {
		return errors.New("a node needs cgroups, and none are mounted")
	}
	for _, mount := range mounts {
		probe := filepath.Join(mount.point, nodeCgroup+"-probe-"+strconv.Itoa(os.Getpid()))
		if err := os.Mkdir(probe, 0o755); err != nil {
			return fmt.Errorf("a node needs to make cgroups: %w", err)
		}
		if err := os.Remove(probe); err != nil {
			return fmt.Errorf("a node needs to remove cgroups: %w", err)
		}
	}
	return nil
}

// foreignKubelet finds a kubelet that is not ours: two would empty each other's folder of device plugins. One in a container, such as
// a kind cluster's, has folders of its own.
func foreignKubelet(proc string) int {
	files, _ := filepath.Glob(filepath.Join(proc, "[0-9]*", "cmdline"))
	for _, file := range files {
		text, _ := os.ReadFile(file)
		args := strings.Split(string(text), "\x00")
		if filepath.Base(args[0]) == "kubelet" && !slices.Contains(args, "--root-dir="+kubeletRoot) && !inContainer(filepath.Dir(file)) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			return pid
		}
	}
	return 0
}

// inContainer reports whether a process sees other mounts than we do. One of which that can't be read may see ours.
func inContainer(process string) bool {
	theirs, err := os.Readlink(filepath.Join(process, "ns", "mnt"))
	if err != nil {
		return false
	}
	ours, err := os.Readlink("/proc/self/ns/mnt")
	return err == nil && theirs != ours
}
