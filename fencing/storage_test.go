package fencing_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/fencing"
	"github.com/podgrace/podgrace/fencing/storage"
	. "github.com/podgrace/podgrace/policy/policytest"
)

// san is a storage with csi-addons before it.
type san struct {
	fences []*networkFence
	answer string
	// blocked are the addresses that the storage takes nothing from.
	blocked map[string]bool
	made    int
	freed   []freed
	class   types.UID
	unread  bool // which volumes nodes have is not known
}

// freed is a pod that was released because its storage is revoked.
type freed struct {
	Name string
	Node v1alpha1.BootReference
}

type networkFence struct {
	storage.Fence
	fence  string
	result string
	done   bool // what it says now was done
}

// How csi-addons answers.
const (
	does    = ""
	fails   = "fails"
	nothing = "nothing" // also late, where it answers again
)

func (s *san) reconcile() {
	for _, x := range s.fences {
		switch {
		case x.done || s.answer == nothing:
		case s.answer == fails:
			x.result = "Failed"
		default:
			for _, c := range x.CIDRs {
				s.blocked[strings.TrimSuffix(c, "/32")] = x.Fenced
			}
			x.done, x.result, x.Lifted = true, "Succeeded", !x.Fenced
		}
	}
}

func (s *san) facts(f *fencing.Facts) {
	f.Known.Storage = true
	f.Classes = map[string]storage.Class{"ceph": {UID: s.class, Driver: "rbd", Parameters: map[string]string{"clusterID": "a"}}}
	for _, x := range s.fences {
		f.StorageFences = append(f.StorageFences, x.Fence)
	}
}

func (s *san) fence(uid types.UID) *networkFence {
	i := slices.IndexFunc(s.fences, func(x *networkFence) bool { return x.UID == uid })
	if i < 0 {
		return nil
	}
	return s.fences[i]
}

func (s *san) of(fence string) *networkFence {
	for _, x := range s.fences {
		if x.fence == fence {
			return x
		}
	}
	return nil
}

// contradicted is as of the agent.
func (s *san) contradicted(fence string, cidrs []string) error {
	for _, x := range s.fences {
		if x.fence != fence && !x.Fenced && storage.Overlap(x.CIDRs, cidrs) {
			return fmt.Errorf("NetworkFence %s says Unfenced for the same address", x.Name)
		}
	}
	return nil
}

func (s *san) order(w *world, fence string, what *v1alpha1.FenceTargetStorage) error {
	if s.of(fence) != nil {
		return nil
	}
	if err := s.contradicted(fence, what.CIDRs); err != nil {
		return err
	}
	for _, f := range w.fences {
		if f.Name == fence {
			s.made++
			boot := f.Spec.Node
			s.fences = append(s.fences, &networkFence{fence: fence, Fence: storage.Fence{
				Name: fmt.Sprintf("nf-%d", s.made), UID: types.UID(fmt.Sprintf("nf-%d", s.made)), CIDRs: what.CIDRs, Fenced: true, Boot: &boot, SystemUUID: f.Status.Target.SystemUUID,
			}})
		}
	}
	return nil
}

func (s *san) read(fence string) (fencing.Reading, error) {
	x := s.of(fence)
	if x == nil {
		return fencing.Reading{Power: fencing.PowerOn, State: "no NetworkFence"}, nil
	}
	if err := s.contradicted(fence, x.CIDRs); err != nil {
		return fencing.Reading{}, err
	}
	switch {
	case !x.Fenced:
		return fencing.Reading{}, fmt.Errorf("NetworkFence %s is no proof", x.Name)
	case x.result == "Failed":
		return fencing.Reading{}, fmt.Errorf("NetworkFence %s failed: permission denied", x.Name)
	case x.result == "":
		return fencing.Reading{State: "no result yet", Object: x.UID}, nil
	}
	return fencing.Reading{Power: fencing.PowerRevoked, State: "Fenced, Succeeded", Object: x.UID}, nil
}

func (s *san) lift(uid types.UID) {
	if x := s.fence(uid); x != nil {
		x.Fenced, x.done = false, false
	}
}

func (s *san) remove(uid types.UID) {
	s.fences = slices.DeleteFunc(s.fences, func(x *networkFence) bool { return x.UID == uid })
}

// writes reports whether this boot of the machine can write to its volumes.
func (w *world) writes(m *machine, boot string) bool { return m.runs(boot) && !w.san.blocked[m.ip] }

func (w *world) receipt(name string) *v1alpha1.FenceReceipt {
	for i := range w.receipts {
		if w.receipts[i].Name == name {
			return &w.receipts[i]
		}
	}
	return nil
}

