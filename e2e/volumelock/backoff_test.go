package volumelock

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/e2e/suite"
)

// failures is how often the attach/detach controller has told a pod that a volume could not be attached, for a reason.
func (l *lab) failures(ctx context.Context, pod *corev1.Pod, text string) (n int32, err error) {
	var list corev1.EventList
	err = l.Client.List(ctx, &list, client.InNamespace(l.namespace), client.MatchingFields{"involvedObject.name": pod.Name})
	for i := range list.Items {
		if e := &list.Items[i]; e.Reason == "FailedAttachVolume" && strings.Contains(e.Message, text) {
			n += max(e.Count, 1)
		}
	}
	return n, err
}

// A pod whose volume another node holds is told so, and has it soon after it is free. Beside it another attacher's error stands all the time: after each try that fails at once the attach/detach
// controller waits for twice as long, and its pod still waits when both volumes are attached. It is not run beside other tests: the volume lock of each is for all volumes of the driver, and as none
// follows a Lease each says the error once, one after the other.
func TestErrorIsNoDelay(t *testing.T) {
	const beside = "beside.example.org"
	l := newLab(t, "backoff", iscsi)
	l.adopted(t, beside)
	l.start(t)
	pv := l.disk(t, "db", "1")
	first := l.pod(t, "db-1", "db", l.a)
	l.runs(t, first, pv, l.a)
	again := l.newVolume("again", "1") // the same unit by another handle, so that the attach/detach controller asks for it now
	l.Create(t, again)
	l.claim(t, "again", again)
	second := l.pod(t, "again", "again", l.b)
	l.told(t, second, "FailedAttachVolume", "is held by node "+l.a)

	foreign := l.newVolume("foreign", "2")
	foreign.Spec.CSI.Driver = beside
	l.Create(t, foreign)
	l.claim(t, "foreign", foreign)
	control := l.pod(t, "foreign", "foreign", l.b)
	l.say(t, foreign, l.b, storagev1.VolumeAttachmentStatus{AttachError: &storagev1.VolumeError{Time: metav1.Now(), Message: "another attacher's error"}})
	const enough = 7 // 32 s until the next try
	suite.Eventually(t, "the attach/detach controller to back off", func(ctx context.Context) (bool, error) {
		n, err := l.failures(ctx, control, "another attacher's error")
		if err == nil && n < enough {
			err = fmt.Errorf("it has failed %d times", n)
		}
		return n >= enough, err
	})
	ours, err := l.failures(t.Context(), second, "is held by node "+l.a)
	if err != nil {
		t.Fatal(err)
	}
	if t.Logf("it was told %d times", ours); ours >= enough {
		t.Errorf("the error stood all the time: %d tries failed", ours)
	}
	l.waits(t, second, again, l.a)

	l.delete(t, first)
	l.heldBy(t, again, l.b)
	free := time.Now()
	l.say(t, foreign, l.b, storagev1.VolumeAttachmentStatus{Attached: true})
	l.runs(t, second, again, l.b)
	t.Logf("it ran %s after its volume was free", time.Since(free).Round(time.Second/10))
	if err := l.Client.Get(t.Context(), client.ObjectKeyFromObject(control), control); err != nil || control.Status.Phase != corev1.PodPending {
		t.Errorf("the other pod does not wait any more, so that this shows nothing: %s, %v", control.Status.Phase, err)
	}
}

// say writes the status of a VolumeAttachment, as an attacher does, once it is there.
func (l *lab) say(t *testing.T, pv *corev1.PersistentVolume, node string, status storagev1.VolumeAttachmentStatus) {
	t.Helper()
	a := l.asked(t, pv, node)
	a.Status = status
	if err := l.Client.Status().Update(t.Context(), a); err != nil {
		t.Fatal(err)
	}
}
