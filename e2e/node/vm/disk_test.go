package vm

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/e2e/node/enforcer"
	"github.com/podgrace/podgrace/e2e/vm"
)

// filled is where the pods of these tests write: a part of the container's writable layer, or with onVolume an emptyDir.
const filled = "/filled"

func onVolume(p *corev1.Pod) {
	p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "filled", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
	p.Spec.Containers[0].VolumeMounts = append(p.Spec.Containers[0].VolumeMounts, corev1.VolumeMount{Name: "filled", MountPath: filled})
}

// inMemory is a volume that is on no disk.
func inMemory(p *corev1.Pod) {
	onVolume(p)
	p.Spec.Volumes[0].EmptyDir.Medium = corev1.StorageMediumMemory
}

// diskRequest is for so many MiB of ephemeral storage.
func diskRequest(mib int64) enforcer.ChangePod {
	return func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceEphemeralStorage: *resource.NewQuantity(mib<<20, resource.BinarySI)}
	}
}

// left is what the guest has: of the disk of nodefs or of imagefs, which are one but where a test says otherwise, or of ids of processes.
func (g *ground) left(t *testing.T, signal v1alpha1.EvictionSignal) int64 {
	t.Helper()
	numbers := func(script string) (all []int64) {
		for field := range strings.FieldsSeq(g.script(t, script)) {
			n, err := strconv.ParseInt(field, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, n)
		}
		return all
	}
	if signal == v1alpha1.SignalPIDAvailable {
		n := numbers("cat /proc/sys/kernel/pid_max /proc/sys/kernel/threads-max; cut --delimiter=/ --fields=2 /proc/loadavg | cut --delimiter=' ' --fields=1")
		return min(n[0], n[1]) - n[2]
	}
	root := "/var/lib/kubelet"
	if strings.HasPrefix(string(signal), "imagefs.") {
		root = "/var/lib/containerd"
	}
	n := numbers("stat --file-system --format='%a %S %d' " + root)
	if strings.HasSuffix(string(signal), ".inodesFree") {
		return n[2]
	}
	return n[0] * n[1]
}

// A pod that fills the disk, in its writable layer or in a volume, is evicted for it, and nobody else: neither who uses little and is of
// lower priority, nor who uses what he requested, nor who fills memory. The pressure ends when its space is free again.
func TestDisk(t *testing.T) {
	g := start(t)
	g.Class(t, "lowest", 1)
	g.Class(t, "low", 10)
	bytes, inodes := []string{"fill", "600", "60", filled}, []string{"files", "30000", "3000", filled}
	for _, tc := range []struct {
		name     string
		signal   v1alpha1.EvictionSignal
		soft     bool
		args     []string
		where    enforcer.ChangePod
		allowed  int64 // beyond what is used at first, until the threshold is met
		reclaim  string
		resource string // in the reason
	}{
		{"layer", v1alpha1.SignalNodeFsAvailable, false, bytes, func(*corev1.Pod) {}, 300 << 20, "100Mi", "ephemeral-storage"},
		{"inodes-soft", v1alpha1.SignalNodeFsInodesFree, true, inodes, onVolume, 15000, "5k", "inodes"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ns := g.Namespace(t)
			neighbours := []*corev1.Pod{
				g.Pod(ns, "small", vm.HogImage, "", "", []string{"fill", "5", "50", filled}, onVolume, enforcer.Priority("lowest")),
				g.Pod(ns, "within", vm.HogImage, "", "", []string{"fill", "50", "100", filled}, diskRequest(200), enforcer.Priority("lowest")),
				g.Pod(ns, "memory", vm.HogImage, "", "", []string{"fill", "150", "100", filled}, inMemory, enforcer.Priority("lowest")),
			}
			g.Running(t, neighbours...)
			g.wrote(t, neighbours[1], "50.0 MiB")
			g.wrote(t, neighbours[2], "150.0 MiB")
			before := g.left(t, tc.signal)
			g.NodePolicy(t, thresholdOn(tc.signal, tc.soft, before-tc.allowed, tc.reclaim))
			h := g.Pod(ns, "hog", vm.HogImage, "", "", tc.args, tc.where, diskRequest(10), enforcer.Priority("low"))
			g.Make(t, h)
			g.tainted(t, "disk")
			g.gone(t, h)
			g.Lives(t, neighbours...)
			kind := map[bool]string{false: "hard", true: "soft"}[tc.soft]
			g.evictedFor(t, h, "low on resource: "+tc.resource, fmt.Sprintf("signal %s (%s threshold)", tc.signal, kind))
			if strings.Contains(g.logs(t), `pod="`+ns+`/hog (`+string(h.UID)+`)" step="Contained"`) {
				t.Error("its memory was held down, which frees no disk")
			}
			g.calm(t)
			if after := g.left(t, tc.signal); before-after > tc.allowed/2 {
				t.Errorf("of %s %d were left, and %d are when all is over", tc.signal, before, after)
			}
			g.Lives(t, neighbours...)
		})
	}
}

// thresholdOn is a policy with one threshold, and no long shadow.
func thresholdOn(signal v1alpha1.EvictionSignal, soft bool, value int64, reclaim string) v1alpha1.NodePolicySpec {
	threshold := v1alpha1.EvictionThreshold{Signal: signal, Value: v1alpha1.ThresholdValue(fmt.Sprint(value)), MinimumReclaim: v1alpha1.ThresholdValue(reclaim)}
	e := &v1alpha1.NodeEviction{PressureTransitionPeriod: &metav1.Duration{Duration: 3 * time.Second}}
	if soft {
		e.Soft = []v1alpha1.SoftEvictionThreshold{{EvictionThreshold: threshold, GracePeriod: metav1.Duration{Duration: 2 * time.Second}}}
	} else {
		e.Hard = []v1alpha1.EvictionThreshold{threshold}
	}
	return v1alpha1.NodePolicySpec{Mode: v1alpha1.NodeModeTune, Eviction: e}
}

// wrote returns when a pod says that it has so much.
func (g *ground) wrote(t *testing.T, p *corev1.Pod, much string) {
	t.Helper()
	g.Eventually(t, p.Name+" having written", func(ctx context.Context) (bool, error) {
		out, problems, err := g.Kubectl(ctx, "logs", "--namespace="+p.Namespace, p.Name)
		if err != nil {
			return false, fmt.Errorf("%w: %s", err, problems)
		}
		return strings.Contains(out, "has "+much), nil
	})
}

// evictedFor returns when an Event says so.
func (g *ground) evictedFor(t *testing.T, p *corev1.Pod, parts ...string) {
	t.Helper()
	g.Eventually(t, "the Event of the eviction", func(ctx context.Context) (bool, error) {
		var events corev1.EventList
		err := g.Client.List(ctx, &events, client.InNamespace(p.Namespace), client.MatchingFields{"reason": "Evicted"})
		for _, e := range events.Items {
			all := e.InvolvedObject.UID == p.UID
			for _, part := range parts {
				all = all && strings.Contains(e.Message, part)
			}
			if all {
				return true, nil
			}
		}
		return false, err
	})
}
