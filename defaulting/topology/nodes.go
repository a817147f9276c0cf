package topology

import (
	"maps"
	"math"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/lru"
)

// Nodes are the nodes of a cluster with labels and taints. Its methods may be called concurrently; the nodes that it was given must not be
// changed. A nil *Nodes has none.
type Nodes struct {
	mu sync.Mutex
	// slots gives each node's index in the slices below, by name.
	slots map[string]uint
	// nodes by slot; nil: the slot is free.
	nodes []*corev1.Node
	free  []uint
	// version counts the changes; changed are the slots of the last ones, at version modulo its length.
	version uint64
	changed [maxBehind]uint
	// columns give each node's domain, by topology key.
	columns map[string]*column
	// answers to what pods asked, as *answer by question.
	answers *lru.Cache
	// tallies of domains, as tally by tallied.
	tallies *lru.Cache
}

const (
	// maxBehind is how many changes a cached answer may miss and still be updated, which is done with the lock held.
	maxBehind = 64
	// maxAnswers is how many different questions are cached, with 8 bytes for each 64 nodes. Pods of one workload, and most of one
	// cluster, ask alike.
	maxAnswers = 2048
	// maxColumns is how many topology keys are cached. Most come from policies; tenants' own cost a look at each node's labels more where they
	// are too many.
	maxColumns = 64
)

// New returns a set of nodes.
func New(nodes ...*corev1.Node) *Nodes {
	n := &Nodes{slots: make(map[string]uint, len(nodes)), columns: map[string]*column{}, answers: lru.New(maxAnswers), tallies: lru.New(maxAnswers)}
	for _, node := range nodes {
		n.Set(node)
	}
	return n
}

// Len is how many nodes there are.
func (n *Nodes) Len() int {
	if n == nil {
		return 0
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.slots)
}

// Set adds a node, or replaces the one of its name.
func (n *Nodes) Set(node *corev1.Node) {
	n.mu.Lock()
	defer n.mu.Unlock()
	slot, ok := n.slots[node.Name]
	switch {
	case ok && alike(n.nodes[slot], node):
		n.nodes[slot] = node // so that the old one is not kept
		return
	case ok:
	case len(n.free) > 0:
		slot = n.free[len(n.free)-1]
		n.free = n.free[:len(n.free)-1]
	default:
		slot = uint(len(n.nodes))
		n.nodes = append(n.nodes, nil)
	}
	n.slots[node.Name] = slot
	n.put(slot, node)
}

// Delete removes a node, if it is there.
func (n *Nodes) Delete(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	slot, ok := n.slots[name]
	if !ok {
		return
	}
	delete(n.slots, name)
	n.free = append(n.free, slot)
	n.put(slot, nil)
}

// put changes what is in a slot, with the lock held.
func (n *Nodes) put(slot uint, node *corev1.Node) {
	n.nodes[slot] = node
	for _, c := range n.columns {
		c.put(slot, node)
	}
	n.changed[n.version%maxBehind] = slot
	n.version++
}

// alike reports whether two nodes give the same answers to every question, as after an update of the status, which kubelets write all the time.
func alike(a, b *corev1.Node) bool {
	return maps.Equal(a.Labels, b.Labels) && slices.EqualFunc(a.Spec.Taints, b.Spec.Taints, func(a, b corev1.Taint) bool {
		return a.Key == b.Key && a.Value == b.Value && a.Effect == b.Effect
	})
}

// column has each node's domain of one topology key, as a small number.
type column struct {
	key     string
	domains []uint // by slot; none where the node has no such label, or is not there
	numbers map[string]uint
}

// none is no domain.
const none = math.MaxUint

func (c *column) put(slot uint, node *corev1.Node) {
	for uint(len(c.domains)) <= slot {
		c.domains = append(c.domains, none)
	}
	c.domains[slot] = none
	if node == nil {
		return
	}
	value, ok := node.Labels[c.key]
	if !ok {
		return
	}
	number, seen := c.numbers[value]
	if !seen {
		number = uint(len(c.numbers))
		c.numbers[value] = number
	}
	c.domains[slot] = number
}

// column returns the domains of a key, with the lock held.
func (n *Nodes) column(key string) *column {
	// Values that no node has any more keep their number, so that the column is built again when too many are unused.
	if c := n.columns[key]; c != nil && len(c.numbers) <= 2*len(n.nodes)+1 {
		return c
	}
	if len(n.columns) >= maxColumns {
		clear(n.columns)
	}
	c := &column{key: key, domains: make([]uint, 0, len(n.nodes)), numbers: map[string]uint{}}
	for slot, node := range n.nodes {
		c.put(uint(slot), node)
	}
	n.columns[key] = c
	return c
}
