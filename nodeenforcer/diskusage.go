package nodeenforcer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	statsv1alpha1 "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/nodeenforcer/state"
)

// diskUsage is what pods use of the disks, as the kubelet last measured it.
type diskUsage struct {
	at   time.Time
	one  bool // nodefs and imagefs are one file system
	pods map[types.UID]statsv1alpha1.PodStats
}

// disks asks the kubelet. The runtime measures layers every ten seconds, the kubelet each volume after one to two minutes
// (volumeStatsAggPeriod with a jitter of 1.0, pkg/kubelet/server/stats/volume_stat_calculator.go, 1.36.3).
func (e *Evictor) disks(ctx context.Context) (*diskUsage, error) {
	if e.Kubelet == nil {
		return nil, errors.New("how much disk the pods use is not known: the kubelet is not asked (--kubelet)")
	}
	one, err := sameDisk(e.Sensor.KubeletRoot, e.Sensor.ImageRoot)
	if err != nil {
		return nil, err
	}
	summary, err := e.Kubelet.Stats(ctx)
	if err != nil {
		return nil, err
	}
	of := &diskUsage{at: e.Clock.Now(), one: one, pods: map[types.UID]statsv1alpha1.PodStats{}}
	for _, p := range summary.Pods {
		of.pods[types.UID(p.PodRef.UID)] = p
	}
	return of, nil
}

// sameDisk says whether two folders are on one file system.
func sameDisk(a, b string) (bool, error) {
	var devices []uint64
	for _, path := range []string{a, b} {
		var at unix.Stat_t
		if err := unix.Stat(path, &at); err != nil {
			return false, fmt.Errorf("the file system of %s: %w", path, err)
		}
		devices = append(devices, at.Dev)
	}
	return devices[0] == devices[1], nil
}

// of is what a pod uses of a file system, and when the oldest part of that was measured. As for the kubelet
// (pkg/kubelet/eviction/helpers.go buildSignalToRankFunc, 1.36.3) it is all of the pod's ephemeral storage where nodefs and imagefs
// are one; else imagefs has the writable layers, and nodefs logs and volumes. Volumes in memory and claims are in neither
// (pkg/kubelet/stats/helper.go calcEphemeralStorage).
func (d *diskUsage) of(pod *corev1.Pod, signal v1alpha1.EvictionSignal) (used int64, at time.Time, known bool) {
	stats, found := d.pods[pod.UID]
	inodes := signal == v1alpha1.SignalNodeFsInodesFree || signal == v1alpha1.SignalImageFsInodesFree
	images := signal == v1alpha1.SignalImageFsAvailable || signal == v1alpha1.SignalImageFsInodesFree
	at = d.at
	if d.one || images {
		at = d.layersAt(pod, stats.Containers, at)
	}
	if d.one || !images {
		at = d.volumesAt(pod, stats.VolumeStats, at)
	}
	if !found || stats.EphemeralStorage == nil {
		return 0, at, false
	}
	layers := int64(0)
	for i := range stats.Containers {
		layers += amountOf(stats.Containers[i].Rootfs, inodes)
	}
	if images && !d.one {
		return layers, at, true
	}
	all := amountOf(stats.EphemeralStorage, inodes)
	if d.one {
		return all, at, true
	}
	return max(0, all-layers), at, true
}

// layersAt is when the oldest measurement of the writable layers is from, or at if that is earlier.
func (d *diskUsage) layersAt(pod *corev1.Pod, containers []statsv1alpha1.ContainerStats, at time.Time) time.Time {
	measured := map[string]bool{}
	for i := range containers {
		if fs := containers[i].Rootfs; fs != nil && !fs.Time.IsZero() {
			measured[containers[i].Name] = true
			at = earlier(at, fs.Time)
		}
	}
	for _, all := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses, pod.Status.EphemeralContainerStatuses} {
		for i := range all {
			if running := all[i].State.Running; running != nil && !measured[all[i].Name] {
				at = d.missing(at, running.StartedAt)
			}
		}
	}
	return at
}

// volumesAt is when the oldest measurement of the volumes that are on the disk is from, or at if that is earlier.
func (d *diskUsage) volumesAt(pod *corev1.Pod, volumes []statsv1alpha1.VolumeStats, at time.Time) time.Time {
	measured := map[string]bool{}
	for i := range volumes {
		measured[volumes[i].Name] = true
		if volumes[i].PVCRef == nil {
			at = earlier(at, volumes[i].Time)
		}
	}
	for i := range pod.Spec.Volumes {
		if v := &pod.Spec.Volumes[i]; state.OnDisk(v) && !measured[v.Name] && pod.Status.StartTime != nil {
			at = d.missing(at, *pod.Status.StartTime)
		}
	}
	return at
}

// missing takes what the kubelet has not measured yet for measured when it began: it was empty. It finds the volumes of a new pod
// after a period of its own, and says nothing of them until then (pkg/kubelet/server/stats/fs_resource_analyzer.go,
// updateCachedPodVolumeStats, 1.36.3). What it should have measured long ago it never will.
func (d *diskUsage) missing(at time.Time, began metav1.Time) time.Time {
	if d.at.Sub(began.Time) > diskStatsAge {
		return at
	}
	return earlier(at, began)
}

func earlier(at time.Time, t metav1.Time) time.Time {
	if !t.IsZero() && t.Time.Before(at) {
		return t.Time
	}
	return at
}

func amountOf(fs *statsv1alpha1.FsStats, inodes bool) int64 {
	var n *uint64
	switch {
	case fs == nil:
	case inodes:
		n = fs.InodesUsed
	default:
		n = fs.UsedBytes
	}
	if n == nil {
		return 0
	}
	return int64(min(*n, 1<<62))
}
