package volumelocktest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/podgrace/podgrace/api/v1alpha1"
)

// event is one step of somebody: what, at which machine and volume, and which of several.
type event struct{ what, at, volume, which, cut int }

// Failure is a history in which two nodes have the volume, without what it does not need.
type Failure struct {
	seed   uint64
	tried  int
	events []event
	mutant func(*World)
}

// Search tries random histories until one fails.
func Search(tries int, first uint64, mutant func(*World), seen *Counts) *Failure {
	for i := range tries {
		w, bad := play(events(first+uint64(i)), mutant, nil)
		seen.Add(w.Seen)
		if bad {
			f := &Failure{seed: first + uint64(i), tried: i + 1, events: events(first + uint64(i)), mutant: mutant}
			f.shrink()
			return f
		}
	}
	return nil
}

// events are those of a random history.
func events(seed uint64) []event {
	r := rand.New(rand.NewPCG(seed, 1))
	all := make([]event, 20+r.IntN(100))
	for i := range all {
		all[i] = draw(r)
	}
	return all
}

func draw(r *rand.Rand) event {
	return event{what: r.IntN(100), at: []int{0, 0, 0, 1, 1, 2}[r.IntN(6)], volume: []int{0, 0, 0, 1}[r.IntN(4)], which: r.IntN(60), cut: r.IntN(20)}
}

// shrink leaves out whatever the history fails without.
func (f *Failure) shrink() {
	for changed := true; changed; {
		changed = false
		for i := range slices.Backward(f.events) {
			fewer := slices.Delete(slices.Clone(f.events), i, i+1)
			if _, bad := play(fewer, f.mutant, nil); bad {
				f.events, changed = fewer, true
			}
		}
	}
}

func (f *Failure) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "history %d, -seed=%d\n", f.tried, f.seed)
	w, _ := play(f.events, f.mutant, &b)
	fmt.Fprintf(&b, "  nodes %v have the volume", w.Writers())
	return b.String()
}

// play has events happen one after the other until two nodes have the volume.
func play(all []event, mutant func(*World), log *strings.Builder) (w *World, bad bool) {
	w = New()
	if log != nil {
		w.log = func(format string, args ...any) { fmt.Fprintf(log, "  "+format+"\n", args...) }
	}
	if mutant != nil {
		mutant(w)
	}
	if len(all) > 0 {
		switch all[0].which % 5 {
		case 0:
			w.before()
			w.adopt(w.Machines[0], 0)
		case 1: // a chart says attachRequired: true, and nobody has looked what is mounted
			w.before()
			w.mark("")
		}
	}
	for _, e := range all {
		w.clock++
		happen(w, e)
		if len(w.Writers()) > 1 {
			return w, true
		}
	}
	return w, false
}

// happen is one step of somebody, or several that mostly follow each other, up to where it is cut.
func happen(w *World, e event) {
	m, v := w.Machines[e.at], e.volume
	about := AttachmentName(v, m.name)
	switch {
	case e.what < 12:
		w.Whole(&Attacher{}, about)
	case e.what < 24:
		w.Whole(&Attacher{}, "")
	case e.what < 34:
		w.Advance(&w.attachers[e.which%3], []string{"", about}[e.cut%2])
	case e.what < 35:
		w.attachers[e.which%3] = Attacher{} // it is killed
	case e.what < 44:
		m.sync(w)
	case e.what == 49 && e.cut < 4:
		Ungated(w, m, v, e.which, e.cut)
	case e.what == 49 && e.cut == 4:
		Copied(w, m, v, e.which)
	case e.what == 49 && e.cut == 5:
		ByHand(w, m, v, e.which%24, e.which < 30)
	case e.what == 49 && e.cut == 6:
		DetachedLate(w, m, v, e.which)
	case e.what == 49 && e.cut == 7:
		Unnoted(w, m, v, e.which)
	case e.what == 49 && e.cut == 8:
		BootedWhileReleased(w, m, v, e.which%30, e.which < 40)
	case e.what < 50:
		m.step(w, v, e.which%5)
	case e.what < 58:
		ComeUp(w, m, v, e.cut)
	case e.what < 66:
		GoDown(w, m, v, e.cut, e.which%4 == 0)
	case e.what < 67:
		Late(w, m, v, e.cut, e.which%2 == 0)
	case e.what < 69:
		w.podComes(m, v)
	case e.what < 71:
		m.podGoes(v)
	case e.what < 73:
		w.reportAttached(v, m.name, w.attachments[about] != nil && w.attachments[about].Status.Attached)
	case e.what < 76 && e.which == 1:
		w.deleteByHand(v, m.name)
	case e.what < 76 && e.which == 2:
		w.detachLate(v, m.name)
	case e.what < 76:
		w.detach(v, m.name, e.which%3 == 0)
	case e.what < 90:
		kubeletHappens(w, m, e.which)
	default:
		machineHappens(w, m, v, e.which)
	}
}

