package volumelock_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/volumelock"
)

const nfs = "nfs.csi.k8s.io"

var now = time.Date(2026, 11, 26, 2, 30, 0, 0, time.UTC)

// held is what Attach finds of a volume that node n1 holds by the VolumeAttachment va, and how Release finds it.
func held() (volumelock.AttachFacts, volumelock.ReleaseFacts) {
	pv := volume(nfs, "handle", "server", "filer", "share", "/srv")
	v, _ := volumelock.VolumeOf(pv)
	lock := &v1alpha1.VolumeLock{ObjectMeta: metav1.ObjectMeta{Name: v.LockName(), UID: "lock", CreationTimestamp: metav1.NewTime(now.Add(-time.Hour))}, Spec: v1alpha1.VolumeLockSpec{
		Driver: v.Driver, Volume: v.Key, Identity: v.Identity, PersistentVolume: "pv", VolumeHandle: "handle",
		Node: v1alpha1.BootReference{Name: "n1", UID: "node-1", BootID: "boot-1"}, Attachment: v1alpha1.AttachmentReference{Name: volumelock.AttachmentName(nfs, "handle", "n1"), UID: "va-1"}}}
	a := &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: lock.Spec.Attachment.Name, UID: "va-1", CreationTimestamp: metav1.NewTime(now.Add(-time.Hour)), Finalizers: []string{v1alpha1.FinalizerVolumeLock},
			Annotations: map[string]string{v1alpha1.AnnotationVolumeLock: v.LockName()}},
		Spec:   storagev1.VolumeAttachmentSpec{Attacher: nfs, NodeName: "n1", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: new("pv")}},
		Status: storagev1.VolumeAttachmentStatus{Attached: true},
	}
	n := node("n1", 100, volumelock.InUseName(nfs, "handle"))
	return volumelock.AttachFacts{Lock: lock, Attachment: a, Volume: pv, Node: n, Now: now}, volumelock.ReleaseFacts{Lock: lock, Attachment: a, Node: n, Now: now}
}

func node(name string, beat int, inUse ...corev1.UniqueVolumeName) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "node-1"}, Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{BootID: "boot-1"}, VolumesInUse: inUse,
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.NewTime(now.Add(time.Duration(beat) * time.Second)), LastTransitionTime: metav1.NewTime(now)}}}}
}

// fresh has the attachment as the attach/detach controller makes it.
func fresh(f *volumelock.AttachFacts) {
	f.Attachment.Finalizers, f.Attachment.Annotations, f.Attachment.Status.Attached = nil, nil, false
}

// of another node, n2.
func elsewhere(f *volumelock.AttachFacts) {
	fresh(f)
	f.Attachment.Name, f.Attachment.UID, f.Attachment.Spec.NodeName = volumelock.AttachmentName(nfs, "handle", "n2"), "va-2", "n2"
	f.Node = node("n2", 100, volumelock.InUseName(nfs, "handle"))
	f.Node.UID = "node-2"
}

// twin is a PersistentVolume with the handle of held's.
func twin(share string, mode corev1.PersistentVolumeAccessMode) []corev1.PersistentVolume {
	pv := volume(nfs, "handle", "server", "filer", "share", share)
	pv.Name, pv.Spec.AccessModes[0] = "twin", mode
	return []corev1.PersistentVolume{*pv}
}