// sanAgent gives the world's nodes a volume each, and the policy an agent that takes them away.
func (w *world) sanAgent(also bool) {
	w.san.blocked = map[string]bool{}
	w.agents = append(w.agents, v1alpha1.FenceAgent{ObjectMeta: metav1.ObjectMeta{Name: "san", UID: "agent-3"}, Spec: v1alpha1.FenceAgentSpec{
		Type: v1alpha1.AgentNetworkFence, Identity: v1alpha1.IdentityConfigured, NetworkFence: &v1alpha1.NetworkFenceAgent{NetworkFenceClassName: "ceph"},
	}})
	spec := w.policies[0].Spec
	if !also {
		spec.Agents = nil
	}
	spec.Agents = append(spec.Agents, v1alpha1.FencePolicyAgent{Name: "san", Timeout: metav1.Duration{Duration: 30 * time.Second}, Attempts: 2, Evidence: []v1alpha1.EvidenceClass{v1alpha1.EvidenceStorageRevoked}})
	for i, m := range w.machines {
		m.Volumes = []storage.Volume{
			{Name: fmt.Sprintf("pv-%d", i), Driver: "rbd", Attributes: map[string]string{"clusterID": "a"}},
			{Name: fmt.Sprintf("pv-b-%d", i), Driver: "rbd", Attributes: map[string]string{"clusterID": "b"}}, // another storage of the same driver
			{Name: fmt.Sprintf("pv-nfs-%d", i)},
		}
		m.Pods[0].Volumes = []string{fmt.Sprintf("pv-%d", i)}
	}
}

func withStorage(t *rapid.T, w *world) {
	w.sanAgent(Chance(t, "a BMC as well"))
	for i, m := range w.machines {
		extra := m.Pods[0]
		extra.Name, extra.UID = fmt.Sprintf("web-%d", i), types.UID(fmt.Sprintf("web-%d", i))
		switch rapid.IntRange(0, 3).Draw(t, "the other pod") {
		case 0:
			continue
		case 1:
			extra.But = "it is a pod of StatefulSet web"
		case 2:
			extra.Volumes = []string{fmt.Sprintf("pv-%d", i), fmt.Sprintf("pv-b-%d", i)}
		case 3:
			extra.Volumes = nil
		}
		m.Pods = append(m.Pods, extra)
	}
}

// storageHappens is what befalls csi-addons, and what others than kubelets write to Nodes.
func storageHappens(t *rapid.T, w *world, m *machine) {
	switch rapid.IntRange(0, 4).Draw(t, "at the storage") {
	case 0:
		w.san.answer = Pick(t, "csi-addons", does, does, fails, nothing)
	case 1: // the address of a machine that is cut off is said to be another one
		if !m.linked || !m.power {
			ip := Pick(t, "address", "10.0.0.99", w.machines[int(m.ip[len(m.ip)-1]-'0')%len(w.machines)].ip)
			m.Addresses, m.InternalIPs = []string{ip}, []string{ip}
		}
	case 2:
		for _, m := range w.machines {
			m.Addresses, m.InternalIPs = []string{m.ip}, []string{m.ip}
		}
	case 3:
		m.linked = false
	case 4: // somebody lifts what a fencer made; what was released before is not the fencer's fault
		if len(w.san.fences) > 0 {
			x := w.san.fences[len(w.san.fences)-1]
			w.san.lift(x.UID)
			w.san.freed = slices.DeleteFunc(w.san.freed, func(f freed) bool { return f.Node.Name == x.Boot.Name })
		}
	}
}

// checkFreed holds what is released by storage that was revoked against the world.
func checkFreed(t *rapid.T, w *world, seen *counts, x *v1alpha1.Fence, a fencing.Action) {
	boot := x.Spec.Node
	m := w.machine(boot.Name)
	del, ok := a.(fencing.DeletePod)
	if !ok {
		t.Fatalf("%s, and only its storage is revoked", a)
	}
	if w.writes(m, boot.BootID) {
		t.Fatalf("%s, and node %s can write", a, boot.Name)
	}
	i := slices.IndexFunc(m.Pods, func(p fencing.Pod) bool { return p.UID == del.Pod.UID })
	if i < 0 {
		return // it is gone already
	}
	if p := m.Pods[i]; p.But != "" || !slices.Equal(p.Volumes, []string{"pv-" + boot.Name[1:]}) {
		t.Fatalf("%s, which has more at stake: %+v", a, p)
	}
	seen.freed++
	w.san.freed = append(w.san.freed, freed{Name: del.Pod.Name, Node: boot})
}

// storageWorld has n1 silent, of which nothing but its storage can be had.
func storageWorld(change ...func(*world)) *world {
	w := newWorld(6)
	w.sanAgent(false)
	for _, c := range change {
		c(w)
	}
	for range 3 {
		w.pass(step)
		w.round()
	}
	w.machines[1].linked = false
	return w
}

