package enforcement_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/policy/enforcement"
)

const everything = `{"memory":{"protection":"Min","throttlePercent":90},"cpu":{"weight":500},"io":{"weight":300},"oom":{"rank":20},"eviction":{"order":10}}`

func parse(t interface{ Fatal(...any) }, text string) *v1alpha1.Enforcement {
	e, err := enforcement.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func policy(name string, weight int32, change ...func(*v1alpha1.NodePolicySpec)) *v1alpha1.NodePolicy {
	p := &v1alpha1.NodePolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.NodePolicySpec{Weight: weight, Mode: v1alpha1.NodeModeTune, Eviction: &v1alpha1.NodeEviction{}}}
	for _, c := range change {
		c(&p.Spec)
	}
	return p
}

// A NodePolicy whose selector is not read whole selects nothing; of other fields the rest holds. Both are told, with the field.
func TestNodePolicyFieldsThatAreNotRead(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"pool": "a"}}}
	for fields, tc := range map[string]struct {
		holds  string
		unread string
	}{
		`"f:mode":{},"f:nodeSelector":{"f:matchLabels":{"f:pool":{}}}`: {"newer", ""},
		`"f:nodeSelector":{"f:names":{}}`:                              {"lighter", "spec.nodeSelector.names"},
		`"f:bounds":{}`:                                                {"newer", "spec.bounds"},
		`"f:eviction":{"f:newSignal":{}}`:                              {"newer", "spec.eviction.newSignal"},
		`"f:nodeSelectors":{}`:                                         {"newer", "spec.nodeSelectors"},
	} {
		newer := policy("newer", 10, of("a"))
		newer.ManagedFields = []metav1.ManagedFieldsEntry{{APIVersion: v1alpha1.GroupVersion.String(), FieldsV1: metav1.NewFieldsV1(`{"f:spec":{` + fields + `}}`)}}
		got, err := enforcement.PolicyFor(node, []*v1alpha1.NodePolicy{newer, policy("lighter", 1)})
		if got == nil || got.Name != tc.holds {
			t.Errorf("%s: %v holds, want %s", fields, got, tc.holds)
		}
		if (err == nil) != (tc.unread == "") || err != nil && !strings.HasPrefix(err.Error(), "NodePolicy newer: "+tc.unread+": written, and not read") {
			t.Errorf("%s: told %v", fields, err)
		}
	}
}

func of(pool string) func(*v1alpha1.NodePolicySpec) {
	return func(s *v1alpha1.NodePolicySpec) {
		s.NodeSelector = &v1alpha1.LabelSelector{MatchLabels: map[string]v1alpha1.LabelValue{"pool": v1alpha1.LabelValue(pool)}}
	}
}

func mode(m v1alpha1.NodeMode) func(*v1alpha1.NodePolicySpec) {
	return func(s *v1alpha1.NodePolicySpec) { s.Mode = m }
}

func bounds(b v1alpha1.EnforcementBounds) func(*v1alpha1.NodePolicySpec) {
	return func(s *v1alpha1.NodePolicySpec) { s.Bounds = &b }
}

func evicting(m v1alpha1.EvictionMode) func(*v1alpha1.NodePolicySpec) {
	return func(s *v1alpha1.NodePolicySpec) { s.Eviction = &v1alpha1.NodeEviction{Mode: m} }
}

func noEviction(s *v1alpha1.NodePolicySpec) { s.Eviction = nil }

func TestParse(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ text, wrong string }{
		"all of it":            {everything, ""},
		"no JSON":              {"low", "invalid character"},
		"nothing":              {"{}", "it says nothing"},
		"a newer version's":    {`{"cpu":{"weight":5},"net":{"weight":5}}`, `unknown field "net"`},
		"given twice":          {`{"cpu":{"weight":5},"cpu":{"weight":6}}`, `duplicate field "cpu"`},
		"in other case":        {`{"CPU":{"weight":5}}`, `unknown field "CPU"`},
		"an unknown degree":    {`{"memory":{"protection":"Most"}}`, `memory.protection "Most" is not known`},
		"no weight":            {`{"cpu":{"weight":0}}`, "cpu.weight 0 is not between 1 and 10000"},
		"too heavy":            {`{"io":{"weight":10001}}`, "io.weight 10001 is not between 1 and 10000"},
		"throttled at nothing": {`{"memory":{"throttlePercent":0}}`, "memory.throttlePercent 0 is not between 1 and 100"},
		"too long":             {everything + strings.Repeat(" ", 5000), "and 4096 at most are read"},
		"ranked too high":      {`{"oom":{"rank":101},"eviction":{"order":-1}}`, "oom.rank 101 is not between 0 and 100\neviction.order -1 is not between 0 and 100"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, err := enforcement.Parse(tt.text)
			if tt.wrong == "" && (err != nil || e == nil) {
				t.Errorf("%v, %v", e, err)
			}
			if tt.wrong != "" && (err == nil || e != nil || !strings.Contains(err.Error(), tt.wrong)) {
				t.Errorf("%v, %v, want %q", e, err, tt.wrong)
			}
		})
	}
}

