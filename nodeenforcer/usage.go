package nodeenforcer

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	statsv1alpha1 "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup"
)

// disk says whether a signal is about a file system, whose use by pods only the kubelet knows.
func disk(signal v1alpha1.EvictionSignal) bool {
	switch signal {
	case v1alpha1.SignalNodeFsAvailable, v1alpha1.SignalNodeFsInodesFree, v1alpha1.SignalImageFsAvailable, v1alpha1.SignalImageFsInodesFree:
		return true
	}
	return false
}

// usageOf reads from its cgroup what a pod uses: bytes of memory, or processes.
func usageOf(tree cgroup.Reader, path string, signal v1alpha1.EvictionSignal) (int64, error) {
	if signal == v1alpha1.SignalPIDAvailable {
		return cgroup.ReadPIDs(tree, path)
	}
	m, err := cgroup.ReadMemory(tree, path)
	if err != nil {
		return 0, err
	}
	return m.WorkingSet(), nil
}

// diskUsage is what pods use of the disks, as the kubelet last measured it.
type diskUsage struct {
	at   time.Time
	pods map[types.UID]statsv1alpha1.PodStats
}

// disks asks the kubelet. Its own measurements are some ten seconds old.
func (e *Evictor) disks(ctx context.Context) (*diskUsage, error) {
	if e.Kubelet == nil {
		return nil, fmt.Errorf("how much disk the pods use is not known: the kubelet is not asked (--kubelet)")
	}
	summary, err := e.Kubelet.Stats(ctx)
	if err != nil {
		return nil, err
	}
	of := &diskUsage{at: e.Clock.Now(), pods: map[types.UID]statsv1alpha1.PodStats{}}
	for _, p := range summary.Pods {
		of.pods[types.UID(p.PodRef.UID)] = p
	}
	return of, nil
}

// of is what a pod uses of a file system: its writable layers, logs and local volumes, of which the image file system has the
// layers alone (pkg/kubelet/eviction/helpers.go podDiskUsage and rankDiskPressureFunc, 1.36.3, with one file system for
// layers and images).
func (d *diskUsage) of(p *corev1.Pod, signal v1alpha1.EvictionSignal) (int64, bool) {
	stats, known := d.pods[p.UID]
	if !known {
		return 0, false
	}
	value := func(fs *statsv1alpha1.FsStats) int64 {
		switch {
		case fs == nil:
			return 0
		case signal == v1alpha1.SignalNodeFsInodesFree || signal == v1alpha1.SignalImageFsInodesFree:
			return number(fs.InodesUsed)
		}
		return number(fs.UsedBytes)
	}
	sum := int64(0)
	layers := signal == v1alpha1.SignalImageFsAvailable || signal == v1alpha1.SignalImageFsInodesFree
	for i := range stats.Containers {
		sum += value(stats.Containers[i].Rootfs)
		if !layers {
			sum += value(stats.Containers[i].Logs)
		}
	}
	if layers {
		return sum, true
	}
	for i := range stats.VolumeStats {
		if stats.VolumeStats[i].PVCRef == nil { // a claim is not on this disk
			sum += value(&stats.VolumeStats[i].FsStats)
		}
	}
	return sum, true
}

func number(n *uint64) int64 {
	if n == nil {
		return 0
	}
	return int64(min(*n, 1<<62))
}