func TestStorageIsRevokedAndGivenBack(t *testing.T) {
	t.Parallel()
	w := storageWorld(func(w *world) {
		m := w.machines[1]
		m.Attached = []string{"va-1"}
		m.Pods = append(m.Pods, fencing.Pod{Namespace: "shop", Name: "web-0", UID: "web", Protected: true, But: "it is a pod of StatefulSet web", Volumes: []string{"pv-1"}})
	})
	m := w.machines[1]
	m.Addresses, m.InternalIPs = []string{"10.0.0.99"}, []string{"10.0.0.99"} // what somebody writes to the Node now
	if !w.until(40, func() bool { return reaches(v1alpha1.FenceReleased)(w) }) {
		t.Fatalf("%+v", fence1(w).Status)
	}
	if len(w.san.fences) != 1 || !slices.Equal(w.san.fences[0].CIDRs, []string{"10.0.0.2/32"}) {
		t.Errorf("fenced: %+v", w.san.fences)
	}
	r := w.receiptOf("boot-1-0")
	if r == nil || r.Spec.Class != v1alpha1.EvidenceStorageRevoked || !slices.Equal(r.Spec.Volumes, []string{"pv-1"}) || r.Spec.Fence != fence1(w).Name || len(r.Spec.ReadBacks) != 2 {
		t.Fatalf("receipt %+v", r)
	}
	if !m.power || len(m.Pods) != 1 || m.Pods[0].Name != "web-0" || m.Taint != nil || m.ConfirmOff != "" {
		t.Errorf("released: power %v, pods %v, taint %v, confirmed %q", m.power, m.Pods, m.Taint, m.ConfirmOff)
	}
	if said := fence1(w).Status.Message; !strings.Contains(said, "shop/web-0 (it is a pod of StatefulSet web)") {
		t.Errorf("says %q", said)
	}

	// The same boot is heard of: nothing is given back.
	m.linked = true
	w.until(6, func() bool { return false })
	if !w.san.blocked[m.ip] || fence1(w).Status.Phase != v1alpha1.FenceOver || w.alarms > 0 {
		t.Fatalf("blocked %v, %+v, %d alarms", w.san.blocked, fence1(w).Status, w.alarms)
	}
	if _, waiting := fencing.Lifts(w.facts()); len(waiting) != 1 || !strings.Contains(waiting[0], "Reboot it") {
		t.Errorf("waits: %q", waiting)
	}
	// Another boot is.
	m.power = false
	m.turnOn()
	if !w.until(6, func() bool { return len(w.san.fences) == 0 }) || w.san.blocked[m.ip] {
		t.Errorf("after another boot: %+v, blocked %v", w.san.fences, w.san.blocked)
	}
}

// A pod of which it could not be read what it has is released once it can.
func TestStorageOfAPodThatIsKnownLate(t *testing.T) {
	t.Parallel()
	w := storageWorld(func(w *world) { w.machines[1].Pods[0].But = "the volume of its claim data is not known" })
	m := w.machines[1]
	if !w.until(40, func() bool { return reaches(v1alpha1.FenceReleased)(w) }) || len(m.Pods) != 1 {
		t.Fatalf("%+v, pods %v", fence1(w).Status, m.Pods)
	}
	m.Pods[0].But = ""
	if !w.until(3, func() bool { return len(m.Pods) == 0 }) {
		t.Fatalf("%+v, pods %v", fence1(w).Status, m.Pods)
	}
	w.until(2, func() bool { return false })
	if st := fence1(w).Status; st.Phase != v1alpha1.FenceReleased || strings.Contains(st.Message, "does not free") {
		t.Errorf("%+v", st)
	}
}

// Where somebody deletes the NetworkFence nobody gives the storage back, and the incident says so, also when it is over.
func TestStorageThatIsForgotten(t *testing.T) {
	t.Parallel()
	w := storageWorld()
	m := w.machines[1]
	if !w.until(40, func() bool { return reaches(v1alpha1.FenceReleased)(w) }) || strings.Contains(fence1(w).Status.Message, "was deleted") {
		t.Fatalf("%+v", fence1(w).Status)
	}
	w.san.fences = nil
	const says = "Its NetworkFence was deleted, by which nothing is given back: once the machine has booted anew, apply one that says Unfenced for 10.0.0.2/32"
	w.until(2, func() bool { return false })
	if !strings.Contains(fence1(w).Status.Message, says) {
		t.Errorf("%+v", fence1(w).Status)
	}
	m.power = false
	m.turnOn()
	m.linked = true
	if !w.until(6, func() bool { return reaches(v1alpha1.FenceOver)(w) }) || !strings.Contains(fence1(w).Status.Message, says) || w.alarms > 0 {
		t.Errorf("%+v", fence1(w).Status)
	}
}

