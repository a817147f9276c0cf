package enforcement

import (
	"fmt"
	"strconv"

	"github.com/podgrace/podgrace/api/v1alpha1"
)

// Outcome is what a node's policy leaves of one field of what a pod asks for.
type Outcome struct {
	// Field as in a PodPolicy's node section: memory.protection, memory.throttlePercent, cpu.weight, io.weight, oom.rank or eviction.order.
	Field string
	// Asked is the field's value.
	Asked string
	// Got is what the pod gets of it; empty: nothing, the kernel's files stay as the kubelet made them.
	Got string
	// Why it is not what was asked for; empty where it is.
	Why string
}

// Nothing reports whether nothing of what was asked for is left: protection that is lowered to None protects as little as one that nobody writes.
func (o Outcome) Nothing() bool {
	return o.Got == "" || o.Got != o.Asked && o.Got == string(v1alpha1.MemoryProtectionNone)
}

// Of takes apart what is asked for, in the order of the fields' names above.
func Of(e *v1alpha1.Enforcement) (all []Outcome) {
	add := func(field, value string) { all = append(all, Outcome{Field: field, Asked: value, Got: value}) }
	number := func(n int32) string { return strconv.FormatInt(int64(n), 10) }
	if m := e.Memory; m != nil {
		if m.Protection != "" {
			add("memory.protection", string(m.Protection))
		}
		if m.ThrottlePercent != nil {
			add("memory.throttlePercent", number(*m.ThrottlePercent))
		}
	}
	if e.CPU != nil {
		add("cpu.weight", number(e.CPU.Weight))
	}
	if e.IO != nil {
		add("io.weight", number(e.IO.Weight))
	}
	if e.OOM != nil {
		add("oom.rank", number(e.OOM.Rank))
	}
	if e.Eviction != nil {
		add("eviction.order", number(e.Eviction.Order))
	}
	return all
}

// Under says what a NodePolicy leaves of what is asked for, whatever the pod is; nil: the node has none. What depends on the pod, on its neighbours and on
// the kernel is the plan's to say: protection of a request that it does not have, more protection than the node has memory, files of cgroup v2 on v1.
func Under(e *v1alpha1.Enforcement, p *v1alpha1.NodePolicySpec) []Outcome {
	all := Of(e)
	for i := range all {
		o := &all[i]
		switch {
		case p == nil:
			o.Got, o.Why = "", "no NodePolicy is for it"
		case o.Field == "eviction.order":
			if p.Eviction == nil {
				o.Got, o.Why = "", "it has no section eviction, so that the kubelet alone evicts"
			} else if !Evicts(p) {
				o.Got, o.Why = "", "its eviction is in mode Observe, so that the kubelet alone evicts"
			}
		case !Writes(p.Mode):
			o.Got, o.Why = "", fmt.Sprintf("mode %s writes nothing", modeOf(p))
		default:
			o.bound(e, BoundsOf(p.Bounds))
		}
	}
	return all
}

// modeOf is the policy's mode, with the CRD's default, which a policy from a file may lack.
func modeOf(p *v1alpha1.NodePolicySpec) v1alpha1.NodeMode {
	if p.Mode == "" {
		return v1alpha1.NodeModeObserve
	}
	return p.Mode
}

func (o *Outcome) bound(e *v1alpha1.Enforcement, b Bounds) {
	lower := func(to, by string) {
		if to != o.Asked {
			o.Got, o.Why = to, "bounds."+by
		}
	}
	switch o.Field {
	case "memory.protection":
		lower(string(b.Lower(e.Memory.Protection)), "maxProtection")
		if o.Got != string(v1alpha1.MemoryProtectionNone) && b.ProtectedPercent == 0 {
			lower(string(v1alpha1.MemoryProtectionNone), "maxProtectedMemoryPercent is 0")
		}
	case "cpu.weight":
		lower(strconv.FormatInt(int64(min(e.CPU.Weight, b.CPUWeight)), 10), "maxCPUWeight")
	case "io.weight":
		lower(strconv.FormatInt(int64(min(e.IO.Weight, b.IOWeight)), 10), "maxIOWeight")
	}
}
