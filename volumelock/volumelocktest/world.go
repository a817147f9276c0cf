// Package volumelocktest is a cluster in which random histories happen, for the tests of the volume lock: of its decisions (package volumelock) and of what carries them out
// (volumelock/controller).
package volumelocktest

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/guard"
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
// What is assumed: see doc.go. A machine never has two kernels; one that takes another's name finds no VolumeAttachment of before; a request that a kubelet has given up on does not
// outlive its boot, but while it is not known which boot mounted without asking and nothing is mounted by asking, and no second one waits beside it; the attach/detach controller takes a volume out of volumesAttached and deletes the VolumeAttachment at once; no kubelet is
// restarted that has mounted what was detached because its stored list lacked it; people confirm what is so, once the kubelet is done with the volume. While the driver is not gated pods come
// to the node alone that holds the lock, and no decision is under way when that begins. Whoever adopts sees all that is mounted, and no other attacher runs before that.
type World struct {
	revision, ids, clock int
	nodes                map[string]*corev1.Node
	attachments          map[string]*storagev1.VolumeAttachment
	driver               *storagev1.CSIDriver // nil: there is none
	lock                 *v1alpha1.VolumeLock
	unseen               bool // what is mounted from before no VolumeLock knows
	receipts             []v1alpha1.FenceReceipt
	forgotten            map[types.UID]bool // VolumeAttachments that the attach/detach controller takes for detached: withdrawn, and not attached again (it looks once a minute)
	Machines             []*Machine
	attachers            []Attacher
	// Mutant spoils what is read, as if a rule were not there.
	Mutant func(*volumelock.AttachFacts, *volumelock.ReleaseFacts)
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
type Counts struct{ taken, attached, mounted, again, handed, askedTwice, byReceipt, byStorage, byPerson, withdrawn, forgotten, ungated, others, forced, conflicts int }

// Machine is one node as it really is: its kernel and its kubelet.
type Machine struct {
	name             string
	boot             string
	boots            int
	runs, terminated bool
	linked           bool
	nodes            map[types.UID]bool // it has been
	clock            int
	volumes          [2]mount
	informer         *corev1.Node // the Node as the kubelet's informer has it, maybe long ago
	sending          *report
	given            *report // up, and still on its way
	revoked          string  // the boot whose writes the storage refuses
}

// mount is what a kubelet knows and does of one volume.
type mount struct {
	wanted     bool // by a pod: desired state of world
	ungated    bool // it needs not be attached, as the kubelet knew when that pod came
	reported   bool // as in use, so that it may go on
	known      bool // actual state of world
	attachable bool // in the actual state of world
	misled     bool // it was detached while in use, because the stored list did not have it
	passed     bool // the gate: it begins to mount
	mounted    bool
}

// report is a status that a kubelet sends: what differs from what its informer had.
type report struct {
	volumes []corev1.UniqueVolumeName
	differs bool
	// ready: its informer had the Node as not ready.
	ready bool
	boot  string
	beat  int
}

// Attacher is one replica in the midst of a decision.
type Attacher struct {
	stage   int
	about   string // the VolumeAttachment; empty: the VolumeLock
	driver  *storagev1.CSIDriver
	attach  volumelock.AttachFacts
	release volumelock.ReleaseFacts
}

// New is a world with three machines, of which nobody uses a volume.
func New() *World {
	w := &World{nodes: map[string]*corev1.Node{}, attachments: map[string]*storagev1.VolumeAttachment{}, forgotten: map[types.UID]bool{}, Unguarded: map[string]bool{}, attachers: make([]Attacher, 3), log: func(string, ...any) {}}
	w.makeDriver(true)
	w.mark(v1alpha1.GatedAdopted)
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

// makeDriver makes the CSIDriver anew, which nobody has adopted yet.
func (w *World) makeDriver(gated bool) {
	w.driver = &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: Driver, UID: w.uid("driver-")}, Spec: storagev1.CSIDriverSpec{AttachRequired: &gated}}
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

// gated says whether kubelets wait.
func (w *World) gated() bool { return w.driver == nil || *w.driver.Spec.AttachRequired }

// adopted has the driver be gated: there is a CSIDriver for which kubelets wait, and what a machine has mounted from before has its lock. That is looked for once only: whoever makes a CSIDriver
// anew that was adopted may copy the annotation, and what its locks know has to be enough.
func (w *World) adopted() {
	if w.driver == nil || !w.gated() {
		w.makeDriver(true)
	}
	if w.driver.Annotations[v1alpha1.AnnotationGated] == v1alpha1.GatedAdopted {
		return
	}
	for _, m := range w.Machines {
		for i, v := range m.volumes {
			if !w.unseen {
				break
			}
			switch before := v.ungated && v.wanted || (v.known || v.mounted || v.passed) && !v.attachable; {
			case !before || w.lock != nil:
			case w.nodes[m.name] == nil || w.nodes[m.name].Status.NodeInfo.BootID != m.boot:
				return // whose volume it is can't be told
			default:
				w.adopt(m, i)
			}
		}
	}
	w.unseen = false
	w.mark(v1alpha1.GatedAdopted)
}

func driverUID(d *storagev1.CSIDriver) types.UID {
	if d == nil {
		return ""
	}
	return d.UID
}

// ungate has the driver not be gated: pods that wait for the volume then mount it without asking (findAndRemoveDeletedPods).
func (w *World) ungate() {
	if !w.gated() || w.lock == nil || w.deciding {
		return
	}
	w.attachers = make([]Attacher, len(w.attachers))
	w.makeDriver(false)
	w.Seen.ungated++
	for _, m := range w.Machines {
		for i := range m.volumes {
			if v := &m.volumes[i]; v.wanted && !w.holder(m) {
				m.podGoes(i)
			} else if v.wanted {
				v.ungated = true
			}
		}
	}
}

// holder says whether a machine has the lock, also by a Node that it was before.
func (w *World) holder(m *Machine) bool { return w.lock != nil && m.nodes[w.lock.Spec.Node.UID] }

// Now is what time it is: a second later with each event.
func (w *World) Now() time.Time { return began.Add(time.Duration(w.clock) * time.Second) }

func at(beat int) metav1.Time { return metav1.NewTime(began.Add(time.Duration(beat) * time.Second)) }

// start boots the machine and registers its Node if there is none.
func (m *Machine) start(w *World) {
	m.boots++
	m.runs, m.linked, m.boot = true, true, fmt.Sprintf("boot-%s-%d", m.name, m.boots)
	m.volumes, m.sending = [2]mount{}, nil
	m.register(w)
	m.informer = w.nodes[m.name]
}

// register makes the Node if there is none.
func (m *Machine) register(w *World) {
	if w.nodes[m.name] != nil || !m.runs || !m.linked {
		return
	}
	m.clock++
	w.nodes[m.name] = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: m.name, UID: w.uid("node-"), ResourceVersion: w.next()}, Status: corev1.NodeStatus{
		NodeInfo: corev1.NodeSystemInfo{BootID: m.boot}, VolumesInUse: m.list(),
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: at(m.clock), LastTransitionTime: at(m.clock)}}}}
	m.nodes[w.nodes[m.name].UID] = true
}

