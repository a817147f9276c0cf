package volumelock_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/guard"
	"github.com/podgrace/podgrace/volumelock"
)

func receipt(class v1alpha1.EvidenceClass, uid, boot string, volumes ...string) v1alpha1.FenceReceipt {
	return v1alpha1.FenceReceipt{ObjectMeta: metav1.ObjectMeta{Name: "r"}, Spec: v1alpha1.FenceReceiptSpec{Class: class, Volumes: volumes, Node: &v1alpha1.BootReference{Name: "n1", UID: types.UID(uid), BootID: boot}}}
}

// silent has the node not be ready.
func silent(f *volumelock.ReleaseFacts) {
	f.Node.Status.Conditions[0].Status = corev1.ConditionUnknown
}

// conflict has the driver not gated any more, which the lock knows.
func conflict(f *volumelock.ReleaseFacts) {
	f.Conflict = "attachRequired: false"
	f.Lock.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionConflict, Status: metav1.ConditionTrue}}
}

func both(a, b func(*volumelock.ReleaseFacts)) func(*volumelock.ReleaseFacts) {
	return func(f *volumelock.ReleaseFacts) { a(f); b(f) }
}

// TestDriverMadeAnew: what a lock knows of a release begins again with another CSIDriver, since one between may not have been gated.
func TestDriverMadeAnew(t *testing.T) {
	_, f := held()
	f.Attachment, f.DriverUID, f.Node.Status.NodeInfo.BootID = nil, "driver-2", "boot-2"
	f.Lock.Spec.DriverUID = "driver-1"
	f.Lock.Status.Release = &v1alpha1.VolumeRelease{Attachment: "va-1", Since: metav1.NewMicroTime(now.Add(-time.Hour)), BootID: "boot-1", Asked: &metav1.Time{Time: now}, Answers: 1}
	d := volumelock.Release(f)
	s := d.Write.(volumelock.Note).Status
	if s.DriverUID == nil || *s.DriverUID != "driver-2" || s.UngatedBootID != v1alpha1.BootUnknown || len(s.Conditions) > 0 || !d.Alarm {
		t.Errorf("%+v: %+v", d, s)
	}
	if r := s.Release; r.BootID != "" || r.Asked != nil || r.Answers != 0 || !r.Since.Time.Equal(now) || r.Attachment != "va-1" {
		t.Errorf("the release is %+v", r)
	}
	if f.Lock.Status.Release.Answers != 1 {
		t.Error("what was read is changed")
	}
	f.Lock.Status, f.Conflict = s, "attachRequired: false"
	d = volumelock.Release(f)
	if c := d.Write.(volumelock.Note).Status.Conditions; len(c) != 1 || c[0].Status != metav1.ConditionTrue || c[0].Message != f.Conflict || !d.Alarm {
		t.Errorf("%+v", d)
	}
}

// TestMarkPutBack: the annotation of a CSIDriver that somebody took away and put back changes nothing of a release, since kubelets asked all the while.
func TestMarkPutBack(t *testing.T) {
	_, f := held()
	f.Attachment, f.DriverUID, f.Conflict = nil, "driver-1", "was not adopted"
	f.Lock.Spec.DriverUID = "driver-1"
	f.Lock.Status.Release = &v1alpha1.VolumeRelease{Attachment: "va-1", Since: metav1.NewMicroTime(now.Add(-time.Hour)), BootID: "boot-1", Asked: &metav1.Time{Time: now}, Answers: 1}
	release := f.Lock.Status.Release.DeepCopy()
	for _, c := range []struct {
		conflict, code string
		alarm          bool
	}{{"was not adopted", "Conflict", true}, {"", "GatedAgain", false}} {
		f.Conflict = c.conflict
		d := volumelock.Release(f)
		f.Lock.Status = d.Write.(volumelock.Note).Status
		if s := f.Lock.Status; d.Reason.Code != c.code || d.Alarm != c.alarm || !reflect.DeepEqual(s.Release, release) || s.UngatedBootID != "" || s.DriverUID != nil {
			t.Errorf("%+v: %+v", d, s)
		}
	}
}