// ComeUp is how a pod gets its volume.
func ComeUp(w *World, m *Machine, v, cut int) {
	about := AttachmentName(v, m.name)
	for i, do := range []func(){
		func() { w.podComes(m, v) }, func() { m.sync(w) }, func() { w.Whole(&Attacher{}, about) }, func() { w.Whole(&Attacher{}, about) }, func() { w.Whole(&Attacher{}, about) },
		func() {
			w.reportAttached(v, m.name, w.attachments[about] != nil && w.attachments[about].Status.Attached)
		},
		func() { m.step(w, v, 0) }, func() { m.step(w, v, 1) }, func() { m.step(w, v, 2) },
	} {
		if i > cut {
			return
		}
		do()
	}
}

// GoDown is how a pod leaves its volume, and the volume its node.
func GoDown(w *World, m *Machine, v, cut int, force bool) {
	about := AttachmentName(v, m.name)
	release := func() { w.Whole(&Attacher{}, "") }
	unmount := []func(){func() { m.podGoes(v) }, func() { m.step(w, v, 3) }, func() { m.step(w, v, 4) }, func() { m.sync(w) }}
	if force {
		unmount = nil
	}
	for i, do := range append(unmount,
		func() { w.detach(v, m.name, force) },
		release, func() { w.Whole(&Attacher{}, about) }, release, release, func() { m.sync(w) }, release, func() { release(); release(); m.sync(w); release() },
	) {
		if i > cut {
			return
		}
		do()
	}
}

// Late is a kubelet whose informer is late, so that it mounts what the stored list lacks, beside a status of before that it gave up on.
func Late(w *World, m *Machine, v, cut int, older bool) {
	giveUp := func() {
		m.work(true)
		if m.given == nil {
			m.given = m.sending
		}
		m.sending = nil
	}
	send := func() { m.work(true); m.answered(w) }
	if older {
		giveUp, send = send, giveUp
	}
	release := func() { w.Whole(&Attacher{}, "") }
	for i, do := range []func(){
		m.refresh(w), func() { m.podGoes(v) }, func() { m.step(w, v, 3) }, func() { m.step(w, v, 4) }, send, giveUp, func() { w.podComes(m, v) }, func() { m.work(false) },
		func() { m.step(w, v, 0) }, func() { m.step(w, v, 1) }, func() { m.step(w, v, 2) }, func() { w.detach(v, m.name, false) },
		release, release, release, func() { m.arrived(w) }, release,
	} {
		if i > cut {
			return
		}
		do()
	}
}

// Ungated is a driver that is not gated for a while, and a pod that then comes to the node that holds the volume; looked at all the while, not at all, or beside a boot.
func Ungated(w *World, m *Machine, v, cut, how int) {
	look := func() { w.Whole(&Attacher{}, "") }
	if how%2 == 0 {
		look = func() {}
	}
	boot := func() {}
	if how >= 2 {
		boot = func() {
			if m.terminated { // while somebody looked, others may do what they like
				return
			}
			m.stop()
			m.start(w)
			m.sync(w)
		}
	}
	release := func() { w.Whole(&Attacher{}, "") }
	answer := func() { m.sync(w); release(); release() }
	for i, do := range []func(){
		func() { ComeUp(w, m, v, cut) }, w.ungate, look, look, boot, func() { w.podComes(m, v) }, func() { m.step(w, v, 0) }, func() { m.step(w, v, 1) }, func() { m.step(w, v, 2) },
		func() { m.sync(w) }, func() { w.detach(v, m.name, false) }, look, func() { w.Whole(&Attacher{}, AttachmentName(v, m.name)) }, look, look, look, func() { m.sync(w) }, look, look, look,
		func() { m.sync(w) }, look, w.adopted, release, release, release, release, answer, answer, answer, func() { ComeUp(w, w.Machines[(slices.Index(w.Machines, m)+1)%3], v, 20) },
	} {
		if i > cut {
			return
		}
		do()
	}
}

