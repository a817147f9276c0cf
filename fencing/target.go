package fencing

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/fencing/storage"
)

// FenceName is the name of the Fence for a node's present silence: by its name, and its last sign of life.
func FenceName(n *Node) string { return nameOf(n.Name, n.Sign) }

func nameOf(node, what string) string {
	sum := sha256.Sum256([]byte(what))
	return fmt.Sprintf("%s-%x", strings.TrimRight(node[:min(len(node), 200)], "-."), sum[:6])
}

// problem is why an agent can't power a machine off. elsewhere: it lists others, and not this one.
type problem struct {
	text      string
	elsewhere bool
}

// freeze is what is to be powered off, with the agents of the policy that can; nil: none can. The problems say why others can't.
func freeze(p *Policy, n *Node, f *Facts) (target *v1alpha1.FenceTarget, problems []problem) {
	target = &v1alpha1.FenceTarget{SystemUUID: n.SystemUUID, ProviderID: n.ProviderID, LastRenewal: n.LastRenewal, LastSign: n.Sign, Release: p.Spec.Release}
	for _, a := range p.Spec.Agents {
		agent, why := freezeAgent(a, n, f)
		if why != "" {
			problems = append(problems, problem{"FenceAgent " + a.Name + " " + why, strings.HasPrefix(why, notListed)})
			continue
		}
		target.Agents = append(target.Agents, *agent)
	}
	if len(target.Agents) == 0 {
		return nil, problems
	}
	return target, problems
}

func freezeAgent(a v1alpha1.FencePolicyAgent, n *Node, f *Facts) (agent *v1alpha1.FenceTargetAgent, why string) {
	listed := f.look().agents[a.Name]
	if listed == nil {
		return nil, "does not exist"
	}
	x := listed.agent
	m, why := listed.machineOf(n)
	switch {
	case why != "":
		return nil, why
	case !acceptsAny(&a, evidenceOf(x.Spec.Type)): // it would power the machine off, and no receipt would come of it
		return nil, fmt.Sprintf("of the type %s never gives evidence that the policy accepts from it: say evidence: [%s]", x.Spec.Type, evidenceOf(x.Spec.Type)[0])
	case x.Spec.Type == v1alpha1.AgentWatchdog && unfit(n, &x.Spec) != "":
		return nil, "can't reckon with its watchdog: " + unfit(n, &x.Spec)
	case x.Spec.Type != v1alpha1.AgentManual && x.Spec.Type != v1alpha1.AgentWatchdog && x.Spec.Identity != v1alpha1.IdentityConfigured && MachineKey(n.SystemUUID) == "":
		return nil, "has to verify the machine by its UUID, and the node tells none (identity: Configured trusts the list)"
	}
	if r := lied(a.Name, n, f); r != "" {
		return nil, "said once of this machine what was not so, or not for long (FenceReceipt " + r + " is void): repair it, then delete that receipt"
	}
	agent = &v1alpha1.FenceTargetAgent{FencePolicyAgent: a, UID: x.UID, Generation: x.Generation, Type: x.Spec.Type, Identity: x.Spec.Identity, Machine: m}
	if x.Spec.NetworkFence != nil {
		agent.Storage, why = freezeStorage(x.Spec.NetworkFence, n, f)
	}
	return agent, why
}

// evidenceOf are the classes of evidence that an agent of a type can give. None for a person's word, which counts whatever a policy accepts.
func evidenceOf(t v1alpha1.FenceAgentType) []v1alpha1.EvidenceClass {
	switch t {
	case v1alpha1.AgentManual:
		return nil
	case v1alpha1.AgentWatchdog:
		return []v1alpha1.EvidenceClass{v1alpha1.EvidenceWatchdogExpired}
	case v1alpha1.AgentNetworkFence:
		return []v1alpha1.EvidenceClass{v1alpha1.EvidenceStorageRevoked}
	case v1alpha1.AgentWebhook:
		return []v1alpha1.EvidenceClass{v1alpha1.EvidencePoweredOff, v1alpha1.EvidenceInstanceTerminated}
	case v1alpha1.AgentRedfish, v1alpha1.AgentExec:
	}
	return []v1alpha1.EvidenceClass{v1alpha1.EvidencePoweredOff}
}

func acceptsAny(a *v1alpha1.FencePolicyAgent, classes []v1alpha1.EvidenceClass) bool {
	return len(classes) == 0 || slices.ContainsFunc(classes, func(c v1alpha1.EvidenceClass) bool { return accepts(a, c) })
}