func TestAttach(t *testing.T) {
	deleted := func(f *volumelock.AttachFacts) { f.Attachment.DeletionTimestamp = &metav1.Time{Time: now} }
	for name, c := range map[string]struct {
		change func(*volumelock.AttachFacts)
		reason string
		write  string // what is written begins so
		says   string
		alarm  bool
	}{
		"attached": {func(*volumelock.AttachFacts) {}, "Attached", "", "", false},
		"taken":    {func(f *volumelock.AttachFacts) { fresh(f); f.Lock = nil }, "Taken", "take", "", false},
		"the kubelet does not list it yet": {func(f *volumelock.AttachFacts) {
			fresh(f)
			f.Lock, f.Node.Status.VolumesInUse, f.Attachment.CreationTimestamp = nil, nil, metav1.NewTime(now)
		}, "NotReported", "", "does not say yet", false},
		"nor after a while":                       {func(f *volumelock.AttachFacts) { fresh(f); f.Lock, f.Node.Status.VolumesInUse = nil, nil }, "NotReported", "say attached: false", "", false},
		"finalizer first":                         {func(f *volumelock.AttachFacts) { fresh(f) }, "Attached", "put the finalizer", "", false},
		"then the status":                         {func(f *volumelock.AttachFacts) { f.Attachment.Status.Attached = false }, "Attached", "say attached: true", "", false},
		"another waits, and is told who holds it": {func(f *volumelock.AttachFacts) { elsewhere(f) }, "Held", "say attached: false", "volume pv is held by node n1 since 2026-11-26T01:30:00Z", false},
		"another waits for what the release waits for": {func(f *volumelock.AttachFacts) {
			elsewhere(f)
			f.Lock.Status.Message = "the node is not ready"
		}, "Held", "say attached: false", "the node is not ready", false},
		"another is attached by hand": {func(f *volumelock.AttachFacts) { elsewhere(f); f.Attachment.Status.Attached = true }, "SecondHolder", "say attached: false", "volume pv is held by node n1", true},
		"another is attached by hand again": {func(f *volumelock.AttachFacts) {
			elsewhere(f)
			f.Attachment.Status.Attached, f.Withdrawn = true, now.Add(-9*time.Second)
		}, "OtherAttacher", "", "somebody else sets status.attached", true},
		"another is attached by hand for long": {func(f *volumelock.AttachFacts) {
			elsewhere(f)
			f.Attachment.Status.Attached, f.Withdrawn = true, now.Add(-10*time.Second)
		}, "OtherAttacher", "say attached: false", "is held by node n1", true},
		"attached by another attacher, and nobody holds it": {func(f *volumelock.AttachFacts) { fresh(f); f.Lock, f.Attachment.Status.Attached = nil, true }, "OtherAttacher", "take", "somebody else sets status.attached", true},
		"attached by another attacher, and there is no Node": {func(f *volumelock.AttachFacts) {
			fresh(f)
			f.Lock, f.Node, f.Attachment.Status.Attached = nil, nil, true
		}, "NoNode", "say attached: false", "", true},
		"the lock was deleted by hand": {func(f *volumelock.AttachFacts) { f.Lock = nil }, "Retaken", "take", "", true},
		"the lock was made by hand":    {func(f *volumelock.AttachFacts) { elsewhere(f); f.Lock.Spec.Volume = "other" }, "NotOurs", "say attached: false", "", true},
		"its release was written by hand": {func(f *volumelock.AttachFacts) {
			f.Lock.Status.Release = &v1alpha1.VolumeRelease{Attachment: "va-1"}
			f.Attachment.Status.Attached = false
		}, "NotOurs", "say attached: false", "", true},
		"the Node was made anew":               {func(f *volumelock.AttachFacts) { f.Node.UID = "node-9" }, "NodeMadeAnew", "say attached: false", "", true},
		"the Node is gone":                     {func(f *volumelock.AttachFacts) { f.Node = nil }, "NoNode", "say attached: false", "", true},
		"the Node is gone, and the volume too": {func(f *volumelock.AttachFacts) { f.Node, f.Volume = nil, nil }, "NoNode", "say attached: false", "", true},
		"the Node was made anew, and wants it": {func(f *volumelock.AttachFacts) { fresh(f); f.Attachment.UID, f.Node.UID = "va-3", "node-9" }, "NodeMadeAnew", "say attached: false", "", false},
		"its node wants it again": {func(f *volumelock.AttachFacts) {
			fresh(f)
			f.Attachment.UID = "va-3"
			f.Lock.Status.Release = &v1alpha1.VolumeRelease{Attachment: "va-1"}
		}, "Again", "note", "", false},
		"its node wants it by another PersistentVolume": {func(f *volumelock.AttachFacts) {
			fresh(f)
			f.Volume.Spec.CSI.VolumeHandle = "other"
			f.Attachment.Name, f.Attachment.UID = volumelock.AttachmentName(nfs, "other", "n1"), "va-4"
		}, "SameVolume", "say attached: false", "", false},
		"deleted, and not noted": {deleted, "Deleting", "", "", false},
		"deleted, and noted": {func(f *volumelock.AttachFacts) {
			deleted(f)
			f.Lock.Status.Release = &v1alpha1.VolumeRelease{Attachment: "va-1"}
		}, "Deleting", "take the finalizer", "", false},
		"deleted, and never the holder": {func(f *volumelock.AttachFacts) { deleted(f); f.Attachment.UID = "va-0" }, "Deleting", "take the finalizer", "", false},
		"deleted, with a PersistentVolume that is gone": {func(f *volumelock.AttachFacts) {
			deleted(f)
			f.Volume = nil
			f.Lock.Status.Release = &v1alpha1.VolumeRelease{Attachment: "va-1"}
		}, "Deleting", "take the finalizer", "", false},
		"several nodes may":                  {func(f *volumelock.AttachFacts) { elsewhere(f); f.Volume.Spec.AccessModes[0] = corev1.ReadWriteMany }, "Shared", "say attached: true", "is held by node n1", false},
		"only one pod may":                   {func(f *volumelock.AttachFacts) { elsewhere(f); f.Volume.Spec.AccessModes[0] = corev1.ReadWriteOncePod }, "Held", "say attached: false", "", false},
		"the handle changed":                 {func(f *volumelock.AttachFacts) { f.Volume.Spec.CSI.VolumeAttributes["share"] = "/other" }, "VolumeChanged", "", "", false},
		"the handle changed while it waited": {func(f *volumelock.AttachFacts) { elsewhere(f); f.Lock = nil; f.Volume.Spec.CSI.VolumeHandle = "other" }, "VolumeChanged", "say attached: false", "", false},
		"the PersistentVolume was made anew while it waited": {func(f *volumelock.AttachFacts) {
			elsewhere(f)
			f.Lock, f.Volume.CreationTimestamp = nil, metav1.NewTime(f.Attachment.CreationTimestamp.Add(time.Second))
		}, "VolumeChanged", "say attached: false", "", false},
		"the PersistentVolume was made in the same second": {func(f *volumelock.AttachFacts) {
			fresh(f)
			f.Lock, f.Volume.CreationTimestamp = nil, f.Attachment.CreationTimestamp
		}, "Taken", "take", "", false},
		"the PersistentVolume was made anew, of what nobody holds": {func(f *volumelock.AttachFacts) {
			f.Lock, f.Volume.CreationTimestamp = nil, metav1.NewTime(now)
		}, "VolumeChanged", "say attached: false", "", true},
		"two exports by one handle": {func(f *volumelock.AttachFacts) {
			fresh(f)
			f.Lock, f.SameHandle = nil, twin("/other", corev1.ReadWriteOnce)
		}, "SameHandle", "say attached: false", "PersistentVolumes pv and twin have the same volumeHandle", false},
		"two exports by one handle, attached already": {func(f *volumelock.AttachFacts) { f.SameHandle = twin("/other", corev1.ReadWriteOnce) }, "SameHandle", "", "", true},
		"two exports by one handle, and another holds it": {func(f *volumelock.AttachFacts) {
			elsewhere(f)
			f.Attachment.Status.Attached, f.SameHandle = true, twin("/other", corev1.ReadWriteOnce)
		}, "SecondHolder", "say attached: false", "", true},
		"one export by one handle, for several nodes": {func(f *volumelock.AttachFacts) {
			fresh(f)
			f.Lock, f.SameHandle = nil, twin("/srv", corev1.ReadWriteMany)
		}, "SameHandle", "say attached: false", "", false},
		"one export by one handle": {func(f *volumelock.AttachFacts) {
			fresh(f)
			f.Lock, f.SameHandle = nil, twin("/srv", corev1.ReadWriteOncePod)
		}, "Taken", "take", "", false},
		"the volume is gone":                  {func(f *volumelock.AttachFacts) { fresh(f); f.Volume = nil }, "NotGated", "say attached: false", "there is no PersistentVolume pv", false},
		"no PersistentVolume":                 {func(f *volumelock.AttachFacts) { fresh(f); f.Attachment.Spec.Source.PersistentVolumeName = nil }, "NotGated", "say attached: false", "", false},
		"of another driver":                   {func(f *volumelock.AttachFacts) { fresh(f); f.Attachment.Spec.Attacher = "x" }, "NotGated", "say attached: false", "", false},
		"of a driver that attaches":           {func(f *volumelock.AttachFacts) { fresh(f); f.Conflict = "it has its own" }, "Conflict", "", "it has its own", false},
		"of a driver that nobody has adopted": {func(f *volumelock.AttachFacts) { fresh(f); f.Conflict, f.NotAdopted = "it was not adopted", true }, "Conflict", "say attached: false it was not adopted", "", false},
		"of a driver that nobody has adopted, a moment ago": {func(f *volumelock.AttachFacts) {
			fresh(f)
			f.Conflict, f.NotAdopted, f.Attachment.CreationTimestamp = "it was not adopted", true, metav1.NewTime(now)
		}, "Conflict", "", "", false},
		"of a driver that nobody has adopted, attached": {func(f *volumelock.AttachFacts) { f.Conflict, f.NotAdopted = "it was not adopted", true }, "Conflict", "", "", false},
		"of a driver that is being adopted now": {func(f *volumelock.AttachFacts) {
			fresh(f)
			f.Conflict, f.Told.Message = "it is being adopted", "it was not adopted"
			f.Attachment.Status.AttachError = &storagev1.VolumeError{Message: f.Told.Message, Time: metav1.NewTime(now.Add(-time.Minute))}
		}, "Conflict", "take back", "", false},
		"of a driver that attaches, and failed": {func(f *volumelock.AttachFacts) {
			fresh(f)
			f.Conflict = "it has its own"
			f.Attachment.Status.AttachError = &storagev1.VolumeError{Message: "no such volume", Time: metav1.NewTime(now.Add(-time.Minute))}
		}, "Conflict", "", "", false},
	} {
		f, _ := held()
		c.change(&f)
		d := volumelock.Attach(f)
		write := ""
		if d.Write != nil {
			write = d.Write.String()
		}
		if d.Reason.Code != c.reason || !strings.HasPrefix(write, c.write) || c.write == "" && write != "" || !strings.Contains(d.Message, c.says) || d.Alarm != c.alarm {
			t.Errorf("%s: %s %q, writes %q, alarm %t", name, d.Reason.Code, d.Message, write, d.Alarm)
		}
	}
}

