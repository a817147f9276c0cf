package confirm_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/cli/confirm"
	"github.com/podgrace/podgrace/volumelock"
)

// holder is a cluster with the VolumeLocks of one Node.
type holder struct {
	releaser

	facts confirm.HolderFacts
	fails string // the VolumeLock that can't be written
}

func (h *holder) Holder(context.Context, types.UID) (confirm.HolderFacts, error) { return h.facts, nil }

func (h *holder) Release(ctx context.Context, l *v1alpha1.VolumeLock, text string) error {
	if l.Name == h.fails {
		return errors.New("VolumeLock " + l.Name + " is not what was shown any more")
	}
	return h.releaser.Release(ctx, l, text)
}

// heldAs is a volume that the Node holds.
func heldAs(name string, change ...func(*confirm.LockFacts)) confirm.LockFacts {
	f := lockFacts(func(f *confirm.LockFacts) {
		f.Node, f.Lock.Name, f.Lock.UID, f.Lock.Spec.PersistentVolume = nil, "volume-"+name, types.UID("uid-"+name), name
	})
	for _, c := range change {
		c(&f)
	}
	return f
}

// What is shown, asked and written of all volumes of a Node that is gone.
func TestHolder(t *testing.T) {
	attached := func(f *confirm.LockFacts) { f.Lock.Status.Release = nil }
	used := func(f *confirm.LockFacts) { f.Pods = []string{"shop/db-0"} }
	unread := func(f *confirm.LockFacts) { f.PodsUnknown = "forbidden" }
	already := func(f *confirm.LockFacts) {
		f.Lock.Annotations = map[string]string{v1alpha1.AnnotationConfirmRelease: volumelock.Confirmation(f.Lock)}
	}
	silent := node(corev1.ConditionUnknown, time.Hour).Node
	for name, tc := range map[string]struct {
		change    func(*confirm.HolderFacts)
		answer    string // the node's name, where it is none
		lacks     bool
		dryRun    bool
		fails     string
		confirmed bool
		writes    []string
		failed    bool
		says      []string
	}{
		"deleted": {confirmed: true, writes: []string{"uid-a", "uid-b"}, says: []string{
			"DANGER If the machine that was node worker-3 still has one of these volumes mounted", "Node there is none of that name any more", "CONFIRMED node worker-3 does not use 2 volumes: a, b."}},
		"made anew": {change: func(f *confirm.HolderFacts) {
			f.Node = node(corev1.ConditionTrue, time.Second).Node
			f.Node.UID = "other"
		}, confirmed: true, writes: []string{"uid-a", "uid-b"}, says: []string{"another one has its name now (UID other)"}},
		"silent":    {change: func(f *confirm.HolderFacts) { f.Node = silent }, confirmed: true, writes: []string{"uid-a", "uid-b"}, says: []string{"it is there, Ready"}},
		"ready":     {change: func(f *confirm.HolderFacts) { f.Node = node(corev1.ConditionTrue, time.Second).Node }, says: []string{"REFUSED node worker-3 is there and ready"}},
		"not known": {change: func(f *confirm.HolderFacts) { f.NodeUnknown = "forbidden" }, says: []string{"REFUSED whether node worker-3 is gone can't be read, forbidden"}},
		"pods not known, of a silent one": {change: func(f *confirm.HolderFacts) { f.Node, f.Held[1] = silent, heldAs("b", unread) }, says: []string{
			"Pods unknown: forbidden", "REFUSED node worker-3 is there, and which pods of it use its volumes can't be read, forbidden"}},
		"pods not known, of one that is gone": {change: func(f *confirm.HolderFacts) { f.Held[1] = heldAs("b", unread) }, confirmed: true, writes: []string{"uid-a", "uid-b"}, says: []string{"Pods unknown: forbidden"}},
		"declined":                            {answer: "worker-4", says: []string{"nothing was changed"}},
		"dry run":                             {dryRun: true, confirmed: true, says: []string{"VolumeLock volume-b: Dry run: nothing was changed. It would set podgrace.dev/confirm-release=uid-b/va/"}},
		"not permitted":                       {lacks: true, says: []string{"REFUSED", "lacks: force-delete on volumelocks.podgrace.dev"}},
		"one is attached": {change: func(f *confirm.HolderFacts) { f.Held[0] = heldAs("a", attached) }, writes: []string{"uid-b"},
			says: []string{"Not these a nfs.csi.k8s.io volume-a attached: VolumeAttachment csi-1 is to be deleted first", "CONFIRMED node worker-3 does not use 1 volume: b.", "LEFT 1 volume is not confirmed"}},
		"one is used":     {change: func(f *confirm.HolderFacts) { f.Held[1] = heldAs("b", used) }, writes: []string{"uid-a"}, says: []string{"used by shop/db-0", "LEFT 1 volume is not confirmed"}},
		"none can be":     {change: func(f *confirm.HolderFacts) { f.Held = []confirm.LockFacts{heldAs("a", attached), heldAs("b", used)} }, says: []string{"REFUSED none of them can be confirmed yet"}},
		"one was already": {change: func(f *confirm.HolderFacts) { f.Held[0] = heldAs("a", already) }, confirmed: true, writes: []string{"uid-b"}, says: []string{"confirmed already"}},
		"all were":        {change: func(f *confirm.HolderFacts) { f.Held = []confirm.LockFacts{heldAs("a", already)} }, confirmed: true, says: []string{"CONFIRMED the releases of all volumes of node worker-3 are confirmed already"}},
		"one fails":       {fails: "volume-a", failed: true, writes: []string{"uid-b"}, says: []string{"CONFIRMED node worker-3 does not use 1 volume: b."}},
	} {
		t.Run(name, func(t *testing.T) {
			h := &holder{facts: confirm.HolderFacts{Now: now, Name: "worker-3", UID: nodeUID, Held: []confirm.LockFacts{heldAs("a"), heldAs("b")}}, fails: tc.fails}
			if tc.change != nil {
				tc.change(&h.facts)
			}
			if tc.answer == "" {
				tc.answer = "worker-3"
			}
			h.lacks = tc.lacks
			out := &bytes.Buffer{}
			s := &confirm.Session{In: strings.NewReader(tc.answer + "\n"), Out: out, Err: out, DryRun: tc.dryRun, Style: style}
			confirmed, err := s.Holder(t.Context(), h, nodeUID)
			if (err != nil) != tc.failed || confirmed != tc.confirmed {
				t.Errorf("%t, %v\n%s", confirmed, err, out)
			}
			if tc.failed && !strings.Contains(err.Error(), "1 of 2 were not confirmed, give the command again: VolumeLock volume-a") {
				t.Errorf("it says %v", err)
			}
			var wrote []string
			for _, text := range h.released {
				uid, _, _ := strings.Cut(text, "/")
				wrote = append(wrote, uid)
			}
			if !slices.Equal(wrote, tc.writes) {
				t.Errorf("it wrote %q, and not %q", h.released, tc.writes)
			}
			text := strings.Join(strings.Fields(out.String()), " ")
			for _, says := range tc.says {
				if !strings.Contains(text, says) {
					t.Errorf("it lacks %q:\n%s", says, out)
				}
			}
		})
	}
}

