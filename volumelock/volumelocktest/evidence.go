package volumelocktest

import (
	"fmt"
	"maps"
	"slices"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/guard"
	"github.com/podgrace/podgrace/volumelock"
)

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
