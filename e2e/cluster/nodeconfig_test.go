package cluster

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
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
