package nodeenforcer

import (
	"math"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	statsv1alpha1 "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/podgrace/podgrace/api/v1alpha1"
)

// fsStats is so much, measured so long before longAgo.
func fsStats(bytes, inodes uint64, before time.Duration) *statsv1alpha1.FsStats {
	return &statsv1alpha1.FsStats{Time: metav1.NewTime(longAgo.Add(-before)), UsedBytes: &bytes, InodesUsed: &inodes}
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
			d := &diskUsage{at: longAgo, one: tc.one, pods: map[types.UID]statsv1alpha1.PodStats{"1": podStats()}}
			used, at, known := d.of("1", tc.signal)
			if used != tc.used || !known || longAgo.Sub(at) != tc.age {
				t.Errorf("got %d, %s old, %v", used, longAgo.Sub(at), known)
			}
		})
	}
}

func TestDiskUsageNotKnown(t *testing.T) {
	started := statsv1alpha1.PodStats{Containers: []statsv1alpha1.ContainerStats{{}}}
	odd := statsv1alpha1.PodStats{EphemeralStorage: fsStats(math.MaxUint64, 0, 0), Containers: []statsv1alpha1.ContainerStats{{Rootfs: fsStats(math.MaxUint64, 0, 0)}}}
	less := statsv1alpha1.PodStats{EphemeralStorage: fsStats(1, 0, 0), Containers: []statsv1alpha1.ContainerStats{{Rootfs: fsStats(2, 0, 0)}}}
	d := &diskUsage{at: longAgo, pods: map[types.UID]statsv1alpha1.PodStats{"started": started, "odd": odd, "less": less, "empty": {EphemeralStorage: &statsv1alpha1.FsStats{}}}}
	for _, uid := range []types.UID{"other", "started"} {
		if used, _, known := d.of(uid, v1alpha1.SignalNodeFsAvailable); known {
			t.Errorf("%s uses %d", uid, used)
		}
	}
	for _, uid := range []types.UID{"odd", "less", "empty"} {
		if used, at, known := d.of(uid, v1alpha1.SignalNodeFsAvailable); used != 0 || !known || !at.Equal(longAgo) {
			t.Errorf("%s: %d at %s, %v", uid, used, at, known)
		}
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
