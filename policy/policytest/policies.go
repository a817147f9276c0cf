package policytest

import (
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/policy"
)

// PolicyOption is one field or section of a policy.
type PolicyOption func(*v1alpha1.PodPolicySpec)

// PodPolicy of this name and with these options. Without any it is for every pod and asks for nothing.
func PodPolicy(name string, options ...PolicyOption) *v1alpha1.PodPolicy {
	p := &v1alpha1.PodPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, o := range options {
		o(&p.Spec)
	}
	return p
}

// One policy, where several are asked for.
func One(p *v1alpha1.PodPolicy) []*v1alpha1.PodPolicy { return []*v1alpha1.PodPolicy{p} }

// Compile makes policies ready and orders them. One that can't be read ends the test.
func Compile(t rapid.TB, list ...*v1alpha1.PodPolicy) policy.Policies {
	t.Helper()
	compiled := make([]*policy.Policy, 0, len(list))
	for _, p := range list {
		c, err := policy.Compile(p)
		if err != nil {
			t.Fatalf("compile: %v", err)
		}
		compiled = append(compiled, c)
	}
	return policy.Sort(compiled)
}

// Weight of the policy.
func Weight(n int32) PolicyOption { return func(s *v1alpha1.PodPolicySpec) { s.Weight = n } }

// AllowsSkip lets pods decline the defaults of these sections.
func AllowsSkip(sections ...v1alpha1.Section) PolicyOption {
	return func(s *v1alpha1.PodPolicySpec) { s.AllowSkip = sections }
}

func priority(s *v1alpha1.PodPolicySpec) *v1alpha1.PrioritySection {
	if s.Priority == nil {
		s.Priority = &v1alpha1.PrioritySection{}
	}
	return s.Priority
}

// Gives a PriorityClass to pods that choose none.
func Gives(class string) PolicyOption {
	return func(s *v1alpha1.PodPolicySpec) { priority(s).ClassName = class }
}

// Allows these PriorityClasses, and no other.
func Allows(classes ...string) PolicyOption {
	return func(s *v1alpha1.PodPolicySpec) { priority(s).AllowedClassNames = classes }
}

func gracePeriod(s *v1alpha1.PodPolicySpec) *v1alpha1.GracePeriodSection {
	if s.GracePeriod == nil {
		s.GracePeriod = &v1alpha1.GracePeriodSection{}
	}
	return s.GracePeriod
}

// DefaultGrace of n seconds, also where that is shorter than the API server's 30.
func DefaultGrace(n int64) PolicyOption {
	return func(s *v1alpha1.PodPolicySpec) {
		gracePeriod(s).DefaultSeconds, gracePeriod(s).AllowShorterDefault = &n, n < 30
	}
}

// MinGrace is the shortest grace period, in seconds.
func MinGrace(n int64) PolicyOption {
	return func(s *v1alpha1.PodPolicySpec) { gracePeriod(s).MinSeconds = &n }
}

// MaxGrace is the longest grace period, in seconds.
func MaxGrace(n int64) PolicyOption {
	return func(s *v1alpha1.PodPolicySpec) { gracePeriod(s).MaxSeconds = &n }
}

// Margin is what is to be left of the grace period after preStop, in seconds.
func Margin(n int64) PolicyOption {
	return func(s *v1alpha1.PodPolicySpec) { gracePeriod(s).PreStopMarginSeconds = &n }
}

func topologySpread(s *v1alpha1.PodPolicySpec) *v1alpha1.TopologySpreadSection {
	if s.TopologySpread == nil {
		s.TopologySpread = &v1alpha1.TopologySpreadSection{}
	}
	return s.TopologySpread
}

// Spreads pods by these constraints.
func Spreads(constraints ...v1alpha1.TopologySpreadConstraint) PolicyOption {
	return func(s *v1alpha1.PodPolicySpec) { topologySpread(s).Constraints = constraints }
}

// OnInfeasible says what becomes of a hard constraint that can't be met.
func OnInfeasible(a v1alpha1.InfeasibleAction) PolicyOption {
	return func(s *v1alpha1.PodPolicySpec) { topologySpread(s).OnInfeasible = a }
}

// RevisionAware reports whether each revision of a Deployment is spread by itself.
func RevisionAware(b bool) PolicyOption {
	return func(s *v1alpha1.PodPolicySpec) { topologySpread(s).RevisionAware = &b }
}

// OwnerRule says by which labels the pods of a kind of controller are counted.
func OwnerRule(group, kind string, keys ...string) PolicyOption {
	return func(s *v1alpha1.PodPolicySpec) {
		topologySpread(s).OwnerRules = append(topologySpread(s).OwnerRules, v1alpha1.OwnerRule{APIGroup: group, Kind: kind, LabelKeys: keys})
	}
}

// ConstraintOption is one field of a topology spread constraint.
type ConstraintOption func(*v1alpha1.TopologySpreadConstraint)

// Hard is a constraint with DoNotSchedule and maxSkew 1.
func Hard(key string, options ...ConstraintOption) v1alpha1.TopologySpreadConstraint {
	c := v1alpha1.TopologySpreadConstraint{MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: corev1.DoNotSchedule}
	for _, o := range options {
		o(&c)
	}
	return c
}

// Soft is a constraint with ScheduleAnyway and maxSkew 1.
func Soft(key string, options ...ConstraintOption) v1alpha1.TopologySpreadConstraint {
	c := Hard(key, options...)
	c.WhenUnsatisfiable = corev1.ScheduleAnyway
	return c
}

// MinDomains of a constraint.
func MinDomains(n int32) ConstraintOption {
	return func(c *v1alpha1.TopologySpreadConstraint) { c.MinDomains = &n }
}

