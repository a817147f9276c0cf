package fidelity

import (
	"fmt"
	"slices"
	"sync"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/policy"
	"github.com/podgrace/podgrace/policy/policytest/draw"
)

// Policies are drawn valid by the rules of the CRD (TestPoliciesAreValid asks the CRD), either as the API server stores
// them, with the CRD's defaults, or as a file has them, without.

// sections says which parts a policy gets, each in so many of 16 cases.
type sections struct{ match, priority, spread, grace, node, removal int }

var allSections = sections{match: 4, priority: 9, spread: 10, grace: 11, node: 7, removal: 5}

// drawPolicies makes one to three policies.
func drawPolicies(s draw.Source, of sections) []*v1alpha1.PodPolicy {
	count := draw.Pick(s, 1, 1, 1, 2, 2, 3)
	policies := make([]*v1alpha1.PodPolicy, 0, count)
	for i := range count {
		policies = append(policies, drawPolicy(s, fmt.Sprintf("p%d", i), of))
	}
	return policies
}

func drawPolicy(s draw.Source, name string, of sections) *v1alpha1.PodPolicy {
	p := &v1alpha1.PodPolicy{TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "PodPolicy"}, ObjectMeta: metav1.ObjectMeta{Name: name}}
	stored := s.Chance(8)
	p.Spec.Weight = draw.Pick[int32](s, 0, 0, 10, -5)
	p.Spec.AllowSkip = draw.Some(s, 9, v1alpha1.SectionPriority, v1alpha1.SectionTopologySpread, v1alpha1.SectionGracePeriod)
	if s.Chance(of.priority) {
		p.Spec.Priority = drawPriority(s)
	}
	if s.Chance(of.spread) {
		p.Spec.TopologySpread = drawSpread(s, stored)
	}
	if s.Chance(of.grace) {
		p.Spec.GracePeriod = drawGrace(s)
	}
	if s.Chance(of.node) {
		p.Spec.Node = drawEnforcement(s)
	}
	if s.Chance(of.removal) {
		p.Spec.Removal = drawRemoval(s, stored)
	}
	if s.Chance(of.match) {
		p.Spec.Match = drawMatch(s, p.Spec.Removal != nil)
	}
	return p
}

// drawMatch mostly matches: a policy that is for another pod tests nothing.
func drawMatch(s draw.Source, namespaceOnly bool) *v1alpha1.PodMatch {
	m := &v1alpha1.PodMatch{}
	if s.Chance(6) {
		m.NamespaceSelector = v1alpha1.SetAsLabelSelector(map[string]string{"team": draw.Pick(s, "a", "a", "a", "b")})
	}
	if namespaceOnly {
		return m
	}
	if s.Chance(4) {
		drawn := draw.Selector(s, map[string]string{"app": "a", "tier": "a"})
		m.PodSelector = v1alpha1.SetAsLabelSelector(drawn.MatchLabels)
		for _, r := range drawn.MatchExpressions {
			m.PodSelector.MatchExpressions = append(m.PodSelector.MatchExpressions, v1alpha1.LabelSelectorRequirement(r))
		}
	}
	if s.Chance(4) {
		m.OwnerKinds = append(draw.Some(s, 10, v1alpha1.OwnerKind("ReplicaSet"), "StatefulSet", "ReplicationController"), v1alpha1.OwnerKindNone)
	}
	if s.Chance(2) {
		m.MatchConditions = draw.Pick(s, matchConditions...)
	}
	return m
}

// matchConditions are a few lists only: compiling CEL takes longer than a case may.
var matchConditions = [][]admissionregistrationv1.MatchCondition{
	{{Name: "always", Expression: "true"}},
	{{Name: "labelled", Expression: "'app' in object.metadata.?labels.orValue({})"}},
	{{Name: "single", Expression: "object.spec.containers.size() == 1"}},
	{{Name: "uncertain", Expression: "object.metadata.labels['tier'] == 'a'"}, {Name: "namespace", Expression: "namespaceObject.metadata.labels['team'] == 'a'"}},
}

