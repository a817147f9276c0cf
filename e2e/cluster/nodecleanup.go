package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// cleanNode removes whatever a node left in the kernel and on disk. It knows it by names alone, so it serves a
// node that we stop as well as one whose process was killed. Doing it twice does nothing.
func cleanNode(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, cleanTimeout)
	defer cancel()
	errs := []error{killNodeProcesses(ctx)}
	mountinfo, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return errors.Join(append(errs, fmt.Errorf("reading the mounts: %w", err))...)
	}
	removeShimSockets()
	errs = append(errs, unmountAll(mountsUnder(string(mountinfo), nodeDir)), removeNetwork(ctx))
	errs = append(errs, removeCgroups(ctx, cgroupMounts(string(mountinfo)), nodeCgroup))
	removeLeftFiles()
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("cleaning up the node: %w", err) // keep its folder: something still uses it
	}
	if err := os.RemoveAll(nodeDir); err != nil {
		return fmt.Errorf("cleaning up the node: %w", err)
	}
	return restoreHost()
}

// killNodeProcesses kills the shims of our containerd, then what is in the node's cgroup, until both are gone.
// Nothing else on the machine has our socket in its arguments or our cgroup.
func killNodeProcesses(ctx context.Context) error {
	return Until(ctx, "the end of the node's processes", func(context.Context) (bool, error) {
		pids := nodeProcesses("/proc")
		for _, pid := range pids {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
				return false, fmt.Errorf("killing process %d: %w", pid, err)
			}
		}
		return len(pids) == 0, nil
	})
}

// nodeProcesses finds the shims and the processes of containers.
func nodeProcesses(proc string) []int {
	entries, _ := os.ReadDir(proc)
	var pids []int
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		cmdline, _ := os.ReadFile(filepath.Join(proc, entry.Name(), "cmdline"))
		cgroup, _ := os.ReadFile(filepath.Join(proc, entry.Name(), "cgroup"))
		if isShim(strings.Split(string(cmdline), "\x00")) || len(cmdline) > 0 && inCgroup(string(cgroup), nodeCgroup) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// isShim recognizes a shim of our containerd by its command line.
func isShim(args []string) bool {
	return len(args) > 0 && strings.HasPrefix(filepath.Base(args[0]), "containerd-shim") && slices.Contains(args, nodeSocket)
}

// removeShimSockets removes the sockets of shims that were killed. containerd keeps them in a fixed folder, under
// names that only the shims' own files hold.
func removeShimSockets() {
	files, _ := filepath.Glob(nodeDir + "/state/io.containerd.runtime.v2.task/*/*/address")
	for _, file := range files {
		if text, err := os.ReadFile(file); err == nil {
			_ = os.Remove(strings.TrimPrefix(strings.TrimSpace(string(text)), "unix://"))
		}
	}
}

func unmountAll(points []string) error {
	var errs []error
	for _, point := range points {
		if err := syscall.Unmount(point, syscall.MNT_DETACH); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("unmounting %s: %w", point, err))
		}
	}
	return errors.Join(errs...)
}

// makeNetwork makes the bridge, and lets no packet for a ClusterIP out: nobody serves them here, and without a
// route of their own they would follow the host's default one.
func makeNetwork(ctx context.Context) error {
	for _, args := range [][]string{
		{"route", "replace", "unreachable", serviceCIDR},
		{"link", "add", nodeBridge, "type", "bridge"},
		{"addr", "add", nodeAddress.String() + nodeNetmask, "dev", nodeBridge},
		{"link", "set", nodeBridge, "up"},
	} {
		if err := ip(ctx, args...); err != nil {
			return err
		}
	}
	return nil
}

func removeNetwork(ctx context.Context) error {
	var errs []error
	if _, err := net.InterfaceByName(nodeBridge); err == nil {
		errs = append(errs, ip(ctx, "link", "delete", nodeBridge))
	}
	routes, err := Run(ctx, "ip", "route", "show", "type", "unreachable", "exact", serviceCIDR)
	if err == nil && routes != "" {
		errs = append(errs, ip(ctx, "route", "delete", "unreachable", serviceCIDR))
	}
	return errors.Join(errs...)
}

// ip runs the tool of iproute2.
func ip(ctx context.Context, args ...string) error {
	_, err := Run(ctx, "ip", args...)
	return err
}

// removeLeftFiles removes files of ours in folders that are not: links to the pods' logs, what the network plugins
// remember of sandboxes that were not stopped, and the kubelet's files for device plugins. NodeSupported refuses a
// machine with a kubelet of its own, so the latter can only be ours.
func removeLeftFiles() {
	links, _ := filepath.Glob("/var/log/containers/*.log")
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil && strings.HasPrefix(target, podLogs+"/") {
			_ = os.Remove(link)
		}
	}
	files, _ := filepath.Glob("/var/lib/kubelet/device-plugins/*")
	sandboxes, _ := filepath.Glob(nodeDir + "/containerd/io.containerd.grpc.v1.cri/sandboxes/*")
	for _, sandbox := range sandboxes {
		remembered, _ := filepath.Glob("/var/lib/cni/results/*-" + filepath.Base(sandbox) + "-*")
		files = append(files, remembered...)
	}
	for _, file := range files {
		_ = os.Remove(file)
	}
}