func (m *Machine) stop() {
	m.runs = false
	if m.given == nil {
		m.given = m.sending
	}
	m.volumes, m.sending = [2]mount{}, nil
}

// list is GetVolumesInUse.
func (m *Machine) list() (all []corev1.UniqueVolumeName) {
	for i, v := range m.volumes {
		if v.wanted && !v.ungated || v.known && v.attachable {
			all = append(all, nameInUse(i))
		}
	}
	slices.Sort(all)
	return all
}

// marks is MarkVolumesAsReportedInUse.
func (m *Machine) marks(stored []corev1.UniqueVolumeName) {
	for i := range m.volumes {
		v := &m.volumes[i]
		v.reported = v.wanted && slices.Contains(stored, nameInUse(i))
	}
}

// work is one round of the kubelet's status (tryUpdateNodeStatus): it works out what to send, against its informer.
func (m *Machine) work(periodic bool) {
	if !m.runs || m.sending != nil || m.informer == nil {
		return
	}
	list := m.list()
	r := &report{boot: m.boot}
	r.differs = !slices.Equal(list, sorted(m.informer.Status.VolumesInUse))
	r.ready = m.informer.Status.Conditions[0].Status != corev1.ConditionTrue
	if !r.differs && !r.ready && m.informer.Status.NodeInfo.BootID == m.boot && !periodic {
		m.marks(list)
		return
	}
	m.clock++
	r.volumes, r.beat = list, m.clock
	m.sending = r
}

