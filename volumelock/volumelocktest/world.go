// Package volumelocktest is a cluster in which random histories happen, for the tests of the volume lock: of its decisions (package volumelock) and of what carries them out
// (volumelock/controller).
package volumelocktest

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/volumelock"
)

// Driver is the driver of its volumes.
const Driver = "nfs.csi.k8s.io"

// began is when each test's world begins.
var began = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// volumes are two PersistentVolumes for one export.
var volumes = []*corev1.PersistentVolume{pv("pv-0", "/srv/db", corev1.ReadWriteOnce), pv("pv-1", "/srv//db/", corev1.ReadWriteOncePod)}

func pv(name, share string, modes ...corev1.PersistentVolumeAccessMode) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeSpec{AccessModes: modes, PersistentVolumeSource: corev1.PersistentVolumeSource{
		CSI: &corev1.CSIPersistentVolumeSource{Driver: Driver, VolumeHandle: "handle-of-" + name, VolumeAttributes: map[string]string{"server": "Filer.example.", "share": share}}}}}
}

func nameInUse(v int) corev1.UniqueVolumeName {
	return volumelock.InUseName(Driver, volumes[v].Spec.CSI.VolumeHandle)
}

// World is a cluster: what the API server has, the machines as they really are, and attachers that may stop after each of their steps. Its attach/detach controller is worse than the
// real one: it makes and deletes VolumeAttachments as it likes.
//
// What the model assumes, in more detail than the package's doc.go: a machine never has two kernels; one that takes another's name finds no VolumeAttachment of before; a request that a kubelet has given up on does not
// outlive its boot, but while it is not known which boot mounted without asking and nothing is mounted by asking, and no second one waits beside it; the attach/detach controller takes a volume out of volumesAttached and deletes the VolumeAttachment at once; no kubelet is
// restarted that has mounted what was detached because its stored list lacked it, or, before that is noted, because that controller's informer was late; people confirm what is so, once the kubelet is done with the volume. While the driver is not gated pods come
// to one node alone, which is any where nobody holds the lock, and no decision is under way when that begins. Whoever adopts sees all that is mounted and no lock knew, and no other attacher runs before that.
type World struct {
	revision, ids, clock int
	nodes                map[string]*corev1.Node
	attachments          map[string]*storagev1.VolumeAttachment
	driver               *storagev1.CSIDriver // nil: there is none
	lock                 *v1alpha1.VolumeLock
	receipts             []v1alpha1.FenceReceipt
	forgotten            map[types.UID]bool // VolumeAttachments that the attach/detach controller takes for detached: withdrawn, and not attached again (it looks once a minute)
	Machines             []*Machine
	attachers            []Attacher
	// Mutant spoils what is read, as if a rule were not there.
	Mutant func(*volumelock.AttachFacts, *volumelock.ReleaseFacts)
	// Jumps is by how much the clock of the attachers' machines is wrong, whenever it is read; nil: by nothing.
	Jumps func() time.Duration
	// Unguarded: writes are not refused that name an old resourceVersion of this kind.
	Unguarded map[string]bool
	Seen      Counts
	// Hand is who reads, decides and writes about a VolumeAttachment, or about the VolumeLock (empty), where that is not this package's own attacher.
	Hand func(about string)
	// deciding: Hand is.
	deciding bool
	log      func(format string, args ...any)
}

// Counts are what histories have seen.
type Counts struct{ taken, attached, mounted, again, handed, askedTwice, byReceipt, byStorage, byPerson, withdrawn, forgotten, ungated, others, forced, late, byHand, conflicts int }

// New is a world with three machines, of which nobody uses a volume.
func New() *World {
	w := &World{nodes: map[string]*corev1.Node{}, attachments: map[string]*storagev1.VolumeAttachment{}, forgotten: map[types.UID]bool{}, Unguarded: map[string]bool{}, attachers: make([]Attacher, 3), log: func(string, ...any) {}}
	w.makeDriver(true)
	w.mark(volumelock.AdoptedMark(w.driver.UID))
	for i := range 3 {
		m := &Machine{name: fmt.Sprintf("n%d", i), nodes: map[types.UID]bool{}}
		w.Machines = append(w.Machines, m)
		m.start(w)
	}
	return w
}

func (w *World) next() string { w.revision++; return strconv.Itoa(w.revision) }
func (w *World) uid(of string) types.UID {
	w.ids++
	return types.UID(of + strconv.Itoa(w.ids))
}

// makeDriver makes the CSIDriver again, with the annotation of the one before, as kubectl replace --force does. Nobody has adopted it yet.
func (w *World) makeDriver(gated bool) {
	d := &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: Driver, UID: w.uid("driver-")}, Spec: storagev1.CSIDriverSpec{AttachRequired: &gated}}
	if w.driver != nil {
		d.Annotations = w.driver.Annotations
	}
	w.driver = d
	w.log("the CSIDriver is made anew, gated: %t", gated)
}

// mark has the CSIDriver say how far its adoption has come; empty: somebody takes that away.
func (w *World) mark(as string) {
	if w.driver == nil || !w.gated() {
		return
	}
	w.driver = w.driver.DeepCopy()
	w.driver.Annotations = map[string]string{v1alpha1.AnnotationGated: as}
	w.log("the CSIDriver is marked %q", as)
}

// loseDriver deletes the CSIDriver, for which kubelets go on to wait.
func (w *World) loseDriver() {
	if w.gated() {
		w.driver = nil
		w.log("the CSIDriver is deleted")
	}
}

// gated reports whether kubelets wait.
func (w *World) gated() bool { return w.driver == nil || *w.driver.Spec.AttachRequired }

