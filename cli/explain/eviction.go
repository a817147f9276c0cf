package explain

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/nodeenforcer/eviction"
	"github.com/podgrace/podgrace/policy/enforcement"
)

// memory is the signal whose order is told. Disk has the same key, by ephemeral storage; processes have priority and their number.
const memory = v1alpha1.SignalMemoryAvailable

func evicted(v *view) Eviction {
	self := v.candidate(v.pod)
	if why := eviction.Exempt(v.pod); why != "" {
		return Eviction{Exempt: why, Priority: priorityOf(v.pod), Means: []string{"It is never evicted for want of resources: " + why}}
	}
	alone := eviction.Rank(memory, []eviction.Candidate{self})[0]
	// Its request, also where its usage is not known.
	idle := eviction.Rank(memory, []eviction.Candidate{{Pod: v.pod, Usage: map[v1alpha1.EvictionSignal]int64{memory: 0}}})[0]
	e := Eviction{Request: idle.Requested.String(), Priority: alone.Priority, Order: alone.Order}
	if alone.Known {
		e.UsageBytes, e.Exceeds = new(alone.Used), new(alone.Exceeds)
	}
	e.Means = append(e.Means, meansUsage(e, idle.Requested.IsZero()))
	e.place(v, self)
	e.Means = append(e.Means, v.meansOrder(e))
	return e
}

func (v *view) candidate(p *corev1.Pod) eviction.Candidate {
	c := eviction.Candidate{Pod: p}
	if used, ok := v.in.Usage[p.UID]; ok && p.UID != "" {
		c.Usage = map[v1alpha1.EvictionSignal]int64{memory: used}
	}
	return c
}

// bytes prints an amount in Mi, below that as it is.
func bytes(n int64) string {
	if n >= 1<<20 {
		return fmt.Sprintf("%dMi", n>>20)
	}
	return resource.NewQuantity(n, resource.BinarySI).String()
}

// meansUsage is what comes first in the order: usage above the request.
func meansUsage(e Eviction, nothing bool) string {
	switch {
	case e.Exceeds == nil && nothing:
		return "It requests no memory, so that whatever it uses is above its request: it goes before every pod within its own"
	case e.Exceeds == nil:
		return fmt.Sprintf("What it uses is not known. Above its request of %s it goes before every pod within its own, else after every pod above its own", e.Request)
	case *e.Exceeds:
		return fmt.Sprintf("It uses %s, above its request of %s: it goes before every pod within its own", bytes(*e.UsageBytes), e.Request)
	}
	return fmt.Sprintf("It uses %s, within its request of %s: it goes after every pod above its own", bytes(*e.UsageBytes), e.Request)
}

// place is its rank among its neighbours; where usage is not known, how many have which priority.
func (e *Eviction) place(v *view, self eviction.Candidate) {
	if v.in.Neighbours == nil {
		v.note("the other pods of the node are not known: its place in the order of eviction can't be told")
		return
	}
	candidates := []eviction.Candidate{self}
	for _, p := range v.others() {
		candidates = append(candidates, v.candidate(p))
	}
	var unknown, lower, same, higher int
	for _, r := range eviction.Rank(memory, candidates) {
		switch {
		case r.Pod == self.Pod:
			e.Place, e.Of = r.Position, r.Of
			continue
		case !r.Known:
			unknown++
		}
		switch {
		case r.Priority < e.Priority:
			lower++
		case r.Priority == e.Priority:
			same++
		default:
			higher++
		}
	}
	e.Means = append(e.Means, fmt.Sprintf("Others on its node that may be evicted: %d of lower priority (before it, all else equal), %d of the same, %d of higher", lower, same, higher))
	switch {
	case e.Exceeds == nil:
		e.Place, e.Of = 0, 0
	case unknown > 0:
		e.Place, e.Of = 0, 0
		v.note("what %d of the node's other pods use is not known: its place in the order of eviction can't be told", unknown)
	}
}

// meansOrder is what the contract adds, and who evicts.
func (v *view) meansOrder(e Eviction) string {
	by := "The kubelet evicts; the node enforcer does not"
	switch p := v.in.NodePolicy; {
	case v.in.NodePolicyUnknown, p == nil && v.pod.Spec.NodeName == "":
		by = "Whether the node enforcer evicts is not known"
	case p != nil && enforcement.Evicts(p):
		by = fmt.Sprintf("The node enforcer evicts (NodePolicy %s)", v.in.NodePolicyName)
		return fmt.Sprintf("%s; between pods of one priority the higher eviction order goes first: it has %d of 100", by, e.Order)
	}
	if e.Order > 0 {
		by += fmt.Sprintf(": its eviction order of %d counts for nothing to the kubelet", e.Order)
	}
	return by
}

func priorityOf(p *corev1.Pod) int32 {
	if p.Spec.Priority != nil {
		return *p.Spec.Priority
	}
	return 0
}