// notListed begins what is said of an agent that has no such machine.
const notListed = "does not list this machine"

// machineOf finds the node's machine in an agent's list.
func (l *listed) machineOf(n *Node) (m *v1alpha1.FenceMachine, why string) {
	x := &l.agent.Spec
	for _, claim := range []string{claimUUID(n.SystemUUID), claimProvider(n.ProviderID)} {
		for _, i := range l.machines[claim] {
			if !isMachine(&x.Machines[i], n.SystemUUID, n.ProviderID) {
				continue
			}
			if m != nil {
				return nil, "lists this machine twice"
			}
			m = x.Machines[i].DeepCopy()
			if m.SystemUUID == "" { // by which it is verified
				m.SystemUUID = n.SystemUUID
			}
		}
	}
	switch {
	case m == nil && len(x.Machines) == 0 && slices.Contains([]v1alpha1.FenceAgentType{v1alpha1.AgentManual, v1alpha1.AgentWebhook, v1alpha1.AgentWatchdog, v1alpha1.AgentNetworkFence}, x.Type):
		return told(n)
	case m == nil:
		return nil, fmt.Sprintf(notListed+" (systemUUID %q, providerID %q)", n.SystemUUID, n.ProviderID)
	}
	if l.shared(m) {
		return nil, fmt.Sprintf("lists another machine at the same address %s, so that it might power off that one", cmp.Or(m.Address, "(none)"))
	}
	return m, ""
}

// told is the machine that a node says it is, for an agent that has no list.
func told(n *Node) (m *v1alpha1.FenceMachine, why string) {
	switch {
	case n.SystemUUID == "" && n.ProviderID == "":
		return nil, "has no list of machines, and the node tells neither systemUUID nor providerID"
	case len(n.ProviderID) > maxProviderID:
		return nil, fmt.Sprintf("has no list of machines, and the node's providerID is longer than %d bytes", maxProviderID)
	}
	return &v1alpha1.FenceMachine{SystemUUID: n.SystemUUID, ProviderID: n.ProviderID}, ""
}

// shared reports whether another machine of the list is powered off at the very same place.
func (l *listed) shared(m *v1alpha1.FenceMachine) bool {
	places := placesOf(&l.agent.Spec, m)
	switch {
	case len(places) == 0:
		return false
	case l.agent.Spec.Type != v1alpha1.AgentRedfish:
		return l.places[places[0]] > 1
	case m.System == "": // the only one that the BMC has, whatever others call it
		return l.places[places[0]] > 1
	}
	return l.places[places[1]]+l.places[places[0]+" "] > 1
}

// lied returns the receipt by which the agent said that the node's machine was off, and that is void; empty: it did not.
func lied(agent string, n *Node, f *Facts) string {
	for _, r := range f.look().lies[agent] {
		if m := r.Spec.Machine; m != nil && isMachine(m, n.SystemUUID, n.ProviderID) || r.Spec.Node != nil && r.Spec.Node.UID == n.UID {
			return r.Name
		}
	}
	return ""
}

// stillThat says why an agent of a target that was frozen for a node can't be used any more; empty: it can.
func stillThat(a *v1alpha1.FenceTargetAgent, node string, f *Facts) string {
	i := slices.IndexFunc(f.Agents, func(x v1alpha1.FenceAgent) bool { return x.Name == a.Name })
	switch {
	case i < 0:
		return fmt.Sprintf("FenceAgent %s was deleted since this was decided", a.Name)
	case f.Agents[i].UID != a.UID:
		return fmt.Sprintf("FenceAgent %s was deleted and made anew since this was decided: it may be another one", a.Name)
	case f.Agents[i].Spec.Type != a.Type:
		return fmt.Sprintf("FenceAgent %s was of the type %s when this was decided, and is %s now", a.Name, a.Type, f.Agents[i].Spec.Type)
	case a.Machine == nil || a.Type == v1alpha1.AgentNetworkFence && a.Storage == nil:
		return fmt.Sprintf("FenceAgent %s has no machine in the target", a.Name)
	case a.Storage == nil:
		return ""
	case f.Known.Storage && f.Classes[a.Storage.NetworkFenceClassName].UID != a.Storage.NetworkFenceClassUID: // what a class says can't be changed (csi-addons v0.14.0)
		return fmt.Sprintf("NetworkFenceClass %s of FenceAgent %s was deleted, or made anew, since this was decided: it may be of another storage", a.Storage.NetworkFenceClassName, a.Name)
	}
	why := sharedAddress(a.Storage.CIDRs, node, f) // an address that another machine has got since
	if x := f.Agents[i].Spec.NetworkFence; why == "" && x != nil {
		why = storage.NotAllowed(x, a.Storage.CIDRs) // by what it says now
	}
	if why != "" {
		return "FenceAgent " + a.Name + " " + why
	}
	return ""
}