func TestFor(t *testing.T) {
	t.Parallel()
	unreadable := policy("unreadable", 100, func(s *v1alpha1.NodePolicySpec) {
		s.NodeSelector = &v1alpha1.LabelSelector{MatchExpressions: []v1alpha1.LabelSelectorRequirement{{Key: "pool", Operator: "in"}}}
	})
	policies := []*v1alpha1.NodePolicy{policy("b", 0), policy("a", 0), policy("gpu", 5, of("gpu")), policy("gpu-light", 1, of("gpu")), unreadable}
	random := rand.New(rand.NewPCG(1, 0))
	for range 20 {
		random.Shuffle(len(policies), func(i, j int) { policies[i], policies[j] = policies[j], policies[i] })
		ready, err := enforcement.Compile(policies)
		if err == nil || !strings.Contains(err.Error(), "NodePolicy unreadable: nodeSelector: ") {
			t.Errorf("error %v", err)
		}
		if p := ready.For(map[string]string{"pool": "gpu"}); p == nil || p.Name != "gpu" {
			t.Errorf("of a gpu node: %v", p)
		}
		if p := ready.For(nil); p == nil || p.Name != "a" {
			t.Errorf("of another: %v", p)
		}
	}
	if p := (enforcement.NodePolicies{}).For(nil); p != nil {
		t.Errorf("without policies: %v", p)
	}
}

func selecting(name string, weight int32, labels map[string]string) *v1alpha1.NodePolicy {
	p := policy(name, weight)
	if labels != nil {
		p.Spec.NodeSelector = v1alpha1.SetAsLabelSelector(labels)
	}
	return p
}

func TestPolicyFor(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"pool": "gpu"}}}
	gpu, all := map[string]string{"pool": "gpu"}, map[string]string{}
	broken := selecting("broken", 100, nil)
	broken.Spec.NodeSelector = &v1alpha1.LabelSelector{MatchExpressions: []v1alpha1.LabelSelectorRequirement{{Key: "a", Operator: "Like"}}}
	for name, tc := range map[string]struct {
		policies []*v1alpha1.NodePolicy
		want     string
	}{
		"none":               {nil, ""},
		"of other nodes":     {[]*v1alpha1.NodePolicy{selecting("a", 9, map[string]string{"pool": "web"})}, ""},
		"the heaviest":       {[]*v1alpha1.NodePolicy{selecting("a", 1, gpu), selecting("b", 2, all)}, "b"},
		"a tie by name":      {[]*v1alpha1.NodePolicy{selecting("b", 1, nil), selecting("a", 1, gpu)}, "a"},
		"heavier, not ours":  {[]*v1alpha1.NodePolicy{selecting("a", 1, nil), selecting("b", 2, map[string]string{"pool": "web"})}, "a"},
		"a broken selector":  {[]*v1alpha1.NodePolicy{broken, selecting("a", 1, nil)}, "a"},
		"a negative weight":  {[]*v1alpha1.NodePolicy{selecting("a", -1, nil)}, "a"},
		"lighter than none?": {[]*v1alpha1.NodePolicy{selecting("a", -2147483648, nil), selecting("b", 2147483647, nil)}, "b"},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := enforcement.PolicyFor(node, tc.policies)
			got := ""
			if p != nil {
				got = p.Name
			}
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
			if named := err != nil && strings.Contains(err.Error(), "NodePolicy broken"); named != (name == "a broken selector") {
				t.Errorf("got error %v", err)
			}
		})
	}
}

