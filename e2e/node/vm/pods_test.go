package vm

import (
	"path"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/e2e/vm"
)

var bestEffort = corev1.ResourceRequirements{}

// read reads files of a folder in the guest, by their names.
func read(t *testing.T, n *vm.Node, dir string, names ...string) map[string]string {
	t.Helper()
	var paths []string
	for _, name := range names {
		paths = append(paths, path.Join(dir, name))
	}
	values, err := n.Read(t.Context(), paths...)
	if err != nil {
		t.Fatal(err)
	}
	short := map[string]string{}
	for name, value := range values {
		short[path.Base(name)] = value
	}
	return short
}

// The node's own processes outlive its pods where memory runs out.
func TestKubeletAndSandboxesAreTheLastToGo(t *testing.T) {
	s, n := start(t)
	p := pod(namespace(t, s), "one", cluster.PauseImage, bestEffort)
	running(t, s, p)
	got := run(t, n, "cat /proc/$(systemctl show --property=MainPID --value kubelet)/oom_score_adj\n"+
		"for scope in "+vm.PodCgroup(p)+"/cri-containerd-*; do cat /proc/$(cat $scope/cgroup.procs)/oom_score_adj; done | sort --numeric-sort")
	if want := "-999\n-998\n1000\n"; got != want {
		t.Errorf("kubelet, sandbox and container: got %q, want %q", got, want)
	}
}
