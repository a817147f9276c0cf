package topology_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	schedulingcorev1 "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
	"pgregory.net/rapid"

	"github.com/podgrace/podgrace/defaulting/topology"
)

// Whatever was asked before, and however nodes came, changed and went since, each answer is that of looking at every node again.
func TestNodesAnswerAsIfAskedAnew(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		nodes, have := topology.New(), map[string]*corev1.Node{}
		t.Repeat(map[string]func(*rapid.T){
			"set": func(t *rapid.T) {
				for range rapid.SampledFrom([]int{1, 1, 1, 100}).Draw(t, "how many") { // more than an answer may be behind
					n := drawNode(t)
					have[n.Name] = n
					nodes.Set(n)
				}
			},
			"delete": func(t *rapid.T) {
				name := drawName(t)
				delete(have, name)
				nodes.Delete(name)
			},
			"ask": func(t *rapid.T) {
				pod, c, limit := drawPod(t), drawConstraint(t), rapid.IntRange(1, 5).Draw(t, "limit")
				on := rapid.SliceOfN(rapid.Custom(drawName), 0, 8).Draw(t, "pods on")
				want := plainly(pod, c, have)
				domains, usable := nodes.Domains(topology.ForPod(pod), c, limit)
				if usable != want.usable || min(domains, limit) != min(len(want.domains), limit) || !usable && domains != len(want.domains) {
					t.Errorf("Domains up to %d: got %d, usable %t; there are %v, usable %t", limit, domains, usable, want.domains, want.usable)
				}
				if got := nodes.Fewest(topology.ForPod(pod), c, slices.Values(on)); got != want.fewest(on) {
					t.Errorf("Fewest of %v: got %d, want %d", on, got, want.fewest(on))
				}
			},
			"ask what is left": func(t *rapid.T) {
				pod, spreads := drawPod(t), rapid.SliceOfN(rapid.Custom(drawSpread), 0, 3).Draw(t, "spreads")
				got := nodes.Left(topology.ForPod(pod), spreads, 0)
				slices.Sort(got)
				want := leftPlainly(pod, spreads, have)
				if !slices.Equal(got, want) {
					t.Errorf("Left of %+v: got %v, want %v", spreads, got, want)
				}
				if one := nodes.Left(topology.ForPod(pod), spreads, 1); len(one) != min(len(want), 1) {
					t.Errorf("Left of at most one: got %v of %v", one, want)
				}
			},
			"": func(t *rapid.T) {
				if nodes.Len() != len(have) {
					t.Errorf("Len is %d, there are %d", nodes.Len(), len(have))
				}
			},
		})
	})
}

// plain is what is found by looking at each node.
type plain struct {
	domains map[string][]string // nodes by domain
	usable  bool
}

func plainly(pod *corev1.Pod, c topology.Constraint, nodes map[string]*corev1.Node) plain {
	p := plain{domains: map[string][]string{}}
	affinity := nodeaffinity.GetRequiredNodeAffinity(pod)
	for _, n := range nodes {
		matches, _ := affinity.Match(n)
		_, untolerated := schedulingcorev1.FindMatchingUntoleratedTaint(klog.Background(), n.Spec.Taints, pod.Spec.Tolerations, func(t *corev1.Taint) bool {
			return t.Effect != corev1.TaintEffectPreferNoSchedule
		}, true)
		lacks := slices.ContainsFunc(append(c.Keys, c.Key), func(key string) bool { _, ok := n.Labels[key]; return !ok })
		if lacks || c.HonorAffinity && !matches || c.HonorTaints && untolerated {
			continue
		}
		p.domains[n.Labels[c.Key]] = append(p.domains[n.Labels[c.Key]], n.Name)
		p.usable = p.usable || matches
	}
	return p
}

func (p plain) fewest(on []string) int {
	fewest, first := 0, true
	for _, nodes := range p.domains {
		count := 0
		for _, name := range on {
			if slices.Contains(nodes, name) {
				count++
			}
		}
		if first || count < fewest {
			fewest, first = count, false
		}
	}
	return fewest
}