// What somebody else gives back, by whichever NetworkFence, voids the receipt: the removal guard goes by that as well.
func TestStorageThatSomebodyGivesBack(t *testing.T) {
	t.Parallel()
	for name, give := range map[string]func(*world){
		"by lifting it": func(w *world) { w.san.lift(w.san.fences[0].UID) },
		"by another one": func(w *world) {
			w.san.fences = append(w.san.fences, &networkFence{Fence: storage.Fence{Name: "rook", UID: "rook", CIDRs: []string{"10.0.0.0/24"}}})
		},
		"by another one, once the first was deleted": func(w *world) {
			w.san.fences = []*networkFence{{Fence: storage.Fence{Name: "rook", UID: "rook", CIDRs: []string{"10.0.0.2/32"}}}}
		},
	} {
		w := storageWorld(func(w *world) { w.machines[1].Pods[0].But = "its volume is not known" })
		m := w.machines[1]
		if !w.until(40, func() bool { return reaches(v1alpha1.FenceReleased)(w) }) || w.receiptOf("boot-1-0") == nil {
			t.Fatalf("%s: %+v", name, fence1(w).Status)
		}
		give(w)
		m.Pods[0].But = ""
		w.until(3, func() bool { return false })
		if w.receiptOf("boot-1-0") != nil || w.alarms != 1 || !reaches(v1alpha1.FenceOver)(w) || len(m.Pods) != 1 {
			t.Errorf("%s: receipt %+v, %d alarms, %+v, pods %v", name, w.receiptOf("boot-1-0"), w.alarms, fence1(w).Status, m.Pods)
		}
		for i := range w.receipts {
			if why := refused("FenceReceipt", &w.receipts[i]); why != "" {
				t.Errorf("%s: the API server refuses it: %s", name, why)
			}
		}
	}
}

// No receipt is written for what somebody gives back between the last reading and then, whenever that is.
func TestStorageThatIsGivenBackBeforeItsReceipt(t *testing.T) {
	t.Parallel()
	for after := range 10 {
		w := storageWorld()
		w.check = func(x *v1alpha1.Fence, a fencing.Action) {
			if _, ok := a.(fencing.CreateReceipt); ok && w.writes(w.machines[1], "boot-1-0") {
				t.Errorf("lifted after %d rounds: %s, and the node can write", after, a)
			}
		}
		if !w.until(40, func() bool { return len(w.san.fences) > 0 }) {
			t.Fatalf("%+v", fence1(w).Status)
		}
		w.until(after, func() bool { return false })
		w.san.lift(w.san.fences[0].UID)
		w.until(10, func() bool { return false })
	}
}

// A machine that is known to be off may have its storage back.
func TestStorageThatIsGivenBackToAMachineThatIsOff(t *testing.T) {
	t.Parallel()
	w := storageWorld()
	m := w.machines[1]
	if !w.until(40, func() bool { return reaches(v1alpha1.FenceReleased)(w) }) {
		t.Fatalf("%+v", fence1(w).Status)
	}
	m.power = false
	boot := m.Boot()
	w.receipts = append(slices.Clone(w.receipts), v1alpha1.FenceReceipt{ObjectMeta: metav1.ObjectMeta{Name: "word"},
		Spec: v1alpha1.FenceReceiptSpec{Node: &boot, Class: v1alpha1.EvidenceConfirmed, By: "alice", LastSign: m.Sign}})
	w.san.lift(w.san.fences[0].UID)
	w.until(3, func() bool { return false })
	if w.alarms != 0 || fence1(w).Status.Receipt != "word" {
		t.Errorf("%d alarms, %+v", w.alarms, fence1(w).Status)
	}
}

// A person's word that the machine is off releases what the storage did not.
func TestStorageThenConfirmed(t *testing.T) {
	t.Parallel()
	w := storageWorld(func(w *world) { w.machines[1].Pods[0].But = "it is a pod of StatefulSet db" })
	m := w.machines[1]
	if !w.until(40, func() bool { return reaches(v1alpha1.FenceReleased)(w) }) || len(m.Pods) != 1 {
		t.Fatalf("%+v, pods %v", fence1(w).Status, m.Pods)
	}
	m.power = false
	boot := m.Boot()
	w.receipts = append(slices.Clone(w.receipts), v1alpha1.FenceReceipt{ObjectMeta: metav1.ObjectMeta{Name: "word"},
		Spec: v1alpha1.FenceReceiptSpec{Node: &boot, Class: v1alpha1.EvidenceConfirmed, By: "alice", LastSign: m.Sign}})
	if !w.until(3, func() bool { return len(m.Pods) == 0 }) || fence1(w).Status.Receipt != "word" || m.ConfirmOff != m.Sign {
		t.Errorf("%+v, pods %v", fence1(w).Status, m.Pods)
	}
}