// The volumes of a Node are found by its UID, also where another one has its name; its name alone says only which UIDs there are.
func TestHolderClient(t *testing.T) {
	lock := func(name string, node types.UID) *v1alpha1.VolumeLock {
		l := heldAs(name).Lock
		l.TypeMeta = metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "VolumeLock"}
		l.Spec.Node.UID = node
		return l
	}
	n := node(corev1.ConditionTrue, time.Second).Node
	n.UID = "anew"
	kube, _ := client(n)
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	kube.Dynamic = dynamicfake.NewSimpleDynamicClient(scheme, lock("b", "gone"), lock("a", "gone"), lock("c", "anew"))
	c := &confirm.LockClient{Client: kube}
	f, err := c.Holder(t.Context(), "gone")
	if err != nil || len(f.Held) != 2 || f.Held[0].Lock.Name != "volume-a" || f.Name != "worker-3" || f.Node.UID != "anew" || confirm.JudgeHolder(f).Verdict != confirm.Ask {
		t.Errorf("%+v, %v", f, err)
	}
	if _, err := c.Holder(t.Context(), "worker-3"); err == nil || !strings.Contains(err.Error(), "give the UID of the one that holds volumes, gone or anew") {
		t.Errorf("by its name: %v", err)
	}
	if _, err := c.Holder(t.Context(), "other"); err == nil || !strings.Contains(err.Error(), "no Node of UID other holds a volume") {
		t.Errorf("another one: %v", err)
	}
}