// Copied is a CSIDriver that is recreated twice, with its annotation: first one that is not gated, and a pod on a node mounts the volume, then as it was, and a pod comes to another one.
func Copied(w *World, m *Machine, v, cut int) {
	for i, do := range []func(){
		w.ungate, func() { ComeUp(w, m, v, 20) }, func() { w.makeDriver(true) }, func() { ComeUp(w, w.Machines[(slices.Index(w.Machines, m)+1)%3], v, 20) },
	} {
		if i > cut {
			return
		}
		do()
	}
}

// ByHand is a VolumeAttachment that somebody deletes while its volume is in use, also from its finalizer before anybody has noted that, a kubelet that is started again once the volume does not
// stand in volumesAttached any more, and a pod that comes back to its node before another one comes to another node.
func ByHand(w *World, m *Machine, v, cut int, unfinalized bool) {
	about := AttachmentName(v, m.name)
	x := &Attacher{}
	look := func() { w.Whole(&Attacher{}, ""); w.Whole(&Attacher{}, about) }
	answer := func() { look(); look(); m.sync(w); look() }
	release := look
	if unfinalized { // in the midst of a decision
		release = func() {
			w.Advance(x, "")
			w.Advance(x, "")
			w.unfinalize(v, m.name)
			w.reportAttached(v, m.name, false)
			w.Advance(x, "")
			w.Advance(x, "")
		}
	}
	for i, do := range []func(){
		func() { ComeUp(w, m, v, 20) }, func() { w.deleteByHand(v, m.name) }, release, func() { w.reportAttached(v, m.name, w.attachments[about] != nil) }, func() { m.restart(w, [2]bool{}) }, func() { m.sync(w) },
		func() { ComeUp(w, m, v, 20) }, look, func() { m.podGoes(v) }, func() { m.sync(w) }, func() { w.detach(v, m.name, false) }, answer, answer, answer, answer,
		func() { ComeUp(w, w.Machines[(slices.Index(w.Machines, m)+1)%3], v, 20) },
	} {
		if i > cut {
			return
		}
		do()
	}
}

// DetachedLate is a node that was not ready and is again, whose volume the attach/detach controller detaches all the same, in use as it is; its kubelet is started again once that is noted, and
// a pod comes to another node.
func DetachedLate(w *World, m *Machine, v, cut int) {
	about := AttachmentName(v, m.name)
	look := func() { w.Whole(&Attacher{}, ""); w.Whole(&Attacher{}, about) }
	answer := func() { look(); look(); m.sync(w); look() }
	for i, do := range []func(){
		func() { ComeUp(w, m, v, 20) }, func() { w.silence(m.name) }, func() { m.sync(w) }, look, func() { w.detachLate(v, m.name) }, look, func() { m.restart(w, [2]bool{}) }, func() { m.podGoes(v) },
		func() { m.sync(w) }, answer, answer, answer, answer, func() { ComeUp(w, w.Machines[(slices.Index(w.Machines, m)+1)%3], v, 20) },
	} {
		if i > cut {
			return
		}
		do()
	}
}

// BootedWhileReleased is a machine that boots once the deletion of its VolumeAttachment is noted, and is cut off before its kubelet has answered. It is fenced by the boot that it has then, or, if it is not off, by one before.
// Then a pod comes to another node.
func BootedWhileReleased(w *World, m *Machine, v, cut int, off bool) {
	about := AttachmentName(v, m.name)
	look := func() { w.Whole(&Attacher{}, ""); w.Whole(&Attacher{}, about) }
	boot := func() {
		if m.stop(); !m.terminated {
			m.start(w)
		}
	}
	ends := func() {}
	if off {
		ends = m.stop
	}
	for i, do := range []func(){
		func() { ComeUp(w, m, v, 20) }, func() { GoDown(w, m, v, 4, !off) }, look, boot, func() { m.sync(w) }, look, func() { w.silence(m.name) }, look, ends, func() { w.receipt(m, v1alpha1.EvidencePoweredOff) }, look, look,
		func() { ComeUp(w, w.Machines[(slices.Index(w.Machines, m)+1)%3], v, 20) },
	} {
		if i > cut {
			return
		}
		do()
	}
}

