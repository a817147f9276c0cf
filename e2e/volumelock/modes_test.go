package volumelock

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
)

// What several nodes may mount is attached to each at once, and nobody holds it: neither of two nodes waits for the other, nor does one for another that is cut off.
func TestSharedVolumes(t *testing.T) {
	t.Parallel()
	l := newLab(t, "shared", "shared.example.org")
	l.start(t)
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany, corev1.ReadOnlyMany}
	volumes := make([]*corev1.PersistentVolume, len(modes))
	for i, mode := range modes {
		// ReadWriteOnce beside it is what it may also be used for.
		volumes[i] = l.disk(t, fmt.Sprintf("db-%d", i), fmt.Sprint(i), mode, corev1.ReadWriteOnce)
		l.witness.Share(unit(volumes[i]))
		first, second := l.pod(t, fmt.Sprintf("first-%d", i), fmt.Sprintf("db-%d", i), l.a), l.pod(t, fmt.Sprintf("second-%d", i), fmt.Sprintf("db-%d", i), l.b)
		l.running(t, first, l.a)
		l.running(t, second, l.b)
		l.writes(t, volumes[i], l.a, l.b)
		l.unheld(t, volumes[i], l.a, l.b)
		l.delete(t, second)
		l.gone(t, second)
		l.writes(t, volumes[i], l.a)
	}

	l.kubelets[l.a].SetSilent(true)
	l.notReady(t, l.a)
	for i, pv := range volumes {
		l.running(t, l.pod(t, fmt.Sprintf("third-%d", i), fmt.Sprintf("db-%d", i), l.b), l.b)
		l.writes(t, pv, l.a, l.b)
		l.unheld(t, pv, l.a, l.b)
	}
}

// unheld looks that a volume is attached to nodes, and to none of them by a lock.
func (l *lab) unheld(t *testing.T, pv *corev1.PersistentVolume, nodes ...string) {
	t.Helper()
	for _, node := range nodes {
		a, err := l.attachment(t.Context(), pv, node)
		if err != nil || a == nil || !a.Status.Attached || len(a.Finalizers) > 0 || a.Annotations[v1alpha1.AnnotationVolumeLock] != "" {
			t.Errorf("the VolumeAttachment of %s to %s: %+v, %v", pv.Name, node, a, err)
		}
	}
	if lock, err := l.lockOf(t.Context(), pv); lock != nil || err != nil {
		t.Errorf("%s is held: %+v, %v", pv.Name, lock, err)
	}
}

// Two PersistentVolumes for one unit are one volume, also where one of them is for one pod (ReadWriteOncePod) and the other for one node, and whichever is first.
func TestTwoVolumesOfOneUnit(t *testing.T) {
	t.Parallel()
	l := newLab(t, "twice", iscsi)
	l.start(t)
	pod, node := l.disk(t, "pod", "1", corev1.ReadWriteOncePod), l.disk(t, "node", "1")
	l.passesOn(t, "pod", pod, l.a, "node", node, l.b)
	l.passesOn(t, "node", node, l.a, "pod", pod, l.b)
}

// passesOn has a pod on one node have a volume, and one on another wait for it by another PersistentVolume, and get it.
func (l *lab) passesOn(t *testing.T, claim string, pv *corev1.PersistentVolume, node, otherClaim string, otherPV *corev1.PersistentVolume, otherNode string) {
	t.Helper()
	first := l.pod(t, "first-by-"+claim, claim, node)
	l.runs(t, first, pv, node)
	lock := l.heldBy(t, pv, node)
	if lock.Spec.PersistentVolume != pv.Name || lock.Spec.Identity != v1alpha1.VolumeByExport {
		t.Errorf("the VolumeLock: %+v", lock.Spec)
	}
	second := l.pod(t, "second-by-"+otherClaim, otherClaim, otherNode)
	l.inUse(t, otherNode, otherPV)
	l.saysWhom(t, l.asked(t, otherPV, otherNode)) // the attach/detach controller takes them for two volumes
	l.waits(t, second, otherPV, node)
	if now := l.heldBy(t, otherPV, node); now.UID != lock.UID {
		t.Errorf("it waits for another VolumeLock: %+v", now)
	}
	l.delete(t, first)
	l.runs(t, second, otherPV, otherNode)
	l.released(t, lock, "the kubelet of node "+node)
	l.delete(t, second)
	l.gone(t, second)
	l.free(t, pv)
}

// A volume of which it can't be told where it leads is locked by its handle. That another PersistentVolume with another handle leads to the same unit nobody knows then.
func TestVolumeByHandle(t *testing.T) {
	t.Parallel()
	l := newLab(t, "handle", iscsi)
	l.start(t)
	pv, same := l.disk(t, "db", "first"), l.disk(t, "again", "first") // no number
	first := l.pod(t, "db-1", "db", l.a)
	l.runs(t, first, pv, l.a)
	lock := l.heldBy(t, pv, l.a)
	if s := lock.Spec; s.Identity != v1alpha1.VolumeByHandle || s.Volume != pv.Spec.CSI.VolumeHandle {
		t.Errorf("the VolumeLock: %+v", s)
	}
	second := l.pod(t, "db-2", "db", l.b)
	l.inUse(t, l.b, pv)
	l.waits(t, second, pv, l.a)

	l.witness.Share(unit(pv)) // what is said here is that it is not noticed
	unnoticed := l.pod(t, "again", "again", l.b)
	l.running(t, unnoticed, l.b)
	l.writes(t, pv, l.a, l.b)
	if other := l.heldBy(t, same, l.b); other.UID == lock.UID || other.Spec.Volume != same.Spec.CSI.VolumeHandle {
		t.Errorf("the other VolumeLock: %+v", other.Spec)
	}
	l.notYet(t, second, pv, l.a)
	l.delete(t, unnoticed)
	l.gone(t, unnoticed)
	l.delete(t, first)
	l.runs(t, second, pv, l.b)
	l.free(t, same)
}