// TestBootThatNobodyHadHeardOf: a machine has booted when its driver is gated, and its status arrives later. What it has mounted without asking it does not list, so that it is the boot after
// that whose word counts. A history found it.
func TestBootThatNobodyHadHeardOf(t *testing.T) {
	_, f := held()
	f.Attachment, f.DriverUID, f.Node.Status.VolumesInUse = nil, "driver-2", nil
	f.Lock.Status.Release = &v1alpha1.VolumeRelease{Attachment: "va-1", Since: metav1.NewMicroTime(now), BootID: "boot-1"}
	seconds := 100
	decide := func() volumelock.Decision {
		seconds += 10
		f.Node.Status.Conditions[0].LastHeartbeatTime = metav1.NewTime(now.Add(time.Duration(seconds) * time.Second))
		d := volumelock.Release(f)
		switch w := d.Write.(type) {
		case volumelock.Note:
			f.Lock.Status = w.Status
		case volumelock.Ask:
			f.Node.Status.VolumesInUse = []corev1.UniqueVolumeName{w.Volumes[0]}
			d = volumelock.Release(f) // notes the heartbeat beside it
			f.Lock.Status = d.Write.(volumelock.Note).Status
			f.Node.Status.VolumesInUse = nil // the kubelet answers
		}
		return d
	}
	answers := func(boot, want string) {
		t.Helper()
		f.Node.Status.NodeInfo.BootID = boot
		var codes []string
		for range 8 {
			d := decide()
			codes = append(codes, d.Reason.Code)
			if d.Reason.Code == want {
				return
			}
		}
		t.Errorf("%s: %q, want %s", boot, codes, want)
	}
	answers("boot-1", "DriverMadeAnew")
	answers("boot-2", "MountedBefore")
	if got := f.Lock.Status.UngatedBootID; got != "boot-2" {
		t.Errorf("the boot that has no say is %s", got)
	}
	answers("boot-3", "Released")
}

// TestBootIsKnownWhileHeld: two heartbeats after the first of one boot say that it ran since the driver is gated; one does not, nor do those of two boots, nor of a clock that was set back.
func TestBootIsKnownWhileHeld(t *testing.T) {
	type status struct {
		boot string
		beat int
	}
	for name, c := range map[string]struct {
		seen []status
		want string
	}{
		"seen once":                {[]status{{"boot-1", 10}}, v1alpha1.BootUnknown},
		"seen again, the same":     {[]status{{"boot-1", 10}, {"boot-1", 10}, {"boot-1", 10}}, v1alpha1.BootUnknown},
		"one later":                {[]status{{"boot-1", 10}, {"boot-1", 20}}, v1alpha1.BootUnknown},
		"two later":                {[]status{{"boot-1", 10}, {"boot-1", 20}, {"boot-1", 30}}, "boot-1"},
		"another boot between":     {[]status{{"boot-1", 10}, {"boot-1", 20}, {"boot-2", 25}, {"boot-1", 30}}, v1alpha1.BootUnknown},
		"another boot, twice":      {[]status{{"boot-1", 10}, {"boot-1", 20}, {"boot-2", 5}, {"boot-2", 6}, {"boot-2", 7}}, "boot-2"},
		"a clock that is set back": {[]status{{"boot-1", 10}, {"boot-1", 20}, {"boot-1", 5}, {"boot-1", 30}}, v1alpha1.BootUnknown},
		"no boot":                  {[]status{{"", 10}, {"", 20}, {"", 30}}, v1alpha1.BootUnknown},
	} {
		for _, adopted := range []bool{false, true} {
			_, f := held()
			if f.Lock.Spec.Adopted = adopted; !adopted {
				f.Lock.Status.UngatedBootID = v1alpha1.BootUnknown
			} else if c.want == v1alpha1.BootUnknown {
				c.want = ""
			}
			for _, s := range c.seen {
				f.Node = node("n1", s.beat, volumelock.InUseName(nfs, "handle"))
				f.Node.Status.NodeInfo.BootID = s.boot
				if w, is := volumelock.Release(f).Write.(volumelock.Note); is {
					f.Lock.Status = w.Status
				}
			}
			if got := f.Lock.Status.UngatedBootID; got != c.want {
				t.Errorf("%s: %q, want %q", name, got, c.want)
			}
			if c.want != "" && c.want != v1alpha1.BootUnknown {
				f.Attachment = nil
				s := volumelock.Release(f).Write.(volumelock.Note).Status
				if s.Release.BootID != c.want || s.Heard != nil {
					t.Errorf("%s: a receipt for %q counts: %+v", name, s.Release.BootID, s)
				}
			}
		}
	}
}

