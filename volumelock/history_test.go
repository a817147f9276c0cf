package volumelock_test

import (
	"flag"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/policy/policytest/draw"
	"github.com/podgrace/podgrace/volumelock"
	"github.com/podgrace/podgrace/volumelock/volumelocktest"
)

// histories is how many a property tries: go test ./volumelock -run TestHistories -histories=1000000.
var histories = flag.Int("histories", 10000, "random histories to try")

// seed of the first history; that of each other one follows.
var seed = flag.Uint64("seed", 0, "seed of the first history; 0: RAPID_SEED, or a random one")

// TestHistories: whatever happens to machines, kubelets, the attach/detach controller and attachers, and in whatever order, no two nodes can write to the volume at once.
func TestHistories(t *testing.T) {
	t.Parallel()
	var seen volumelocktest.Counts
	if failed := volumelocktest.Search(*histories, firstSeed(), nil, &seen); failed != nil {
		t.Fatalf("nodes have the volume at once:\n%s", failed)
	}
	t.Logf("%d histories: %+v", *histories, seen)
	if *histories < 10000 {
		return // too few to say
	}
	for name, n := range seen.ByName() {
		if n == 0 {
			t.Errorf("histories in which %s never happened: %+v", name, seen)
		}
	}
}

func firstSeed() uint64 {
	if *seed != 0 {
		return *seed
	}
	return draw.Seed()
}

// TestHistoriesFind: each rule that is taken away lets two nodes have the volume, and a history finds it; with the rule the same history does not.
func TestHistoriesFind(t *testing.T) {
	t.Parallel()
	for name, m := range mutants {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			failed := volumelocktest.Search(1, m.seed, m.mutant, &volumelocktest.Counts{})
			if failed == nil { // histories are others than when the seed was found
				failed = volumelocktest.Search(20**histories, firstSeed(), m.mutant, &volumelocktest.Counts{})
			}
			if failed == nil {
				t.Fatalf("%s: nobody notices", name)
			}
			t.Logf("%s: %s", name, failed)
		})
	}
}

// TestHandoverEnds: whatever happened, once everything is well and no pod is left the volume is released, or its lock says what it waits for.
func TestHandoverEnds(t *testing.T) {
	t.Parallel()
	released, waiting := 0, map[string]int{}
	first := firstSeed()
	for i := range *histories / 10 {
		switch lock := volumelocktest.Random(first+uint64(i), nil).Settle(); {
		case lock == nil:
			released++
		case forgotten(lock):
			t.Fatalf("-seed=%d: held for ever, since nobody deletes its VolumeAttachment: %+v %+v", first+uint64(i), lock.Spec, lock.Status)
		case lock.Status.Message == "":
			t.Fatalf("-seed=%d: held, and says nothing: %+v %+v", first+uint64(i), lock.Spec, lock.Status)
		default:
			waiting[strings.SplitN(lock.Status.Message, ",", 2)[0]]++
		}
	}
	t.Logf("released: %d, waiting: %v", released, waiting)
}

// forgotten reports whether a lock waits for a VolumeAttachment that nobody deletes.
func forgotten(lock *v1alpha1.VolumeLock) bool {
	return lock != nil && strings.Contains(lock.Status.Message, "VolumeAttachment is still there")
}

// TestHandoverEndsThoughAnotherSaidAttached: what was withdrawn by mistake and is said attached again is detached once its pod is gone, whoever said so.
func TestHandoverEndsThoughAnotherSaidAttached(t *testing.T) {
	t.Parallel()
	w := volumelocktest.New()
	w.SaidByAnother()
	if by := w.Seen.ByName(); by["withdrawing"] == 0 || by["another attacher"] == 0 {
		t.Fatalf("it did not happen: %v", by)
	}
	if lock := w.Settle(); lock != nil {
		t.Errorf("held: %+v %+v", lock.Spec, lock.Status)
	}
}

