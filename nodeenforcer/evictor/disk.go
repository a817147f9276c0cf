package evictor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	statsv1alpha1 "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/nodeenforcer/eviction"
	"github.com/podgrace/podgrace/nodeenforcer/pressure"
	"github.com/podgrace/podgrace/nodeenforcer/state"
)

const (
	// diskPause is pause for disks: the kubelet's statistics are some megabytes on a large node, and hardly change.
	diskPause = 2 * time.Second
	// diskStatsAge is how stale the kubelet's statistics of a volume can be: twice volumeStatsAggPeriod, and the time to measure it.
	diskStatsAge = 130 * time.Second
	// locateEvery is how often the kubelet is asked which file systems it has, while those that matter are known. While one is not it is asked again after locateAgain, and twice as
	// long each time, up to locateRetry: what it says of a disk that was just filled is old, and the next answer tells. It may take it a second of a processor. While one is known and
	// its last answer does not fit (pressure.Disk.Doubted), it is asked every locateAgain.
	locateEvery = 5 * time.Minute
	locateAgain = 15 * time.Second
	locateRetry = time.Minute
	// releaseTime is how long the disk space of a pod can stay in use after the pod has ended. The kubelet removes the files of its volumes
	// before it deletes the pod, and dead containers once a minute (ContainerGCPeriod, pkg/kubelet/kubelet.go, 1.36.3); containerd frees
	// their layers at its own next garbage collection.
	releaseTime = 2 * time.Minute
)

// disk reports whether a signal is about a file system. Only the kubelet knows how much of one each pod uses.
func disk(signal v1alpha1.EvictionSignal) bool {
	switch signal {
	case v1alpha1.SignalNodeFsAvailable, v1alpha1.SignalNodeFsInodesFree, v1alpha1.SignalImageFsAvailable, v1alpha1.SignalImageFsInodesFree:
		return true
	}
	return false
}

// resource is the signal by which a resource is known: nodefs and imagefs have two on one file system, and evictions that were in vain for one are so for the other.
func (e *Evictor) resource(signal v1alpha1.EvictionSignal) v1alpha1.EvictionSignal {
	switch {
	case e.oneDisk && signal == v1alpha1.SignalImageFsAvailable:
		return v1alpha1.SignalNodeFsAvailable
	case e.oneDisk && signal == v1alpha1.SignalImageFsInodesFree:
		return v1alpha1.SignalNodeFsInodesFree
	}
	return signal
}

// outdated reports whether to wait for fresh statistics of the kubelet before anything is evicted. That is so if one victim is not enough and
// a candidate was measured before the threshold was met: the pod that fills the disk may look small in stale statistics, and others
// would be evicted in its place. The wait is bounded by diskStatsAge, so that a volume which can't be measured does not block evictions.
func outdated(met shortage, choice eviction.Choice, candidates []eviction.Candidate, now time.Time) bool {
	one := choice.Short <= 0 && len(choice.Victims) == 1
	if !met.disk || len(choice.Victims) == 0 || one || met.For > diskStatsAge {
		return false
	}
	since := now.Add(-met.For)
	return slices.ContainsFunc(candidates, func(c eviction.Candidate) bool { return c.MeasuredAt.Before(since) })
}

// diskStats is how much disk pods use, as the kubelet last measured it.
type diskStats struct {
	at   time.Time
	one  bool // nodefs and imagefs are one file system
	pods map[types.UID]statsv1alpha1.PodStats
}

// diskAnswer are the kubelet's statistics, and what it says of its file systems; or why there are none.
type diskAnswer struct {
	stats       *diskStats
	node, image *pressure.Room // nil: it says nothing
	one         bool           // the folders are on one file system, whatever that is
	err         error
}

// locate asks the kubelet which file systems it has, in time, where the policy has a threshold on one.
func (e *Evictor) locate(ctx context.Context) {
	asked := slices.DeleteFunc(slices.Clone(e.thresholds.List), func(t pressure.Threshold) bool { return !disk(t.Signal) })
	if e.Kubelet == nil || len(asked) == 0 {
		return
	}
	if e.Sensor.Disks == nil {
		e.Sensor.Disks = pressure.Unlocated(nil)
	}
	e.folders()
	pause := locateEvery
	of := func(is func(pressure.Disk) bool) bool {
		return slices.ContainsFunc(asked, func(t pressure.Threshold) bool { return is(e.Sensor.Disks.Of(t.Signal)) })
	}
	switch {
	case of(func(d pressure.Disk) bool { return d.Err != nil }):
		pause = min(locateAgain<<e.unsure, locateRetry)
	case of(func(d pressure.Disk) bool { return !d.Doubted.IsZero() }):
		pause, e.unsure = locateAgain, 0
	default:
		e.unsure = 0
	}
	now := e.Clock.Now()
	if !e.asking.IsZero() && now.Sub(e.asking).Abs() < pause {
		return
	}
	if e.disks.Begin(func() diskAnswer { return e.askDisks(ctx) }) {
		if pause < locateRetry && !e.asking.IsZero() {
			e.unsure++
		}
		e.asking = now
	}
}

