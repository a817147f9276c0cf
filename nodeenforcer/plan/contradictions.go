package plan

import (
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgroupfile"
	"github.com/podgrace/podgrace/policy/enforcement"
)

// noteContradictions says what of the policy the kubelet's own configuration makes void.
func (b *builder) noteContradictions() {
	for _, remark := range enforcement.ThresholdRemarks(&b.policy, b.node.Capacity.Memory().Value()) {
		b.noteNode("%s", remark)
	}
	k := b.node.Kubelet
	if k == nil {
		return
	}
	if r := b.policy.Reservations; r != nil {
		if kube, system, err := reservations(k); err == nil && (!sameList(r.Kube, kube) || !sameList(r.System, system)) {
			b.unusableNode("reservations of the NodePolicy are not used: the kubelet has its own, kubeReserved and systemReserved")
		}
	}
	if e := b.policy.Eviction; e != nil {
		for _, t := range e.Hard {
			b.noteThreshold("hard", t, k.EvictionHard)
		}
		for _, t := range e.Soft {
			b.noteThreshold("soft", t.EvictionThreshold, k.EvictionHard)
		}
	}
}

// Permit is the mode in which the plan of a node is carried out where another one was asked for; it says so in a note of the plan. With cgroup v1 and systemd's driver no test of
// this project has run on anything real: there systemd applies a controller's files by rules of its own, and what is restored by a plan that is wrong does harm in each round.
func (t *Tree) Permit(n Node, asked v1alpha1.NodeMode) v1alpha1.NodeMode {
	if n = withDefaults(n); asked != v1alpha1.NodeModeRepair || n.Version != cgroupfile.V1 || n.Driver != Systemd {
		return asked
	}
	t.Notes = slices.Insert(t.Notes, 0, Note{Unusable: true, Message: "mode Repair is not used, but Tune: with cgroup v1 and the kubelet's systemd driver Podgrace was never tested"})
	return v1alpha1.NodeModeTune
}

func sameList(a, b corev1.ResourceList) bool {
	if len(a) != len(b) {
		return false
	}
	for name, q := range a {
		if other, ok := b[name]; !ok || q.Cmp(other) != 0 {
			return false
		}
	}
	return true
}

// noteThreshold says that the kubelet evicts first, where both thresholds can be compared.
func (b *builder) noteThreshold(kind string, t v1alpha1.EvictionThreshold, kubelets map[string]string) {
	theirs, ok := kubelets[string(t.Signal)]
	if !ok {
		return
	}
	ours, known := b.left(t.Signal, string(t.Value))
	least, alsoKnown := b.left(t.Signal, theirs)
	if known && alsoKnown && ours.percent == least.percent && ours.amount > 0 && ours.amount <= least.amount {
		b.unusableNode("eviction.%s %s of %s is not above the kubelet's evictionHard of %s: the kubelet evicts first, by its own ranking", kind, t.Signal, t.Value, theirs)
	}
}

// remains is what must be left, as a number or in percent of a capacity that is not known here.
type remains struct {
	amount  float64
	percent bool
}

// left reads a threshold. Of memory the capacity is known. What has an exponent is not compared: the library writes such a number out, which may take minutes.
func (b *builder) left(signal v1alpha1.EvictionSignal, text string) (remains, bool) {
	if number, ok := strings.CutSuffix(text, "%"); ok {
		percent, err := strconv.ParseFloat(number, 64)
		if err != nil {
			return remains{}, false
		}
		if capacity := b.node.Capacity.Memory().Value(); signal == v1alpha1.SignalMemoryAvailable && capacity > 0 {
			return remains{amount: percent / 100 * float64(capacity)}, true
		}
		return remains{percent, true}, true
	}
	if len(text) > 32 || strings.ContainsAny(text, "eE") {
		return remains{}, false
	}
	q, err := resource.ParseQuantity(text)
	if err != nil {
		return remains{}, false
	}
	return remains{amount: q.AsApproximateFloat64()}, true
}