func drawPriority(s draw.Source) *v1alpha1.PrioritySection {
	p := &v1alpha1.PrioritySection{}
	if s.Chance(13) {
		p.ClassName = draw.Pick(s, "web", "batch", "critical", absentClass)
	}
	if p.ClassName == "" || s.Chance(4) {
		p.AllowedClassNames = draw.Some(s, 9, classNames...)
		if name := draw.Pick(s, "web", "batch", absentClass); len(p.AllowedClassNames) == 0 {
			p.AllowedClassNames = []string{name}
		}
		if p.ClassName != "" && !slices.Contains(p.AllowedClassNames, p.ClassName) {
			p.AllowedClassNames = append(p.AllowedClassNames, p.ClassName)
		}
	}
	return p
}

func drawSpread(s draw.Source, stored bool) *v1alpha1.TopologySpreadSection {
	section := &v1alpha1.TopologySpreadSection{RevisionAware: draw.Maybe(s, 8, true, false), OnInfeasible: draw.Pick(s, "", v1alpha1.InfeasibleWarn, v1alpha1.InfeasibleSoften, v1alpha1.InfeasibleDeny)}
	for _, key := range draw.TopologyKeys {
		for _, action := range draw.Some(s, 6, corev1.ScheduleAnyway, corev1.DoNotSchedule) {
			section.Constraints = append(section.Constraints, drawConstraint(s, key, action))
		}
	}
	if len(section.Constraints) == 0 {
		section.Constraints = append(section.Constraints, drawConstraint(s, draw.Pick(s, draw.TopologyKeys...), draw.Pick(s, corev1.ScheduleAnyway, corev1.DoNotSchedule)))
	}
	if s.Chance(4) {
		section.OwnerRules = drawOwnerRules(s)
	}
	if stored {
		section.RevisionAware = new(ptr.Deref(section.RevisionAware, true))
		if section.OnInfeasible == "" {
			section.OnInfeasible = v1alpha1.InfeasibleWarn
		}
	}
	return section
}

func drawConstraint(s draw.Source, key string, action corev1.UnsatisfiableConstraintAction) v1alpha1.TopologySpreadConstraint {
	c := v1alpha1.TopologySpreadConstraint{
		MaxSkew:            draw.Pick[int32](s, 1, 1, 2, 3),
		TopologyKey:        key,
		WhenUnsatisfiable:  action,
		NodeAffinityPolicy: draw.Maybe(s, 9, corev1.NodeInclusionPolicyIgnore, corev1.NodeInclusionPolicyHonor),
		NodeTaintsPolicy:   draw.Maybe(s, 8, corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore),
	}
	if s.Chance(5) {
		c.MatchLabelKeys = draw.Some(s, 6, append([]string{"nobody"}, draw.LabelKeys...)...)
	}
	if action == corev1.DoNotSchedule {
		c.MinDomains = draw.Maybe[int32](s, 8, 1, 2, 2, 3, 3, 4)
	}
	return c
}

func drawOwnerRules(s draw.Source) []v1alpha1.OwnerRule {
	var rules []v1alpha1.OwnerRule
	for _, r := range []v1alpha1.OwnerRule{{APIGroup: "batch", Kind: "Job"}, {APIGroup: "example.org", Kind: "ReplicaSet"}, {APIGroup: "apps", Kind: "ReplicaSet"}} {
		if s.Chance(9) {
			r.LabelKeys = append([]string{draw.Pick(s, draw.LabelKeys...)}, draw.Some(s, 2, "nobody")...)
			rules = append(rules, r)
		}
	}
	return rules
}

// drawGrace mostly gives bounds that some pods are outside of.
func drawGrace(s draw.Source) *v1alpha1.GracePeriodSection {
	g := &v1alpha1.GracePeriodSection{
		MinSeconds:           draw.Maybe[int64](s, 6, 0, 1, 10, 30, 31, 45, 604800),
		MaxSeconds:           draw.Maybe[int64](s, 6, 1, 20, 30, 60, 300, 604800),
		PreStopMarginSeconds: draw.Maybe[int64](s, 7, 0, 1, 5, 10, 86400),
	}
	if g.MinSeconds != nil && g.MaxSeconds != nil && *g.MinSeconds > *g.MaxSeconds {
		*g.MaxSeconds = *g.MinSeconds
	}
	if s.Chance(9) || *g == (v1alpha1.GracePeriodSection{}) {
		d := draw.Pick[int64](s, 45, 30, 20, 5, 60, 31, 300, 1, 604800)
		if g.MinSeconds != nil {
			d = max(d, *g.MinSeconds)
		}
		if g.MaxSeconds != nil {
			d = min(d, *g.MaxSeconds)
		}
		g.DefaultSeconds = new(max(d, 1))
		g.AllowShorterDefault = *g.DefaultSeconds < 30 || s.Chance(2)
	}
	return g
}