func TestStorageThatIsNotRevoked(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change func(*world)
		then   func(*world)
		says   string
	}{
		{"csi-addons fails", func(w *world) { w.san.answer = fails }, nil, "NetworkFence nf-1 failed: permission denied"},
		{"csi-addons says nothing", func(w *world) { w.san.answer = nothing }, nil, `within 30s: it says "no result yet"`},
		{"the policy does not accept it", func(w *world) { w.policies[0].Spec.Agents[0].Evidence = nil }, nil, "never gives evidence that the policy accepts from it: say evidence: [StorageRevoked]"},
		{"never seen healthy", nil, func(w *world) { w.unnoted = true; w.book = storage.Addresses{} }, "did not see it healthy by this boot"},
		{"another node has the address", func(w *world) { w.machines[2].Addresses = append(w.machines[2].Addresses, "10.0.0.2") }, nil, "10.0.0.2/32, which is an address of node n2 as well"},
		{"another node has it since", nil, func(w *world) { w.machines[3].Addresses = []string{"10.0.0.2"} }, "10.0.0.2/32, which is an address of node n3 as well"},
		{"another node told it by this boot, among others", nil, func(w *world) {
			for _, ip := range []string{"10.0.0.2", "10.0.0.99"} {
				w.machines[3].InternalIPs, w.machines[3].Addresses = []string{ip}, []string{ip}
				w.pass(step)
				w.round()
			}
		}, "10.0.0.2/32, which is an address of node n3 as well"},
		{"of the control plane", func(w *world) { w.machines[0].Addresses = append(w.machines[0].Addresses, "::ffff:10.0.0.2") }, nil, "node n0 of the control plane"},
		{"no address of a machine", func(w *world) { w.machines[1].InternalIPs = []string{"127.0.0.1"} }, nil, "none of a single machine"},
		{"not all volumes can be read", func(w *world) { w.san.unread = true }, nil, "can't tell which volumes it revokes: they could not be read"},
		{"no volume of the class", func(w *world) { w.machines[1].Volumes = w.machines[1].Volumes[1:] }, nil, "has no volume to revoke"},
		{"no such class", func(w *world) { w.agents[1].Spec.NetworkFence.NetworkFenceClassName = "none" }, nil, "NetworkFenceClass none, which does not exist"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var changes []func(*world)
			if tt.change != nil {
				changes = append(changes, tt.change)
			}
			w := storageWorld(changes...)
			if tt.then != nil {
				tt.then(w)
			}
			said := func() bool {
				return strings.Contains(fence1(w).Status.Message, tt.says) || slices.ContainsFunc(w.verdicts, func(v fencing.Verdict) bool { return strings.Contains(v.Message, tt.says) })
			}
			if !w.until(40, said) {
				t.Errorf("says %q, %+v", fence1(w).Status.Message, w.verdicts)
			}
			w.until(20, func() bool { return false })
			if len(w.receipts) > 0 || len(w.machines[1].Pods) != 1 {
				t.Errorf("receipts %v, pods %v", w.receipts, w.machines[1].Pods)
			}
		})
	}
}

// An answer that comes late counts when it comes, and what another NetworkFence gives back meanwhile does not.
func TestStorageThatAnswersLate(t *testing.T) {
	t.Parallel()
	w := storageWorld(func(w *world) { w.san.answer = nothing })
	if !w.until(60, func() bool { at := fence1(w).Status.Attempt; return at != nil && at.Number > 3 }) {
		t.Fatalf("%+v", fence1(w).Status)
	}
	w.san.answer = does
	if !w.until(20, func() bool { return reaches(v1alpha1.FenceReleased)(w) }) || len(w.machines[1].Pods) > 0 || len(w.san.fences) != 1 {
		t.Errorf("%+v, %d NetworkFences", fence1(w).Status, len(w.san.fences))
	}
}

// Two readings of two objects prove nothing of either.
func TestNetworkFencesThatAreReplaced(t *testing.T) {
	t.Parallel()
	w := storageWorld()
	if !w.until(40, func() bool { return len(w.san.fences) > 0 }) {
		t.Fatalf("%+v", fence1(w).Status)
	}
	for i := range 30 {
		w.san.fences[0].UID = types.UID(fmt.Sprintf("anew-%d", i))
		w.pass(step)
		w.round()
	}
	if len(w.receipts) > 0 {
		t.Errorf("%+v", w.receipts)
	}
}

// Of a node one of whose addresses may not be fenced no incident begins, and its policy says why.
func TestStorageWhoseAddressMayNotBeFenced(t *testing.T) {
	t.Parallel()
	for says, allowed := range map[string][]string{
		"may not fence 10.0.0.2/32, which lies in none of its allowedCIDRs (10.0.1.0/24, fd00::/64)": {"10.0.1.0/24", "fd00::/64"},
		"may not fence fd00:0:0:1::2/128, which lies in none of its allowedCIDRs (10.0.0.0/24)":      {"10.0.0.0/24"},
	} {
		w := storageWorld(func(w *world) {
			w.machines[1].InternalIPs = append(w.machines[1].InternalIPs, "fd00:0:0:1::2")
			w.agents[1].Spec.NetworkFence.AllowedCIDRs = allowed
		})
		told := func() bool {
			return slices.ContainsFunc(w.verdicts, func(v fencing.Verdict) bool { return strings.Contains(v.Message, says) })
		}
		if !w.until(40, told) || w.until(20, func() bool { return len(w.fences) > 0 || len(w.san.fences) > 0 }) {
			t.Errorf("%d Fences, %d NetworkFences, %+v", len(w.fences), len(w.san.fences), w.verdicts)
		}
	}
}

