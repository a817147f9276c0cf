package volumelocktest

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podgrace/podgrace/volumelock"
)

// makeAttachment is the attach/detach controller's.
func (w *World) makeAttachment(v int, node string) {
	name := AttachmentName(v, node)
	if a := w.attachments[name]; a != nil {
		delete(w.forgotten, a.UID) // it wants it attached, and finds that it exists
		return
	}
	w.attachments[name] = &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: w.uid("va-"), ResourceVersion: w.next(), CreationTimestamp: metav1.NewTime(w.Now())},
		Spec:       storagev1.VolumeAttachmentSpec{Attacher: Driver, NodeName: node, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &volumes[v].Name}},
	}
}

// reportAttached writes volumesAttached.
func (w *World) reportAttached(v int, node string, is bool) {
	old := w.nodes[node]
	if old == nil || attachedTo(old, v) == is {
		return
	}
	n := old.DeepCopy()
	n.ResourceVersion = w.next()
	if is {
		n.Status.VolumesAttached = append(n.Status.VolumesAttached, corev1.AttachedVolume{Name: nameInUse(v)})
	} else {
		n.Status.VolumesAttached = slices.DeleteFunc(n.Status.VolumesAttached, func(a corev1.AttachedVolume) bool { return a.Name == nameInUse(v) })
	}
	w.nodes[node] = n
}

// cordon has nobody be scheduled to a node any more, or again.
func (w *World) cordon(node string) {
	if old := w.nodes[node]; old != nil {
		n := old.DeepCopy()
		n.ResourceVersion, n.Spec.Unschedulable = w.next(), !old.Spec.Unschedulable
		w.nodes[node] = n
	}
}

// detach deletes a VolumeAttachment: by force whether the volume is in use or not, of a node that has not been heard of.
func (w *World) detach(v int, node string, force bool) {
	a, n := w.attachments[AttachmentName(v, node)], w.nodes[node]
	if a == nil || w.forgotten[a.UID] || !force && n != nil && slices.Contains(n.Status.VolumesInUse, nameInUse(v)) {
		return
	}
	if force {
		w.silence(node)
	}
	if force && n != nil && slices.Contains(n.Status.VolumesInUse, nameInUse(v)) {
		w.Seen.forced++
	}
	w.log("%s is deleted, by force: %t", a.Name, force)
	w.mislead(v, node)
	w.reportAttached(v, node, false)
	w.remove(a)
}

// mislead is about a volume that is detached from a node: if its kubelet has it, and the stored list does not say so, it was detached as if it were not in use.
func (w *World) mislead(v int, node string) {
	n := w.nodes[node]
	for _, m := range w.Machines {
		if k := &m.volumes[v]; m.name == node && (k.mounted || k.passed || k.known) && (n == nil || !slices.Contains(n.Status.VolumesInUse, nameInUse(v))) {
			k.misled = true
		}
	}
}

// detachLate deletes a VolumeAttachment whose volume is in use, of a node that is well: the attach/detach controller goes by what its informer had before, that the node was not ready, or did not
// list the volume, and asks the API server no more once six minutes have gone since the pod did (reconciler.go, reconcile, v1.36.3: verifySafeToDetach).
func (w *World) detachLate(v int, node string) {
	a, n := w.attachments[AttachmentName(v, node)], w.nodes[node]
	if a == nil || n == nil || a.DeletionTimestamp != nil || w.forgotten[a.UID] || !slices.Contains(n.Status.VolumesInUse, nameInUse(v)) {
		return
	}
	w.log("%s is deleted, by what was so before", a.Name)
	w.Seen.late++
	for _, m := range w.Machines {
		if k := &m.volumes[v]; m.name == node && (k.mounted || k.passed || k.known) {
			k.late = true
		}
	}
	w.reportAttached(v, node, false)
	w.remove(a)
}

// noted is about a deletion that the lock says of since now: a kubelet whose volume was listed then may be started again.
func (w *World) noted() {
	for _, m := range w.Machines {
		for i := range m.volumes {
			if v, n := &m.volumes[i], w.nodes[m.name]; v.late {
				v.late, v.misled = false, v.misled || n == nil || !slices.Contains(n.Status.VolumesInUse, nameInUse(i))
			}
		}
	}
}

// deleteByHand is somebody who deletes a VolumeAttachment; the attach/detach controller finds out once it is gone.
func (w *World) deleteByHand(v int, node string) {
	a := w.attachments[AttachmentName(v, node)]
	if a == nil || a.DeletionTimestamp != nil {
		return
	}
	w.log("somebody deletes %s", a.Name)
	w.Seen.byHand++
	w.mislead(v, node)
	w.remove(a)
}

// unfinalize is somebody who takes the finalizer from a VolumeAttachment.
func (w *World) unfinalize(v int, node string) {
	a := w.attachments[AttachmentName(v, node)]
	if a == nil {
		return
	}
	w.log("somebody takes the finalizer from %s", a.Name)
	b := a.DeepCopy()
	b.Finalizers, b.ResourceVersion = nil, w.next()
	w.attachments[a.Name] = b
	if b.DeletionTimestamp != nil {
		delete(w.attachments, a.Name)
	}
}

// remove deletes an attachment as the API server does.
func (w *World) remove(a *storagev1.VolumeAttachment) {
	switch {
	case len(a.Finalizers) == 0:
		delete(w.attachments, a.Name)
		return
	case a.DeletionTimestamp != nil:
		return
	}
	b := a.DeepCopy()
	b.DeletionTimestamp, b.ResourceVersion = &metav1.Time{Time: w.Now()}, w.next()
	w.attachments[a.Name] = b
}

// silence is what the node lifecycle controller says of a node that it does not hear of.
func (w *World) silence(name string) {
	old := w.nodes[name]
	if old == nil || old.Status.Conditions[0].Status != corev1.ConditionTrue {
		return
	}
	n := old.DeepCopy()
	n.ResourceVersion = w.next()
	n.Status.Conditions[0].Status, n.Status.Conditions[0].LastTransitionTime = corev1.ConditionUnknown, metav1.NewTime(w.Now())
	w.nodes[name] = n
	w.log("node %s is not ready", name)
}

// otherAttacher says attached of a VolumeAttachment, as an external-attacher does that runs beside, and is found at once: else nothing holds.
func (w *World) otherAttacher(v int, node string) {
	old := w.attachments[AttachmentName(v, node)]
	if old == nil || old.DeletionTimestamp != nil || old.Status.Attached || volumelock.Conflict(Driver, w.driver, nil) != "" || w.Hand != nil || w.deciding {
		return
	}
	w.log("another attacher says attached of %s on %s", volumes[v].Name, node)
	a := old.DeepCopy()
	a.ResourceVersion, a.Status = w.next(), storagev1.VolumeAttachmentStatus{Attached: true}
	w.attachments[a.Name] = a
	delete(w.forgotten, a.UID) // as where we say so: nobody has looked since it was withdrawn
	w.Seen.others++
	w.Whole(&Attacher{}, a.Name)
}
