package nodeenforcer

import (
	"math"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	statsv1alpha1 "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/nodeenforcer/state/statetest"
)

// fsStats is so much, measured so long before LongAgo.
func fsStats(bytes, inodes uint64, before time.Duration) *statsv1alpha1.FsStats {
	return &statsv1alpha1.FsStats{Time: metav1.NewTime(statetest.LongAgo.Add(-before)), UsedBytes: &bytes, InodesUsed: &inodes}
}

// podStats are of two containers, one of which just started, with a volume on disk, one in memory and a claim.
func podStats() statsv1alpha1.PodStats {
	volume := func(name string, fs *statsv1alpha1.FsStats, claim *statsv1alpha1.PVCReference) statsv1alpha1.VolumeStats {
		return statsv1alpha1.VolumeStats{Name: name, FsStats: *fs, PVCRef: claim}
	}
	return statsv1alpha1.PodStats{
		PodRef:     statsv1alpha1.PodReference{UID: "1"},
		Containers: []statsv1alpha1.ContainerStats{{Rootfs: fsStats(100, 10, 5*time.Second), Logs: fsStats(20, 1, 0)}, {}},
		VolumeStats: []statsv1alpha1.VolumeStats{
			volume("disk", fsStats(300, 30, 40*time.Second), nil), volume("memory", fsStats(5000, 500, 39*time.Second), nil),
			volume("claim", fsStats(7000, 700, time.Hour), &statsv1alpha1.PVCReference{Name: "claim"}),
		},
		EphemeralStorage: fsStats(420, 41, 0), // the kubelet's own sum: layer, logs and the volume on disk
	}
}

func TestDiskUsage(t *testing.T) {
	for _, tc := range []struct {
		name   string
		one    bool
		signal v1alpha1.EvictionSignal
		used   int64
		age    time.Duration
	}{
		{"one disk", true, v1alpha1.SignalNodeFsAvailable, 420, 40 * time.Second},
		{"one disk, inodes", true, v1alpha1.SignalNodeFsInodesFree, 41, 40 * time.Second},
		{"one disk, by the other name", true, v1alpha1.SignalImageFsAvailable, 420, 40 * time.Second},
		{"one disk, inodes by the other name", true, v1alpha1.SignalImageFsInodesFree, 41, 40 * time.Second},
		{"two disks", false, v1alpha1.SignalNodeFsAvailable, 320, 40 * time.Second},
		{"two disks, inodes", false, v1alpha1.SignalNodeFsInodesFree, 31, 40 * time.Second},
		{"two disks, layers", false, v1alpha1.SignalImageFsAvailable, 100, 5 * time.Second},
		{"two disks, inodes of layers", false, v1alpha1.SignalImageFsInodesFree, 10, 5 * time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := &diskUsage{at: statetest.LongAgo, one: tc.one, pods: map[types.UID]statsv1alpha1.PodStats{"1": podStats()}}
			used, at, known := d.of(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "1"}}, tc.signal)
			if used != tc.used || !known || statetest.LongAgo.Sub(at) != tc.age {
				t.Errorf("got %d, %s old, %v", used, statetest.LongAgo.Sub(at), known)
			}
		})
	}
}

func TestDiskUsageNotKnown(t *testing.T) {
	started := statsv1alpha1.PodStats{Containers: []statsv1alpha1.ContainerStats{{}}}
	odd := statsv1alpha1.PodStats{EphemeralStorage: fsStats(math.MaxUint64, 0, 0), Containers: []statsv1alpha1.ContainerStats{{Rootfs: fsStats(math.MaxUint64, 0, 0)}}}
	less := statsv1alpha1.PodStats{EphemeralStorage: fsStats(1, 0, 0), Containers: []statsv1alpha1.ContainerStats{{Rootfs: fsStats(2, 0, 0)}}}
	d := &diskUsage{at: statetest.LongAgo, pods: map[types.UID]statsv1alpha1.PodStats{"started": started, "odd": odd, "less": less, "empty": {EphemeralStorage: &statsv1alpha1.FsStats{}}}}
	for _, uid := range []types.UID{"other", "started"} {
		if used, _, known := d.of(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid}}, v1alpha1.SignalNodeFsAvailable); known {
			t.Errorf("%s uses %d", uid, used)
		}
	}
	for _, uid := range []types.UID{"odd", "less", "empty"} {
		if used, at, known := d.of(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid}}, v1alpha1.SignalNodeFsAvailable); used != 0 || !known || !at.Equal(statetest.LongAgo) {
			t.Errorf("%s: %d at %s, %v", uid, used, at, known)
		}
	}
}