// Unnoted is a detach by force whose VolumeAttachment is gone before anybody has noted that, since somebody took its finalizer away; a kubelet that is started again, and a pod that comes back to its node,
// which is attached again. Then a pod comes to another node.
func Unnoted(w *World, m *Machine, v, cut int) {
	about := AttachmentName(v, m.name)
	look := func() { w.Whole(&Attacher{}, ""); w.Whole(&Attacher{}, about) }
	answer := func() { look(); look(); m.sync(w); look() }
	for i, do := range []func(){
		func() { ComeUp(w, m, v, 20) }, func() { w.detach(v, m.name, true) }, func() { w.unfinalize(v, m.name) }, func() { m.podGoes(v) }, func() { m.restart(w, [2]bool{}) }, func() { m.sync(w) },
		func() { ComeUp(w, m, v, 20) }, look, func() { m.podGoes(v) }, func() { m.sync(w) }, func() { w.detach(v, m.name, false) }, answer, answer, answer, answer,
		func() { ComeUp(w, w.Machines[(slices.Index(w.Machines, m)+1)%3], v, 20) },
	} {
		if i > cut {
			return
		}
		do()
	}
}

// ForcedWhileNobodyLooked is a detach by force that attachers see after the kubelet was started again, a node that says that it does not use the volume, and a pod on another one.
func (w *World) ForcedWhileNobodyLooked() {
	m, other := w.Machines[0], w.Machines[1]
	ComeUp(w, m, 0, 20)
	w.detach(0, m.name, true)
	m.podGoes(0)
	m.restart(w, [2]bool{})
	m.sync(w)
	for range 3 {
		w.Whole(&Attacher{}, "")
		w.Whole(&Attacher{}, AttachmentName(0, m.name))
		m.sync(w)
		w.Whole(&Attacher{}, "")
		w.Whole(&Attacher{}, "")
		m.sync(w)
	}
	ComeUp(w, other, 0, 20)
}

// SaidByAnother is an attacher that read who holds the lock before that was another one, and withdraws what is attached there; before anybody has looked, an attacher that runs beside says attached again.
func (w *World) SaidByAnother() {
	m, other := w.Machines[0], w.Machines[1]
	about := AttachmentName(0, other.name)
	late := &Attacher{}
	ComeUp(w, m, 0, 20)
	w.Advance(late, about)
	GoDown(w, m, 0, 20, false)
	ComeUp(w, other, 0, 20)
	for late.stage > 0 {
		w.Advance(late, about)
	}
	w.otherAttacher(0, other.name)
}

// BootedWhileUngated is a machine that boots while its driver is not gated, and mounts the volume before its first status arrives; when the driver is gated again its Node names the boot
// before. Late: and a status of that one arrives after all. Then the volume goes to another node.
func (w *World) BootedWhileUngated(late bool) {
	m, other := w.Machines[0], w.Machines[1]
	about := AttachmentName(0, m.name)
	look := func() {
		for range 3 {
			w.Whole(&Attacher{}, "")
			w.Whole(&Attacher{}, about)
		}
	}
	ComeUp(w, m, 0, 20)
	if late {
		m.work(true)
	}
	w.ungate()
	m.stop()
	m.start(w)
	w.podComes(m, 0)
	for what := range 3 {
		m.step(w, 0, what)
	}
	w.adopted()
	look()
	m.arrived(w)
	look()
	m.sync(w)
	look()
	m.podGoes(0)
	w.detach(0, m.name, false)
	for range 8 {
		look()
		m.sync(w)
	}
	look()
	ComeUp(w, other, 0, 20)
}

// kubeletHappens is what is between a kubelet and the API server.
func kubeletHappens(w *World, m *Machine, which int) {
	switch which % 11 {
	case 0, 1:
		m.work(which%2 == 0)
	case 2, 3:
		m.answered(w)
	case 4, 5: // it gives up
		if m.sending != nil && m.given == nil {
			m.given = m.sending
			w.log("kubelet %s gives up a status", m.name)
		}
		m.sending = nil
	case 6, 7:
		m.arrived(w)
	case 8:
		m.refresh(w)()
	case 9:
		m.restart(w, [2]bool{which < 22, which < 44})
	case 10:
		m.register(w)
	}
}