// What may be fenced is looked up again before each call: nothing is created outside of it, and nothing comes of what was. What lies in it is fenced as ever.
func TestStorageWhoseAddressMayNotBeFencedAnyMore(t *testing.T) {
	t.Parallel()
	allow := func(w *world, block string) { w.agents[1].Spec.NetworkFence.AllowedCIDRs = []string{block} }
	for _, begun := range []bool{false, true} {
		w := storageWorld(func(w *world) { w.san.answer = nothing; allow(w, "10.0.0.0/24") })
		if !w.until(40, func() bool {
			return len(w.fences) > 0 && fence1(w).Status.Target != nil && (!begun || len(w.san.fences) > 0)
		}) {
			t.Fatalf("%+v", w.verdicts)
		}
		made := len(w.san.fences)
		if !begun && made > 0 {
			t.Fatal("the NetworkFence was made before it was looked whether it may be")
		}
		allow(w, "10.0.0.0/31")
		w.san.answer = does
		w.until(40, func() bool { return false })
		if said := fence1(w).Status.Message; len(w.receipts) > 0 || len(w.san.fences) != made || !strings.Contains(said, "FenceAgent san may not fence 10.0.0.2/32, which lies in none of its allowedCIDRs (10.0.0.0/31)") {
			t.Errorf("begun %v: %q, %+v, %d NetworkFences", begun, said, w.receipts, len(w.san.fences))
		}
		allow(w, "10.0.0.2/32")
		if !w.until(40, func() bool { return reaches(v1alpha1.FenceReleased)(w) }) {
			t.Errorf("begun %v, and allowed again: %+v", begun, fence1(w).Status)
		}
	}
}

// Where another machine has got the address since it was decided, nothing comes of it.
func TestStorageWhoseAddressMoves(t *testing.T) {
	t.Parallel()
	w := storageWorld(func(w *world) { w.san.answer = nothing })
	if !w.until(40, func() bool { return len(w.san.fences) > 0 }) {
		t.Fatalf("%+v", fence1(w).Status)
	}
	w.machines[3].Addresses = []string{"10.0.0.2"}
	w.san.answer = does
	w.until(20, func() bool { return false })
	if said := fence1(w).Status.Message; len(w.receipts) > 0 || !strings.Contains(said, "10.0.0.2/32, which is an address of node n3 as well") {
		t.Errorf("%q, %+v", said, w.receipts)
	}
}

// A NetworkFenceClass that was recreated may be of another storage than that whose volumes the receipt would name.
func TestStorageWhoseClassIsMadeAnew(t *testing.T) {
	t.Parallel()
	w := storageWorld(func(w *world) { w.san.answer = nothing })
	if !w.until(40, func() bool { return len(w.san.fences) > 0 }) {
		t.Fatalf("%+v", fence1(w).Status)
	}
	w.san.class = "anew"
	w.san.answer = does
	w.until(20, func() bool { return false })
	if said := fence1(w).Status.Message; len(w.receipts) > 0 || !strings.Contains(said, "NetworkFenceClass ceph of FenceAgent san was deleted, or made anew, since this was decided") {
		t.Errorf("%q, %+v", said, w.receipts)
	}
}

// An incident is over when the node is heard of, whatever csi-addons says.
func TestStorageOfANodeThatReturns(t *testing.T) {
	t.Parallel()
	w := storageWorld(func(w *world) { w.san.answer = fails })
	if !w.until(40, func() bool { return len(w.san.fences) > 0 }) {
		t.Fatalf("%+v", fence1(w).Status)
	}
	w.machines[1].linked = true
	if !w.until(4, func() bool { return reaches(v1alpha1.FenceOver)(w) }) || !strings.Contains(fence1(w).Status.Message, "reboot it") || len(w.receipts) > 0 {
		t.Errorf("%+v, %+v", fence1(w).Status, w.receipts)
	}
}

// The storage of a node that is heard of is not taken away, though a person asks for it: nothing would be released by that.
func TestStorageOfANodeThatRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(6)
	w.sanAgent(false)
	for range 3 {
		w.pass(step)
		w.round()
	}
	w.fences = append(w.fences, &v1alpha1.Fence{ObjectMeta: metav1.ObjectMeta{Name: "asked"}, Spec: v1alpha1.FenceSpec{Node: w.machines[1].Boot(), Reason: v1alpha1.FenceRequested, RequestedBy: "alice"}})
	if !w.until(40, func() bool { return reaches(v1alpha1.FenceOver)(w) }) || !strings.Contains(fence1(w).Status.Message, "nothing is released while it runs: its storage is not revoked") || w.san.made > 0 {
		t.Errorf("%d NetworkFences, %+v", w.san.made, fence1(w).Status)
	}
}

