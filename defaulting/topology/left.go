package topology

import (
	"maps"
	"slices"
)

// Spread is a hard topology spread constraint with what is counted for it.
type Spread struct {
	// Constraint without its Keys: they are those of all constraints that are asked about together.
	Constraint
	// MaxSkew and MinDomains are its own, the latter 1 where it says nothing.
	MaxSkew, MinDomains int
	// Self is how much the pod itself adds to its domain: 0 or 1.
	Self int
	// On is the node of each pod that it counts.
	On []string
}

// Left returns by name the nodes that match the pod's node affinity and on which no constraint is violated, as the scheduler's PodTopologySpread
// judges it where a pod has just these (pkg/scheduler/framework/plugins/podtopologyspread/filtering.go calPreFilterState and Filter, 1.36.3). It stops at
// as many as limit; 0: there is none. Without constraints they are those that the node affinity leaves.
func (n *Nodes) Left(pod Pod, spreads []Spread, limit int) []string {
	keys := make([]string, len(spreads))
	for i, s := range spreads {
		keys[i] = s.Key
		n.ready(pod, s.Constraint)
	}
	n.prepare(pod.affinity)
	n.mu.Lock()
	defer n.mu.Unlock()
	rooms := make([]room, len(spreads))
	for i, s := range spreads {
		s.Keys = keys
		rooms[i] = n.look(pod, s.Constraint).room(s)
	}
	affinity := n.current(pod.affinity)
	var left []string
	for slot, node := range n.nodes {
		if node == nil || !affinity.has(uint(slot)) || !takenByAll(rooms, uint(slot)) {
			continue
		}
		if left = append(left, node.Name); len(left) == limit {
			break
		}
	}
	return left
}

// room is where one constraint lets the pod.
type room struct {
	domains []uint       // by slot
	counts  map[uint]int // by domain; those with none are not there
	most    int          // how many may be counted in a domain that takes the pod
}

// room costs no more with more nodes: how many domains there are is tallied, and if some of them have nothing the fewest are 0.
func (s *scan) room(spread Spread) room {
	r := room{domains: s.key.domains, counts: map[uint]int{}}
	for _, name := range spread.On {
		if slot, ok := s.nodes.slots[name]; ok && s.counts(slot) {
			r.counts[r.domains[slot]]++
		}
	}
	r.most = spread.MaxSkew - spread.Self
	if domains, _ := s.domains(len(s.key.numbers)); domains == len(r.counts) && domains >= max(spread.MinDomains, 1) {
		r.most += slices.Min(slices.Collect(maps.Values(r.counts)))
	}
	return r
}

// takenByAll reports whether a node has the key of each constraint and is in a domain with room.
func takenByAll(rooms []room, slot uint) bool {
	for _, r := range rooms {
		if domain := r.domains[slot]; domain == none || r.counts[domain] > r.most {
			return false
		}
	}
	return true
}
