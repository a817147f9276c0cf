package nodeenforcer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"
	statsv1alpha1 "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/podgrace/podgrace/api/v1alpha1"
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
	one, err := sameDisk(e.Sensor.Machine.KubeletRoot, e.Sensor.ImageRoot)
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
func (d *diskUsage) of(pod types.UID, signal v1alpha1.EvictionSignal) (used int64, at time.Time, known bool) {
	stats, found := d.pods[pod]
	if !found || stats.EphemeralStorage == nil {
		return 0, d.at, false
	}
	inodes := signal == v1alpha1.SignalNodeFsInodesFree || signal == v1alpha1.SignalImageFsInodesFree
	images := signal == v1alpha1.SignalImageFsAvailable || signal == v1alpha1.SignalImageFsInodesFree
	layers, at := int64(0), d.at
	for i := range stats.Containers {
		if fs := stats.Containers[i].Rootfs; fs != nil && (d.one || images) {
			at = earlier(at, fs)
		}
		layers += amountOf(stats.Containers[i].Rootfs, inodes)
	}
	if images && !d.one {
		return layers, at, true
	}
	for i := range stats.VolumeStats {
		if stats.VolumeStats[i].PVCRef == nil {
			at = earlier(at, &stats.VolumeStats[i].FsStats)
		}
	}
	all := amountOf(stats.EphemeralStorage, inodes)
	if d.one {
		return all, at, true
	}
	return max(0, all-layers), at, true
}

func earlier(at time.Time, fs *statsv1alpha1.FsStats) time.Time {
	if !fs.Time.IsZero() && fs.Time.Time.Before(at) {
		return fs.Time.Time
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
