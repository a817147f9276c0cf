package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/e2e/chaos/plan"
	"github.com/podgrace/podgrace/e2e/volumelock"
)

// recorded is a machine by what it knows of its boots, without a kubelet.
func recorded(name string) *machine { return newMachine(name, "", nil, nil, nil) }

// bootedKubelet is a machine's that has no API server.
type bootedKubelet struct {
	boots  int
	silent bool
}

func (k *bootedKubelet) BootID() string                { return fmt.Sprintf("boot-%d", k.boots) }
func (k *bootedKubelet) Reboot()                       { k.boots++ }
func (k *bootedKubelet) Restart(context.Context) error { return nil }
func (k *bootedKubelet) SetSilent(is bool)             { k.silent = is }
func (k *bootedKubelet) SetHung(bool)                  {}

// answered calls what may end a connection.
func answered(call func() error) (err error) {
	defer func() {
		if recover() != nil {
			err = http.ErrAbortHandler
		}
	}()
	return call()
}

// A machine that is powered off though nobody asked is told of.
func TestPoweredOffForNothing(t *testing.T) {
	var found []string
	m := newMachine("machine-0", "", &bootedKubelet{}, volumelock.NewWitness(), func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) })
	m.setCut(true)
	if err := m.order(); err != nil || len(found) != 1 || !strings.Contains(found[0], "nobody asked") {
		t.Errorf("%q, %v", found, err)
	}
	if err := m.order(); err != nil || len(found) != 1 {
		t.Errorf("again, when it is off: %q, %v", found, err)
	}
}

// A receipt is true if the boot that it says is off had ended whenever that was read.
func TestUntrue(t *testing.T) {
	ended := time.Now()
	m := recorded("machine-0")
	m.ended["boot-0"] = ended
	receipt := func(change func(*v1alpha1.FenceReceiptSpec)) *v1alpha1.FenceReceipt {
		at := func(d time.Duration) v1alpha1.PowerReadBack {
			return v1alpha1.PowerReadBack{Time: metav1.NewMicroTime(ended.Add(d).Truncate(time.Microsecond)), State: "Off"}
		}
		r := &v1alpha1.FenceReceipt{Spec: v1alpha1.FenceReceiptSpec{
			Class: v1alpha1.EvidencePoweredOff, Node: &v1alpha1.BootReference{Name: "machine-0", BootID: "boot-0"}, ReadBacks: []v1alpha1.PowerReadBack{at(0), at(5 * time.Second)},
		}}
		change(&r.Spec)
		return r
	}
	for name, tc := range map[string]struct {
		change func(*v1alpha1.FenceReceiptSpec)
		want   string
	}{
		"it is off": {func(*v1alpha1.FenceReceiptSpec) {}, ""},
		"it was off a moment later": {func(s *v1alpha1.FenceReceiptSpec) {
			s.ReadBacks[0].Time = metav1.NewMicroTime(ended.Add(-time.Millisecond))
		}, "was off at"},
		"its next boot runs": {func(s *v1alpha1.FenceReceiptSpec) { s.Node.BootID = "boot-1" }, "whose boot-1 runs"},
		"another node":       {func(s *v1alpha1.FenceReceiptSpec) { s.Node.Name = "node-0" }, "no machine node-0"},
		"it is void": {func(s *v1alpha1.FenceReceiptSpec) {
			*s = v1alpha1.FenceReceiptSpec{Class: v1alpha1.EvidenceVoid, Node: s.Node}
		}, "class Void"},
		"a person's word": {func(s *v1alpha1.FenceReceiptSpec) { s.Class = v1alpha1.EvidenceConfirmed }, "class Confirmed"},
	} {
		if got := untrue(receipt(tc.change), []*machine{m}); (tc.want == "") != (got == "") || !strings.Contains(got, tc.want) {
			t.Errorf("%s: %q, not %q", name, got, tc.want)
		}
	}
}

// A boot may be powered off that somebody asked to have fenced, or that has been cut off for long enough. Its next boot may not for that.
func TestCause(t *testing.T) {
	now, m := time.Now(), recorded("machine-0")
	if why := m.cause("boot-0", now); why != "" {
		t.Errorf("one that runs: %s", why)
	}
	m.cut = now.Add(-fencedAfter + time.Second)
	if why := m.cause("boot-0", now); why != "" {
		t.Errorf("one that was cut off a moment ago: %s", why)
	}
	m.cut = now.Add(-fencedAfter)
	if m.cause("boot-0", now) == "" {
		t.Error("one that has been cut off for long")
	}
	m.cut = time.Time{}
	m.ask("boot-0")
	m.ended["boot-1"] = now
	if m.cause("boot-0", now) == "" || m.cause("boot-1", now) == "" || m.cause("boot-2", now) != "" {
		t.Error("it was asked for the first boot, the second is off, and the third runs")
	}
}