// TestAgainUnnoted: a VolumeAttachment that is gone before its deletion was noted may have been detached by force, so that its kubelet is not trusted by that boot; what was adopted had none before.
func TestAgainUnnoted(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		release *v1alpha1.VolumeRelease
		before  types.UID
		want    string
	}{
		"noted":   {&v1alpha1.VolumeRelease{Attachment: "va-1"}, "va-1", ""},
		"unnoted": {nil, "va-1", "boot-1"},
		"adopted": {nil, "", ""},
	} {
		f, _ := held()
		fresh(&f)
		f.Lock.Status.Release, f.Lock.Spec.Attachment.UID, f.Lock.Spec.Adopted, f.Attachment.UID = c.release, c.before, c.before == "", "va-3"
		if note, ok := volumelock.Attach(f).Write.(volumelock.Note); !ok || note.Status.DistrustedBootID != c.want {
			t.Errorf("%s: %+v", name, note)
		}
	}
}

// TestTakenBack: what an attachment waits for is said, and taken back once it was heard. It is said again when it is something else, but not at once, and now and then.
func TestTakenBack(t *testing.T) {
	f, _ := held()
	elsewhere(&f)
	f.Attachment.CreationTimestamp = metav1.NewTime(now)
	for i, c := range []struct {
		after int // seconds since the attachment was made
		write string
		next  time.Duration // when to look again, where nothing is written
	}{
		{after: 39, next: time.Second},
		{after: 40, write: "say attached: false volume pv is held by node n1 since 2026-11-26T01:30:00Z"},
		{after: 40, next: 10 * time.Second},
		{after: 49, next: time.Second},
		{after: 50, write: "take back"},
		{after: 50, next: 9*time.Minute + 50*time.Second},
		{after: 60, next: 100 * time.Second}, // what it waits for has changed
		{after: 160, write: "say attached: false volume pv is held by node n1"},
		{after: 165, next: 5 * time.Second},
		{after: 170, write: "take back"},
		{after: 759, next: time.Second},
		{after: 760, write: "say attached: false volume pv is held by node n1"},
		{after: 750, write: "take back"}, // by a clock that was set back, or another one's
		{after: 750, write: "say attached: false volume pv is held by node n1"},
	} {
		if i == 6 {
			f.Lock.Status.Message = "the node is not ready"
		}
		f.Now = now.Add(time.Duration(c.after) * time.Second)
		d := volumelock.Attach(f)
		wrote := ""
		if say, ok := d.Write.(volumelock.Say); ok {
			wrote, f.Attachment.Status.AttachError = say.String(), nil
			if say.Error != "" {
				f.Attachment.Status.AttachError, f.Told = &storagev1.VolumeError{Time: metav1.NewTime(f.Now), Message: say.Error}, volumelock.Refusal{Message: say.Error, At: f.Now}
			}
		}
		if d.Reason.Code != "Held" || !strings.HasPrefix(wrote, c.write) || (wrote == "") != (c.write == "") || wrote == "" && d.After != c.next {
			t.Errorf("%d, after %d s: %s, writes %q, again after %s", i, c.after, d.Reason.Code, wrote, d.After)
		}
	}
}