func sorted(list []corev1.UniqueVolumeName) []corev1.UniqueVolumeName {
	list = slices.Clone(list)
	slices.Sort(list)
	return list
}

// arrive stores a report.
func (w *World) arrive(m *Machine, r *report) *corev1.Node {
	old := w.nodes[m.name]
	if old == nil {
		return nil
	}
	n := old.DeepCopy()
	w.log("status of %s arrives: %+v", m.name, *r)
	n.ResourceVersion, n.Status.NodeInfo.BootID = w.next(), r.boot
	n.Status.Conditions[0].LastHeartbeatTime = at(r.beat)
	if r.differs {
		n.Status.VolumesInUse = r.volumes
	}
	if r.ready {
		n.Status.Conditions[0].Status, n.Status.Conditions[0].LastTransitionTime = corev1.ConditionTrue, at(r.beat)
	}
	w.nodes[m.name] = n
	return n
}

// arrived is the end of a status that the kubelet had given up on.
func (m *Machine) arrived(w *World) {
	if m.given != nil && m.given.boot != m.boot && (w.lock == nil || !volumelock.Unsettled(w.lock) || m.asks()) {
		m.given = nil // assumed not to arrive
	}
	if m.given != nil {
		w.log("a status that kubelet %s gave up on arrives", m.name)
		w.arrive(m, m.given)
		m.given = nil
	}
}

// asks says whether a volume of the machine waits for the gate, or has passed it.
func (m *Machine) asks() bool {
	return slices.ContainsFunc(m.volumes[:], func(v mount) bool { return v.reported || v.attachable && (v.known || v.passed || v.mounted) })
}

// refresh is the kubelet's informer catching up.
func (m *Machine) refresh(w *World) func() {
	return func() {
		if m.linked && m.runs {
			m.informer = w.nodes[m.name]
		}
	}
}

// answered is the end of what is being sent.
func (m *Machine) answered(w *World) {
	if m.sending == nil || !m.linked {
		return
	}
	if n := w.arrive(m, m.sending); n != nil {
		m.marks(n.Status.VolumesInUse)
	}
	m.sending = nil
}

// sync is a round of a kubelet that is well.
func (m *Machine) sync(w *World) {
	m.register(w)
	if m.linked {
		m.informer = w.nodes[m.name]
	}
	m.work(true)
	m.answered(w)
}

// restart starts the kubelet anew: the kernel, and what is mounted, stays.
func (m *Machine) restart(w *World, pods [2]bool) {
	n := w.nodes[m.name]
	if !m.runs || !m.linked || n == nil {
		return
	}
	if slices.ContainsFunc(m.volumes[:], func(v mount) bool { return v.misled && (v.mounted || v.passed) }) {
		return // assumed not to happen
	}
	m.sending = nil
	for i := range m.volumes {
		v := &m.volumes[i]
		*v = mount{mounted: v.mounted || v.passed, known: v.mounted || v.passed, attachable: attachedTo(n, i), wanted: pods[i] && v.wanted && (w.gated() || w.holder(m)), ungated: !w.gated()}
	}
	m.informer = n
	w.log("kubelet %s is restarted: %+v", m.name, m.volumes)
}

func attachedTo(n *corev1.Node, v int) bool {
	return slices.ContainsFunc(n.Status.VolumesAttached, func(a corev1.AttachedVolume) bool { return a.Name == nameInUse(v) })
}