// TestBootOfWhatWasAdopted: no receipt for a boot releases what was adopted before a kubelet has said which boot runs.
func TestBootOfWhatWasAdopted(t *testing.T) {
	for adopted, want := range map[bool]string{false: "boot-1", true: ""} {
		_, f := held()
		f.Attachment, f.Lock.Spec.Adopted = nil, adopted
		f.Lock.Status.Heard = &v1alpha1.HeardBoot{BootID: "boot-1", Heartbeat: f.Node.Status.Conditions[0].LastHeartbeatTime}
		if got := volumelock.Release(f).Write.(volumelock.Note).Status.Release.BootID; got != want {
			t.Errorf("adopted %t: a receipt for %q counts, want %q", adopted, got, want)
		}
	}
}

func TestRelease(t *testing.T) {
	beat := func(s int) *metav1.Time { return &metav1.Time{Time: now.Add(time.Duration(s) * time.Second)} }
	// deleted: its deletion is noted, and the kubelet does not list the volume.
	deleted := func(f *volumelock.ReleaseFacts) {
		f.Attachment, f.Node.Status.VolumesInUse = nil, nil
		f.Lock.Status.Release = &v1alpha1.VolumeRelease{Attachment: "va-1", Since: metav1.NewMicroTime(now), BootID: "boot-1"}
	}
	after := func(change func(*volumelock.ReleaseFacts)) func(*volumelock.ReleaseFacts) {
		return func(f *volumelock.ReleaseFacts) { deleted(f); change(f) }
	}
	with := func(all ...v1alpha1.FenceReceipt) func(*volumelock.ReleaseFacts) {
		return after(func(f *volumelock.ReleaseFacts) {
			f.Receipts, f.Node.Status.Conditions[0].Status = all, corev1.ConditionUnknown
		})
	}
	void := v1alpha1.FenceReceipt{Spec: v1alpha1.FenceReceiptSpec{Class: v1alpha1.EvidenceVoid, Voids: "r", Node: &v1alpha1.BootReference{Name: "n1", UID: "node-1", BootID: "boot-1"}}}
	for name, c := range map[string]struct {
		change func(*volumelock.ReleaseFacts)
		reason string
		write  string
	}{
		"attached":                              {func(*volumelock.ReleaseFacts) {}, "InUse", ""},
		"attached, and the Node is gone":        {func(f *volumelock.ReleaseFacts) { f.Node = nil }, "NodeGoneAttached", "note"},
		"withdrawn, and the Node is gone":       {func(f *volumelock.ReleaseFacts) { f.Node, f.Attachment.Status.Attached = nil, false }, "NodeGoneAttached", "delete the VolumeAttachment"},
		"withdrawn, and the Node was made anew": {func(f *volumelock.ReleaseFacts) { f.Node.UID, f.Attachment.Status.Attached = "node-9", false }, "NodeGoneAttached", "delete the VolumeAttachment"},
		"adopted, its Node is gone, and a new one of the name waits": {func(f *volumelock.ReleaseFacts) {
			f.Lock.Spec.Adopted, f.Lock.Spec.Attachment.UID, f.Node.UID, f.Attachment.Status.Attached = true, "", "node-9", false
		}, "Deleted", "note"},
		"adopted, its Node is gone, and a new one of the name is attached": {func(f *volumelock.ReleaseFacts) {
			f.Lock.Spec.Adopted, f.Lock.Spec.Attachment.UID, f.Node.UID = true, "", "node-9"
		}, "NodeGoneAttached", "note"},
		"not attached yet":               {func(f *volumelock.ReleaseFacts) { f.Attachment.Status.Attached = false }, "InUse", ""},
		"attached, and the Node is back": {func(f *volumelock.ReleaseFacts) { f.Lock.Status.Message = "x" }, "InUse", "note"},
		"attached, and fenced": {func(f *volumelock.ReleaseFacts) {
			f.Receipts = []v1alpha1.FenceReceipt{receipt(v1alpha1.EvidencePoweredOff, "node-1", "boot-1")}
		}, "InUse", ""},
		"deleted":             {func(f *volumelock.ReleaseFacts) { f.Attachment.DeletionTimestamp = &metav1.Time{Time: now} }, "Deleted", "note"},
		"gone":                {func(f *volumelock.ReleaseFacts) { f.Attachment = nil }, "Deleted", "note"},
		"another of the name": {func(f *volumelock.ReleaseFacts) { f.Attachment.UID = "va-9" }, "Deleted", "note"},
		"asked":               {deleted, "Asked", "ask"},
		"asked, and listed": {after(func(f *volumelock.ReleaseFacts) {
			f.Node.Status.VolumesInUse = []corev1.UniqueVolumeName{volumelock.InUseName(nfs, "handle")}
		}), "Asked", "note"},
		"no answer yet": {after(func(f *volumelock.ReleaseFacts) {
			f.Node = node("n1", 200, volumelock.InUseName(nfs, "handle"))
			f.Lock.Status.Release.Asked = beat(100)
		}), "StillInUse", "note"},
		"a first answer": {after(func(f *volumelock.ReleaseFacts) { f.Node = node("n1", 110); f.Lock.Status.Release.Asked = beat(100) }), "Asked", "note"},
		"a second one": {after(func(f *volumelock.ReleaseFacts) {
			f.Node = node("n1", 110)
			f.Lock.Status.Release.Asked, f.Lock.Status.Release.Answers = beat(100), 1
		}), "Released", "release the volume by Kubelet"},
		"one with the heartbeat of before": {after(func(f *volumelock.ReleaseFacts) {
			f.Node = node("n1", 100)
			f.Lock.Status.Release.Asked, f.Lock.Status.Release.Answers = beat(100), 1
		}), "Asked", "note"},
		"a silent node": {after(func(f *volumelock.ReleaseFacts) {
			f.Node = node("n1", 100, volumelock.InUseName(nfs, "handle"))
			f.Node.Status.Conditions[0].Status, f.Lock.Status.Release.Asked = corev1.ConditionUnknown, beat(100)
		}), "NodeSilent", "note"},
		"a silent node of which no boot is known": {after(func(f *volumelock.ReleaseFacts) {
			f.Node = node("n1", 100, volumelock.InUseName(nfs, "handle"))
			f.Lock.Spec.Adopted, f.Lock.Status.Heard = true, &v1alpha1.HeardBoot{BootID: "boot-1", Heartbeat: *beat(100)}
			f.Node.Status.Conditions[0].Status, f.Lock.Status.Release.Asked = corev1.ConditionUnknown, beat(100)
		}), "NodeSilentUngated", "note"},
		"detached by force from a silent node of which no boot is known": {after(func(f *volumelock.ReleaseFacts) {
			f.Lock.Spec.Adopted, f.Lock.Status.Heard = true, &v1alpha1.HeardBoot{BootID: "boot-1", Heartbeat: *beat(100)}
			f.Lock.Status.DistrustedBootID, f.Node.Status.Conditions[0].Status = "boot-1", corev1.ConditionUnknown
		}), "NodeSilentUngated", "note"},
		"the taint out-of-service is no evidence": {after(func(f *volumelock.ReleaseFacts) {
			f.Node = node("n1", 100, volumelock.InUseName(nfs, "handle"))
			f.Node.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeOutOfService, Effect: corev1.TaintEffectNoExecute}}
			f.Node.Status.Conditions[0].Status, f.Lock.Status.Release.Asked = corev1.ConditionUnknown, beat(100)
		}), "NodeSilent", "note"},
		"detached by force": {after(func(f *volumelock.ReleaseFacts) { f.Lock.Status.DistrustedBootID = "boot-1" }), "DetachedByForce", "note"},
		"detached by force, and booted since": {after(func(f *volumelock.ReleaseFacts) {
			f.Lock.Status.DistrustedBootID, f.Node.Status.NodeInfo.BootID = "boot-1", "boot-2"
		}), "Asked", "ask"},
		"booted since":            {after(func(f *volumelock.ReleaseFacts) { silent(f); f.Node.Status.NodeInfo.BootID = "boot-2" }), "NodeBooted", "note"},
		"booted since, and ready": {after(func(f *volumelock.ReleaseFacts) { f.Node.Status.NodeInfo.BootID = "boot-2" }), "Asked", "ask"},
		"another Node booted": {after(func(f *volumelock.ReleaseFacts) {
			silent(f)
			f.Node.UID, f.Node.Status.NodeInfo.BootID = "node-9", "boot-2"
		}), "NodeMadeAnew", "note"},
		"booted since, and it is not known which may have mounted without asking": {after(func(f *volumelock.ReleaseFacts) {
			silent(f)
			f.Node.Status.NodeInfo.BootID, f.Lock.Status.UngatedBootID = "boot-2", v1alpha1.BootUnknown
		}), "Listening", "note"},
		"booted since, and it is known which may have mounted without asking": {after(func(f *volumelock.ReleaseFacts) {
			silent(f)
			f.Node.Status.NodeInfo.BootID, f.Lock.Status.UngatedBootID = "boot-2", "boot-0"
		}), "Asked", "ask"},
		"off, and booted since": {after(func(f *volumelock.ReleaseFacts) {
			f.Receipts, f.Node.Status.NodeInfo.BootID = []v1alpha1.FenceReceipt{receipt(v1alpha1.EvidencePoweredOff, "node-1", "boot-1")}, "boot-2"
		}), "Released", "release the volume by Receipt"},
		"confirmed, and booted since": {after(func(f *volumelock.ReleaseFacts) {
			f.Lock.Annotations = map[string]string{v1alpha1.AnnotationConfirmRelease: volumelock.Confirmation(f.Lock)}
			f.Node.Status.NodeInfo.BootID = "boot-2"
		}), "Released", "release the volume by Confirmed"},
		"adopted, not heard of, and deleted": {func(f *volumelock.ReleaseFacts) { f.Attachment, f.Lock.Spec.Adopted = nil, true }, "Deleted", "note"},
		"adopted, not heard of, and confirmed": {after(func(f *volumelock.ReleaseFacts) {
			f.Lock.Spec.Adopted = true
			f.Lock.Annotations = map[string]string{v1alpha1.AnnotationConfirmRelease: volumelock.Confirmation(f.Lock)}
		}), "Released", "release the volume by Confirmed"},
		"adopted, and not heard of yet": {after(func(f *volumelock.ReleaseFacts) { f.Lock.Spec.Adopted = true }), "Listening", "note"},
		"adopted": {after(func(f *volumelock.ReleaseFacts) {
			f.Lock.Spec.Adopted, f.Lock.Status.Heard = true, &v1alpha1.HeardBoot{BootID: "boot-1", Heartbeat: *beat(100)}
		}), "Asked", "ask"},
		"adopted, and answered": {after(func(f *volumelock.ReleaseFacts) {
			f.Node, f.Lock.Spec.Adopted, f.Lock.Status.Heard = node("n1", 110), true, &v1alpha1.HeardBoot{BootID: "boot-1", Heartbeat: *beat(110)}
			f.Lock.Status.Release.Asked, f.Lock.Status.Release.Answers = beat(100), 1
		}), "MountedBefore", "note"},
		"adopted, and known which boot": {after(func(f *volumelock.ReleaseFacts) { f.Lock.Spec.Adopted, f.Lock.Status.UngatedBootID = true, "boot-1" }), "MountedBefore", "note"},
		"adopted, and booted since":     {after(func(f *volumelock.ReleaseFacts) { f.Lock.Spec.Adopted, f.Lock.Status.UngatedBootID = true, "boot-0" }), "Asked", "ask"},
		"the Node is gone":              {after(func(f *volumelock.ReleaseFacts) { f.Node = nil }), "NodeGone", "note"},
		"the Node was made anew":        {after(func(f *volumelock.ReleaseFacts) { f.Node.UID = "node-9" }), "NodeMadeAnew", "note"},
		"not gated any more":            {func(f *volumelock.ReleaseFacts) { f.Conflict = "attachRequired: false" }, "Conflict", "note"},
		"not gated any more, and told":  {func(f *volumelock.ReleaseFacts) { conflict(f) }, "InUse", ""},
		"gated again":                   {func(f *volumelock.ReleaseFacts) { conflict(f); f.Conflict = "" }, "GatedAgain", "note"},
		"the CSIDriver was made anew":   {func(f *volumelock.ReleaseFacts) { f.DriverUID = "driver-2" }, "DriverMadeAnew", "note"},
		"answered, and not gated": {after(func(f *volumelock.ReleaseFacts) {
			f.Node = node("n1", 110)
			f.Lock.Status.Release.Asked, f.Lock.Status.Release.Answers = beat(100), 1
			conflict(f)
		}), "Conflict", "note"},
		"off, and not gated":        {both(with(receipt(v1alpha1.EvidencePoweredOff, "node-1", "boot-1")), conflict), "Conflict", "note"},
		"terminated, and not gated": {both(with(receipt(v1alpha1.EvidenceInstanceTerminated, "node-1", "boot-1")), conflict), "Released", "release the volume by Receipt"},
		"confirmed, and not gated": {after(func(f *volumelock.ReleaseFacts) {
			f.Lock.Annotations = map[string]string{v1alpha1.AnnotationConfirmRelease: volumelock.Confirmation(f.Lock)}
			conflict(f)
		}), "Conflict", "note"},
		"may have mounted without asking":                   {after(func(f *volumelock.ReleaseFacts) { f.Lock.Status.UngatedBootID = "boot-1" }), "MountedBefore", "note"},
		"may have mounted without asking, and booted since": {after(func(f *volumelock.ReleaseFacts) { f.Lock.Status.UngatedBootID = "boot-0" }), "Asked", "ask"},
		"the lock was made by hand":                         {after(func(f *volumelock.ReleaseFacts) { f.Lock.Spec.Volume = "other" }), "NotOurs", ""},

		"off":                 {with(receipt(v1alpha1.EvidencePoweredOff, "node-1", "boot-1")), "Released", "release the volume by Receipt"},
		"confirmed to be off": {with(receipt(v1alpha1.EvidenceConfirmed, "node-1", "boot-1")), "Released", "release the volume by Receipt"},
		"off, and ready again": {after(func(f *volumelock.ReleaseFacts) {
			f.Receipts = []v1alpha1.FenceReceipt{receipt(v1alpha1.EvidencePoweredOff, "node-1", "boot-1")}
		}), "Asked", "ask"},
		"off, and heard of since": {after(func(f *volumelock.ReleaseFacts) {
			f.Receipts = []v1alpha1.FenceReceipt{receipt(v1alpha1.EvidencePoweredOff, "node-1", "boot-1")}
			f.Receipts[0].Spec.LastSign = guard.ConfirmOff(f.Node, nil)
			f.Node.Status.Conditions[0].Status, f.Node.Status.Conditions[0].LastHeartbeatTime = corev1.ConditionUnknown, metav1.NewTime(now.Add(time.Hour))
		}), "Asked", "ask"},
		"off, and not heard of since": {after(func(f *volumelock.ReleaseFacts) {
			f.Receipts = []v1alpha1.FenceReceipt{receipt(v1alpha1.EvidencePoweredOff, "node-1", "boot-1")}
			f.Receipts[0].Spec.LastSign = guard.ConfirmOff(f.Node, nil) + "2026-11-20T12:00:00.000000Z"
			f.Node.Status.Conditions[0].Status = corev1.ConditionUnknown
		}), "Released", "release the volume by Receipt"},
		"off, of another boot":      {with(receipt(v1alpha1.EvidencePoweredOff, "node-1", "boot-0")), "Asked", "ask"},
		"off, and void":             {with(receipt(v1alpha1.EvidencePoweredOff, "node-1", "boot-1"), void), "Asked", "ask"},
		"terminated":                {with(receipt(v1alpha1.EvidenceInstanceTerminated, "node-1", "boot-0")), "Released", "release the volume by Receipt"},
		"storage revoked":           {with(receipt(v1alpha1.EvidenceStorageRevoked, "node-1", "boot-1", "x", "pv")), "Released", "release the volume by StorageRevoked"},
		"other storage revoked":     {with(receipt(v1alpha1.EvidenceStorageRevoked, "node-1", "boot-1", "x")), "Asked", "ask"},
		"revoked from another boot": {with(receipt(v1alpha1.EvidenceStorageRevoked, "node-1", "boot-0", "pv")), "Asked", "ask"},
		"a pod's receipt":           {with(v1alpha1.FenceReceipt{Spec: v1alpha1.FenceReceiptSpec{Pod: &v1alpha1.PodReference{UID: "p"}}}), "Asked", "ask"},
		"off, and there was no Node": {after(func(f *volumelock.ReleaseFacts) {
			f.Node, f.Lock.Status.Release.BootID = nil, ""
			f.Receipts = []v1alpha1.FenceReceipt{receipt(v1alpha1.EvidencePoweredOff, "node-1", "boot-1")}
		}), "NodeGone", "note"},
		"terminated, and there was no Node": {after(func(f *volumelock.ReleaseFacts) {
			f.Node, f.Lock.Status.Release.BootID = nil, ""
			f.Receipts = []v1alpha1.FenceReceipt{receipt(v1alpha1.EvidenceInstanceTerminated, "node-1", "boot-1")}
		}), "Released", "release the volume by Receipt"},

		"confirmed by a person": {after(func(f *volumelock.ReleaseFacts) {
			f.Lock.Annotations = map[string]string{v1alpha1.AnnotationConfirmRelease: volumelock.Confirmation(f.Lock)}
		}), "Released", "release the volume by Confirmed"},
		"confirmed before": {after(func(f *volumelock.ReleaseFacts) {
			f.Lock.Annotations = map[string]string{v1alpha1.AnnotationConfirmRelease: volumelock.Confirmation(f.Lock)}
			f.Lock.Status.Release.Since = metav1.NewMicroTime(now.Add(time.Second))
		}), "Asked", "ask"},
	} {
		_, f := held()
		c.change(&f)
		d := volumelock.Release(f)
		write := ""
		if d.Write != nil {
			write = d.Write.String()
		}
		if d.Reason.Code != c.reason || !strings.HasPrefix(write, c.write) || c.write == "" && write != "" {
			t.Errorf("%s: %s %q, writes %q", name, d.Reason.Code, d.Message, write)
		}
	}
}

