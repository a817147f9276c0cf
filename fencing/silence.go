package fencing

import (
	"cmp"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podgrace/podgrace/guard"
	"github.com/podgrace/podgrace/policy"
)

// watchedWithin is how long the fencer may go without a look at its watches: in a longer gap it was paused, or starved, and a node whose heartbeat waits to be read
// would seem to have been silent all that time.
const watchedWithin = 15 * time.Second

// Silence reckons for how long the fencer itself has not heard of each node, by its own monotonic clock: from when it saw the node's last sign of life change, whatever
// time of day that sign tells. It begins again, for all nodes, when the fencer begins to lead, when its watches were cut, and when it has not looked for a while: what
// was not watched is no silence. The zero value has begun at 0.
type Silence struct {
	began, looked time.Duration
	nodes         map[types.UID]sign
	gone          map[types.UID]time.Duration
}

type sign struct {
	// before is what the text was before it changed under the fencer's eyes.
	text, before string
	// since is when it was first seen. heard: it changed under the fencer's eyes.
	since time.Duration
	heard bool
}

// Restart begins again, because the watches of the fencer were cut.
func (s *Silence) Restart(now time.Duration) {
	s.began, s.looked = now, now
	for uid, was := range s.nodes {
		s.nodes[uid] = sign{text: was.text}
	}
	clear(s.gone)
}

// Tick says that the fencer is looking: once a round, and at least every 5 seconds, before Hear. It returns false where it had not looked for so long that all begins again.
func (s *Silence) Tick(now time.Duration) bool {
	if !s.Watched(now) {
		return false
	}
	s.looked = now
	return true
}

// Watched reports whether the fencer looked a short time ago, and where it did not begins all again: between a look and what is decided by it a fencer can be paused as well.
func (s *Silence) Watched(now time.Duration) bool {
	if now < s.looked || now-s.looked > watchedWithin {
		s.Restart(now)
		return false
	}
	return true
}

// Hear notes the last sign of life of a node (Node.Sign), as a watch or a live read has it.
func (s *Silence) Hear(node types.UID, text string, now time.Duration) {
	if s.nodes == nil {
		s.nodes = map[types.UID]sign{}
	}
	delete(s.gone, node)
	switch was, known := s.nodes[node]; {
	case !known:
		s.nodes[node] = sign{text: text, since: now}
	case guard.HeardSince(was.text, text):
		s.nodes[node] = sign{text: text, before: was.text, since: now, heard: true}
	}
}

// Of returns for how long a node was not heard of, and whether it ever was since the fencer began to count.
func (s *Silence) Of(node types.UID, now time.Duration) (silent time.Duration, heard bool) {
	was, known := s.nodes[node]
	if !known {
		return 0, false
	}
	return max(now-max(was.since, s.began), 0), was.heard
}

// Before is a node's sign of life before the present one; empty: it did not change since the fencer began to count.
func (s *Silence) Before(node types.UID) string { return s.nodes[node].before }

// Gone notes that a Node is not there, and returns since when the fencer has known that: when it was heard of last before is not known any more.
func (s *Silence) Gone(node types.UID, now time.Duration) time.Duration {
	if _, known := s.gone[node]; !known {
		if s.gone == nil {
			s.gone = map[types.UID]time.Duration{}
		}
		s.gone[node] = now
	}
	return s.gone[node]
}

// Keep forgets the nodes that are there no more.
func (s *Silence) Keep(nodes []Node) {
	there := make(map[types.UID]bool, len(nodes))
	for i := range nodes {
		there[nodes[i].UID] = true
	}
	for uid := range s.nodes {
		if !there[uid] {
			delete(s.nodes, uid)
		}
	}
}

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