// TestForgottenFinds: the VolumeAttachment of a Node that is gone, if it is not deleted by us, is by nobody, and a history finds it.
func TestForgottenFinds(t *testing.T) {
	t.Parallel()
	const seed = 28
	spared := func(w *volumelocktest.World) {
		w.Mutant = func(_ *volumelock.AttachFacts, r *volumelock.ReleaseFacts) {
			if r.Attachment != nil {
				r.Attachment = r.Attachment.DeepCopy()
				r.Attachment.Status.Attached = true
			}
		}
	}
	for i := range uint64(*histories) {
		if forgotten(volumelocktest.Random(seed+i, spared).Settle()) {
			t.Logf("history %d", i+1)
			return
		}
	}
	t.Error("nobody notices")
}

// mutantWorld is a world in which one rule is not there, and the seed of a history in which that is found.
type mutantWorld struct {
	seed   uint64
	mutant func(*volumelocktest.World)
}

// mutants are worlds in which one rule is not there. Each has to be found: else the histories prove nothing of it.
var mutants = map[string]mutantWorld{
	"attached is said to whoever asks": facts(5358976419967688678, func(a *volumelock.AttachFacts, _ *volumelock.ReleaseFacts) {
		if l := a.Lock; l != nil && a.Attachment != nil {
			c := l.DeepCopy()
			c.Status.Attachment = &v1alpha1.AttachmentReference{Name: a.Attachment.Name, UID: a.Attachment.UID}
			if a.Node != nil {
				c.Spec.Node = v1alpha1.BootReference{Name: a.Node.Name, UID: a.Node.UID}
			}
			c.Status.Release = nil
			a.Lock = c
		}
	}),
	"a release does not wait for the deletion": facts(13849794929687103623, func(_ *volumelock.AttachFacts, r *volumelock.ReleaseFacts) { r.Attachment = nil }),
	"a receipt for any boot of the node counts": facts(1985496630097865188, func(_ *volumelock.AttachFacts, r *volumelock.ReleaseFacts) {
		if r.Lock == nil || r.Lock.Status.Release == nil {
			return
		}
		r.Receipts = slices.Clone(r.Receipts)
		for i := range r.Receipts {
			n := *r.Receipts[i].Spec.Node
			n.BootID = r.Lock.Status.Release.BootID
			r.Receipts[i].Spec.Node, r.Receipts[i].Spec.LastSign = &n, ""
		}
	}),
	"a receipt counts for another Node of the name": facts(6456916206912241222, func(_ *volumelock.AttachFacts, r *volumelock.ReleaseFacts) {
		if r.Lock == nil || r.Lock.Status.Release == nil {
			return
		}
		r.Receipts = slices.Clone(r.Receipts)
		for i := range r.Receipts {
			n := *r.Receipts[i].Spec.Node
			if n.Name == r.Lock.Spec.Node.Name {
				n.UID = r.Lock.Spec.Node.UID
				r.Receipts[i].Spec.Node, r.Receipts[i].Spec.LastSign = &n, ""
			}
		}
	}),
	"the kubelet is not asked": facts(1402542719201572250, func(_ *volumelock.AttachFacts, r *volumelock.ReleaseFacts) {
		tamper(r, func(l *v1alpha1.VolumeLock) {
			l.Status.Release.Asked, l.Status.Release.Answers = &metav1.Time{Time: time.Unix(1, 0)}, 1
		})
	}),
	"one answer is enough": facts(10246142562283933314, func(_ *volumelock.AttachFacts, r *volumelock.ReleaseFacts) {
		tamper(r, func(l *v1alpha1.VolumeLock) { l.Status.Release.Answers = 1 })
	}),
	"one answer is enough, and an older heartbeat is one": facts(8908475124861612652, func(_ *volumelock.AttachFacts, r *volumelock.ReleaseFacts) {
		tamper(r, func(l *v1alpha1.VolumeLock) {
			l.Status.Release.Answers = 1
			if l.Status.Release.Asked != nil {
				l.Status.Release.Asked = &metav1.Time{Time: time.Unix(1, 0)}
			}
		})
	}),
	"a detach by force is as any other": facts(15868205077671185318, func(_ *volumelock.AttachFacts, r *volumelock.ReleaseFacts) {
		tamper(r, func(l *v1alpha1.VolumeLock) { l.Status.DistrustedBootID = "" })
	}),
	"a deletion that nobody has noted is as one that was noted":   facts(16309349727166322711, unnoted),
	"who is not in volumesAttached was not detached while in use": facts(16288337126588394056, inVolumesAttached),
	"VolumeLocks are written without regard to what was read":     {18420198712216223019, func(w *volumelocktest.World) { w.Unguarded["lock"] = true }},
	"a VolumeLock is taken though there is one":                   {2315644044064049802, func(w *volumelocktest.World) { w.Unguarded["take"] = true }},
	"what was mounted before the gate is as any other": facts(8651434662458483616, func(_ *volumelock.AttachFacts, r *volumelock.ReleaseFacts) {
		tamper(r, func(l *v1alpha1.VolumeLock) { l.Spec.Adopted = false })
	}),
	"a CSIDriver that was made anew is as the one before": facts(6303812118674315518, func(_ *volumelock.AttachFacts, r *volumelock.ReleaseFacts) {
		if r.Lock != nil && r.Conflict == "" {
			r.DriverUID = volumelock.DriverUID(r.Lock)
		}
	}),
	"who asks first has the volumes of a driver that was not adopted": facts(15599424355591555982, func(a *volumelock.AttachFacts, r *volumelock.ReleaseFacts) {
		for _, why := range []*string{&a.Conflict, &r.Conflict} {
			if strings.Contains(*why, "was not adopted") {
				*why = ""
			}
		}
	}),
	"a mark that was copied counts": facts(6958549368972117047, func(a *volumelock.AttachFacts, r *volumelock.ReleaseFacts) {
		for _, why := range []*string{&a.Conflict, &r.Conflict} {
			if strings.Contains(*why, "the annotation of another one") {
				*why = ""
			}
		}
	}),
	"what a driver held that is not gated any more is released as ever": facts(2803904957021988995, func(_ *volumelock.AttachFacts, r *volumelock.ReleaseFacts) { r.Conflict = "" }),
	"what another attacher has attached stays attached":                 facts(11563271165867795694, func(a *volumelock.AttachFacts, _ *volumelock.ReleaseFacts) { a.Withdrawn = a.Now }),
	"a confirmation of before counts": facts(14226384801820624291, func(_ *volumelock.AttachFacts, r *volumelock.ReleaseFacts) {
		tamper(r, func(l *v1alpha1.VolumeLock) {
			if l.Annotations[v1alpha1.AnnotationConfirmRelease] != "" {
				l.Annotations[v1alpha1.AnnotationConfirmRelease] = volumelock.Confirmation(l)
			}
		})
	}),
}