func TestUnder(t *testing.T) {
	t.Parallel()
	kept := []string{"memory.protection Min=Min", "memory.throttlePercent 90=90", "cpu.weight 500=500", "io.weight 300=300", "oom.rank 20=20", "eviction.order 10=10"}
	with := func(i int, text string) []string {
		all := slices.Clone(kept)
		all[i] = text
		return all
	}
	nothing := func(why string) (all []string) {
		for _, k := range kept {
			asked, _, _ := strings.Cut(k, "=")
			all = append(all, asked+"= "+why)
		}
		return all
	}
	observed := nothing("mode Observe writes nothing")
	observed[5] = "eviction.order 10= its eviction is in mode Observe, so that the kubelet alone evicts"
	evicts := slices.Clone(observed)
	evicts[5] = kept[5]
	for name, tt := range map[string]struct {
		policy *v1alpha1.NodePolicy
		want   []string
	}{
		"Tune":                  {policy("p", 0), kept},
		"Repair":                {policy("p", 0, mode(v1alpha1.NodeModeRepair)), kept},
		"Observe":               {policy("p", 0, mode(v1alpha1.NodeModeObserve)), observed},
		"a file without a mode": {policy("p", 0, mode("")), observed},
		"Observe, and Evict":    {policy("p", 0, mode(v1alpha1.NodeModeObserve), evicting(v1alpha1.EvictionModeEvict)), evicts},
		"Tune, evicts no pod":   {policy("p", 0, evicting(v1alpha1.EvictionModeObserve)), with(5, observed[5])},
		"no policy":             {nil, nothing("no NodePolicy is for it")},
		"no eviction":           {policy("p", 0, noEviction), with(5, "eviction.order 10= it has no section eviction, so that the kubelet alone evicts")},
		"a weaker protection":   {policy("p", 0, bounds(v1alpha1.EnforcementBounds{MaxProtection: v1alpha1.MemoryProtectionLow})), with(0, "memory.protection Min=Low bounds.maxProtection")},
		"no protection":         {policy("p", 0, bounds(v1alpha1.EnforcementBounds{MaxProtectedMemoryPercent: new(int32(0))})), with(0, "memory.protection Min=None bounds.maxProtectedMemoryPercent is 0")},
		"a lighter cpu":         {policy("p", 0, bounds(v1alpha1.EnforcementBounds{MaxCPUWeight: new(int32(200))})), with(2, "cpu.weight 500=200 bounds.maxCPUWeight")},
		"a lighter io":          {policy("p", 0, bounds(v1alpha1.EnforcementBounds{MaxIOWeight: new(int32(1))})), with(3, "io.weight 300=1 bounds.maxIOWeight")},
		"bounds that are met":   {policy("p", 0, bounds(v1alpha1.EnforcementBounds{MaxProtection: v1alpha1.MemoryProtectionMin, MaxCPUWeight: new(int32(500)), MaxIOWeight: new(int32(300))})), kept},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var spec *v1alpha1.NodePolicySpec
			if tt.policy != nil {
				spec = &tt.policy.Spec
			}
			var got []string
			for _, o := range enforcement.Under(parse(t, everything), spec) {
				got = append(got, strings.TrimSpace(fmt.Sprintf("%s %s=%s %s", o.Field, o.Asked, o.Got, o.Why)))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestReach(t *testing.T) {
	t.Parallel()
	gpu, other := map[string]string{"pool": "gpu"}, map[string]string(nil)
	nodes := func(n int, labels map[string]string, enforcer bool) []enforcement.Node {
		return slices.Repeat([]enforcement.Node{{Labels: labels, Enforcer: enforcer}}, n)
	}
	protectedBy := func(p enforcement.MemoryProtector) []enforcement.Node {
		return []enforcement.Node{{Enforcer: true, Memory: p}}
	}
	const memory = `{"memory":{"protection":"Low","throttlePercent":90}}`
	tunes, observes := policy("workers", 0), policy("default", 0, mode(v1alpha1.NodeModeObserve), noEviction)
	light := policy("gpu", 1, of("gpu"), bounds(v1alpha1.EnforcementBounds{MaxCPUWeight: new(int32(200))}))
	for name, tt := range map[string]struct {
		asks     string
		nodes    []enforcement.Node
		policies []*v1alpha1.NodePolicy
		want     string
	}{
		"no nodes":                {everything, nil, []*v1alpha1.NodePolicy{tunes}, "the cluster has no nodes"},
		"everywhere":              {everything, nodes(3, other, true), []*v1alpha1.NodePolicy{tunes}, "the node section holds on all 3 nodes"},
		"on one":                  {everything, nodes(1, other, true), []*v1alpha1.NodePolicy{tunes}, "the node section holds on the only node"},
		"no enforcer":             {everything, nodes(3, other, false), []*v1alpha1.NodePolicy{tunes}, "the node section has no effect: on all 3 nodes there is no node enforcer"},
		"no policy":               {everything, nodes(3, other, true), nil, "the node section has no effect: on all 3 nodes there is no NodePolicy whose nodeSelector matches"},
		"of other nodes":          {everything, nodes(1, gpu, true), []*v1alpha1.NodePolicy{policy("workers", 0, of("web"))}, "the node section has no effect: on the only node there is no NodePolicy whose nodeSelector matches"},
		"observed":                {everything, nodes(1, other, true), []*v1alpha1.NodePolicy{observes}, "the node section has no effect: on the only node NodePolicy default holds: its mode Observe writes nothing"},
		"read-only":               {everything, []enforcement.Node{{Enforcer: true, ReadOnly: true}}, []*v1alpha1.NodePolicy{tunes}, "the node section has no effect: on the only node the node enforcer is installed read-only (" + enforcement.ReadOnlyRemedy + ")"},
		"read-only, and observed": {everything, []enforcement.Node{{Enforcer: true, ReadOnly: true}}, []*v1alpha1.NodePolicy{observes}, "the node section has no effect: on the only node NodePolicy default holds: its mode Observe writes nothing"},
		"bounded":                 {`{"cpu":{"weight":500}}`, nodes(2, gpu, true), []*v1alpha1.NodePolicy{light}, "the node section holds as it is on 0 of 2 nodes: on all 2 nodes NodePolicy gpu holds: cpu.weight 500 is lowered to 200 (bounds.maxCPUWeight)"},
		"within a bound":          {`{"cpu":{"weight":200}}`, nodes(2, gpu, true), []*v1alpha1.NodePolicy{light}, "the node section holds on all 2 nodes"},
		"no protection":           {`{"memory":{"protection":"Low"}}`, nodes(1, other, true), []*v1alpha1.NodePolicy{policy("p", 0, bounds(v1alpha1.EnforcementBounds{MaxProtection: v1alpha1.MemoryProtectionNone}))}, "the node section has no effect: on the only node NodePolicy p holds: memory.protection Low is lowered to None (bounds.maxProtection)"},
		"less of it":              {`{"memory":{"protection":"Min"}}`, nodes(1, other, true), []*v1alpha1.NodePolicy{policy("p", 0, bounds(v1alpha1.EnforcementBounds{MaxProtection: v1alpha1.MemoryProtectionLow}))}, "the node section holds as it is on 0 of 1 nodes: on the only node NodePolicy p holds: memory.protection Min is lowered to Low (bounds.maxProtection)"},
		"memory is ours":          {memory, protectedBy(enforcement.ProtectorPodgrace), []*v1alpha1.NodePolicy{tunes}, "the node section holds on the only node"},
		"the kubelet's memory": {memory, protectedBy(enforcement.ProtectorKubelet), []*v1alpha1.NodePolicy{tunes},
			"the node section holds as it is on 0 of 1 nodes: on the only node NodePolicy workers holds: nothing is done for memory.protection (the kubelet protects memory itself, by QoS class (MemoryQoS, memoryReservationPolicy TieredReservation))"},
		"reset each minute": {`{"memory":{"protection":"Low"}}`, protectedBy(enforcement.ProtectorReset), []*v1alpha1.NodePolicy{tunes},
			"the node section has no effect: on the only node NodePolicy workers holds: nothing is done for memory.protection (the kubelet writes 0 each minute (MemoryQoS without a reservation, before 1.37))"},
		"none is asked for, reset": {`{"memory":{"protection":"None"}}`, protectedBy(enforcement.ProtectorReset), []*v1alpha1.NodePolicy{tunes}, "the node section holds on the only node"},
		"cgroup v1": {memory, protectedBy(enforcement.ProtectorV1), []*v1alpha1.NodePolicy{tunes},
			"the node section has no effect: on the only node NodePolicy workers holds: nothing is done for memory.protection (cgroup v1 protects no memory), nothing is done for memory.throttlePercent (cgroup v1 throttles no memory)"},
		"a reason of a newer enforcer": {memory, protectedBy("Moon"), []*v1alpha1.NodePolicy{tunes}, "the node section holds on the only node"},
		"of all sorts": {`{"cpu":{"weight":500},"eviction":{"order":1}}`, slices.Concat(nodes(4, other, true), nodes(2, gpu, true), nodes(3, gpu, false)), []*v1alpha1.NodePolicy{observes, light},
			"the node section holds as it is on 0 of 9 nodes: on 4 of 9 nodes NodePolicy default holds: its mode Observe writes nothing; on 3 of 9 nodes there is no node enforcer; on 2 of 9 nodes NodePolicy gpu holds: cpu.weight 500 is lowered to 200 (bounds.maxCPUWeight)"},
		"eviction alone": {`{"eviction":{"order":1}}`, nodes(2, other, true), []*v1alpha1.NodePolicy{policy("p", 0, noEviction)}, "the node section has no effect: on all 2 nodes NodePolicy p holds: nothing is done for eviction.order (it has no section eviction, so that the kubelet alone evicts)"},
		"observed, and evicts in its order": {`{"cpu":{"weight":5},"eviction":{"order":1}}`, nodes(2, other, true), []*v1alpha1.NodePolicy{policy("p", 0, mode(v1alpha1.NodeModeObserve), evicting(v1alpha1.EvictionModeEvict))},
			"the node section holds as it is on 0 of 2 nodes: on all 2 nodes NodePolicy p holds: nothing is done for cpu.weight (mode Observe writes nothing)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			policies, err := enforcement.Compile(tt.policies)
			if err != nil {
				t.Fatal(err)
			}
			if got := enforcement.ReachOf(parse(t, tt.asks), enforcement.Group(tt.nodes, policies)).String(); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

// A Node's conditions say whether it has an enforcer, whether that is read-only, and who protects memory if that is known.
func TestNodeOf(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		enforced, memory string // reasons; empty: there is no such condition
		want             enforcement.Node
	}{
		"none":       {"", "", enforcement.Node{}},
		"as planned": {"AsPlanned", "KubeletResets", enforcement.Node{Enforcer: true, Memory: enforcement.ProtectorReset}},
		"observed":   {enforcement.ReasonObserveOnly, enforcement.ReasonObserveOnly, enforcement.Node{Enforcer: true}},
		"read-only":  {enforcement.ReasonReadOnly, enforcement.ReasonReadOnly, enforcement.Node{Enforcer: true, ReadOnly: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			node := &corev1.Node{}
			for kind, reason := range map[corev1.NodeConditionType]string{enforcement.NodeConditionEnforced: tt.enforced, enforcement.NodeConditionMemoryProtection: tt.memory} {
				if reason != "" {
					node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{Type: kind, Reason: reason})
				}
			}
			if d := cmp.Diff(tt.want, enforcement.NodeOf(node)); d != "" {
				t.Error(d)
			}
		})
	}
}

// However many policies a cluster has, what is told of it stays short, and counts each node once.
func TestReachIsShort(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var cluster []enforcement.Alike
		total := 0
		for i := range rapid.IntRange(0, 40).Draw(t, "groups") {
			a := enforcement.Alike{Enforcer: rapid.Bool().Draw(t, "enforcer"), Nodes: rapid.IntRange(1, 500).Draw(t, "nodes")}
			if rapid.Bool().Draw(t, "policy") {
				a.Policy = policy(fmt.Sprintf("policy-%d", i), 0, mode(rapid.SampledFrom([]v1alpha1.NodeMode{v1alpha1.NodeModeObserve, v1alpha1.NodeModeTune}).Draw(t, "mode")),
					bounds(v1alpha1.EnforcementBounds{MaxCPUWeight: new(rapid.Int32Range(1, 1000).Draw(t, "bound"))}))
			}
			total += a.Nodes
			cluster = append(cluster, a)
		}
		r := enforcement.ReachOf(parse(t, everything), cluster)
		if r.Nodes != total || r.Whole+r.None > total || len(r.Short) > 4 || len(r.String()) > 2000 {
			t.Fatalf("%+v of %d nodes: %s", r, total, r)
		}
		if (r.Whole == r.Nodes) != (len(r.Short) == 0) {
			t.Fatalf("%+v", r)
		}
		slices.Reverse(cluster)
		if again := enforcement.ReachOf(parse(t, everything), cluster); again.String() != r.String() {
			t.Fatalf("in another order:\n%s\n%s", r, again)
		}
	})
}

// FuzzParse: what can be read is in bounds, and says the same when it is written and read again.
func FuzzParse(f *testing.F) {
	for _, text := range []string{everything, "{}", "null", `{"cpu":{"weight":1}}`, `{"cpu":{"weight":1e4}}`, `{"oom":{"rank":-0}}`, "[]", `{"memory":{}}`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		e, err := enforcement.Parse(text)
		if (e == nil) != (err != nil) {
			t.Fatalf("%v, %v", e, err)
		}
		if err != nil {
			return
		}
		written, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := enforcement.Parse(string(written)); err != nil || !cmp.Equal(e, again) {
			t.Fatalf("%s is read as %s, and that as %+v, %v", text, written, again, err)
		}
		for _, o := range enforcement.Under(e, &v1alpha1.NodePolicySpec{Mode: v1alpha1.NodeModeTune, Eviction: &v1alpha1.NodeEviction{}}) {
			if o.Got != o.Asked {
				t.Errorf("without bounds %+v", o)
			}
		}
	})
}