// Addresses are noted with a sign of life, and of no other boot.
func TestLifts(t *testing.T) {
	t.Parallel()
	boot := v1alpha1.BootReference{Name: "n1", UID: "u", BootID: "b"}
	const uuid, unset = "12345678-1234-1234-1234-000000000001", "03000200-0400-0500-0006-000700080009"
	ours := storage.Fence{Name: "ours", UID: "1", CIDRs: []string{"10.0.0.1/32"}, Fenced: true, Boot: &boot, SystemUUID: uuid}
	anew := fencing.Node{Name: "n1", UID: "u", BootID: "c", SystemUUID: uuid, Live: true, Ready: true}
	with := func(n fencing.Node, change func(*fencing.Node)) []fencing.Node { change(&n); return []fencing.Node{n} }
	silent := with(anew, func(n *fencing.Node) { n.BootID, n.Ready = "b", false })
	for _, tt := range []struct {
		name   string
		nodes  []fencing.Node
		fences []storage.Fence
		want   string
		waits  string
	}{
		{"another boot", []fencing.Node{anew}, []storage.Fence{ours}, "[lift NetworkFence ours]", ""},
		{"not ready", with(anew, func(n *fencing.Node) { n.Ready = false }), []storage.Fence{ours}, "[]", "so that it may still run"},
		{"not read live", with(anew, func(n *fencing.Node) { n.Live = false }), []storage.Fence{ours}, "[]", "so that it may still run"},
		{"the same boot", with(anew, func(n *fencing.Node) { n.BootID = "b" }), []storage.Fence{ours}, "[]", "Reboot it"},
		{"another machine has taken the Node", with(anew, func(n *fencing.Node) { n.SystemUUID = "12345678-1234-1234-1234-000000000009" }), []storage.Fence{ours}, "[]", "so that it may still run"},
		{"another machine of the same make has taken the Node, whose UUID tells nothing", with(anew, func(n *fencing.Node) { n.SystemUUID = unset }), []storage.Fence{{Name: "ours", UID: "1", CIDRs: ours.CIDRs, Fenced: true, Boot: &boot, SystemUUID: unset}}, "[]", "so that it may still run"},
		{"of neither is a UUID known", with(anew, func(n *fencing.Node) { n.SystemUUID = "" }), []storage.Fence{{Name: "ours", UID: "1", CIDRs: ours.CIDRs, Fenced: true, Boot: &boot}}, "[]", "so that it may still run"},
		{"its Node was deleted, and made anew by another boot", with(anew, func(n *fencing.Node) { n.UID = "v" }), []storage.Fence{ours}, "[lift NetworkFence ours]", ""},
		{"its Node was deleted, and a clone is ready, or a kubelet that says so", with(anew, func(n *fencing.Node) { n.Name, n.UID = "n9", "v" }), []storage.Fence{ours}, "[]", "so that it may still run"},
		{"another Node claims to be the machine, while the boot is heard of", []fencing.Node{{Name: "n1", UID: "u", BootID: "b", Ready: true}, with(anew, func(n *fencing.Node) { n.Name, n.UID = "n9", "v" })[0]}, []storage.Fence{ours}, "[]", "Reboot it"},
		{"the Node is gone", nil, []storage.Fence{ours}, "[]", "so that it may still run"},
		{"somebody else's", []fencing.Node{anew}, []storage.Fence{{Name: "rook", Fenced: true, CIDRs: ours.CIDRs}}, "[]", ""},
		{"somebody else fences it, too", []fencing.Node{anew}, []storage.Fence{ours, {Name: "rook", Fenced: true, CIDRs: []string{"10.0.0.0/24"}}}, "[]", "NetworkFence rook fences the same address"},
		{"lifted, which is not done", []fencing.Node{anew}, []storage.Fence{{Name: "ours", UID: "1", Boot: &boot, SystemUUID: uuid}}, "[]", "csi-addons does not say that this was done"},
		{"being deleted", []fencing.Node{anew}, []storage.Fence{{Name: "ours", UID: "1", Boot: &boot, SystemUUID: uuid, Fenced: true, Deleting: true}}, "[]", "csi-addons forgets it and gives nothing back"},
		{"lifted by hand, which is not done", nil, []storage.Fence{{Name: "ours", UID: "1", Boot: &boot, SystemUUID: uuid}}, "[]", "csi-addons does not say that this was done"},
		{"lifted by hand", nil, []storage.Fence{{Name: "ours", UID: "1", Boot: &boot, SystemUUID: uuid, Lifted: true}}, "[]", "was lifted by hand, and is still there"},
		{"lifted, and being deleted", []fencing.Node{anew}, []storage.Fence{{Name: "ours", UID: "1", Boot: &boot, SystemUUID: uuid, Lifted: true, Deleting: true}}, "[]", ""},
		{"silent", silent, []storage.Fence{ours}, "[]", ""},
		{"silent, and another node has got its address", append(silent, fencing.Node{Name: "n9", UID: "v", BootID: "d", Ready: true, Addresses: []string{"10.0.0.1"}}), []storage.Fence{ours}, "[]", "keeps node n9 from the storage, which has got the address 10.0.0.1/32 of node n1 since"},
		{"lifted", []fencing.Node{anew}, []storage.Fence{{Name: "ours", UID: "1", Boot: &boot, SystemUUID: uuid, Lifted: true}}, "[delete NetworkFence ours, which is lifted]", ""},
	} {
		lifts, waiting := fencing.Lifts(fencing.Facts{Known: fencing.Known{Nodes: true, Storage: true}, Nodes: tt.nodes, StorageFences: tt.fences})
		if got := fmt.Sprint(lifts); got != tt.want {
			t.Errorf("%s: %s, not %s", tt.name, got, tt.want)
		}
		if got := strings.Join(waiting, "; "); tt.waits == "" && got != "" || !strings.Contains(got, tt.waits) {
			t.Errorf("%s: waits: %q", tt.name, got)
		}
	}
}