// TestForcedWhileNobodyLooked: a volume is detached by force while no attacher runs, and the kubelet is started again before one does. It does not list the volume any more, and has it
// mounted.
func TestForcedWhileNobodyLooked(t *testing.T) {
	w := volumelocktest.New()
	w.ForcedWhileNobodyLooked()
	if writers := w.Writers(); len(writers) != 1 {
		t.Errorf("%v have the volume", writers)
	}
}

// TestBootedWhileReleased: a machine that boots while its volume is released is fenced by the boot that it has then. That releases the volume: nobody fences the boot before.
func TestBootedWhileReleased(t *testing.T) {
	w := volumelocktest.New()
	volumelocktest.BootedWhileReleased(w, w.Machines[0], 0, 0, true)
	had := w.Writers()
	w = volumelocktest.New()
	volumelocktest.BootedWhileReleased(w, w.Machines[0], 0, 20, true)
	if has := w.Writers(); len(had) != 1 || len(has) != 1 || has[0] == had[0] {
		t.Errorf("%q had the volume, and then %q", had, has)
	}
}

// TestForcedUnnoted: a volume is detached by force, and attached to its node again before anybody has noted that. What its kubelet has mounted from before it does not list since it was started again.
func TestForcedUnnoted(t *testing.T) {
	for _, mutant := range []bool{false, true} {
		w := volumelocktest.New()
		if mutant {
			w.Mutant = unnoted
		}
		volumelocktest.Unnoted(w, w.Machines[0], 0, 20)
		if writers := w.Writers(); (len(writers) > 1) != mutant {
			t.Errorf("mutant %t: %v have the volume", mutant, writers)
		}
	}
}

