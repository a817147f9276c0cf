package cluster

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestNetworkConfigKeepsPodsInside(t *testing.T) {
	text, err := networkConfig()
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Plugins []struct {
			IsGateway, IPMasq bool
			IPAM              struct{ Routes []any }
		}
	}
	if err := json.Unmarshal(text, &config); err != nil {
		t.Fatal(err)
	}
	if p := config.Plugins[0]; p.IsGateway || p.IPMasq || len(p.IPAM.Routes) != 0 {
		t.Errorf("pods have a way out: %s", text)
	}
}

func TestContainerdConfigIsOurOwn(t *testing.T) {
	config := containerdConfig("native")
	if !strings.Contains(config, `snapshotter = "native"`) {
		t.Error("another snapshotter")
	}
	for _, path := range []string{"/run/containerd", "/var/lib/containerd", "/etc/"} {
		if strings.Contains(config, path) {
			t.Errorf("the host's %s is in %s", path, config)
		}
	}
}

// A container is not taken for dead because the machine is busy when containerd is started again.
func TestContainerdWaitsForShims(t *testing.T) {
	_, rest, _ := strings.Cut(containerdConfig("native"), "\n[timeouts]\n")
	timeouts, _, _ := strings.Cut(rest, "\n[")
	for _, want := range []string{`"io.containerd.timeout.shim.load" = "2m"`, `"io.containerd.timeout.shim.cleanup" = "1m"`, `"io.containerd.timeout.shim.shutdown" = "1m"`, `"io.containerd.timeout.task.state" = "1m"`} {
		if !strings.Contains(timeouts, want) {
			t.Errorf("%s is not in %q", want, timeouts)
		}
	}
}

func TestNodeProcesses(t *testing.T) {
	proc := fakeProc(t, map[string][2]string{
		"1": {"/sbin/init", "0::/\n"},
		"2": {"/usr/bin/containerd-shim-runc-v2\x00-address\x00" + nodeSocket, "0::/\n"},
		"3": {"/usr/bin/containerd-shim-runc-v2\x00-address\x00/run/containerd/containerd.sock", "0::/\n"},
		"4": {"/program", "2:memory:/podgrace/kubepods/podx/c\n"},
		"5": {"", "0::/podgrace\n"}, // reaped by nobody yet
		"6": {"grep\x00" + nodeSocket, "0::/\n"},
	})
	got := nodeProcesses(proc)
	slices.Sort(got)
	if !slices.Equal(got, []int{2, 4}) {
		t.Errorf("got %v", got)
	}
}

func TestForeignKubelet(t *testing.T) {
	ours := fakeProc(t, map[string][2]string{"7": {"/cache/kubelet\x00--root-dir=" + kubeletRoot, ""}})
	if pid := foreignKubelet(ours); pid != 0 {
		t.Errorf("our own kubelet %d is taken for another", pid)
	}
	theirs := fakeProc(t, map[string][2]string{"8": {"/usr/bin/kubelet\x00--config=/var/lib/kubelet/config.yaml", ""}})
	if pid := foreignKubelet(theirs); pid != 8 {
		t.Errorf("got %d", pid)
	}
	// On this machine it is a neighbour, in a container it has a machine of its own.
	own, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil {
		t.Fatal(err)
	}
	ns := filepath.Join(theirs, "8", "ns")
	for namespace, want := range map[string]int{own: 8, "mnt:[1]": 0} {
		if err := errors.Join(os.RemoveAll(ns), os.Mkdir(ns, 0o755), os.Symlink(namespace, filepath.Join(ns, "mnt"))); err != nil {
			t.Fatal(err)
		}
		if pid := foreignKubelet(theirs); pid != want {
			t.Errorf("with the mounts %s: got %d, want %d", namespace, pid, want)
		}
	}
}

// fakeProc makes a /proc of command lines and cgroups by pid.
func fakeProc(t *testing.T, processes map[string][2]string) string {
	t.Helper()
	proc := t.TempDir()
	for pid, texts := range processes {
		dir := filepath.Join(proc, pid)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for i, name := range []string{"cmdline", "cgroup"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(texts[i]), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	return proc
}