// TestBootedSince: the boot that the node has had last is the one that a receipt has to be about, and the release is the same one: what a person confirmed of it holds.
func TestBootedSince(t *testing.T) {
	_, f := held()
	silent(&f)
	f.Attachment, f.Node.Status.NodeInfo.BootID = nil, "boot-2"
	f.Lock.Status.Release = &v1alpha1.VolumeRelease{Attachment: "va-1", Since: metav1.NewMicroTime(now), BootID: "boot-1", Asked: &metav1.Time{Time: now}, Answers: 1}
	was := f.Lock.DeepCopy()
	if note, ok := volumelock.Release(f).Write.(volumelock.Note); ok {
		f.Lock.Status = note.Status
	}
	was.Status.Release.BootID = "boot-2"
	if !reflect.DeepEqual(f.Lock, was) {
		t.Errorf("%+v", f.Lock.Status)
	}
	f.Receipts = []v1alpha1.FenceReceipt{receipt(v1alpha1.EvidencePoweredOff, "node-1", "boot-2")}
	if d := volumelock.Release(f); d.Reason.Code != "Released" {
		t.Errorf("%+v", d)
	}
}

// TestDistrust: a boot from which the volume may have been detached by force is noted, also where that was while nobody looked.
func TestDistrust(t *testing.T) {
	ready := func(since time.Time) *v1alpha1.ReadyPeriod {
		return &v1alpha1.ReadyPeriod{BootID: "boot-1", Since: metav1.NewTime(since)}
	}
	for name, c := range map[string]struct {
		change func(*volumelock.ReleaseFacts)
		want   string
	}{
		"ready since it took the volume": {func(f *volumelock.ReleaseFacts) { f.Lock.Spec.ReadySince = new(metav1.NewTime(now)) }, ""},
		"ready since it was last seen":   {func(f *volumelock.ReleaseFacts) { f.Lock.Status.Ready = ready(now) }, ""},
		"it was not ready meanwhile":     {func(f *volumelock.ReleaseFacts) { f.Lock.Status.Ready = ready(now.Add(-time.Hour)) }, "boot-1"},
		"of another boot": {func(f *volumelock.ReleaseFacts) {
			f.Lock.Status.Ready, f.Node.Status.NodeInfo.BootID = ready(now), "boot-2"
		}, "boot-2"},
		"nobody knows": {func(*volumelock.ReleaseFacts) {}, "boot-1"},
		"it is not ready": {func(f *volumelock.ReleaseFacts) {
			f.Lock.Status.Ready, f.Node.Status.Conditions[0].Status = ready(now), corev1.ConditionUnknown
		}, "boot-1"},
		"out of service": {func(f *volumelock.ReleaseFacts) {
			f.Lock.Status.Ready, f.Node.Spec.Taints = ready(now), []corev1.Taint{{Key: corev1.TaintNodeOutOfService, Effect: corev1.TaintEffectNoExecute}}
		}, "boot-1"},
		"listed": {func(f *volumelock.ReleaseFacts) {
			f.Lock.Status.Ready, f.Node.Status.VolumesInUse = ready(now), []corev1.UniqueVolumeName{volumelock.InUseName(nfs, "handle")}
		}, "boot-1"},
		"it stays": {func(f *volumelock.ReleaseFacts) {
			f.Lock.Status.Ready, f.Lock.Status.DistrustedBootID = ready(now), "boot-0"
		}, "boot-0"},
	} {
		_, f := held()
		f.Attachment, f.Node.Status.VolumesInUse = nil, nil
		c.change(&f)
		d := volumelock.Release(f)
		note, ok := d.Write.(volumelock.Note)
		if !ok || note.Status.Release == nil || note.Status.DistrustedBootID != c.want {
			t.Errorf("%s: %+v", name, d)
		}
	}
}

