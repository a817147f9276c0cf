package vm

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/e2e/vm"
)

// Containers outlive their kubelet, and the new one takes them over.
func TestRestartOfTheKubelet(t *testing.T) {
	s, n := start(t)
	ns := namespace(t, s)
	before := pod(ns, "before", cluster.PauseImage, bestEffort)
	running(t, s, before)
	kubelet := run(t, n, "systemctl show --property=MainPID --value kubelet")
	processes := read(t, n, vm.ContainerCgroup(before, "main"), "cgroup.procs")
	if err := n.RestartKubelet(t.Context()); err != nil {
		t.Fatal(err)
	}
	if run(t, n, "systemctl show --property=MainPID --value kubelet") == kubelet {
		t.Error("the kubelet is the same process")
	}
	running(t, s, pod(ns, "after", cluster.PauseImage, bestEffort))
	if err := s.Client.Get(t.Context(), client.ObjectKeyFromObject(before), before); err != nil {
		t.Fatal(err)
	}
	if got := read(t, n, vm.ContainerCgroup(before, "main"), "cgroup.procs"); got["cgroup.procs"] != processes["cgroup.procs"] {
		t.Errorf("the container's process was %v, now %v", processes, got)
	}
}