// step is one of the steps by which a volume is mounted and unmounted.
func (m *Machine) step(w *World, i, what int) {
	v, n := &m.volumes[i], w.nodes[m.name]
	if !m.runs {
		return
	}
	before := *v
	defer func() {
		if *v != before {
			w.log("kubelet %s: %s %+v", m.name, volumes[i].Name, *v)
		}
	}()
	switch what {
	case 0: // VerifyControllerAttachedVolume
		if v.wanted && v.ungated {
			v.known = true
		} else if v.wanted && v.reported && m.linked && n != nil && attachedTo(n, i) {
			v.attachable = v.attachable || !v.known
			v.known = true
		}
	case 1: // WaitForAttach
		a := w.attachments[AttachmentName(i, m.name)]
		if v.wanted && v.ungated {
			v.passed = v.known && !v.mounted
		} else if v.wanted && v.known && m.linked && !v.mounted && a != nil && a.Status.Attached && a.DeletionTimestamp == nil {
			v.passed = true
		}
	case 2:
		if v.passed {
			v.passed, v.mounted = false, true
			w.Seen.mounted++
		}
	case 3:
		if v.mounted && !v.wanted {
			v.mounted = false
		}
	case 4: // MarkVolumeAsDetached
		if v.known && !v.mounted && !v.passed && !v.wanted {
			v.known, v.misled = false, false
		}
	}
}

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
	if !w.gated() && !w.holder(m) {
		return
	}
	if m.runs && m.linked && !m.volumes[v].wanted {
		w.log("a pod for %s comes to %s", volumes[v].Name, m.name)
		m.volumes[v].wanted, m.volumes[v].ungated = true, !w.gated()
	}
	if w.gated() {
		w.makeAttachment(v, m.name)
	}
}

// before has the first machine have the volume from before its driver was gated.
func (w *World) before() {
	w.Machines[0].volumes[0] = mount{wanted: true, ungated: true, known: true, mounted: true}
	w.log("n0 has %s from before", volumes[0].Name)
}

// adopt makes the lock of what a machine has from before.
func (w *World) adopt(m *Machine, i int) {
	n := w.nodes[m.name]
	v, _ := volumelock.VolumeOf(volumes[i])
	w.lock = &v1alpha1.VolumeLock{ObjectMeta: metav1.ObjectMeta{Name: v.LockName(), UID: w.uid("lock-"), ResourceVersion: w.next()}, Spec: v1alpha1.VolumeLockSpec{
		Driver: Driver, Volume: v.Key, Identity: v.Identity, PersistentVolume: volumes[i].Name, VolumeHandle: volumes[i].Spec.CSI.VolumeHandle, Adopted: true, DriverUID: w.driver.UID,
		Node: v1alpha1.BootReference{Name: n.Name, UID: n.UID, BootID: m.boot}, Attachment: v1alpha1.AttachmentReference{Name: AttachmentName(i, m.name)}}}
	w.log("%s of %s is adopted", volumes[i].Name, m.name)
}

func (m *Machine) podGoes(v int) { m.volumes[v].wanted, m.volumes[v].reported = false, false }

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
	w.Seen.others++
	w.Whole(&Attacher{}, a.Name)
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

// detach deletes a VolumeAttachment: by force whether the volume is in use or not, of a node that has not been heard of.
func (w *World) detach(v int, node string, force bool) {
	a, n := w.attachments[AttachmentName(v, node)], w.nodes[node]
	if a == nil || a.DeletionTimestamp != nil || w.forgotten[a.UID] || !force && n != nil && slices.Contains(n.Status.VolumesInUse, nameInUse(v)) {
		return
	}
	if force {
		w.silence(node)
	}
	if force && n != nil && slices.Contains(n.Status.VolumesInUse, nameInUse(v)) {
		w.Seen.forced++
	}
	w.log("%s is deleted, by force: %t", a.Name, force)
	for _, m := range w.Machines {
		if k := &m.volumes[v]; m.name == node && (k.mounted || k.passed || k.known) && (n == nil || !slices.Contains(n.Status.VolumesInUse, nameInUse(v))) {
			k.misled = true
		}
	}
	w.reportAttached(v, node, false)
	w.remove(a)
}

// remove deletes an attachment as the API server does.
func (w *World) remove(a *storagev1.VolumeAttachment) {
	if len(a.Finalizers) == 0 {
		delete(w.attachments, a.Name)
		return
	}
	b := a.DeepCopy()
	b.DeletionTimestamp, b.ResourceVersion = &metav1.Time{Time: w.Now()}, w.next()
	w.attachments[a.Name] = b
}

// receipt is a fencer's: what it says is so.
func (w *World) receipt(m *Machine, class v1alpha1.EvidenceClass) {
	w.silence(m.name) // only then does a fencer look
	n := w.nodes[m.name]
	if n == nil {
		return
	}
	s := v1alpha1.FenceReceiptSpec{Node: &v1alpha1.BootReference{Name: m.name, UID: n.UID, BootID: n.Status.NodeInfo.BootID}, Class: class, LastSign: guard.ConfirmOff(n, nil)}
	switch off := !m.runs || m.boot != s.Node.BootID; {
	case class == v1alpha1.EvidenceStorageRevoked:
		if off { // whose boot is not known
			return
		}
		m.revoked, s.Volumes = m.boot, []string{volumes[0].Name, volumes[1].Name}
	case class == v1alpha1.EvidenceInstanceTerminated:
		if m.runs {
			return
		}
		m.terminated = true
	case !off:
		return
	}
	w.log("receipt %s for %+v", class, *s.Node)
	w.receipts = append(slices.Clone(w.receipts), v1alpha1.FenceReceipt{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("receipt-%d", len(w.receipts))}, Spec: s})
}

