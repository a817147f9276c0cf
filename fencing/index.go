package fencing

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/guard"
)

// index finds in the facts what is asked for again and again, in clusters of thousands of nodes. It is made when it is first needed, of the facts as they are then.
type index struct {
	// names and boots are of Nodes: the first that has it.
	names, boots map[string]int
	// claims are the names of the nodes that say that they are this machine, or this boot (claimsOf).
	claims map[string][]string
	// void are the names of the receipts that are void, standing those that stand, by the boot that they are of, and lies those that are void by the agent that said so.
	void           map[string]bool
	standing, lies map[string][]*v1alpha1.FenceReceipt
	agents         map[string]*listed
	// addresses are of nodes: those that they have, and those that they had while they were healthy, as blocks of one.
	addresses map[string][]int
}

// listed is an agent with the machines of its list, by what they say of which machine they are (one that says both is found by its UUID), and how many of them are at each
// place (placesOf).
type listed struct {
	agent    *v1alpha1.FenceAgent
	machines map[string][]int
	places   map[string]int
}

func listedOf(a *v1alpha1.FenceAgent) *listed {
	l := &listed{agent: a, machines: make(map[string][]int, len(a.Spec.Machines)), places: make(map[string]int, len(a.Spec.Machines))}
	for i := range a.Spec.Machines {
		m := &a.Spec.Machines[i]
		claim := claimProvider(m.ProviderID)
		if m.SystemUUID != "" {
			claim = claimUUID(m.SystemUUID)
		}
		if claim != "" {
			l.machines[claim] = append(l.machines[claim], i)
		}
		for _, place := range placesOf(&a.Spec, m) {
			l.places[place]++
		}
	}
	return l
}

// placesOf is where an agent powers a machine off, as far as it makes a difference to the agent: a program gets its parameters and no more, a BMC its address and the
// ComputerSystem, and a service is told which machine it is, so that where needs not be said. A BMC is a place of its own, beside each of its systems.
func placesOf(x *v1alpha1.FenceAgentSpec, m *v1alpha1.FenceMachine) []string {
	switch {
	case x.Type == v1alpha1.AgentExec && x.Exec != nil:
		parameters := map[string]string{}
		maps.Copy(parameters, x.Exec.Parameters)
		maps.Copy(parameters, m.Parameters)
		if m.Address != "" {
			parameters["ip"] = m.Address
		}
		return []string{fmt.Sprintf("%q", parameters)} // fmt sorts the keys
	case x.Type == v1alpha1.AgentRedfish:
		bmc := m.Address
		if u, err := url.Parse(m.Address); err == nil && u.Host != "" {
			bmc = strings.TrimSuffix(strings.ToLower(u.Host), ":443")
		}
		return []string{bmc, bmc + " " + strings.TrimSuffix(m.System, "/")}
	case m.Address == "" && m.System == "" && len(m.Parameters) == 0:
		return nil
	}
	return []string{fmt.Sprintf("%q %q %q", m.Address, m.System, m.Parameters)}
}

func (f *Facts) look() *index {
	if f.index != nil {
		return f.index
	}
	x := &index{
		names: make(map[string]int, len(f.Nodes)), boots: make(map[string]int, len(f.Nodes)), claims: make(map[string][]string, 2*len(f.Nodes)),
		void: guard.Voided(f.Receipts), standing: map[string][]*v1alpha1.FenceReceipt{}, lies: map[string][]*v1alpha1.FenceReceipt{},
		agents: make(map[string]*listed, len(f.Agents)), addresses: map[string][]int{},
	}
	for i := range f.Agents {
		x.agents[f.Agents[i].Name] = listedOf(&f.Agents[i])
	}
	for i := range f.Nodes {
		n := &f.Nodes[i]
		if _, ok := x.names[n.Name]; !ok {
			x.names[n.Name] = i
		}
		if _, ok := x.boots[n.BootID]; !ok && n.BootID != "" {
			x.boots[n.BootID] = i
		}
		for _, claim := range claimsOf(n) {
			x.claims[claim] = append(x.claims[claim], n.Name)
		}
		for _, address := range slices.Concat(n.Addresses, n.Told) {
			if b := block(address); b != "" {
				x.addresses[b] = append(x.addresses[b], i)
			}
		}
	}
	for i := range f.Receipts {
		switch r := &f.Receipts[i]; {
		case r.Spec.Class == v1alpha1.EvidenceVoid:
		case x.void[r.Name]:
			x.lies[r.Spec.Agent] = append(x.lies[r.Spec.Agent], r)
		case r.Spec.Node != nil:
			x.standing[r.Spec.Node.BootID] = append(x.standing[r.Spec.Node.BootID], r)
		}
	}
	f.index = x
	return x
}

// claimsOf is which machine, and which boot, a node says that it is.
func claimsOf(n *Node) (claims []string) {
	claims = []string{claimUUID(n.SystemUUID), claimProvider(n.ProviderID)}
	if n.BootID != "" {
		claims = append(claims, "boot/"+n.BootID)
	}
	return slices.DeleteFunc(claims, func(claim string) bool { return claim == "" })
}

func claimUUID(text string) string {
	if key := MachineKey(text); key != "" {
		return "uuid/" + key
	}
	return ""
}

func claimProvider(id string) string {
	if id != "" {
		return "provider/" + id
	}
	return ""
}

// node returns the Node that has the name; nil: there is none, or it is not known.
func (f *Facts) node(name string) *Node {
	if i, ok := f.look().names[name]; ok {
		return &f.Nodes[i]
	}
	return nil
}

// bootSeen returns the Node that has this boot, whatever its name and UID: a kubelet whose Node was deleted makes another one, and goes on. Nil: there is none.
func (f *Facts) bootSeen(bootID string) *Node {
	if i, ok := f.look().boots[bootID]; ok {
		return &f.Nodes[i]
	}
	return nil
}

// claimants are the nodes that say that they are the same machine, or the same boot, as this one.
func (f *Facts) claimants(n *Node) []string {
	var names []string
	for _, claim := range claimsOf(n) {
		names = append(names, f.look().claims[claim]...)
	}
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(name string) bool { return name == n.Name })
}
