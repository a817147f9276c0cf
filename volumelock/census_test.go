package volumelock

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podgrace/podgrace/api/v1alpha1"
)

func TestCount(t *testing.T) {
	at := func(minute int) time.Time { return time.Date(2026, 11, 26, 3, minute, 0, 0, time.UTC) }
	lock := func(driver, node string, uid types.UID, released int) v1alpha1.VolumeLock {
		l := v1alpha1.VolumeLock{Spec: v1alpha1.VolumeLockSpec{Driver: driver, Node: v1alpha1.BootReference{Name: node, UID: uid}}}
		if released > 0 {
			l.Status.Release = &v1alpha1.VolumeRelease{Since: metav1.NewMicroTime(at(released))}
		}
		return l
	}
	attachment := func(driver string, made int, change func(*storagev1.VolumeAttachment)) storagev1.VolumeAttachment {
		a := storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(at(made))}, Spec: storagev1.VolumeAttachmentSpec{Attacher: driver}}
		if change != nil {
			change(&a)
		}
		return a
	}
	got := Count([]string{"nfs", "smb"},
		[]v1alpha1.VolumeLock{
			lock("nfs", "a", "a", 0), lock("nfs", "a", "a", 9), lock("nfs", "a", "a", 7), lock("nfs", "a", "older", 8), lock("nfs", "gone", "g", 0), lock("iscsi", "a", "a", 1),
		},
		[]storagev1.VolumeAttachment{
			attachment("nfs", 5, nil), attachment("nfs", 4, nil), attachment("iscsi", 1, nil),
			attachment("nfs", 2, func(a *storagev1.VolumeAttachment) { a.Status.Attached = true }),
			attachment("nfs", 3, func(a *storagev1.VolumeAttachment) { a.DeletionTimestamp = &a.CreationTimestamp }),
		},
		[]corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "a"}}},
	)
	want := Census{
		Locks: map[Standing]int{StandingHeld: 1, StandingReleasing: 2, StandingNodeGone: 2}, ByDriver: map[string]int{"nfs": 5, "smb": 0}, OldestRelease: at(7), Waiting: 2, OldestWaiting: at(4),
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if got := Count(nil, nil, nil, nil); !got.OldestRelease.IsZero() || !got.OldestWaiting.IsZero() || got.Waiting+len(got.Locks) > 0 {
		t.Errorf("of nothing: %+v", got)
	}
}
