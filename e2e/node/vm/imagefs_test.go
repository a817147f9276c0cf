package vm

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/e2e/node/enforcer"
	"github.com/podgrace/podgrace/e2e/vm"
)

// withImageDisk is a second node for this test, whose images and writable layers, imagefs and with containerd containerfs as well, are on a disk of their own.
func withImageDisk(t *testing.T) *ground {
	t.Helper()
	return another(t, vm.Options{Name: "images", ImageDiskMiB: 2048})
}

// there is a pod's node, whatever the scheduler thinks.
func (g *ground) there(p *corev1.Pod) { p.Spec.NodeName = g.NodeName }

// Where images and layers have a disk of their own, who fills that one is evicted for it, by what his layer has, and who fills the other one by what his volumes
// and logs have: each among neighbours of lower priority that have more on the other disk.
func TestImageDisk(t *testing.T) {
	g := withImageDisk(t)
	g.Class(t, "lowest", 1)
	g.Class(t, "low", 10)
	if got := g.script(t, "stat --format=%d /var/lib/containerd /var/lib/kubelet | uniq | wc --lines"); got != "2" {
		t.Fatal("containerd has no disk of its own")
	}
	inLayer := func(*corev1.Pod) {}
	for _, tc := range []struct {
		name           string
		signal         v1alpha1.EvictionSignal
		hog, elsewhere enforcer.ChangePod
		otherSignal    v1alpha1.EvictionSignal
	}{
		{"layer", v1alpha1.SignalImageFsAvailable, inLayer, onVolume, v1alpha1.SignalNodeFsAvailable},
		{"volume", v1alpha1.SignalNodeFsAvailable, onVolume, inLayer, v1alpha1.SignalImageFsAvailable},
	} {
		t.Run(tc.name, func(t *testing.T) {
			empty, otherEmpty := g.left(t, tc.signal), g.left(t, tc.otherSignal)
			ns := g.Namespace(t)
			neighbours := []*corev1.Pod{
				g.Pod(ns, "elsewhere", vm.HogImage, "", "", []string{"fill", "700", "100", filled}, tc.elsewhere, g.there, enforcer.Priority("lowest")),
				g.Pod(ns, "within", vm.HogImage, "", "", []string{"fill", "50", "100", filled}, tc.hog, g.there, diskRequest(200), enforcer.Priority("lowest")),
			}
			g.Running(t, neighbours...)
			g.wrote(t, neighbours[0], "700.0 MiB")
			g.wrote(t, neighbours[1], "50.0 MiB")
			const allowed = 300 << 20
			before, other := g.left(t, tc.signal), g.left(t, tc.otherSignal)
			policy := thresholdOn(tc.signal, false, before-allowed, "100Mi")
			policy.NodeSelector = v1alpha1.SetAsLabelSelector(map[string]string{corev1.LabelHostname: g.NodeName})
			g.NodePolicy(t, policy)
			h := g.Pod(ns, "hog", vm.HogImage, "", "", []string{"fill", "600", "60", filled}, tc.hog, g.there, diskRequest(10), enforcer.Priority("low"))
			g.Make(t, h)
			g.tainted(t, "disk")
			g.gone(t, h)
			g.Lives(t, neighbours...)
			g.evictedFor(t, h, "low on resource: ephemeral-storage", fmt.Sprintf("signal %s (hard threshold)", tc.signal))
			g.calm(t)
			if after := g.left(t, tc.signal); before-after > allowed/2 {
				t.Errorf("of %s %d were left, and %d are when all is over", tc.signal, before, after)
			}
			if after := g.left(t, tc.otherSignal); other-after > allowed/2 {
				t.Errorf("of %s %d were left, and %d are when all is over", tc.otherSignal, other, after)
			}
			g.Lives(t, neighbours...)
			for _, p := range append(neighbours, h) {
				if err := client.IgnoreNotFound(g.Client.Delete(t.Context(), p, client.GracePeriodSeconds(1))); err != nil {
					t.Error(err)
				}
				g.gone(t, p)
			}
			// Of a pod that is gone containerd frees the layers up to two minutes later: the next hog would fill a disk that empties by itself, and nobody would have to go.
			g.Eventually(t, "their space", func(context.Context) (bool, error) {
				left, other := g.left(t, tc.signal), g.left(t, tc.otherSignal)
				if empty-left > 64<<20 || otherEmpty-other > 64<<20 {
					return false, fmt.Errorf("%d and %d bytes are left, of %d and %d", left, other, empty, otherEmpty)
				}
				return true, nil
			})
		})
	}
}

// Who takes the ids of processes is evicted for it: at one priority the one with the most, before one that has fewer and uses more of all else.
func TestPIDs(t *testing.T) {
	g := start(t)
	g.Class(t, "low", 10)
	g.Class(t, "high", 100000)
	ns := g.Namespace(t)
	neighbours := []*corev1.Pod{
		g.Pod(ns, "few", vm.HogImage, "", "", []string{"threads", "100", "100"}, enforcer.Priority("low")),
		g.Pod(ns, "memory", vm.HogImage, "", "", []string{"eat", "150", "100"}, enforcer.Priority("low")),
		g.Pod(ns, "many-of-high-priority", vm.HogImage, "", "", []string{"threads", "1000", "300"}, enforcer.Priority("high")),
	}
	g.Running(t, neighbours...)
	g.wrote(t, neighbours[0], "100.0 threads")
	g.wrote(t, neighbours[1], "150.0 MiB")
	g.wrote(t, neighbours[2], "1000.0 threads")
	const allowed = 300
	before := g.left(t, v1alpha1.SignalPIDAvailable)
	g.NodePolicy(t, thresholdOn(v1alpha1.SignalPIDAvailable, false, before-allowed, "50"))
	h := g.Pod(ns, "hog", vm.HogImage, "", "", []string{"threads", "600", "60"}, enforcer.Priority("low"))
	g.Make(t, h)
	g.tainted(t, "pid")
	g.gone(t, h)
	g.evictedFor(t, h, "low on resource: pids", "signal pid.available (hard threshold)")
	g.calm(t)
	if after := g.left(t, v1alpha1.SignalPIDAvailable); before-after > allowed/2 {
		t.Errorf("%d ids were left, and %d are when all is over", before, after)
	}
	g.Lives(t, neighbours...)
}