// adopted has the driver be gated: there is a CSIDriver for which kubelets wait, and what a machine has mounted that no lock knew has its lock. Of what one did know that has to be enough: an
// adoption finds it only while its pods are there.
func (w *World) adopted() {
	if w.driver == nil || !w.gated() {
		w.makeDriver(true)
	}
	if volumelock.Adopted(w.driver) {
		return
	}
	for _, m := range w.Machines {
		for i, v := range m.volumes {
			switch before := v.unlocked && (v.ungated && v.wanted || v.known || v.mounted || v.passed); {
			case !before || w.holder(m):
			case w.lock != nil:
				return // it is locked for another one
			case w.nodes[m.name] == nil || w.nodes[m.name].Status.NodeInfo.BootID != m.boot:
				return // whose volume it is can't be told
			default:
				w.adopt(m, i)
			}
		}
	}
	w.mark(volumelock.AdoptedMark(w.driver.UID))
}

func driverUID(d *storagev1.CSIDriver) types.UID {
	if d == nil {
		return ""
	}
	return d.UID
}

// ungate has the driver not be gated: pods that wait for the volume then mount it without asking (findAndRemoveDeletedPods).
func (w *World) ungate() {
	if !w.gated() || w.deciding {
		return
	}
	w.attachers = make([]Attacher, len(w.attachers))
	w.makeDriver(false)
	w.Seen.ungated++
	for _, m := range w.Machines {
		for i := range m.volumes {
			if v := &m.volumes[i]; v.wanted && !w.alone(m) {
				m.podGoes(i)
			} else if v.wanted {
				v.ungated, v.unlocked = true, v.unlocked || w.lock == nil
			}
		}
	}
}

// holder reports whether a machine has the lock, also by a Node that it was before.
func (w *World) holder(m *Machine) bool { return w.lock != nil && m.nodes[w.lock.Spec.Node.UID] }

// alone reports whether pods may come to a machine while the driver is not gated: to whoever holds the lock, else to the first one.
func (w *World) alone(m *Machine) bool {
	if w.lock != nil {
		return w.holder(m)
	}
	return !slices.ContainsFunc(w.Machines, func(o *Machine) bool {
		return o != m && slices.ContainsFunc(o.volumes[:], func(v mount) bool { return v.wanted || v.known || v.passed || v.mounted })
	})
}

// Now is what time it is: a second later with each event.
func (w *World) Now() time.Time { return began.Add(time.Duration(w.clock) * time.Second) }

// Clock is what time it is by the clock of the attachers' machines.
func (w *World) Clock() time.Time {
	if w.Jumps == nil {
		return w.Now()
	}
	return w.Now().Add(w.Jumps())
}

func at(beat int) metav1.Time { return metav1.NewTime(began.Add(time.Duration(beat) * time.Second)) }

// Writers are the machines that have the volume, or are about to, and can write to it.
func (w *World) Writers() (all []string) {
	for _, m := range w.Machines {
		has := slices.ContainsFunc(m.volumes[:], func(v mount) bool { return v.mounted || v.passed })
		if m.runs && has && m.revoked != m.boot {
			all = append(all, m.name)
		}
	}
	return all
}

// AttachmentName is what the VolumeAttachment of a volume and a node is called.
func AttachmentName(v int, node string) string {
	return volumelock.AttachmentName(Driver, volumes[v].Spec.CSI.VolumeHandle, node)
}

// podComes has a pod come to a node, and its attachment.
func (w *World) podComes(m *Machine, v int) {
	if !w.gated() && !w.alone(m) {
		return
	}
	if m.runs && m.linked && !m.volumes[v].wanted {
		w.log("a pod for %s comes to %s", volumes[v].Name, m.name)
		k := &m.volumes[v]
		k.wanted, k.ungated, k.unlocked = true, !w.gated(), k.unlocked || !w.gated() && w.lock == nil
	}
	if w.gated() {
		w.makeAttachment(v, m.name)
	}
}

// before has the first machine have the volume from before its driver was gated.
func (w *World) before() {
	w.Machines[0].volumes[0] = mount{wanted: true, ungated: true, unlocked: true, known: true, mounted: true}
	w.log("n0 has %s from before", volumes[0].Name)
}

// adopt makes the lock of what a machine has from before.
func (w *World) adopt(m *Machine, i int) {
	n := w.nodes[m.name]
	m.volumes[i].unlocked = false
	v, _ := volumelock.VolumeOf(volumes[i])
	w.lock = &v1alpha1.VolumeLock{ObjectMeta: metav1.ObjectMeta{Name: v.LockName(), UID: w.uid("lock-"), ResourceVersion: w.next()}, Spec: v1alpha1.VolumeLockSpec{
		Driver: Driver, Volume: v.Key, Identity: v.Identity, PersistentVolume: volumes[i].Name, VolumeHandle: volumes[i].Spec.CSI.VolumeHandle, Adopted: true, DriverUID: w.driver.UID,
		Node: v1alpha1.BootReference{Name: n.Name, UID: n.UID, BootID: m.boot}, Attachment: v1alpha1.AttachmentReference{Name: AttachmentName(i, m.name)}}}
	w.log("%s of %s is adopted", volumes[i].Name, m.name)
}

func volumeNamed(name string) *corev1.PersistentVolume {
	return volumes[slices.IndexFunc(volumes, func(v *corev1.PersistentVolume) bool { return v.Name == name })]
}

// LockName is the name of the VolumeLock; empty: there is none.
func (w *World) LockName() string {
	if w.lock == nil {
		return ""
	}
	return w.lock.Name
}
