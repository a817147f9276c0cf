package volumelocktest

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podgrace/podgrace/volumelock"
)

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
	unlocked   bool // nobody held the volume when such a pod came, so that only an adoption finds it
	reported   bool // as in use, so that it may go on
	known      bool // actual state of world
	attachable bool // in the actual state of world
	misled     bool // it was detached while in use, because the stored list did not have it
	late       bool // it was detached while in use, by what was so before, and no lock says so yet
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

// asks reports whether a volume of the machine waits for the gate, or has passed it.
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

// restart starts the kubelet again: the kernel, and what is mounted, stays.
func (m *Machine) restart(w *World, pods [2]bool) {
	n := w.nodes[m.name]
	if !m.runs || !m.linked || n == nil {
		return
	}
	if slices.ContainsFunc(m.volumes[:], func(v mount) bool { return (v.misled || v.late) && (v.mounted || v.passed) }) {
		return // assumed not to happen
	}
	m.sending = nil
	for i := range m.volumes {
		v := &m.volumes[i]
		*v = mount{mounted: v.mounted || v.passed, known: v.mounted || v.passed, attachable: attachedTo(n, i), wanted: pods[i] && v.wanted && (w.gated() || w.alone(m)), ungated: !w.gated(), unlocked: v.unlocked}
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
			v.known, v.misled, v.late, v.unlocked = false, false, false, false
		}
	}
}

func (m *Machine) podGoes(v int) { m.volumes[v].wanted, m.volumes[v].reported = false, false }