// TestWitness: since when the node is ready is noted only while nobody has begun to detach the volume from it.
func TestWitness(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*corev1.Node, *v1alpha1.VolumeLock)
		notes  bool
	}{
		"attached": {func(*corev1.Node, *v1alpha1.VolumeLock) {}, true},
		"known": {func(_ *corev1.Node, l *v1alpha1.VolumeLock) {
			l.Status.Ready = &v1alpha1.ReadyPeriod{BootID: "boot-1", Since: metav1.NewTime(now)}
		}, false},
		"begun to be detached": {func(n *corev1.Node, _ *v1alpha1.VolumeLock) { n.Status.VolumesAttached = nil }, false},
		"not ready":            {func(n *corev1.Node, _ *v1alpha1.VolumeLock) { n.Status.Conditions[0].Status = corev1.ConditionFalse }, false},
		"out of service": {func(n *corev1.Node, _ *v1alpha1.VolumeLock) {
			n.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeOutOfService, Effect: corev1.TaintEffectNoExecute}}
		}, false},
	} {
		f, _ := held()
		f.Node.Status.VolumesAttached = []corev1.AttachedVolume{{Name: volumelock.InUseName(nfs, "handle")}}
		c.change(f.Node, f.Lock)
		d := volumelock.Attach(f)
		note, ok := d.Write.(volumelock.Note)
		if ok != c.notes || ok && (note.Status.Ready == nil || note.Status.Ready.BootID != "boot-1") {
			t.Errorf("%s: %+v", name, d)
		}
	}
}