// replace is another machine that takes the name.
func (w *World) replace(m *Machine) {
	if m.runs || !m.terminated || slices.ContainsFunc(slices.Collect(maps.Values(w.attachments)), func(a *storagev1.VolumeAttachment) bool { return a.Spec.NodeName == m.name }) {
		return
	}
	delete(w.nodes, m.name)
	m.given = nil
	m.terminated, m.boots, m.nodes = false, m.boots+100, map[types.UID]bool{}
	m.start(w)
}

// confirm is a person's word, who has looked.
func (w *World) confirm() {
	if w.lock == nil || w.lock.Status.Release == nil {
		return
	}
	for _, m := range w.Machines {
		if m.name == w.lock.Spec.Node.Name && slices.ContainsFunc(m.volumes[:], func(v mount) bool { return v.mounted || v.passed || v.known && !v.attachable || v.wanted && v.ungated }) {
			return
		}
	}
	l := w.lock.DeepCopy()
	l.Annotations, l.ResourceVersion = map[string]string{v1alpha1.AnnotationConfirmRelease: volumelock.Confirmation(l)}, w.next()
	w.lock = l
}

// Advance takes one attacher one read further, or has it decide and write.
func (w *World) Advance(x *Attacher, about string) {
	x.stage++
	switch x.stage {
	case 1:
		x.about, x.driver = about, w.driver
		x.attach.Lock, x.release.Lock = w.lock, w.lock
		if about == "" && w.lock == nil {
			x.stage = 0
		}
	case 2:
		if x.about != "" {
			x.attach.Attachment = w.attachments[x.about]
			if x.attach.Attachment == nil {
				x.stage = 0
			}
			return
		}
		x.release.Attachment = w.attachments[volumelock.Holder(x.release.Lock).Name]
	case 3:
		if x.about != "" {
			x.attach.Node = w.nodes[x.attach.Attachment.Spec.NodeName]
			x.attach.Volume = volumeNamed(*x.attach.Attachment.Spec.Source.PersistentVolumeName)
		} else {
			x.release.Node, x.release.Receipts = w.nodes[x.release.Lock.Spec.Node.Name], w.receipts
		}
	case 4:
		x.stage = 0
		x.attach.Now, x.release.Now = w.Now(), w.Now()
		x.attach.Conflict, x.attach.DriverUID = volumelock.Conflict(Driver, x.driver, x.attach.Attachment), driverUID(x.driver)
		x.release.Conflict, x.release.DriverUID = volumelock.Conflict(Driver, x.driver, x.release.Attachment), driverUID(x.driver)
		attach, release := x.attach, x.release
		if w.Mutant != nil {
			w.Mutant(&attach, &release)
		}
		if x.about != "" {
			w.carryOut(volumelock.Attach(attach), &x.attach, nil)
		} else {
			w.carryOut(volumelock.Release(release), nil, &x.release)
		}
	}
}

func volumeNamed(name string) *corev1.PersistentVolume {
	return volumes[slices.IndexFunc(volumes, func(v *corev1.PersistentVolume) bool { return v.Name == name })]
}

// Whole has one attacher read, decide and write with nothing between.
func (w *World) Whole(x *Attacher, about string) {
	if hand := w.Hand; hand != nil {
		w.Hand, w.deciding = nil, true // who comes between is another one
		hand(about)
		w.Hand, w.deciding = hand, false
		return
	}
	*x = Attacher{}
	for range 4 {
		w.Advance(x, about)
		if x.stage == 0 {
			return
		}
	}
}

