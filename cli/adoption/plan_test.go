package adoption

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/internal/console"
	"github.com/podgrace/podgrace/volumelock"
)

const driver = "nfs.csi.k8s.io"

// Who keeps a CSIDriver as it is shows in many ways; that a person has applied it is none of them.
func TestOwners(t *testing.T) {
	t.Parallel()
	written := func(by string) []metav1.ManagedFieldsEntry {
		return []metav1.ManagedFieldsEntry{{Manager: by, FieldsV1: metav1.NewFieldsV1(`{"f:spec":{}}`)}}
	}
	for name, tc := range map[string]struct {
		meta metav1.ObjectMeta
		want string // empty: nobody
	}{
		"nobody":         {metav1.ObjectMeta{}, ""},
		"kubectl":        {metav1.ObjectMeta{ManagedFields: written("kubectl-client-side-apply")}, ""},
		"this command":   {metav1.ObjectMeta{ManagedFields: written("podgrace-volumelock")}, ""},
		"a program":      {metav1.ObjectMeta{ManagedFields: written("csi-operator")}, `the program "csi-operator"`},
		"an owner":       {metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{Kind: "NFSDriver", Name: "x"}}}, "NFSDriver x"},
		"Helm":           {metav1.ObjectMeta{Annotations: map[string]string{"meta.helm.sh/release-name": "nfs"}, ManagedFields: written("helm")}, "Helm release nfs"},
		"helm template":  {metav1.ObjectMeta{Labels: map[string]string{"app.kubernetes.io/managed-by": "Helm"}}, "Helm (label"},
		"Argo CD":        {metav1.ObjectMeta{Annotations: map[string]string{"argocd.argoproj.io/tracking-id": "nfs:storage"}}, "Argo CD application nfs:storage"},
		"Flux":           {metav1.ObjectMeta{Labels: map[string]string{"kustomize.toolkit.fluxcd.io/name": "infra"}}, "Flux Kustomization infra"},
		"an add-on":      {metav1.ObjectMeta{Labels: map[string]string{"addonmanager.kubernetes.io/mode": "Reconcile"}}, "addon manager (Reconcile)"},
		"of the status?": {metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "x", FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{}}`)}}}, ""},
	} {
		all := ownersOf(&storagev1.CSIDriver{ObjectMeta: tc.meta})
		if tc.want == "" && len(all) > 0 || tc.want != "" && (len(all) != 1 || !strings.Contains(all[0].who, tc.want) || all[0].help == "") {
			t.Errorf("%s: %+v", name, all)
		}
	}
}

// What a silent node has mounted is not known, unless it can't have mounted anything, or is known to be off.
func TestSilent(t *testing.T) {
	t.Parallel()
	node := func(ready corev1.ConditionStatus) corev1.Node {
		return corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "u"}, Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{BootID: "b"}, Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}}}
	}
	receipt := func(class v1alpha1.EvidenceClass, boot string) []v1alpha1.FenceReceipt {
		return []v1alpha1.FenceReceipt{{ObjectMeta: metav1.ObjectMeta{Name: "r"}, Spec: v1alpha1.FenceReceiptSpec{Class: class, Node: &v1alpha1.BootReference{Name: "n", UID: "u", BootID: boot}}}}
	}
	with := func(drivers ...string) []storagev1.CSINode {
		n := storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
		for _, d := range drivers {
			n.Spec.Drivers = append(n.Spec.Drivers, storagev1.CSINodeDriver{Name: d})
		}
		return []storagev1.CSINode{n}
	}
	for name, tc := range map[string]struct {
		facts  Facts
		silent bool
	}{
		"ready":                {Facts{Nodes: []corev1.Node{node(corev1.ConditionTrue)}}, false},
		"silent":               {Facts{Nodes: []corev1.Node{node(corev1.ConditionUnknown)}}, true},
		"with the driver":      {Facts{Nodes: []corev1.Node{node(corev1.ConditionUnknown)}, CSINodes: with("other", driver)}, true},
		"without the driver":   {Facts{Nodes: []corev1.Node{node(corev1.ConditionUnknown)}, CSINodes: with("other")}, false},
		"off":                  {Facts{Nodes: []corev1.Node{node(corev1.ConditionUnknown)}, Receipts: receipt(v1alpha1.EvidencePoweredOff, "b")}, false},
		"another boot was off": {Facts{Nodes: []corev1.Node{node(corev1.ConditionUnknown)}, Receipts: receipt(v1alpha1.EvidencePoweredOff, "a")}, true},
		"without its storage":  {Facts{Nodes: []corev1.Node{node(corev1.ConditionUnknown)}, Receipts: receipt(v1alpha1.EvidenceStorageRevoked, "b")}, true},
	} {
		tc.facts.Driver = driver
		if got := tc.facts.silent(); slices.Contains(got, "n") != tc.silent {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// A CSIDriver that has the mark of another one, of which it is a copy, is to be adopted, and whoever leaves it is asked as for one that never was.
func TestCopiedMark(t *testing.T) {
	t.Parallel()
	for mark, want := range map[string]Stage{volumelock.AdoptedMark("u2"): Adopted, volumelock.AdoptedMark("u1"): Attaches, v1alpha1.GatedAdopted: Attaches, volumelock.AdoptingMark("u2"): Adopting, volumelock.AdoptingMark("u1"): Attaches, v1alpha1.GatedAdopting: Attaches, "": Attaches} {
		d := &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: driver, UID: "u2", Annotations: map[string]string{v1alpha1.AnnotationGated: mark}}, Spec: storagev1.CSIDriverSpec{AttachRequired: new(true)}}
		if got := StageOf(d, nil); got != want {
			t.Errorf("marked %q: %s", mark, got)
		}
		if l := Leave(&Facts{Driver: driver, Object: d}); l.Refused() != (want == Attaches) {
			t.Errorf("marked %q, leaving: %+v", mark, l.Obstacles)
		}
	}
}

// An adoption that was interrupted goes on once its pod has moved: without a CSIDriver kubelets wait as they do for the gate, so that the pod waits for whoever has the lock.
func TestMovedMeanwhile(t *testing.T) {
	t.Parallel()
	const handle = "h"
	pv := corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}, Spec: corev1.PersistentVolumeSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, ClaimRef: &corev1.ObjectReference{Namespace: "shop", Name: "data"},
		PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: handle}}}}
	v, err := volumelock.VolumeOf(&pv)
	if err != nil {
		t.Fatal(err)
	}
	for attach, stage := range map[bool]Stage{false: Ungated, true: Deleted} {
		f := Facts{Driver: driver, Gated: []string{driver}, Kept: &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: driver}}, Volumes: []corev1.PersistentVolume{pv},
			Nodes: []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "u"}, Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{BootID: "b"}, VolumesInUse: []corev1.UniqueVolumeName{volumelock.InUseName(driver, handle)},
				Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}}},
			Pods: []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db-0"}, Spec: corev1.PodSpec{NodeName: "n",
				Volumes: []corev1.Volume{{VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}}}},
			Locks: []v1alpha1.VolumeLock{{ObjectMeta: metav1.ObjectMeta{Name: v.LockName()}, Spec: v1alpha1.VolumeLockSpec{Driver: driver, Node: v1alpha1.BootReference{Name: "m", UID: "v"}, Adopted: true}}}}
		if !attach {
			f.Object = &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: driver, UID: "old"}, Spec: storagev1.CSIDriverSpec{AttachRequired: &attach}}
		}
		if p := PlanFor(&f); p.Stage != stage || p.Refused() != (stage == Ungated) {
			t.Errorf("%s: %+v", stage, p)
		}
	}
}

// A CSIDriver that somebody made after an adoption was interrupted is not taken for the one before, whose copy is deleted in the end.
func TestCopyDiffers(t *testing.T) {
	t.Parallel()
	of := func(podInfo bool, attach *bool) *storagev1.CSIDriver {
		return &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: driver, UID: "u"}, Spec: storagev1.CSIDriverSpec{AttachRequired: attach, PodInfoOnMount: &podInfo}}
	}
	for name, tc := range map[string]struct {
		now, kept *storagev1.CSIDriver
		differs   bool
	}{
		"no copy":                 {of(false, nil), nil, false},
		"as it was":               {of(true, nil), of(true, new(true)), false},
		"as it was to be left":    {of(true, nil), of(true, new(false)), false},
		"bare":                    {of(false, nil), of(true, new(true)), true},
		"to be deleted and made":  {of(false, new(false)), of(true, new(true)), false},
		"deleted, and not made":   {nil, of(true, new(true)), false},
		"bare, to have been left": {of(false, new(true)), of(true, new(false)), true},
	} {
		f := &Facts{Driver: driver, Gated: []string{driver}, Object: tc.now, Kept: tc.kept}
		if p := PlanFor(f); p.Refused() != tc.differs || tc.differs && p.Obstacles[0].Code != CopyDiffers {
			t.Errorf("%s: %+v", name, p.Obstacles)
		}
		if p := PlanFor(f, CopyDiffers); p.Refused() {
			t.Errorf("%s, in spite of it: %+v", name, p.Obstacles)
		}
	}
}

// A VolumeLock of before counts where it is of this Node: that its boot may have mounted without asking the volume lock sees by the CSIDriver's UID. One of another Node stands against it, until
// a person confirms its release, under the CSIDriver that there is.
func TestLockOfBefore(t *testing.T) {
	t.Parallel()
	pv := corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}, Spec: corev1.PersistentVolumeSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, ClaimRef: &corev1.ObjectReference{Namespace: "shop", Name: "data"},
		PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: "h"}}}}
	facts := Facts{Driver: driver, Gated: []string{driver}, Object: &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: driver, UID: "put-back"}, Spec: storagev1.CSIDriverSpec{AttachRequired: new(false)}}, Volumes: []corev1.PersistentVolume{pv},
		Nodes: []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "u"}, Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{BootID: "b"}, Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}}},
		Pods: []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db-0"}, Spec: corev1.PodSpec{NodeName: "n",
			Volumes: []corev1.Volume{{VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}}}}}
	own := PlanFor(&facts)
	if len(own.Locks) != 1 || own.Refused() {
		t.Fatalf("%+v", own)
	}
	confirmed := func(l *v1alpha1.VolumeLock) {
		l.Spec.Node.UID, l.Status.DriverUID = "v", new(facts.Object.UID)
		l.Status.Release = &v1alpha1.VolumeRelease{Since: metav1.NowMicro()}
		l.Annotations = map[string]string{v1alpha1.AnnotationConfirmRelease: volumelock.Confirmation(l)}
	}
	for name, tc := range map[string]struct {
		change            func(*v1alpha1.VolumeLock)
		refused, replaced bool
	}{
		"its own":         {func(*v1alpha1.VolumeLock) {}, false, false},
		"not adopted":     {func(l *v1alpha1.VolumeLock) { l.Spec.Adopted = false }, false, false},
		"an earlier boot": {func(l *v1alpha1.VolumeLock) { l.Spec.Node.BootID = "a" }, false, false},
		"another node":    {func(l *v1alpha1.VolumeLock) { l.Spec.Node.Name, l.Spec.Node.UID = "m", "v" }, true, false},
		"made anew":       {func(l *v1alpha1.VolumeLock) { l.Spec.Node.UID = "v" }, true, false},
		"confirmed":       {confirmed, false, true},
		"confirmed under another CSIDriver": {func(l *v1alpha1.VolumeLock) {
			confirmed(l)
			*l.Status.DriverUID = "gated"
		}, true, false},
		"an earlier release confirmed": {func(l *v1alpha1.VolumeLock) {
			confirmed(l)
			l.Status.Release.Attachment = "later"
		}, true, false},
	} {
		l := own.Locks[0].DeepCopy()
		tc.change(l)
		f := facts
		f.Locks = []v1alpha1.VolumeLock{*l}
		p := PlanFor(&f, Waivable()...)
		if standing := !tc.refused && !tc.replaced; p.Refused() != tc.refused || len(p.Replaced) != len(p.Locks) || len(p.Locks) > 0 != tc.replaced || p.Standing > 0 != standing {
			t.Errorf("%s: %+v", name, p)
		}
	}
}

// Who leaves is told of finalizers that only the volume lock takes away, also where nobody holds a volume any more.
func TestLeaveTellsOfFinalizers(t *testing.T) {
	t.Parallel()
	of := func(name, driver string, finalizers ...string) storagev1.VolumeAttachment {
		return storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: finalizers}, Spec: storagev1.VolumeAttachmentSpec{Attacher: driver}}
	}
	held := v1alpha1.VolumeLock{ObjectMeta: metav1.ObjectMeta{Name: "volume-1"}, Spec: v1alpha1.VolumeLockSpec{Driver: driver, Attachment: v1alpha1.AttachmentReference{Name: "holds"}}}
	f := &Facts{Driver: driver, Object: &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: driver}, Spec: storagev1.CSIDriverSpec{AttachRequired: new(false)}}, Locks: []v1alpha1.VolumeLock{held},
		Attachments: []storagev1.VolumeAttachment{of("holds", driver, v1alpha1.FinalizerVolumeLock), of("lost", driver, v1alpha1.FinalizerVolumeLock), of("waits", driver), of("other", "x", v1alpha1.FinalizerVolumeLock)}}
	l := Leave(f)
	if l.Refused() || l.Attached != 1 || l.Marked != 1 || !strings.Contains(l.Text(console.Style{}), "1 VolumeAttachment has the volume lock's without a VolumeLock") {
		t.Errorf("%+v\n%s", l, l.Text(console.Style{}))
	}
	f.Attachments = f.Attachments[:1]
	if l := Leave(f); l.Marked != 0 || strings.Contains(l.Text(console.Style{}), "Finalizers") {
		t.Errorf("without any: %+v", l)
	}
}