// TestAskedTogether: of a node's volumes those that are to be asked about are put into its list by one write, and no others.
func TestAskedTogether(t *testing.T) {
	_, f := held()
	release := func(l *v1alpha1.VolumeLock) {
		l.Status.Release = &v1alpha1.VolumeRelease{Attachment: volumelock.Holder(l).UID}
	}
	release(f.Lock)
	f.Attachment, f.Node.Status.VolumesInUse = nil, nil
	for name, change := range map[string]func(*v1alpha1.VolumeLock){
		"another":         release,
		"one more":        release,
		"held":            func(*v1alpha1.VolumeLock) {},
		"asked about":     func(l *v1alpha1.VolumeLock) { release(l); l.Status.Release.Asked = &metav1.Time{Time: now} },
		"of another Node": func(l *v1alpha1.VolumeLock) { release(l); l.Spec.Node.UID = "node-9" },
		"by force":        func(l *v1alpha1.VolumeLock) { release(l); l.Status.DistrustedBootID = "boot-1" },
		"by hand":         func(l *v1alpha1.VolumeLock) { release(l); l.Spec.Volume = "other" },
	} {
		l := f.Lock.DeepCopy()
		l.Spec.Volume, l.Spec.VolumeHandle, l.Status.Release = name, name, nil
		l.Name = volumelock.Volume{Driver: l.Spec.Driver, Identity: l.Spec.Identity, Key: l.Spec.Volume}.LockName()
		change(l)
		f.Beside = append(f.Beside, *l)
	}
	f.Beside = append(f.Beside, *f.Lock)
	ask, ok := volumelock.Release(f).Write.(volumelock.Ask)
	want := []corev1.UniqueVolumeName{volumelock.InUseName(nfs, "handle"), volumelock.InUseName(nfs, "another"), volumelock.InUseName(nfs, "one more")}
	if !ok || !slices.Equal(ask.Volumes, want) {
		t.Errorf("asks about %s", ask.Volumes)
	}
}