// ByLabels are the matchLabelKeys of a constraint.
func ByLabels(keys ...string) ConstraintOption {
	return func(c *v1alpha1.TopologySpreadConstraint) { c.MatchLabelKeys = keys }
}

// Node is what the node enforcer is to do for the policy's pods.
func Node(e v1alpha1.Enforcement) PolicyOption {
	return func(s *v1alpha1.PodPolicySpec) { s.Node = &e }
}

// CPUWeight is a value for Node.
func CPUWeight(n int32) v1alpha1.Enforcement {
	return v1alpha1.Enforcement{CPU: &v1alpha1.WeightEnforcement{Weight: n}}
}

// Removal is the removal section as the API server hands it over; an empty field is one that a file leaves out.
func Removal(r v1alpha1.RemovalSection) PolicyOption {
	return func(s *v1alpha1.PodPolicySpec) { s.Removal = &r }
}

// ZeroGrace is a removal section that says what becomes of a grace period of 0 of the pods that it protects.
func ZeroGrace(protect v1alpha1.Protection, zero v1alpha1.ZeroGraceAction) PolicyOption {
	return Removal(v1alpha1.RemovalSection{Protect: protect, ZeroGrace: zero})
}

// ProtectsOwners adds kinds of owners to the removal section, which is there.
func ProtectsOwners(owners ...v1alpha1.ProtectedOwner) PolicyOption {
	return func(s *v1alpha1.PodPolicySpec) { s.Removal.Owners = owners }
}

// ProtectsBlock adds block devices to the removal section, which is there.
func ProtectsBlock(s *v1alpha1.PodPolicySpec) {
	s.Removal.BlockClaims = v1alpha1.BlockClaimsExclusive
}

// PodSets are controllers of an operator, with pods that have an identity.
var PodSets = v1alpha1.ProtectedOwner{Group: "core.strimzi.io", Kind: "StrimziPodSet"}

// Match is the section that says for which pods a policy is, made where it is not there.
func Match(s *v1alpha1.PodPolicySpec) *v1alpha1.PodMatch {
	if s.Match == nil {
		s.Match = &v1alpha1.PodMatch{}
	}
	return s.Match
}

// InNamespaces is for the pods of namespaces with these labels, given in pairs.
func InNamespaces(pairs ...string) PolicyOption {
	return func(s *v1alpha1.PodPolicySpec) {
		Match(s).NamespaceSelector = v1alpha1.SetAsLabelSelector(Pairs(pairs...))
	}
}

// ForPods is for pods with these labels, given in pairs.
func ForPods(pairs ...string) PolicyOption {
	return func(s *v1alpha1.PodPolicySpec) { Match(s).PodSelector = v1alpha1.SetAsLabelSelector(Pairs(pairs...)) }
}

// ForOwners is for pods of controllers of these kinds.
func ForOwners(kinds ...v1alpha1.OwnerKind) PolicyOption {
	return func(s *v1alpha1.PodPolicySpec) { Match(s).OwnerKinds = kinds }
}

// ForClasses is for pods with one of these PriorityClasses.
func ForClasses(names ...string) PolicyOption {
	return func(s *v1alpha1.PodPolicySpec) { Match(s).PriorityClassNames = names }
}

// ForPriorities is for pods of a priority from low to high; nil is no end.
func ForPriorities(low, high *int32) PolicyOption {
	return func(s *v1alpha1.PodPolicySpec) { Match(s).Priority = &v1alpha1.PriorityRange{Min: low, Max: high} }
}

// Where adds match conditions in CEL, named c0, c1 and so on.
func Where(expressions ...string) PolicyOption {
	return func(s *v1alpha1.PodPolicySpec) {
		for i, e := range expressions {
			Match(s).MatchConditions = append(Match(s).MatchConditions, admissionregistrationv1.MatchCondition{Name: fmt.Sprintf("c%d", i), Expression: e})
		}
	}
}

// Class is a PriorityClass.
func Class(name string, value int32, options ...func(*schedulingv1.PriorityClass)) *schedulingv1.PriorityClass {
	c := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value, PreemptionPolicy: new(corev1.PreemptLowerPriority)}
	for _, o := range options {
		o(c)
	}
	return c
}

// Pairs are labels: a key, its value, the next key and so on.
func Pairs(pairs ...string) map[string]string {
	m := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return m
}

// Unreadable is what a person types wrong, by the part of the policy, as the API server stored it before the schema refused it.
var Unreadable = map[string]PolicyOption{
	"operator of the namespaces": func(s *v1alpha1.PodPolicySpec) {
		Match(s).NamespaceSelector = &v1alpha1.LabelSelector{MatchExpressions: []v1alpha1.LabelSelectorRequirement{{Key: "team", Operator: "in", Values: []string{"shop"}}}}
	},
	"value of the namespaces": InNamespaces("team", "shop team"),
	"values of the namespaces": func(s *v1alpha1.PodPolicySpec) {
		Match(s).NamespaceSelector = &v1alpha1.LabelSelector{MatchExpressions: []v1alpha1.LabelSelectorRequirement{{Key: "team", Operator: metav1.LabelSelectorOpIn}}}
	},
	"labels of the pods": ForPods("app", "a b"),
	"match condition":    Where("object.metadata."),
	"topology key":       Spreads(Soft("zone name")),
}

// HalfRead compiles a policy of which a part can't be read.
func HalfRead(t rapid.TB, p *v1alpha1.PodPolicy) policy.Policies {
	t.Helper()
	c, err := policy.Compile(p)
	if err == nil || c == nil {
		t.Fatalf("got %v, %v: want an error, and what holds all the same", c, err)
	}
	return policy.Policies{c}
}
