package fencing

import (
	"cmp"
	"fmt"
	"time"

	"github.com/podgrace/podgrace/policy"
)

const (
	// writesWithin is how long ago the fencer's last write may be for it to count as connected. Leader election writes every 2 s.
	writesWithin = 30 * time.Second
	// disrupted is the share of nodes that are not ready from which on a zone is in partial disruption, if they are more than two
	// (pkg/controller/nodelifecycle ComputeZoneState and config/v1alpha1 UnhealthyZoneThreshold, 1.36.3).
	disrupted = 0.55
)

// doubt is why the fencer may be the one who is cut off.
type doubt struct {
	reason  policy.Reason
	message string
	// zone that is in disruption, where it is that.
	zone string
}

// doubted returns why nothing may be fenced, whoever is silent; nil: nothing speaks against what the fencer sees.
func doubted(f *Facts) *doubt {
	if !f.Known.Nodes || len(f.Nodes) == 0 {
		return &doubt{reason: fencerCutOff, message: "the nodes could not be listed"}
	}
	if s := f.Self; !s.HasWritten || f.Now.Led-s.Wrote > writesWithin {
		return &doubt{reason: fencerCutOff, message: fmt.Sprintf("the fencer has written nothing to the API server for %s", writesWithin)}
	}
	fresh := 0
	for i := range f.Nodes {
		if n := &f.Nodes[i]; n.Heard && !n.quiet() {
			fresh++
		}
	}
	if fresh*2 <= len(f.Nodes) {
		return &doubt{reason: fencerCutOff, message: "the fencer does not hear of more than half of all nodes"}
	}
	for _, z := range zonesOf(f.Nodes) {
		if z.disrupted() {
			return &doubt{reason: zoneDisrupted, zone: z.name, message: fmt.Sprintf("most nodes of zone %s are not ready", cmp.Or(z.name, "(none)"))}
		}
	}
	return nil
}

// zone is how many nodes a zone has, and how many of them are not ready or silent.
type zone struct {
	name         string
	nodes, notOK int
}

// disrupted reckons as the node lifecycle controller does, but that a zone of one node is not in full disruption when that one is away: it could never be fenced.
func (z zone) disrupted() bool {
	return z.notOK > 1 && z.notOK == z.nodes || z.notOK > 2 && float64(z.notOK) >= disrupted*float64(z.nodes)
}

func zonesOf(nodes []Node) []zone {
	var zones []zone
	at := map[string]int{}
	for i := range nodes {
		n := &nodes[i]
		j, ok := at[n.Zone]
		if !ok {
			j = len(zones)
			at[n.Zone] = j
			zones = append(zones, zone{name: n.Zone})
		}
		zones[j].nodes++
		if !n.Ready || n.quiet() {
			zones[j].notOK++
		}
	}
	return zones
}
