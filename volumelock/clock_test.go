package volumelock_test

import (
	"reflect"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podgrace/podgrace/volumelock"
	"github.com/podgrace/podgrace/volumelock/volumelocktest"
)

// TestHistoriesWithJumpingClock: a clock of the volume lock's machine that is wrong by years, and by others each time, lets no two nodes have the volume.
func TestHistoriesWithJumpingClock(t *testing.T) {
	t.Parallel()
	first := firstSeed()
	var seen volumelocktest.Counts
	if failed := volumelocktest.Search(*histories/2, first, volumelocktest.Jump(first), &seen); failed != nil {
		t.Fatalf("-seed=%d: nodes have the volume at once:\n%s", first, failed)
	}
	t.Logf("%+v", seen)
	if by := seen.ByName(); *histories >= 10000 && (by["a handover"] == 0 || by["a release by receipt"] == 0 || by["by a person"] == 0) {
		t.Errorf("histories in which nothing is released: %+v", seen)
	}
}

// TestHandoverEndsWithJumpingClock: once everything is well, but for the clock, and no pod is left, the volume is released, or its lock says what it waits for.
func TestHandoverEndsWithJumpingClock(t *testing.T) {
	t.Parallel()
	first := firstSeed()
	released := 0
	for i := range uint64(*histories / 10) {
		switch lock := volumelocktest.Random(first+i, volumelocktest.Jump(first+i)).Settle(); {
		case lock == nil:
			released++
		case forgotten(lock), lock.Status.Message == "":
			t.Fatalf("-seed=%d: held, and nothing says why: %+v %+v", first+i, lock.Spec, lock.Status)
		}
	}
	if released == 0 && *histories >= 10000 {
		t.Error("nothing is released")
	}
	t.Logf("released: %d", released)
}

// TestClockDecidesNothing: whatever the facts of a history, all that differs by what the clock says is when an attachment is told why it waits, when a deleted one is let go, and which times are written down.
func TestClockDecidesNothing(t *testing.T) {
	t.Parallel()
	const years = 10 * 365 * 24 * time.Hour
	decisions, later := 0, 0
	compare := func(a *volumelock.AttachFacts, r *volumelock.ReleaseFacts) {
		for _, wrong := range []time.Duration{-years, years} {
			decisions++
			if a.Attachment != nil {
				b := *a
				b.Now = b.Now.Add(wrong)
				right, other := volumelock.Attach(*a), volumelock.Attach(b)
				if !reflect.DeepEqual(right, other) {
					later++
				}
				if !reflect.DeepEqual(timeless(right), timeless(other)) {
					t.Errorf("Attach decides %+v, and %+v where the clock is wrong by %s", right, other, wrong)
				}
			}
			if r.Lock != nil {
				s := *r
				s.Now = s.Now.Add(wrong)
				if right, other := volumelock.Release(*r), volumelock.Release(s); !reflect.DeepEqual(timeless(right), timeless(other)) {
					t.Errorf("Release decides %+v, and %+v where the clock is wrong by %s", right, other, wrong)
				}
			}
		}
	}
	first := firstSeed()
	for i := range uint64(*histories / 10) {
		volumelocktest.Random(first+i, func(w *volumelocktest.World) { w.Mutant = compare })
		if t.Failed() {
			t.Fatalf("-seed=%d", first+i)
		}
	}
	t.Logf("%d decisions, %d of which say later, or sooner, why an attachment waits", decisions, later)
	if later == 0 && *histories >= 1000 {
		t.Error("the clock makes no difference at all")
	}
}

// timeless is a decision without what its time may change.
func timeless(d volumelock.Decision) volumelock.Decision {
	d.After = 0
	if d.Reason.Code == "AskedBeforeItGoes" { // when a deleted attachment is let go
		d.Reason.Code, d.Write = "Deleting", volumelock.Unfinalize{}
	}
	d.Reason.Short = ""
	switch w := d.Write.(type) {
	case volumelock.Say:
		if !w.Attached && !d.Alarm { // of what is not attached; a withdrawal is an alarm
			d.Write = nil
		}
	case volumelock.Note:
		w.Status = *w.Status.DeepCopy()
		if r := w.Status.Release; r != nil {
			r.Since = metav1.MicroTime{}
		}
		for i := range w.Status.Conditions {
			w.Status.Conditions[i].LastTransitionTime = metav1.Time{}
		}
		d.Write = w
	}
	return d
}

// TestClockThatIsSetRight: an attachment that waits is looked at again soon, also where the clock is far behind: it may be set right.
func TestClockThatIsSetRight(t *testing.T) {
	f, _ := held()
	elsewhere(&f)
	f.Attachment.CreationTimestamp = metav1.NewTime(now)
	f.Now = now.Add(-10 * 365 * 24 * time.Hour)
	behind := volumelock.Attach(f)
	if behind.Write != nil || behind.After <= 0 || behind.After > time.Minute {
		t.Errorf("where the clock is behind it decides %+v", behind)
	}
	f.Now = now.Add(behind.After)
	if right, is := volumelock.Attach(f).Write.(volumelock.Say); !is || right.Attached || right.Error == "" {
		t.Errorf("where it is set right it decides %+v", right)
	}
}