// TestKeptForTheKubelet: a deleted VolumeAttachment is kept for a minute, for the kubelet to answer, only where nobody comes back to its node and the answer counts; and never once it is released.
func TestKeptForTheKubelet(t *testing.T) {
	taint := func(key string) func(*volumelock.AttachFacts) {
		return func(f *volumelock.AttachFacts) { f.Node.Spec.Taints = []corev1.Taint{{Key: key}} }
	}
	cordoned := func(change func(*volumelock.AttachFacts)) func(*volumelock.AttachFacts) {
		return func(f *volumelock.AttachFacts) { f.Node.Spec.Unschedulable = true; change(f) }
	}
	since := func(ago time.Duration) func(*volumelock.AttachFacts) {
		return cordoned(func(f *volumelock.AttachFacts) { f.Lock.Status.Release.Since = metav1.NewMicroTime(now.Add(-ago)) })
	}
	for name, c := range map[string]struct {
		change func(*volumelock.AttachFacts)
		after  time.Duration
	}{
		"any node":               {func(*volumelock.AttachFacts) {}, 0},
		"another taint":          {taint("x"), 0},
		"cordoned":               {cordoned(func(*volumelock.AttachFacts) {}), 50 * time.Second},
		"Karpenter":              {taint("karpenter.sh/disrupted"), 50 * time.Second},
		"Karpenter of before":    {taint("karpenter.sh/disruption"), 50 * time.Second},
		"the cluster autoscaler": {taint("ToBeDeletedByClusterAutoscaler"), 50 * time.Second},
		"after a minute":         {since(time.Minute), 0},
		"later":                  {since(time.Hour), 0},
		"the clock was set back": {since(-time.Hour), 0},
		"released":               {cordoned(func(f *volumelock.AttachFacts) { f.Lock = nil }), 0},
		"held by another":        {cordoned(func(f *volumelock.AttachFacts) { f.Lock.Spec.Attachment.UID = "va-9" }), 0},
		"not ready":              {cordoned(func(f *volumelock.AttachFacts) { f.Node.Status.Conditions[0].Status = corev1.ConditionUnknown }), 0},
		"gone":                   {func(f *volumelock.AttachFacts) { f.Node = nil }, 0},
		"another Node":           {cordoned(func(f *volumelock.AttachFacts) { f.Node.UID = "node-9" }), 0},
		"detached by force":      {cordoned(func(f *volumelock.AttachFacts) { f.Lock.Status.DistrustedBootID = "boot-1" }), 0},
		"mounted without asking": {cordoned(func(f *volumelock.AttachFacts) { f.Lock.Status.UngatedBootID = "boot-1" }), 0},
		"not known which boot":   {cordoned(func(f *volumelock.AttachFacts) { f.Lock.Spec.Adopted = true }), 0},
		"not gated":              {cordoned(func(f *volumelock.AttachFacts) { f.Conflict = "attachRequired: false" }), 0},
		"of a boot before": {cordoned(func(f *volumelock.AttachFacts) {
			f.Lock.Status.UngatedBootID, f.Lock.Status.DistrustedBootID = "boot-0", "boot-0"
		}), 50 * time.Second},
	} {
		f, _ := held()
		f.Attachment.DeletionTimestamp = &metav1.Time{Time: now}
		f.Lock.Status.Release = &v1alpha1.VolumeRelease{Attachment: "va-1", Since: metav1.NewMicroTime(now.Add(-10 * time.Second))}
		c.change(&f)
		if d := volumelock.Attach(f); d.After != c.after || (d.Write == nil) != (c.after > 0) {
			t.Errorf("%s: %+v", name, d)
		}
	}
}