// agentOf returns the agent of an attempt: each is tried as often as the policy says, in their order, then the first again. Agents that can't be used are passed over,
// so that numbers may be left out: next is the first number from this one on whose agent can be used; 0: none can.
func agentOf(t *v1alpha1.FenceTarget, from int32, usable func(*v1alpha1.FenceTargetAgent) bool) (agent *v1alpha1.FenceTargetAgent, next int32) {
	if t == nil {
		return nil, 0
	}
	all := int32(0)
	for i := range t.Agents {
		all += max(t.Agents[i].Attempts, 1)
	}
	for number := max(from, 1); number < max(from, 1)+all; number++ {
		at := (number - 1) % all
		for i := range t.Agents {
			if at -= max(t.Agents[i].Attempts, 1); at < 0 {
				if usable(&t.Agents[i]) {
					return &t.Agents[i], number
				}
				break
			}
		}
	}
	return nil, 0
}

// placeholders are UUIDs that many machines have: boards on which the vendor set none (DSP0134, SMBIOS 3.x, 7.2.1: all zeros is not present, all ones is not set),
// and one that was left in boards' firmware as it came. They tell no machine from another.
var placeholders = []uuid.UUID{
	uuid.Nil, uuid.Max, uuid.MustParse("03000200-0400-0500-0006-000700080009"), uuid.MustParse("01234567-89ab-cdef-0123-456789abcdef"),
	uuid.MustParse("fefefefe-fefe-fefe-fefe-fefefefefefe"), uuid.MustParse("11111111-1111-1111-1111-111111111111"),
}

// SameMachine reports whether two UUIDs are of one machine, and if so whether only in the other byte order: SMBIOS has the first three fields in little-endian order
// (DSP0134, 7.2.1), and firmware, kernels and BMCs differ in whether they turn them around. What is no UUID is the same as what has the same letters: kubelets on some
// architectures report a serial number. Nothing is the same as an empty text or a UUID that vendors leave on all of their boards.
func SameMachine(a, b string) (same, swapped bool) {
	keyA, keyB := MachineKey(a), MachineKey(b)
	if keyA == "" || keyA != keyB {
		return false, false
	}
	return true, normal(a) != normal(b)
}

// MachineKey is the same text for both byte orders of a UUID, and empty for one that tells no machine from another.
func MachineKey(text string) string {
	id, err := uuid.Parse(strings.TrimSpace(text))
	if err != nil {
		return normal(text)
	}
	other := swap(id)
	if slices.Contains(placeholders, id) || slices.Contains(placeholders, other) {
		return ""
	}
	return min(id.String(), other.String())
}

// normal is a UUID, or whatever it is, in small letters.
func normal(text string) string {
	text = strings.TrimSpace(text)
	if id, err := uuid.Parse(text); err == nil {
		return id.String()
	}
	return strings.ToLower(text)
}

// swap turns the bytes of the first three fields around.
func swap(id uuid.UUID) uuid.UUID {
	slices.Reverse(id[0:4])
	slices.Reverse(id[4:6])
	slices.Reverse(id[6:8])
	return id
}

// sameUUID reports whether both are the UUID of one machine, in either order of bytes.
func sameUUID(a, b string) bool {
	const rest = len("12345678-1234-1234-") // what follows is in one order: most UUIDs of a large cluster are told apart by it
	if a == "" || b == "" || len(a) == 36 && len(b) == 36 && !strings.EqualFold(a[rest:], b[rest:]) {
		return false
	}
	same, _ := SameMachine(a, b)
	return same
}

// isMachine reports whether an agent's machine is that with this UUID and provider ID. All that it says of which machine it is must be so.
func isMachine(m *v1alpha1.FenceMachine, systemUUID, providerID string) bool {
	if m.SystemUUID != "" && !sameUUID(m.SystemUUID, systemUUID) || m.ProviderID != "" && m.ProviderID != providerID {
		return false
	}
	return m.SystemUUID != "" || m.ProviderID != ""
}
