package vm

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/e2e/vmnode"
)

// Containers outlive their kubelet, and the new one takes them over.
func TestRestartOfTheKubelet(t *testing.T) {
	s, n := start(t)
	ns := namespace(t, s)
	before := pod(ns, "before", cluster.PauseImage, bestEffort)
	running(t, s, before)
	kubelet := run(t, n, "systemctl show --property=MainPID --value kubelet")
	processes := read(t, n, vmnode.ContainerCgroup(before, "main"), "cgroup.procs")
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
	if got := read(t, n, vmnode.ContainerCgroup(before, "main"), "cgroup.procs"); got["cgroup.procs"] != processes["cgroup.procs"] {
		t.Errorf("the container's process was %v, now %v", processes, got)
	}
}

// The machine can be brought under memory pressure: a hog without a request crosses the hard threshold, the kubelet
// evicts it and leaves its neighbour alone.
func TestTheKubeletEvictsAHog(t *testing.T) {
	s, n := start(t)
	ns := namespace(t, s)
	neighbour := pod(ns, "neighbour", cluster.PauseImage, guaranteed)
	running(t, s, neighbour)
	hog := pod(ns, "hog", vmnode.HogImage, bestEffort, "eat", "1400", "200")
	running(t, s, hog)
	processes := read(t, n, vmnode.ContainerCgroup(hog, "main"), "cgroup.procs")
	eventually(t, "the hog's eviction", func(ctx context.Context) (bool, error) {
		err := s.Client.Get(ctx, client.ObjectKeyFromObject(hog), hog)
		return hog.Status.Phase == corev1.PodFailed, err
	})
	if hog.Status.Reason != "Evicted" || !strings.Contains(hog.Status.Message, "memory") {
		t.Errorf("the hog ended as %s: %s", hog.Status.Reason, hog.Status.Message)
	}
	if got := read(t, n, "/proc/"+processes["cgroup.procs"], "comm"); len(got) > 0 {
		t.Errorf("the hog's process %v is still there: %v", processes, got)
	}
	if err := s.Client.Get(t.Context(), client.ObjectKeyFromObject(neighbour), neighbour); err != nil || neighbour.Status.Phase != corev1.PodRunning {
		t.Errorf("the neighbour is %s, %v", neighbour.Status.Phase, err)
	}
	eventually(t, "the end of the pressure", func(ctx context.Context) (bool, error) {
		var object corev1.Node
		err := s.Client.Get(ctx, client.ObjectKey{Name: nodeName}, &object)
		return len(object.Spec.Taints) == 0, err
	})
}