// TestNodeGoneBesideConflict: what a Node held that is gone is withdrawn also while the driver can't be gated, since kubelets may wait all the same, and a new machine of the name would not.
func TestNodeGoneBesideConflict(t *testing.T) {
	f, _ := held()
	f.Node, f.Conflict = nil, "was not adopted"
	if d := volumelock.Attach(f); d.Reason.Code != "NoNode" || d.Write == nil || !strings.HasPrefix(d.Write.String(), "say attached: false") {
		t.Errorf("%+v", d)
	}
}

func TestConflict(t *testing.T) {
	f, _ := held()
	driver := func(attach *bool) *storagev1.CSIDriver {
		return &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: nfs, UID: "driver", Annotations: map[string]string{v1alpha1.AnnotationGated: volumelock.AdoptedMark("driver")}}, Spec: storagev1.CSIDriverSpec{AttachRequired: attach}}
	}
	yes := driver(new(true))
	own := f.Attachment.DeepCopy()
	own.Finalizers = append(own.Finalizers, "external-attacher/nfs-csi-k8s-io")
	for i, c := range []struct {
		driver *storagev1.CSIDriver
		a      *storagev1.VolumeAttachment
		says   string
	}{{yes, f.Attachment, ""}, {driver(nil), f.Attachment, ""}, {driver(new(false)), f.Attachment, "attachRequired: false"}, {nil, f.Attachment, "there is no CSIDriver nfs.csi.k8s.io, so that it was not adopted"}, {yes, own, "attacher of its own"}} {
		if got := volumelock.Conflict(nfs, c.driver, c.a); !strings.Contains(got, c.says) || (got == "") != (c.says == "") {
			t.Error(fmt.Sprint(i, got))
		}
	}
}

