package confirm_test

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/cli/confirm"
	"github.com/podgrace/podgrace/volumelock"
)

// releaser is a cluster with one VolumeLock.
type releaser struct {
	fake

	facts    confirm.LockFacts
	released []string
}

func (r *releaser) Lock(context.Context, string) (confirm.LockFacts, error) { return r.facts, nil }

func (r *releaser) Release(_ context.Context, _ *v1alpha1.VolumeLock, text string) error {
	r.released = append(r.released, text)
	return r.err
}

func lockFacts(change ...func(*confirm.LockFacts)) confirm.LockFacts {
	state := node(corev1.ConditionTrue, time.Second)
	f := confirm.LockFacts{Now: now, Node: state.Node, Lock: &v1alpha1.VolumeLock{
		ObjectMeta: metav1.ObjectMeta{Name: "volume-1", UID: "lock", CreationTimestamp: metav1.NewTime(now.Add(-time.Hour))},
		Spec: v1alpha1.VolumeLockSpec{Driver: "nfs.csi.k8s.io", Volume: "[192.0.2.1]:/srv/db\x1b[31m", PersistentVolume: "db", Adopted: true,
			Node: v1alpha1.BootReference{Name: "worker-3", UID: nodeUID, BootID: bootID}, Attachment: v1alpha1.AttachmentReference{Name: "csi-1"}},
		Status: v1alpha1.VolumeLockStatus{Message: "the node mounted the volume before its driver was gated", Release: &v1alpha1.VolumeRelease{Attachment: "va", Since: metav1.NewMicroTime(now.Add(-time.Minute))}},
	}}
	for _, c := range change {
		c(&f)
	}
	return f
}

// What is shown, asked and written of a VolumeLock.
func TestLock(t *testing.T) {
	for name, tc := range map[string]struct {
		change    func(*confirm.LockFacts)
		answer    string
		lacks     bool
		dryRun    bool
		confirmed bool
		writes    int
		says      []string
	}{
		"it is known": {answer: "worker-3", confirmed: true, writes: 1, says: []string{"DANGER If node worker-3 still has the volume mounted, two nodes write to it", "Waits for the node mounted the volume before", "CONFIRMED node worker-3 does not use volume db"}},
		"declined":    {answer: "db", says: []string{"nothing was changed"}},
		"dry run":     {dryRun: true, confirmed: true, says: []string{"It would set podgrace.dev/confirm-release=lock/va/"}},
		"attached": {change: func(f *confirm.LockFacts) { f.Lock.Status.Release = nil }, answer: "worker-3",
			says: []string{"REFUSED volume db is attached to node worker-3 (VolumeAttachment csi-1), which can mount it at any time"}},
		"in use": {change: func(f *confirm.LockFacts) { f.Pods = []string{"shop/db-0"} }, answer: "worker-3", says: []string{"REFUSED 1 pod uses it of node worker-3: shop/db-0"}},
		"not permitted": {lacks: true, answer: "worker-3",
			says: []string{"REFUSED", "lacks: force-delete on volumelocks.podgrace.dev", `- {apiGroups: ["podgrace.dev"], resources: [volumelocks], verbs: [force-delete]}`}},
		"already": {change: func(f *confirm.LockFacts) {
			f.Lock.Annotations = map[string]string{v1alpha1.AnnotationConfirmRelease: volumelock.Confirmation(f.Lock)}
		}, confirmed: true, says: []string{"CONFIRMED this release of volume db is confirmed already"}},
		"of an earlier release": {change: func(f *confirm.LockFacts) {
			f.Lock.Annotations = map[string]string{v1alpha1.AnnotationConfirmRelease: "lock/other/then"}
		}, answer: "worker-3", confirmed: true, writes: 1},
		"not gated": {change: func(f *confirm.LockFacts) {
			f.Lock.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionConflict, Status: metav1.ConditionTrue}}
		}, answer: "worker-3", confirmed: true, writes: 1, says: []string{"CONFIRMED node worker-3 does not use volume db. Its driver is not gated, and nothing is released before it is: kubectl podgrace volumelock adopt nfs.csi.k8s.io"}},
		"pods wait":    {change: func(f *confirm.LockFacts) { f.Node.UID, f.Waiting = "other", []string{"shop/db-0"} }, answer: "worker-3", confirmed: true, writes: 1, says: []string{"Waiting shop/db-0, of the Node that has the name now"}},
		"another node": {change: func(f *confirm.LockFacts) { f.Node.UID = "other" }, answer: "worker-3", confirmed: true, writes: 1, says: []string{"another one has its name now (UID other)"}},
		"rebooted":     {change: func(f *confirm.LockFacts) { f.Lock.Spec.Node.BootID = "earlier" }, answer: "worker-3", confirmed: true, writes: 1, says: []string{"it was rebooted since"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := &releaser{facts: lockFacts()}
			if tc.change != nil {
				tc.change(&r.facts)
			}
			if tc.lacks {
				r.lacks = true
			}
			out := &bytes.Buffer{}
			s := &confirm.Session{In: strings.NewReader(tc.answer + "\n"), Out: out, Err: out, DryRun: tc.dryRun, Style: style}
			confirmed, err := s.Lock(t.Context(), r, "db")
			text := strings.Join(strings.Fields(out.String()), " ")
			if err != nil || confirmed != tc.confirmed || len(r.released) != tc.writes || strings.Contains(text, "\x1b") {
				t.Errorf("%t, %v, %q\n%s", confirmed, err, r.released, out)
			}
			for _, says := range tc.says {
				if !strings.Contains(text, says) {
					t.Errorf("it lacks %q:\n%s", says, out)
				}
			}
			if tc.writes > 0 && r.released[0] != volumelock.Confirmation(r.facts.Lock) {
				t.Errorf("it writes %q", r.released)
			}
		})
	}
}