func drawEnforcement(s draw.Source) *v1alpha1.Enforcement {
	n := &v1alpha1.Enforcement{}
	if s.Chance(6) {
		n.Memory = &v1alpha1.MemoryEnforcement{Protection: draw.Pick(s, v1alpha1.MemoryProtectionLow, v1alpha1.MemoryProtectionMin, v1alpha1.MemoryProtectionNone), ThrottlePercent: draw.Maybe[int32](s, 8, 1, 80, 100)}
	}
	if s.Chance(5) {
		n.CPU = &v1alpha1.WeightEnforcement{Weight: draw.Pick[int32](s, 100, 1, 10000)}
	}
	if s.Chance(5) {
		n.OOM = &v1alpha1.OOMEnforcement{Rank: draw.Pick[int32](s, 50, 0, 100)}
	}
	if s.Chance(5) || *n == (v1alpha1.Enforcement{}) {
		n.Eviction = &v1alpha1.EvictionEnforcement{Order: draw.Pick[int32](s, 50, 0, 100)}
	}
	return n
}

// drawRemoval has two of five policies leave a pod its grace period of 0, or few would keep it: each policy that has a say must.
func drawRemoval(s draw.Source, stored bool) *v1alpha1.RemovalSection {
	r := &v1alpha1.RemovalSection{Protect: draw.Pick(s, v1alpha1.ProtectStateful, v1alpha1.ProtectAll), ZeroGrace: draw.Pick(s, "", v1alpha1.ZeroGraceWarn, v1alpha1.ZeroGraceRaise, v1alpha1.ZeroGraceDeny, v1alpha1.ZeroGraceWarn)}
	r.Owners = draw.Some(s, 4, v1alpha1.ProtectedOwner{Group: "apps", Kind: "ReplicaSet"}, v1alpha1.ProtectedOwner{Kind: "ReplicationController"})
	r.BlockClaims = draw.Pick(s, "", v1alpha1.BlockClaimsByAccessMode, v1alpha1.BlockClaimsExclusive)
	if stored {
		if r.BlockClaims == "" {
			r.BlockClaims = v1alpha1.BlockClaimsByAccessMode
		}
		r.ForceDelete, r.EvictionWithoutGrace = v1alpha1.RemovalDeny, v1alpha1.GraceDeny
		if r.ZeroGrace == "" {
			r.ZeroGrace = v1alpha1.ZeroGraceRaise
		}
	}
	return r
}

// kubeSystemAlone is exempt where nobody knows where Podgrace runs.
var kubeSystemAlone policy.Exempt

// compiled makes policies ready. Match conditions are compiled once a list.
func compiled(t fataler, policies []*v1alpha1.PodPolicy) policy.Policies {
	ready := make([]*policy.Policy, 0, len(policies))
	for _, p := range policies {
		var c *policy.Policy
		var err error
		if p.Spec.Match != nil && len(p.Spec.Match.MatchConditions) > 0 {
			c, err = compiledWithConditions(p)
		} else {
			c, err = policy.Compile(p)
		}
		if err != nil {
			t.Fatalf("the generator made a bad policy: %v\n%s", err, draw.Show(p))
		}
		ready = append(ready, c)
	}
	return policy.Sort(ready)
}

type fataler interface{ Fatalf(string, ...any) }

// conditionCache holds one compiled policy for each list of match conditions and selectors.
var conditionCache sync.Map

func compiledWithConditions(p *v1alpha1.PodPolicy) (*policy.Policy, error) {
	key := draw.Show(p.Spec.Match)
	cached, ok := conditionCache.Load(key)
	if !ok {
		c, err := policy.Compile(p)
		if err != nil {
			return nil, err
		}
		cached, _ = conditionCache.LoadOrStore(key, c)
	}
	c := *cached.(*policy.Policy)
	c.Name, c.Spec = p.Name, &p.Spec
	return &c, nil
}