// leftPlainly judges each node by each constraint, as the scheduler does.
func leftPlainly(pod *corev1.Pod, spreads []topology.Spread, nodes map[string]*corev1.Node) (left []string) {
	affinity := nodeaffinity.GetRequiredNodeAffinity(pod)
	for name, n := range nodes {
		ok, _ := affinity.Match(n)
		for _, s := range spreads {
			for _, other := range spreads {
				s.Keys = append(s.Keys, other.Key)
			}
			domains := plainly(pod, s.Constraint, nodes).domains
			count := func(domain string) (pods int) {
				for _, on := range s.On {
					if slices.Contains(domains[domain], on) {
						pods++
					}
				}
				return pods
			}
			fewest, first := 0, true
			for domain := range domains {
				if c := count(domain); first || c < fewest {
					fewest, first = c, false
				}
			}
			if len(domains) < s.MinDomains {
				fewest = 0
			}
			domain, has := n.Labels[s.Key]
			ok = ok && has && count(domain)+s.Self-fewest <= s.MaxSkew
		}
		if ok {
			left = append(left, name)
		}
	}
	slices.Sort(left)
	return left
}

func drawSpread(t *rapid.T) topology.Spread {
	c := drawConstraint(t)
	c.Keys = nil
	return topology.Spread{
		Constraint: c, MaxSkew: rapid.IntRange(1, 2).Draw(t, "maxSkew"), MinDomains: rapid.IntRange(1, 3).Draw(t, "minDomains"),
		Self: rapid.IntRange(0, 1).Draw(t, "self"), On: rapid.SliceOfN(rapid.Custom(drawName), 0, 8).Draw(t, "counted on"),
	}
}

const zone, rack = "zone", "rack"

func drawName(t *rapid.T) string { return fmt.Sprint("n", rapid.IntRange(0, 12).Draw(t, "name")) }

func drawLabels(t *rapid.T) map[string]string {
	l := map[string]string{}
	for _, key := range []string{zone, rack, "disk"} {
		if v := rapid.SampledFrom([]string{"a", "b", "c", "", "-"}).Draw(t, key); v != "-" {
			l[key] = v
		}
	}
	return l
}

var effects = []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute, corev1.TaintEffectPreferNoSchedule}

func drawNode(t *rapid.T) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: drawName(t), Labels: drawLabels(t)}}
	for range rapid.SampledFrom([]int{0, 0, 0, 1, 2}).Draw(t, "taints") {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: rapid.SampledFrom([]string{"x", "y"}).Draw(t, "taint"), Effect: rapid.SampledFrom(effects).Draw(t, "effect")})
	}
	return n
}

func drawPod(t *rapid.T) *corev1.Pod {
	p := &corev1.Pod{}
	if rapid.Bool().Draw(t, "nodeSelector") {
		p.Spec.NodeSelector = map[string]string{"disk": rapid.SampledFrom([]string{"a", "b"}).Draw(t, "disk")}
	}
	if rapid.Bool().Draw(t, "affinity") {
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: rapid.SliceOfN(rapid.Custom(drawTerm), 0, 3).Draw(t, "terms")}}}
	}
	if rapid.Bool().Draw(t, "tolerates") {
		p.Spec.Tolerations = []corev1.Toleration{{Key: rapid.SampledFrom([]string{"x", "y", ""}).Draw(t, "toleration"), Operator: corev1.TolerationOpExists}}
	}
	return p
}

func drawTerm(t *rapid.T) corev1.NodeSelectorTerm {
	if rapid.Bool().Draw(t, "by name") {
		return corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{drawName(t)}}}}
	}
	operator := rapid.SampledFrom([]corev1.NodeSelectorOperator{corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn, "Whatever"}).Draw(t, "operator")
	return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: rapid.SampledFrom([]string{zone, rack, "disk"}).Draw(t, "key"), Operator: operator, Values: []string{"a"}}}}
}