// unnoted: what goes on from one VolumeAttachment to the next was noted.
func unnoted(a *volumelock.AttachFacts, _ *volumelock.ReleaseFacts) {
	if a.Lock == nil || a.Attachment == nil || a.Lock.Status.Release != nil || volumelock.Holder(a.Lock).UID == a.Attachment.UID {
		return
	}
	a.Lock = a.Lock.DeepCopy()
	a.Lock.Status.Release = &v1alpha1.VolumeRelease{Attachment: volumelock.Holder(a.Lock).UID}
}

// inVolumesAttached: a volume that the Node lists, and that does not stand in volumesAttached, was not in use when it was detached, since the attach/detach controller takes it out there first.
func inVolumesAttached(_ *volumelock.AttachFacts, r *volumelock.ReleaseFacts) {
	if r.Lock == nil || r.Node == nil || r.Lock.Status.Release != nil || r.Attachment == nil || r.Attachment.DeletionTimestamp == nil || r.Attachment.UID != volumelock.Holder(r.Lock).UID {
		return
	}
	volume := volumelock.InUseName(r.Lock.Spec.Driver, r.Lock.Spec.VolumeHandle)
	if slices.ContainsFunc(r.Node.Status.VolumesAttached, func(a corev1.AttachedVolume) bool { return a.Name == volume }) {
		return
	}
	r.Node = r.Node.DeepCopy()
	r.Node.Status.VolumesInUse = slices.DeleteFunc(r.Node.Status.VolumesInUse, func(u corev1.UniqueVolumeName) bool { return u == volume })
}

// TestBootedWhileUngated: two later heartbeats tell which boot ran when the driver was gated again; one, or none, would have a boot be believed that has mounted the volume without asking.
func TestBootedWhileUngated(t *testing.T) {
	for _, late := range []bool{false, true} {
		for missing, wrong := range map[int32]bool{0: false, 1: late, volumelock.LaterNeeded: true} {
			w := volumelocktest.New()
			w.Mutant = func(_ *volumelock.AttachFacts, r *volumelock.ReleaseFacts) { hear(r, missing) }
			w.BootedWhileUngated(late)
			if writers := w.Writers(); (len(writers) > 1) != wrong {
				t.Errorf("late %t, %d heartbeats fewer: %v have the volume", late, missing, writers)
			}
		}
	}
}

func facts(seed uint64, mutant func(*volumelock.AttachFacts, *volumelock.ReleaseFacts)) mutantWorld {
	return mutantWorld{seed, func(w *volumelocktest.World) { w.Mutant = mutant }}
}

// hear has so many heartbeats fewer be needed.
func hear(r *volumelock.ReleaseFacts, fewer int32) {
	if fewer == 0 || r.Lock == nil || r.Node == nil || !volumelock.Unsettled(r.Lock) || r.Lock.Status.Heard == nil && fewer < volumelock.LaterNeeded {
		return
	}
	r.Lock = r.Lock.DeepCopy()
	if r.Lock.Status.Heard == nil {
		r.Lock.Status.Heard = &v1alpha1.HeardBoot{BootID: r.Node.Status.NodeInfo.BootID, Heartbeat: metav1.NewTime(time.Unix(1, 0))}
	}
	r.Lock.Status.Heard.Later = min(r.Lock.Status.Heard.Later+fewer, volumelock.LaterNeeded-1)
}

func tamper(r *volumelock.ReleaseFacts, change func(*v1alpha1.VolumeLock)) {
	if r.Lock == nil || r.Lock.Status.Release == nil {
		return
	}
	r.Lock = r.Lock.DeepCopy()
	change(r.Lock)
}
