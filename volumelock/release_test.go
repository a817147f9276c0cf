package volumelock_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/volumelock"
)

func receipt(class v1alpha1.EvidenceClass, uid, boot string, volumes ...string) v1alpha1.FenceReceipt {
	return v1alpha1.FenceReceipt{ObjectMeta: metav1.ObjectMeta{Name: "r"}, Spec: v1alpha1.FenceReceiptSpec{Class: class, Volumes: volumes, Node: &v1alpha1.BootReference{Name: "n1", UID: types.UID(uid), BootID: boot}}}
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
		"attached": {func(*volumelock.ReleaseFacts) {}, "InUse", ""},
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
		"the taint out-of-service is no evidence": {after(func(f *volumelock.ReleaseFacts) {
			f.Node = node("n1", 100, volumelock.InUseName(nfs, "handle"))
			f.Node.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeOutOfService, Effect: corev1.TaintEffectNoExecute}}
			f.Node.Status.Conditions[0].Status, f.Lock.Status.Release.Asked = corev1.ConditionUnknown, beat(100)
		}), "NodeSilent", "note"},
		"detached by force": {after(func(f *volumelock.ReleaseFacts) { f.Lock.Status.Release.Forced = true }), "DetachedByForce", "note"},
		"detached by force, and booted since": {after(func(f *volumelock.ReleaseFacts) {
			f.Lock.Status.Release.Forced, f.Node.Status.NodeInfo.BootID = true, "boot-2"
		}), "Asked", "ask"},
		"adopted":                   {after(func(f *volumelock.ReleaseFacts) { f.Lock.Spec.Adopted = true }), "MountedBefore", "note"},
		"adopted, and booted since": {after(func(f *volumelock.ReleaseFacts) { f.Lock.Spec.Adopted, f.Node.Status.NodeInfo.BootID = true, "boot-2" }), "Asked", "ask"},
		"the Node is gone":          {after(func(f *volumelock.ReleaseFacts) { f.Node = nil }), "NodeGone", "note"},
		"the Node was made anew":    {after(func(f *volumelock.ReleaseFacts) { f.Node.UID = "node-9" }), "NodeGone", "note"},
		"the lock was made by hand": {after(func(f *volumelock.ReleaseFacts) { f.Lock.Spec.Volume = "other" }), "NotOurs", ""},

		"off":                       {with(receipt(v1alpha1.EvidencePoweredOff, "node-1", "boot-1")), "Released", "release the volume by Receipt"},
		"confirmed to be off":       {with(receipt(v1alpha1.EvidenceConfirmed, "node-1", "boot-1")), "Released", "release the volume by Receipt"},
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
