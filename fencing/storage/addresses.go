package storage

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podgrace/podgrace/guard"
)

// maxTold is how many addresses of one boot are kept, because a kubelet can report other addresses each time.
const maxTold = 64

// Addresses remembers the InternalIPs that each node had while it was healthy. What a Node object says after the node fell silent is not used: an address may be another
// machine's by then (rook/rook#14832). The zero value is empty and ready to use.
type Addresses struct{ nodes map[types.UID]recorded }

type recorded struct {
	boot, sign string
	// ips are all addresses that this boot has reported.
	ips []string
	// changed: this boot has reported more than one list. After a silence a node reports for some seconds what somebody else wrote in the meantime.
	changed bool
}

// Sighting is a node that is ready and sends heartbeats.
type Sighting struct {
	UID    types.UID
	BootID string
	// Sign is its last heartbeat, as guard.ConfirmOff writes it.
	Sign        string
	InternalIPs []string
}

// Note records the addresses of a healthy node, if it has sent a heartbeat since the last call. Not only its kubelet can write a Node: what others write after the node fell
// silent changes nothing here.
func (a *Addresses) Note(s Sighting) {
	was, known := a.nodes[s.UID]
	if s.BootID == "" || known && !guard.HeardSince(was.sign, s.Sign) {
		return
	}
	if a.nodes == nil {
		a.nodes = map[types.UID]recorded{}
	}
	now := recorded{boot: s.BootID, sign: s.Sign, ips: slices.Clone(s.InternalIPs)}
	if was.boot == s.BootID && (was.changed || !slices.Equal(was.ips, s.InternalIPs)) {
		now.changed = true
		now.ips = slices.Concat(was.ips, now.ips)
		slices.Sort(now.ips)
		now.ips = slices.Compact(now.ips)
		now.ips = now.ips[:min(len(now.ips), maxTold)]
	}
	a.nodes[s.UID] = now
}

// Of returns what was recorded of this boot of a node: told are all addresses that it reported, and certain is the same list if it never changed, else nil.
func (a *Addresses) Of(node types.UID, bootID string) (certain, told []string) {
	was := a.nodes[node]
	if bootID == "" || was.boot != bootID {
		return nil, nil
	}
	if !was.changed {
		certain = was.ips
	}
	return certain, was.ips
}

// Keep forgets all nodes but these.
func (a *Addresses) Keep(nodes map[types.UID]bool) {
	maps.DeleteFunc(a.nodes, func(uid types.UID, _ recorded) bool { return !nodes[uid] })
}
