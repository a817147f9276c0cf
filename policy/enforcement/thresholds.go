package enforcement

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podgrace/podgrace/api/v1alpha1"
)

// A threshold above half of a node, or a stall shorter than a fiftieth of its window, is met by nodes that lack nothing.
const (
	mostPercent = 50
	leastStall  = 50
)

// ThresholdRemarks says which eviction thresholds of a NodePolicy are likely mistakes: they evict pods of nodes that lack nothing. memory is the capacity of the
// smallest node that the policy selects, in bytes; 0: it is not known, and quantities are compared with nothing.
func ThresholdRemarks(p *v1alpha1.NodePolicySpec, memory int64) (remarks []string) {
	if p.Eviction == nil {
		return nil
	}
	about := func(list string, t v1alpha1.EvictionThreshold) {
		if too := tooMuch(t, memory); too != "" {
			remarks = append(remarks, fmt.Sprintf("eviction.%s %s of %s is more than half of %s: pods are evicted although less than half is used. Usual are 5%% to 15%%", list, t.Signal, t.Value, too))
		}
	}
	for _, t := range p.Eviction.Hard {
		about("hard", t)
	}
	for _, t := range p.Eviction.Soft {
		about("soft", t.EvictionThreshold)
	}
	if s := p.Eviction.MemoryStall; s != nil && s.Stall.Duration > 0 && s.Stall.Duration < s.Window.Duration/leastStall {
		remarks = append(remarks, fmt.Sprintf("eviction.memoryStall of %s in %s is less than a fiftieth of the time: ordinary work waits as long, and pods are evicted for it. Usual is a tenth, such as %s",
			s.Stall.Duration, s.Window.Duration, (s.Window.Duration/10).Round(time.Millisecond)))
	}
	return remarks
}

// tooMuch says what a threshold is more than half of; empty: it is not, or that is not known.
func tooMuch(t v1alpha1.EvictionThreshold, memory int64) string {
	a, err := ParseAmount(t.Value)
	switch {
	case err != nil || a.Never():
		return ""
	case a.Quantity == 0 && a.Percentage > mostPercent/100.:
		return "the capacity"
	case t.Signal != v1alpha1.SignalMemoryAvailable || memory <= 0 || a.Quantity <= memory/100*mostPercent:
		return ""
	}
	return fmt.Sprintf("a node's memory, %s", resource.NewQuantity(memory, resource.BinarySI))
}
