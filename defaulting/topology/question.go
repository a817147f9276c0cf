package topology

import (
	"crypto/sha256"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/bits-and-blooms/bitset"
	corev1 "k8s.io/api/core/v1"
	schedulingcorev1 "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
)

// Pod is what a pod asks of nodes.
type Pod struct {
	affinity, tolerations *question
}

// question is asked of each node by itself. nil: every node answers yes.
type question struct {
	// sum is the same for two pods that ask alike.
	sum [sha256.Size]byte
	// match is made of the pod only where it is asked.
	match func() func(*corev1.Node) bool
}

// ForPod returns what a pod asks. It must not be changed as long as that is used.
func ForPod(pod *corev1.Pod) Pod {
	p := Pod{tolerations: ask("tolerations", corev1.PodSpec{Tolerations: pod.Spec.Tolerations}, func() func(*corev1.Node) bool {
		return func(n *corev1.Node) bool { return tolerates(pod, n) }
	})}
	asked := corev1.PodSpec{NodeSelector: pod.Spec.NodeSelector}
	if a := pod.Spec.Affinity; a != nil && a.NodeAffinity != nil && a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		asked.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution}}
	}
	if len(asked.NodeSelector) > 0 || asked.Affinity != nil {
		p.affinity = ask("affinity", asked, func() func(*corev1.Node) bool {
			affinity := nodeaffinity.GetRequiredNodeAffinity(pod)
			return func(n *corev1.Node) bool {
				ok, _ := affinity.Match(n) // the error, about a term that can't be parsed, is ignored as the scheduler ignores it
				return ok
			}
		})
	}
	return p
}

// Fits reports whether a node is one that the pod's node affinity and tolerations allow.
func (p Pod) Fits(n *corev1.Node) bool {
	return (p.affinity == nil || p.affinity.match()(n)) && (p.tolerations == nil || p.tolerations.match()(n))
}

func ask(kind string, asked corev1.PodSpec, match func() func(*corev1.Node) bool) *question {
	text, err := asked.Marshal() // the same for the same: it sorts the keys of maps
	if err != nil {              // it can't be, in a slice that grows
		panic(err)
	}
	return &question{sum: sha256.Sum256(append([]byte(kind+"\x00"), text...)), match: sync.OnceValue(match)}
}

// tolerates reports whether no taint of the node keeps the pod from being scheduled there.
func tolerates(pod *corev1.Pod, n *corev1.Node) bool {
	_, untolerated := schedulingcorev1.FindMatchingUntoleratedTaint(klog.Background(), n.Spec.Taints, pod.Spec.Tolerations, func(t *corev1.Taint) bool {
		return t.Effect == corev1.TaintEffectNoSchedule || t.Effect == corev1.TaintEffectNoExecute
	}, true)
	return !untolerated
}

// Constraint is what a topology spread constraint asks of nodes.
type Constraint struct {
	// Key gives the domain.
	Key string
	// Keys that a node must have all of, so that it counts.
	Keys []string
	// HonorAffinity and HonorTaints are its inclusion policies: a node counts only if the pod's node affinity matches it, or the pod
	// tolerates its taints.
	HonorAffinity, HonorTaints bool
}

// Domains returns in how many domains of a constraint the nodes are that count for it, and whether one of these nodes matches the pod's
// node affinity. It looks no further than it must to find as many as limit.
func (n *Nodes) Domains(pod Pod, c Constraint, limit int) (domains int, usable bool) {
	s := n.scan(pod, c)
	defer s.done()
	return s.domains(min(limit, len(s.key.numbers))) // more there are not
}

// Fewest returns how many there are in the domain of a constraint with the fewest, of what is on nodes by name; 0 without any domain.
// What is on a node that does not count is not counted.
func (n *Nodes) Fewest(pod Pod, c Constraint, on iter.Seq[string]) int {
	s := n.scan(pod, c)
	defer s.done()
	counts := map[uint]int{}
	for name := range on {
		if slot, ok := n.slots[name]; ok && s.counts(slot) {
			counts[s.key.domains[slot]]++
		}
	}
	if domains, _ := s.domains(len(s.key.numbers)); len(counts) == 0 || len(counts) < domains {
		return 0
	}
	return slices.Min(slices.Collect(maps.Values(counts)))
}

// scan is a look at the nodes as they are at one moment: nothing changes until it is done.
type scan struct {
	nodes      *Nodes
	constraint Constraint
	key        *column
	keys       []*column
	// the slots of the nodes that answer yes; nil: all do.
	affinity, tolerated answers
	tallied             tallied
}

// answers to a question by slot; nil to one that is not asked: all answer yes.
type answers struct{ *bitset.BitSet }

func (a answers) has(slot uint) bool { return a.BitSet == nil || a.Test(slot) }