func machineHappens(w *World, m *Machine, v, which int) {
	switch which % 18 {
	case 0, 1:
		m.linked = false
		if which < 30 {
			w.silence(m.name)
		}
	case 2, 3:
		m.linked = true
	case 4, 5:
		w.log("machine %s stops", m.name)
		m.stop()
	case 6, 7:
		if m.terminated {
			w.replace(m)
			return
		}
		m.stop()
		if which < 15 { // it has no clock of its own
			m.clock = 0
		}
		m.start(w)
		w.log("machine %s boots: %s", m.name, m.boot)
	case 8, 9:
		w.receipt(m, v1alpha1.EvidencePoweredOff)
	case 10:
		if which < 30 {
			m.stop()
		}
		w.receipt(m, v1alpha1.EvidenceInstanceTerminated)
		if which < 15 {
			w.replace(m)
		}
	case 11:
		w.receipt(m, v1alpha1.EvidenceStorageRevoked)
	case 12:
		if which > 40 {
			w.ungate()
			return
		}
		w.confirm()
	case 13:
		if w.nodes[m.name] != nil {
			w.log("somebody deletes Node %s", m.name)
			delete(w.nodes, m.name)
		}
	case 14: // somebody takes the finalizer away
		if which > 40 {
			w.makeDriver(true)
			if which%2 > 0 {
				w.adopted()
			}
		} else if which > 30 {
			w.otherAttacher(v, m.name)
		} else {
			w.unfinalize(v, m.name)
		}
	case 15: // somebody edits the CSIDriver
		w.mark("")
	case 16:
		w.adopted()
	case 17:
		if which < 20 {
			w.loseDriver()
			return
		}
		w.cordon(m.name)
	}
}

// Add adds those of other histories.
func (c *Counts) Add(o Counts) {
	c.taken += o.taken
	c.attached += o.attached
	c.mounted += o.mounted
	c.again += o.again
	c.handed += o.handed
	c.askedTwice += o.askedTwice
	c.byReceipt += o.byReceipt
	c.byStorage += o.byStorage
	c.byPerson += o.byPerson
	c.withdrawn += o.withdrawn
	c.forgotten += o.forgotten
	c.ungated += o.ungated
	c.others += o.others
	c.forced += o.forced
	c.late += o.late
	c.byHand += o.byHand
	c.conflicts += o.conflicts
}

// ByName has each by what happened.
func (c *Counts) ByName() map[string]int {
	return map[string]int{"taking": c.taken, "attaching": c.attached, "mounting": c.mounted, "attaching again": c.again, "a handover": c.handed, "a second question": c.askedTwice,
		"a release by receipt": c.byReceipt, "by revoked storage": c.byStorage, "by a person": c.byPerson, "withdrawing": c.withdrawn, "deleting what is forgotten": c.forgotten, "a driver that is not gated": c.ungated, "another attacher": c.others, "detaching by force": c.forced, "detaching late": c.late, "deleting by hand": c.byHand, "a conflict": c.conflicts}
}

// Settle has everything be well, and every pod gone, and everybody do his work for some rounds. The lock is released then, or says what it waits for.
func (w *World) Settle() *v1alpha1.VolumeLock {
	w.adopted()
	for _, m := range w.Machines {
		m.linked, m.given = true, nil
		if !m.runs && !m.terminated {
			m.start(w)
		}
	}
	for range 12 {
		w.clock += 10
		for _, m := range w.Machines {
			m.sending = nil
			for v := range m.volumes {
				m.podGoes(v)
				for _, what := range []int{2, 3, 4} {
					m.step(w, v, what)
				}
			}
			m.clock += 100 // a clock that was set back has caught up
			m.sync(w)
			for v := range m.volumes {
				w.detach(v, m.name, !m.runs)
				w.Whole(&Attacher{}, AttachmentName(v, m.name))
			}
			w.Whole(&Attacher{}, "")
		}
	}
	return w.lock
}

// Random plays a random history of the seed.
func Random(seed uint64, mutant func(*World)) *World {
	w, _ := play(events(seed), mutant, nil)
	return w
}

// Happen is one random step of somebody.
func (w *World) Happen(r *rand.Rand) {
	w.clock++
	happen(w, draw(r))
}
