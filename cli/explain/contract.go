package explain

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/defaulting"
	"github.com/podgrace/podgrace/policy"
	"github.com/podgrace/podgrace/policy/enforcement"
)

// fields are what a contract says, one field each.
func fields(e *v1alpha1.Enforcement) (out []string) {
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if m := e.Memory; m != nil {
		if m.Protection != "" {
			add("memory.protection %s", m.Protection)
		}
		if m.ThrottlePercent != nil {
			add("memory.throttlePercent %d", *m.ThrottlePercent)
		}
	}
	if e.CPU != nil {
		add("cpu.weight %d", e.CPU.Weight)
	}
	if e.IO != nil {
		add("io.weight %d", e.IO.Weight)
	}
	if e.OOM != nil {
		add("oom.rank %d", e.OOM.Rank)
	}
	if e.Eviction != nil {
		add("eviction.order %d", e.Eviction.Order)
	}
	return out
}

func (v *view) contractGiver() *policy.Policy {
	return v.giver(func(s *v1alpha1.PodPolicySpec) bool { return s.Node != nil })
}

// contract is what admission decided for the node when the pod was made: a record, which no later policy changes.
func contract(v *view) Contract {
	giver := v.contractGiver()
	text, present := v.pod.Annotations[v1alpha1.AnnotationEnforcement]
	if !present {
		why := v.nobody("node settings")
		if giver != nil {
			why = fmt.Sprintf("it has none, though PodPolicy %s gives node settings: it was not there or not asked when the pod was made", giver.Name)
		}
		return Contract{Source: Source{OriginNone, nameOf(giver), why}}
	}
	e, err := enforcement.Parse(text)
	if err != nil {
		return Contract{Source: Source{OriginUnknown, nameOf(giver), fmt.Sprintf("it can't be read and counts for nothing: %v", err)}}
	}
	c := Contract{Fields: fields(e), Source: Source{OriginPolicy, nameOf(giver), ""}}
	switch {
	case !v.created() && giver == nil:
		c.Origin, c.Why = OriginPod, "its own; the webhook removes or refuses it"
	case !v.created():
		c.Why = "decided by PodPolicy " + nameOf(giver)
	case giver != nil && v.settledNode() == nil:
		c.Why = fmt.Sprintf("decided when it was made; PodPolicy %s decides the same today", giver.Name)
	case giver != nil && v.givenBySome(e):
		c.Why = fmt.Sprintf("decided when it was made; PodPolicy %s decides otherwise today", giver.Name)
	case v.doubtful():
		c.Origin, c.Why = OriginUnknown, "decided when it was made; by which policy can't be told, since not all are known here"
	case v.givenBySome(e):
		c.Origin, c.Why = OriginUnknown, "decided when it was made, by a policy that does not match today, or written past the policies"
	default:
		// A policy has changed since, or it was written past the webhook while that was away.
		c.Origin, c.Why = OriginUnknown, "no PodPolicy gives this today"
		c.Remove = fmt.Sprintf("kubectl annotate pod -n %s %s %s-", v.pod.Namespace, v.pod.Name, v1alpha1.AnnotationEnforcement)
	}
	return c
}

// givenBySome reports whether any policy gives this contract, to whichever pods.
func (v *view) givenBySome(e *v1alpha1.Enforcement) bool {
	return slices.ContainsFunc(v.in.Policies, func(p *policy.Policy) bool {
		return p.Spec.Node != nil && equality.Semantic.DeepEqual(e, p.Spec.Node)
	})
}

// settledNode is what today's policies would change in the contract; nil: nothing.
func (v *view) settledNode() *defaulting.Change {
	for i := range v.settled.Changes {
		if c := &v.settled.Changes[i]; c.Section == "node" {
			return c
		}
	}
	return nil
}