// carryOut does as the API server would.
func (w *World) carryOut(d volumelock.Decision, a *volumelock.AttachFacts, r *volumelock.ReleaseFacts) {
	if d.Write != nil {
		about := "the lock"
		if a != nil {
			about = a.Attachment.Name
		}
		w.log("attacher, about %s: %s: %s", about, d.Reason.Code, d.Write)
	}
	var l *v1alpha1.VolumeLock
	if a != nil {
		l = a.Lock
	} else {
		l = r.Lock
	}
	stale := func(kind, read, is string) bool {
		if read != is {
			w.Seen.conflicts++
		}
		return read != is && !w.Unguarded[kind]
	}
	switch x := d.Write.(type) {
	case nil:
		return
	case volumelock.Take:
		if w.lock != nil && !w.Unguarded["take"] {
			w.Seen.conflicts++
			return
		}
		w.Seen.taken++
		w.lock = x.Lock.DeepCopy()
		w.lock.UID, w.lock.ResourceVersion, w.lock.CreationTimestamp = w.uid("lock-"), w.next(), metav1.NewTime(w.Now())
	case volumelock.Note:
		if w.lock == nil || w.lock.UID != l.UID || stale("lock", l.ResourceVersion, w.lock.ResourceVersion) {
			return
		}
		if d.Reason.Code == "Again" {
			w.Seen.again++
		}
		c := w.lock.DeepCopy()
		c.Status, c.ResourceVersion = x.Status, w.next()
		w.lock = c
	case volumelock.Free:
		if w.lock == nil || !w.Unguarded["lock"] && w.lock.UID != l.UID || stale("lock", l.ResourceVersion, w.lock.ResourceVersion) {
			return
		}
		switch x.Evidence {
		case volumelock.ByKubelet:
			w.Seen.handed++
		case volumelock.ByReceipt:
			w.Seen.byReceipt++
		case volumelock.ByStorage:
			w.Seen.byStorage++
		case volumelock.ByPerson:
			w.Seen.byPerson++
		}
		w.lock = nil
	case volumelock.Ask:
		n := w.nodes[r.Lock.Spec.Node.Name]
		if n == nil || stale("node", r.Node.ResourceVersion, n.ResourceVersion) {
			return
		}
		if r.Lock.Status.Release.Answers > 0 {
			w.Seen.askedTwice++
		}
		c := n.DeepCopy()
		c.ResourceVersion, c.Status.VolumesInUse = w.next(), append(slices.Clone(n.Status.VolumesInUse), x.Volume)
		w.nodes[n.Name] = c
	case volumelock.Detach:
		v := w.attachments[r.Attachment.Name]
		if v == nil || v.UID != r.Attachment.UID || stale("attachment", r.Attachment.ResourceVersion, v.ResourceVersion) {
			return
		}
		w.Seen.forgotten++
		w.remove(v)
	default:
		w.changeAttachment(d, a, stale)
	}
}

func (w *World) changeAttachment(d volumelock.Decision, a *volumelock.AttachFacts, stale func(kind, read, is string) bool) {
	old := w.attachments[a.Attachment.Name]
	if old == nil || stale("attachment", a.Attachment.ResourceVersion, old.ResourceVersion) {
		return
	}
	c := old.DeepCopy()
	c.ResourceVersion = w.next()
	switch x := d.Write.(type) {
	case volumelock.Finalize:
		c.Finalizers, c.Annotations = append(slices.Clone(c.Finalizers), v1alpha1.FinalizerVolumeLock), map[string]string{v1alpha1.AnnotationVolumeLock: x.Lock}
	case volumelock.Unfinalize:
		c.Finalizers = slices.DeleteFunc(slices.Clone(c.Finalizers), func(f string) bool { return f == v1alpha1.FinalizerVolumeLock })
	case volumelock.Say:
		if x.Attached {
			w.Seen.attached++
			delete(w.forgotten, c.UID)
		} else if c.Status.Attached {
			w.Seen.withdrawn++
			w.forgotten[c.UID] = true
		}
		c.Status.Attached, c.Status.AttachError = x.Attached, nil
		if x.Error != "" {
			c.Status.AttachError = &storagev1.VolumeError{Message: x.Error}
		}
	}
	w.attachments[c.Name] = c
	if c.DeletionTimestamp != nil && len(c.Finalizers) == 0 {
		delete(w.attachments, c.Name)
	}
}

// LockName is the name of the VolumeLock; empty: there is none.
func (w *World) LockName() string {
	if w.lock == nil {
		return ""
	}
	return w.lock.Name
}