// folders are those by which file systems could be measured.
func (e *Evictor) folders() (kubelet, runtime pressure.Folder) {
	return e.Sensor.Folder(e.Sensor.KubeletRoot), e.Sensor.Folder(e.Sensor.ImageRoot)
}

// heard has the file systems measured as the kubelet told, and says why no pod is evicted for a signal. They stay as they are while it does not answer.
func (e *Evictor) heard(a diskAnswer) (unknown func(v1alpha1.EvictionSignal) error) {
	if a.err != nil {
		if e.Sensor.Disks != nil && !e.told {
			e.Sensor.Disks = pressure.Unlocated(a.err)
		}
		return func(v1alpha1.EvictionSignal) error { return a.err }
	}
	kubelet, runtime := e.folders()
	disks := e.Sensor.Disks.Relocate(e.Clock.Now(), a.node, a.image, kubelet, runtime)
	a.stats.one = disks.Located() && (a.one || disks.Node.Path == disks.Image.Path)
	e.Sensor.Disks, e.told = disks, true
	if disks.Located() { // else it stays as it was: evictions are judged by it
		e.oneDisk = a.stats.one
	}
	return func(signal v1alpha1.EvictionSignal) error { return disks.Of(signal).Err }
}

// askDisks reads the statistics from the kubelet. The runtime measures layers every ten seconds, the kubelet each volume after one to two minutes
// (volumeStatsAggPeriod with a jitter of 1.0, pkg/kubelet/server/stats/volume_stat_calculator.go, 1.36.3).
func (e *Evictor) askDisks(ctx context.Context) diskAnswer {
	if e.Kubelet == nil {
		return diskAnswer{err: errors.New("how much disk the pods use is not known: the kubelet is not asked (--kubelet)")}
	}
	summary, err := e.Kubelet.Stats(ctx)
	if err != nil {
		return diskAnswer{err: err}
	}
	a := diskAnswer{stats: &diskStats{at: e.Clock.Now(), pods: map[types.UID]statsv1alpha1.PodStats{}}, node: room(summary.Node.Fs)}
	for _, p := range summary.Pods {
		a.stats.pods[types.UID(p.PodRef.UID)] = p
	}
	if summary.Node.Runtime != nil {
		a.image = room(summary.Node.Runtime.ImageFs)
	}
	one, err := sameDisk(e.Sensor.KubeletRoot, e.Sensor.ImageRoot)
	a.one = one && err == nil // what is not there is on none
	return a
}

// room is what the kubelet says of a file system; nil: nothing.
func room(fs *statsv1alpha1.FsStats) *pressure.Room {
	if fs == nil || fs.CapacityBytes == nil || fs.AvailableBytes == nil {
		return nil
	}
	return &pressure.Room{Bytes: number(fs.CapacityBytes), BytesLeft: number(fs.AvailableBytes), Inodes: number(fs.Inodes), InodesLeft: number(fs.InodesFree)}
}

// usage is that of a file system.
func (a diskAnswer) usage(signal v1alpha1.EvictionSignal) usage {
	return func(p *corev1.Pod, _ string) (used int64, at time.Time, ok bool, err error) {
		used, at, ok = a.stats.of(p, signal)
		return used, at, ok, nil
	}
}

// sameDisk reports whether two folders are on one file system.
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
func (d *diskStats) of(pod *corev1.Pod, signal v1alpha1.EvictionSignal) (used int64, at time.Time, ok bool) {
	stats, ok := d.pods[pod.UID]
	inodes := signal == v1alpha1.SignalNodeFsInodesFree || signal == v1alpha1.SignalImageFsInodesFree
	images := signal == v1alpha1.SignalImageFsAvailable || signal == v1alpha1.SignalImageFsInodesFree
	at = d.at
	if d.one || images {
		at = d.layersAt(pod, stats.Containers, at)
	}
	if d.one || !images {
		at = d.volumesAt(pod, stats.VolumeStats, at)
	}
	if !ok || stats.EphemeralStorage == nil {
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
func (d *diskStats) layersAt(pod *corev1.Pod, containers []statsv1alpha1.ContainerStats, at time.Time) time.Time {
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
func (d *diskStats) volumesAt(pod *corev1.Pod, volumes []statsv1alpha1.VolumeStats, at time.Time) time.Time {
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

// missing is for a container or volume that the kubelet has not measured yet. It counts as measured, and empty, at the time it began: the
// kubelet finds the volumes of a new pod only after a period of its own (pkg/kubelet/server/stats/fs_resource_analyzer.go,
// updateCachedPodVolumeStats, 1.36.3). One that it should have measured long ago will never be measured, and is ignored.
func (d *diskStats) missing(at time.Time, began metav1.Time) time.Time {
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
	return number(n)
}

// number is what the kubelet counted; 0: it did not.
func number(n *uint64) int64 {
	if n == nil {
		return 0
	}
	return int64(min(*n, 1<<62))
}
