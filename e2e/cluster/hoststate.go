package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// hostRecord is where the state of the host before a node is kept, so that it can be put back even if the
// process that started the node was killed.
const hostRecord = nodeHome + "/host.json"

// kernelSettings are what a kubelet sets at its start (k8s.io/component-helpers/node/util/sysctl).
var kernelSettings = []string{
	"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops", "kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes",
}

// fixedFolders are made by the kubelet, the network plugins and containerd's shims, wherever they are configured to
// keep their things. Each stands after the one that it is in.
var fixedFolders = []string{
	"/var/log/containers", "/var/lib/kubelet", "/var/lib/kubelet/device-plugins", "/var/lib/kubelet/pki",
	"/var/lib/cni", "/var/lib/cni/results", "/var/lib/cni/cache", "/run/containerd", "/run/containerd/s", "/run/containerd/fifo",
}

// hostState is what we put back after a node.
type hostState struct {
	Kernel map[string]string // settings by name below /proc/sys
	Absent []string          // folders that did not exist
}

// rememberHost records the state of the host, unless a node that was killed left a record: then that one holds.
func rememberHost() error {
	if _, err := os.Stat(hostRecord); err == nil {
		return nil
	}
	text, err := json.Marshal(readHost())
	if err != nil {
		return fmt.Errorf("recording the host's state: %w", err)
	}
	if err := os.WriteFile(hostRecord, text, 0o600); err != nil {
		return fmt.Errorf("recording the host's state: %w", err)
	}
	return nil
}

func readHost() hostState {
	state := hostState{Kernel: map[string]string{}}
	for _, name := range kernelSettings {
		if value, err := os.ReadFile(filepath.Join("/proc/sys", name)); err == nil {
			state.Kernel[name] = strings.TrimSpace(string(value))
		}
	}
	for _, folder := range fixedFolders {
		if _, err := os.Stat(folder); errors.Is(err, fs.ErrNotExist) {
			state.Absent = append(state.Absent, folder)
		}
	}
	return state
}

// restoreHost puts the recorded state back and forgets it.
func restoreHost() error {
	text, err := os.ReadFile(hostRecord)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("restoring the host's state: %w", err)
	}
	var state hostState
	if err := json.Unmarshal(text, &state); err != nil {
		return fmt.Errorf("restoring the host's state from %s: %w", hostRecord, err)
	}
	errs := []error{state.restoreKernel()}
	for _, folder := range slices.Backward(state.Absent) {
		_ = os.Remove(folder) // fails, as it should, where something else is in it by now
	}
	return errors.Join(append(errs, os.Remove(hostRecord))...)
}

// restoreKernel writes only what differs: some settings are read-only in a container.
func (s hostState) restoreKernel() error {
	var errs []error
	now := readHost().Kernel
	for name, value := range s.Kernel {
		if now[name] == value {
			continue
		}
		if err := os.WriteFile(filepath.Join("/proc/sys", name), []byte(value), 0o644); err != nil {
			errs = append(errs, fmt.Errorf("restoring the host's state: %w", err))
		}
	}
	return errors.Join(errs...)
}