// TestNotAdopted: what is said in VolumeAttachments is said of drivers alone that nobody attaches, and that nobody is about to.
func TestNotAdopted(t *testing.T) {
	f, _ := held()
	own := f.Attachment.DeepCopy()
	own.Finalizers = append(own.Finalizers, "external-attacher/nfs-csi-k8s-io")
	driver := func(attach *bool, gated string) *storagev1.CSIDriver {
		return &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: nfs, UID: "driver", Annotations: map[string]string{v1alpha1.AnnotationGated: gated}}, Spec: storagev1.CSIDriverSpec{AttachRequired: attach}}
	}
	for name, c := range map[string]struct {
		driver *storagev1.CSIDriver
		a      *storagev1.VolumeAttachment
		is     bool
	}{
		"no CSIDriver":              {nil, f.Attachment, true},
		"not adopted":               {driver(nil, ""), f.Attachment, true},
		"being adopted":             {driver(nil, volumelock.AdoptingMark("driver")), f.Attachment, false},
		"adopted":                   {driver(new(true), volumelock.AdoptedMark("driver")), f.Attachment, false},
		"another one was adopted":   {driver(new(true), volumelock.AdoptedMark("other")), f.Attachment, true},
		"adopted, and no UID":       {driver(new(true), v1alpha1.GatedAdopted), f.Attachment, true},
		"kubelets do not wait":      {driver(new(false), ""), f.Attachment, false},
		"an attacher of its own":    {driver(nil, ""), own, false},
		"its own, and no CSIDriver": {nil, own, false},
	} {
		if is := volumelock.NotAdopted(c.driver, c.a); is != c.is {
			t.Errorf("%s: %t", name, is)
		}
	}
}

// TestMessageFits: a VolumeError with more than 1024 bytes is refused by the API server, whatever letters it has.
func TestMessageFits(t *testing.T) {
	f, _ := held()
	elsewhere(&f)
	f.Lock.Status.Message = strings.Repeat("\u00fc", 1000)
	if n := len(volumelock.Attach(f).Write.(volumelock.Say).Error); n > 1024 {
		t.Errorf("it has %d bytes", n)
	}
}