// scan takes the lock, which done releases.
func (n *Nodes) scan(pod Pod, c Constraint) *scan {
	n.ready(pod, c)
	n.mu.Lock()
	return n.look(pod, c)
}

// ready prepares what a look at the nodes asks.
func (n *Nodes) ready(pod Pod, c Constraint) {
	n.prepare(pod.affinity)
	if c.HonorTaints {
		n.prepare(pod.tolerations)
	}
}

// look is scan with the lock held.
func (n *Nodes) look(pod Pod, c Constraint) *scan {
	tolerations := pod.tolerations
	if !c.HonorTaints {
		tolerations = nil
	}
	s := &scan{nodes: n, constraint: c, affinity: n.current(pod.affinity), tolerated: n.current(tolerations)}
	s.tallied = tallied{key: c.Key, keys: strings.Join(c.Keys, "\x00"), honorAffinity: c.HonorAffinity, honorTaints: c.HonorTaints}
	if pod.affinity != nil {
		s.tallied.affinity = pod.affinity.sum
	}
	if tolerations != nil {
		s.tallied.tolerations = tolerations.sum
	}
	if len(n.columns)+len(c.Keys)+1 > maxColumns {
		clear(n.columns) // before the first, so that none is dropped which this look holds
	}
	s.key = n.column(c.Key)
	for _, key := range c.Keys {
		if key != c.Key {
			s.keys = append(s.keys, n.column(key))
		}
	}
	return s
}

func (s *scan) done() { s.nodes.mu.Unlock() }

// tally is how many domains there were at a version, where all were looked at.
type tally struct {
	version uint64
	domains int
	usable  bool
}

// tallied is what a tally depends on but for the nodes.
type tallied struct {
	affinity, tolerations      [sha256.Size]byte
	key, keys                  string
	honorAffinity, honorTaints bool
}

func (s *scan) domains(limit int) (domains int, usable bool) {
	if known, ok := s.nodes.tallies.Get(s.tallied); ok && known.(tally).version == s.nodes.version {
		return known.(tally).domains, known.(tally).usable
	}
	seen := bitset.New(uint(len(s.key.numbers)))
	for i, domain := range s.key.domains {
		if domain == none || !s.counts(uint(i)) {
			continue
		}
		usable = usable || s.affinity.has(uint(i))
		if !seen.Test(domain) {
			seen.Set(domain)
			domains++
		}
		if usable && domains >= limit && domains < len(s.key.numbers) {
			return domains, usable
		}
	}
	s.nodes.tallies.Add(s.tallied, tally{s.nodes.version, domains, usable})
	return domains, usable
}

// counts reports whether the node in a slot counts.
func (s *scan) counts(slot uint) bool {
	return s.key.domains[slot] != none && (!s.constraint.HonorAffinity || s.affinity.has(slot)) && s.tolerated.has(slot) && s.labelled(slot)
}

// labelled reports whether a node has all the keys.
func (s *scan) labelled(slot uint) bool {
	return !slices.ContainsFunc(s.keys, func(c *column) bool { return c.domains[slot] == none })
}

// answer to a question, as it was at a version. Only who has the lock looks at it.
type answer struct {
	version uint64
	yes     *bitset.BitSet
}

// prepare asks all nodes what was not asked before, while others go on.
func (n *Nodes) prepare(q *question) {
	if q == nil {
		return
	}
	n.mu.Lock()
	if n.recent(q) != nil {
		n.mu.Unlock()
		return
	}
	nodes, version := slices.Clone(n.nodes), n.version
	n.mu.Unlock()
	n.answers.Add(q.sum, &answer{version, q.of(nodes)})
}

// recent returns the answer that can be brought up to now, or nil, with the lock held.
func (n *Nodes) recent(q *question) *answer {
	known, ok := n.answers.Get(q.sum)
	if !ok {
		return nil
	}
	if a := known.(*answer); n.version-a.version <= maxBehind {
		return a
	}
	return nil
}

// current returns the answers of all nodes as they are now, with the lock held.
func (n *Nodes) current(q *question) answers {
	if q == nil {
		return answers{}
	}
	a := n.recent(q)
	if a == nil { // forgotten, or too far behind, since prepare
		a = &answer{n.version, q.of(n.nodes)}
		n.answers.Add(q.sum, a)
	}
	for ; a.version < n.version; a.version++ {
		slot := n.changed[a.version%maxBehind]
		a.yes.SetTo(slot, n.nodes[slot] != nil && q.match()(n.nodes[slot]))
	}
	return answers{a.yes}
}

// of asks each node.
func (q *question) of(nodes []*corev1.Node) *bitset.BitSet {
	yes := bitset.New(uint(len(nodes)))
	for slot, node := range nodes {
		yes.SetTo(uint(slot), node != nil && q.match()(node))
	}
	return yes
}
