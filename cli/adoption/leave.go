package adoption

import (
	"fmt"
	"slices"

	storagev1 "k8s.io/api/storage/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/internal/console"
	"github.com/podgrace/podgrace/volumelock"
)

// Leaving is what is done to take a driver out of the volume lock.
type Leaving struct {
	Driver string
	// Old is the CSIDriver that is deleted, New the one that is made; nil: it attaches nothing already.
	Old, New *storagev1.CSIDriver
	// Locks are deleted once the driver is not gated: they are of no VolumeAttachment any more, and gate nothing.
	Locks []v1alpha1.VolumeLock
	// Attached are the VolumeLocks that go when the pods of their VolumeAttachments end.
	Attached int
	// Marked are VolumeAttachments with the volume lock's finalizer and without a VolumeLock: their volumes were to be taken for them when others were faster.
	Marked    int
	Obstacles []Obstacle
}

// Refused reports whether something stands against it.
func (l *Leaving) Refused() bool { return refused(l.Obstacles) }

// Leave plans the way back, in spite of these obstacles.
//
// The VolumeAttachments need not be deleted: the attach/detach controller takes what can't be attached any more for detached as soon as its pods end
// (pkg/controller/volume/attachdetach/populator/desired_state_of_world_populator.go, v1.36.3), and the volume lock, which has to run until then, lets them go.
func Leave(f *Facts, despite ...Code) *Leaving {
	l := &Leaving{Driver: f.Driver}
	gated := true
	switch d := f.Object; {
	case d == nil && f.Kept == nil:
		l.Obstacles = append(l.Obstacles, Obstacle{Code: NoDriver, What: "there is no CSIDriver " + f.Driver, Help: "kubectl get csidrivers lists those that are there"})
		return l
	case d == nil:
		l.New = anew(f.Kept, false)
	case d.Spec.AttachRequired != nil && !*d.Spec.AttachRequired:
		gated = false
	default:
		l.Old, l.New = d, anew(d, false)
		if StageOf(d, nil) == Attaches {
			l.Obstacles = append(l.Obstacles, Obstacle{Code: NotAdopted, What: "kubectl podgrace volumelock adopt has not gated it, so that it may be one that attaches by itself",
				Help: "with attachRequired: false the volumes of such a driver are never attached, and can't be mounted"})
		}
		for _, o := range ownersOf(d) {
			l.Obstacles = append(l.Obstacles, Obstacle{Code: Managed, What: "the CSIDriver is kept by " + o.who, Help: "set attachRequired: false there, too: else it is undone"})
		}
	}
	l.locks(f, gated)
	waive(l.Obstacles, despite)
	return l
}

func (l *Leaving) locks(f *Facts, gated bool) {
	for i := range f.Attachments {
		a := &f.Attachments[i]
		holds := func(lock v1alpha1.VolumeLock) bool { return volumelock.Holder(&lock).Name == a.Name }
		if a.Spec.Attacher == f.Driver && slices.Contains(a.Finalizers, v1alpha1.FinalizerVolumeLock) && !slices.ContainsFunc(f.Locks, holds) {
			l.Marked++
		}
	}
	for i := range f.Locks {
		lock := &f.Locks[i]
		if lock.Spec.Driver != f.Driver {
			continue
		}
		if of := func(a storagev1.VolumeAttachment) bool { return a.Name == volumelock.Holder(lock).Name }; slices.ContainsFunc(f.Attachments, of) {
			l.Attached++
		} else {
			l.Locks = append(l.Locks, *lock)
		}
		if !gated {
			continue
		}
		if nodes := f.waitFor(lock); len(nodes) > 0 {
			l.Obstacles = append(l.Obstacles, Obstacle{Code: Waiting, What: volumelock.Whose(lock) + ", and pods wait for it on " + console.Some(nodes, 5, ", ") + ", which would mount it at once",
				Help: "delete the pods that wait, or have the volume released first"})
		}
		if lock.Status.Release != nil && lock.Annotations[v1alpha1.AnnotationConfirmRelease] != volumelock.Confirmation(lock) {
			l.Obstacles = append(l.Obstacles, Obstacle{Code: Held, What: volumelock.Whose(lock) + ", and is not proved to be rid of it: any pod could mount it besides",
				Help: fmt.Sprintf("have it released first (kubectl podgrace volumelock list %s says what that waits for)", lock.Name)})
		}
	}
}

// waitFor are the nodes with VolumeAttachments for a volume that another node holds.
func (f *Facts) waitFor(lock *v1alpha1.VolumeLock) (nodes []string) {
	for i := range f.Attachments {
		a := &f.Attachments[i]
		if a.Spec.Attacher != f.Driver || a.Status.Attached || a.Spec.NodeName == lock.Spec.Node.Name || a.Spec.Source.PersistentVolumeName == nil {
			continue
		}
		for j := range f.Volumes {
			v := &f.Volumes[j]
			if v.Name != *a.Spec.Source.PersistentVolumeName || v.Spec.CSI == nil || !volumelock.Exclusive(v) {
				continue
			}
			if volumelock.LockFor(a, v) == lock.Name {
				nodes = append(nodes, a.Spec.NodeName)
			}
		}
	}
	slices.Sort(nodes)
	return slices.Compact(nodes)
}