func drawConstraint(t *rapid.T) topology.Constraint {
	keys := rapid.SampledFrom([][]string{nil, {zone}, {rack}, {zone, rack}, {"nobody has it"}}).Draw(t, "keys")
	return topology.Constraint{
		Key: rapid.SampledFrom([]string{zone, rack}).Draw(t, "topology key"), Keys: slices.Clone(keys),
		HonorAffinity: rapid.Bool().Draw(t, "honor affinity"), HonorTaints: rapid.Bool().Draw(t, "honor taints"),
	}
}

// Reviews ask while events come.
func TestNodesAtOnce(t *testing.T) {
	t.Parallel()
	nodes := topology.New()
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			for i := range 500 {
				name := fmt.Sprint("n", i%100)
				switch {
				case worker > 1:
					pod := &corev1.Pod{Spec: corev1.PodSpec{NodeSelector: map[string]string{"disk": fmt.Sprint(i % 7)}}}
					c := topology.Constraint{Key: rack, Keys: []string{rack, fmt.Sprint("key", i%70)}, HonorAffinity: true, HonorTaints: true}
					nodes.Domains(topology.ForPod(pod), c, 1000)
					nodes.Fewest(topology.ForPod(pod), c, slices.Values([]string{name}))
				case i%3 == 2:
					nodes.Delete(name)
				default:
					nodes.Set(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{rack: fmt.Sprint(i), "disk": fmt.Sprint(i % 5)}}})
				}
			}
		})
	}
	all.Wait()
	for i := range 100 {
		nodes.Set(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("n", i), Labels: map[string]string{rack: fmt.Sprint(i)}}})
	}
	if domains, usable := nodes.Domains(topology.ForPod(&corev1.Pod{}), topology.Constraint{Key: rack}, 1000); domains != 100 || !usable {
		t.Errorf("in the end there are %d domains, usable %t", domains, usable)
	}
}

// The nil set is that of who knows no nodes.
func TestNoNodes(t *testing.T) {
	t.Parallel()
	var nodes *topology.Nodes
	if nodes.Len() != 0 {
		t.Error("nil has nodes")
	}
}

// What a review costs beside 5,000 nodes: a question asked before, one that is new, and one after a node changed.
func BenchmarkDomains(b *testing.B) {
	many := make([]*corev1.Node, 5000)
	for i := range many {
		many[i] = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("n", i), Labels: map[string]string{zone: fmt.Sprint(i % 3), rack: fmt.Sprint(i), "disk": "a"}}}
	}
	hosts := topology.Constraint{Key: rack, Keys: []string{zone, rack}, HonorAffinity: true, HonorTaints: true}
	selecting := func(i int) *corev1.Pod {
		return &corev1.Pod{Spec: corev1.PodSpec{NodeSelector: map[string]string{"disk": "a"}, Tolerations: []corev1.Toleration{{Key: fmt.Sprint(i), Operator: corev1.TolerationOpExists}}}}
	}
	for name, each := range map[string]func(nodes *topology.Nodes, i int){
		"asked before, one domain is enough": func(nodes *topology.Nodes, _ int) { nodes.Domains(topology.ForPod(selecting(0)), hosts, 1) },
		"asked before, all domains":          func(nodes *topology.Nodes, _ int) { nodes.Domains(topology.ForPod(selecting(0)), hosts, 5000) },
		"asked before, a node changed since": func(nodes *topology.Nodes, i int) {
			changed := many[i%len(many)].DeepCopy()
			changed.Labels["version"] = fmt.Sprint(i)
			nodes.Set(changed)
			nodes.Domains(topology.ForPod(selecting(0)), hosts, 1)
		},
		"new": func(nodes *topology.Nodes, i int) { nodes.Domains(topology.ForPod(selecting(i)), hosts, 1) },
	} {
		b.Run(name, func(b *testing.B) {
			nodes := topology.New(many...)
			i := 0
			for b.Loop() {
				i++
				each(nodes, i)
			}
		})
	}
}