// A pod has its volume if its machine alone has it mounted, locked and attached.
func TestHas(t *testing.T) {
	lock := func(node string) v1alpha1.VolumeLock {
		return v1alpha1.VolumeLock{Spec: v1alpha1.VolumeLockSpec{PersistentVolume: "v", Node: v1alpha1.BootReference{Name: node}}}
	}
	attached := func(node string, is bool) storagev1.VolumeAttachment {
		return storagev1.VolumeAttachment{
			Spec:   storagev1.VolumeAttachmentSpec{NodeName: node, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: new("v")}},
			Status: storagev1.VolumeAttachmentStatus{Attached: is},
		}
	}
	for name, tc := range map[string]struct {
		writers     []string
		locks       []v1alpha1.VolumeLock
		attachments []storagev1.VolumeAttachment
		want        string
	}{
		"it has":         {[]string{"a"}, []v1alpha1.VolumeLock{lock("a")}, []storagev1.VolumeAttachment{attached("a", true), attached("b", false)}, ""},
		"not mounted":    {nil, []v1alpha1.VolumeLock{lock("a")}, []storagev1.VolumeAttachment{attached("a", true)}, "mounted by"},
		"mounted twice":  {[]string{"a", "b"}, []v1alpha1.VolumeLock{lock("a")}, []storagev1.VolumeAttachment{attached("a", true)}, "a and b"},
		"nobody's":       {[]string{"a"}, nil, []storagev1.VolumeAttachment{attached("a", true)}, "locked for []"},
		"another's":      {[]string{"a"}, []v1alpha1.VolumeLock{lock("b")}, []storagev1.VolumeAttachment{attached("a", true)}, "locked for [b]"},
		"attached twice": {[]string{"a"}, []v1alpha1.VolumeLock{lock("a")}, []storagev1.VolumeAttachment{attached("a", true), attached("b", true)}, "attached to [a b]"},
	} {
		err := has("a", "v", tc.writers, tc.locks, tc.attachments)
		if (tc.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, not %q", name, err, tc.want)
		}
	}
}

// That a volume is said to be attached is never let through, and that a VolumeAttachment goes only where its machine is off. One that was changed meanwhile is left alone.
func TestNever(t *testing.T) {
	of := schema.GroupResource{Group: "storage.k8s.io", Resource: "volumeattachments"}
	for name, tc := range map[string]struct {
		verb   plan.Verb
		answer error
		off    bool
		want   result
	}{
		"refused":                     {verb: plan.SayAttached, answer: apierrors.NewForbidden(of, "a", errors.New("no")), want: refused},
		"said":                        {verb: plan.SayAttached, want: failed},
		"said of one that is off":     {verb: plan.SayAttached, off: true, want: failed},
		"deleted":                     {verb: plan.DropAttachment, want: failed},
		"deleted of one that is off":  {verb: plan.DropAttachment, off: true, want: moot},
		"changed meanwhile":           {verb: plan.DropAttachment, answer: apierrors.NewConflict(of, "a", errors.New("changed")), want: moot},
		"nobody answered":             {verb: plan.DropAttachment, answer: errors.New("timeout"), want: unanswered},
		"nobody answered, and is off": {verb: plan.DropAttachment, answer: errors.New("timeout"), off: true, want: unanswered},
	} {
		l, m := scripted(), recorded("machine-0")
		m.off = tc.off
		l.machines = []*machine{m}
		a := &storagev1.VolumeAttachment{Spec: storagev1.VolumeAttachmentSpec{NodeName: "machine-0", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: new("v")}}}
		if got := l.never(t.Context(), tc.verb, a, tc.answer); got != tc.want || (len(l.found()) == 1) != (tc.want == failed) {
			t.Errorf("%s: %d, not %d; %q", name, got, tc.want, l.found())
		}
	}
}

// Over many rounds each manner of a BMC, and each reason for a fence, is drawn.
func TestEachFence(t *testing.T) {
	how, by := map[manner]bool{}, map[fenceBy]bool{}
	for number := range 200 {
		for _, s := range plan.Draw(1, number, plan.Options{Storm: time.Minute, Only: []plan.Fault{plan.FenceMachine}}).Steps {
			how[mannerOf(s)], by[fenceByOf(s)] = true, true
		}
	}
	if len(how) != len(manners) || len(by) != int(fenceBys) || slices.Contains(manners, "") {
		t.Errorf("%v, %v", how, by)
	}
}