// What the kubelet has not measured yet counts as measured when it began, unless that is so long ago that it never will.
func TestDiskUsageNotMeasuredYet(t *testing.T) {
	began := func(ago time.Duration) metav1.Time { return metav1.NewTime(statetest.LongAgo.Add(-ago)) }
	pod := func(pod, container time.Duration) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{UID: "1"},
			Spec: corev1.PodSpec{Volumes: []corev1.Volume{
				{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
				{Name: "memory", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}},
			}},
			Status: corev1.PodStatus{
				StartTime: new(began(pod)),
				ContainerStatuses: []corev1.ContainerStatus{
					{Name: "c", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: began(container)}}},
					{Name: "waits", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}}},
				},
			},
		}
	}
	layer := []statsv1alpha1.ContainerStats{{Name: "c", Rootfs: fsStats(1, 1, 3*time.Second)}}
	volume := []statsv1alpha1.VolumeStats{{Name: "v", FsStats: *fsStats(1, 1, 4*time.Second)}}
	sum := fsStats(2, 2, 0)
	for _, tc := range []struct {
		name  string
		pod   *corev1.Pod
		stats *statsv1alpha1.PodStats
		one   bool
		age   time.Duration
	}{
		{"all is measured", pod(20*time.Second, 10*time.Second), &statsv1alpha1.PodStats{Containers: layer, VolumeStats: volume, EphemeralStorage: sum}, true, 4 * time.Second},
		{"no volume", pod(20*time.Second, 10*time.Second), &statsv1alpha1.PodStats{Containers: layer, EphemeralStorage: sum}, true, 20 * time.Second},
		{"no volume, two disks", pod(20*time.Second, 10*time.Second), &statsv1alpha1.PodStats{Containers: layer, EphemeralStorage: sum}, false, 20 * time.Second},
		{"no layer", pod(20*time.Second, 10*time.Second), &statsv1alpha1.PodStats{VolumeStats: volume, EphemeralStorage: sum}, true, 10 * time.Second},
		{"a layer without a time", pod(20*time.Second, 10*time.Second), &statsv1alpha1.PodStats{Containers: []statsv1alpha1.ContainerStats{{Name: "c", Rootfs: &statsv1alpha1.FsStats{}}}, VolumeStats: volume, EphemeralStorage: sum}, true, 10 * time.Second},
		{"no layer, which is on the other disk", pod(20*time.Second, 10*time.Second), &statsv1alpha1.PodStats{VolumeStats: volume, EphemeralStorage: sum}, false, 4 * time.Second},
		{"no sum", pod(20*time.Second, 10*time.Second), &statsv1alpha1.PodStats{}, true, 20 * time.Second},
		{"not known", pod(20*time.Second, 10*time.Second), nil, true, 20 * time.Second},
		{"for long", pod(time.Hour, time.Hour), nil, true, 0},
		{"started again", pod(time.Hour, 10*time.Second), nil, true, 10 * time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := &diskUsage{at: statetest.LongAgo, one: tc.one, pods: map[types.UID]statsv1alpha1.PodStats{}}
			if tc.stats != nil {
				d.pods["1"] = *tc.stats
			}
			if _, at, known := d.of(tc.pod, v1alpha1.SignalNodeFsInodesFree); statetest.LongAgo.Sub(at) != tc.age || known != (tc.stats != nil && tc.stats.EphemeralStorage != nil) {
				t.Errorf("got %s old, %v", statetest.LongAgo.Sub(at), known)
			}
		})
	}
}

func TestSameDisk(t *testing.T) {
	dir := t.TempDir()
	for other, want := range map[string]bool{dir: true, "/proc": false} {
		if got, err := sameDisk(dir, other); got != want || err != nil {
			t.Errorf("%s: got %v, %v", other, got, err)
		}
	}
	if _, err := sameDisk(dir, dir+"/none"); err == nil {
		t.Error("a folder that is not there was compared")
	}
}