// What a fencer has had fenced counts until csi-addons says that it is lifted, whatever became of its incident.
func TestUnlifted(t *testing.T) {
	t.Parallel()
	boot := func(id string) *v1alpha1.BootReference {
		return &v1alpha1.BootReference{Name: "n1", UID: "u", BootID: id}
	}
	fence := func(id string, phase v1alpha1.FencePhase) v1alpha1.Fence {
		return v1alpha1.Fence{Spec: v1alpha1.FenceSpec{Node: *boot(id)}, Status: v1alpha1.FenceStatus{Phase: phase}}
	}
	facts := fencing.Facts{
		Known:  fencing.Known{Fences: true, Storage: true},
		Fences: []v1alpha1.Fence{fence("goes on", v1alpha1.FenceReleased), fence("over", v1alpha1.FenceOver), fence("again", v1alpha1.FenceOver), fence("again", v1alpha1.FenceWaiting)},
	}
	at := func(minutes int) time.Time { return began.Add(time.Duration(minutes) * time.Minute) }
	type counted struct{ open, over storage.Unlifted }
	for _, tt := range []struct {
		name   string
		fences []storage.Fence
		want   counted
	}{
		{"none", nil, counted{}},
		{"of an incident that goes on", []storage.Fence{{Boot: boot("goes on"), Fenced: true, Created: at(3)}}, counted{open: storage.Unlifted{NetworkFences: 1, Since: at(3)}}},
		{"of one that is over", []storage.Fence{{Boot: boot("over"), Fenced: true, Created: at(3)}}, counted{over: storage.Unlifted{NetworkFences: 1, Since: at(3)}}},
		{"of a boot that fell silent again", []storage.Fence{{Boot: boot("again"), Fenced: true, Created: at(3)}}, counted{open: storage.Unlifted{NetworkFences: 1, Since: at(3)}}},
		{"whose Fence was deleted", []storage.Fence{{Boot: boot("deleted"), Fenced: true, Created: at(3)}}, counted{over: storage.Unlifted{NetworkFences: 1, Since: at(3)}}},
		{"being deleted", []storage.Fence{{Boot: boot("over"), Fenced: true, Deleting: true, Created: at(3)}}, counted{over: storage.Unlifted{NetworkFences: 1, Since: at(3)}}},
		{"which csi-addons has not lifted", []storage.Fence{{Boot: boot("over"), Created: at(3)}}, counted{over: storage.Unlifted{NetworkFences: 1, Since: at(3)}}},
		{"lifted", []storage.Fence{{Boot: boot("over"), Lifted: true, Created: at(3)}}, counted{}},
		{"somebody else's", []storage.Fence{{Fenced: true, Created: at(3)}}, counted{}},
		{"several", []storage.Fence{{Boot: boot("over"), Fenced: true, Created: at(3)}, {Boot: boot("gone"), Fenced: true, Created: at(1)}, {Boot: boot("over"), Fenced: true, Created: at(2)}},
			counted{over: storage.Unlifted{NetworkFences: 3, Since: at(1)}}},
	} {
		facts.StorageFences = tt.fences
		open, over, known := fencing.Unlifted(facts)
		if got := (counted{open, over}); got != tt.want || !known {
			t.Errorf("%s: %+v, known: %v", tt.name, got, known)
		}
	}
	for _, unread := range []fencing.Known{{Fences: true}, {Storage: true}} {
		facts.Known = unread
		if _, _, known := fencing.Unlifted(facts); known {
			t.Errorf("known by %+v", unread)
		}
	}
}
