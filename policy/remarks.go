package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/podgrace/podgrace/api/v1alpha1"
)

// HighestUserPriority is the highest value of a class that is not the system's
// (pkg/apis/scheduling/types.go HighestUserDefinablePriority, 1.36.3).
const HighestUserPriority = int32(1000000000)

// Problem is what keeps a part of a policy from being applied.
type Problem struct {
	// Reason is one of the Reason constants of api/v1alpha1.
	Reason string
	// Message for the person who wrote the policy.
	Message string
}

// Problems returns what of the policy can't be applied in a cluster with these PriorityClasses, given by name.
func (p *Policy) Problems(classes map[string]*schedulingv1.PriorityClass) []Problem {
	var problems []Problem
	if m := p.Spec.Match; m != nil {
		for _, name := range m.PriorityClassNames {
			if _, ok := classes[name]; !ok {
				problems = append(problems, Problem{v1alpha1.ReasonUnknownPriorityClass, fmt.Sprintf("match.priorityClassNames has %q, a PriorityClass that does not exist: no pod has it", name)})
			}
		}
	}
	if p.Spec.Priority == nil {
		return problems
	}
	names := slices.Clone(p.Spec.Priority.AllowedClassNames)
	if name := p.Spec.Priority.ClassName; name != "" && !slices.Contains(names, name) {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		class, ok := classes[name]
		switch {
		case !ok && name != p.Spec.Priority.ClassName:
			problems = append(problems, Problem{v1alpha1.ReasonUnknownPriorityClass, fmt.Sprintf("allowedClassNames has %q, a PriorityClass that does not exist", name)})
		case !ok:
			problems = append(problems, Problem{v1alpha1.ReasonUnknownPriorityClass, fmt.Sprintf("PriorityClass %q does not exist: pods keep what they have until it does", name)})
		case class.Value > HighestUserPriority && name == p.Spec.Priority.ClassName:
			problems = append(problems, Problem{v1alpha1.ReasonReservedPriorityClass, fmt.Sprintf("PriorityClass %q has value %d: values above %d are reserved for the system, it is not given to pods", name, class.Value, HighestUserPriority)})
		}
	}
	return problems
}

// Remarks returns hints about a policy that works, but perhaps not as meant, given all policies of the cluster and the
// namespaces that none is for.
func (p *Policy) Remarks(all Policies, exempt Exempt) []string {
	remarks := p.remarkExempt(exempt)
	for _, other := range all {
		for _, remark := range []string{p.TieWith(other), p.ConflictWith(other)} {
			if other.Name != p.Name && remark != "" {
				remarks = append(remarks, remark)
			}
		}
	}
	if s := p.Spec.TopologySpread; s != nil {
		zone, host := spreadsOver(s, corev1.LabelTopologyZone), spreadsOver(s, corev1.LabelHostname)
		for _, missing := range missingKeys(zone, host) {
			remarks = append(remarks, fmt.Sprintf("topologySpread does not name %s: one added constraint switches off the scheduler's own defaults, so the pods are no longer spread over it", missing))
		}
	}
	remarks = append(remarks, remarkOwnerKinds(p.Spec.Match)...)
	for _, owner := range p.Protect.Owners {
		if controller, ok := makesControllers[owner]; ok {
			remarks = append(remarks, fmt.Sprintf("removal.owners names %s, which protects no pod: the pods of a %s are a %s's", owner, owner.Kind, controller))
		}
	}
	return remarks
}

// TieWith is the remark on another policy that gives the same kind of default with the same weight; empty: it does not.
func (p *Policy) TieWith(other *Policy) string {
	if other.Spec.Weight != p.Spec.Weight || !sharesDefaults(p.Spec, other.Spec) {
		return ""
	}
	return fmt.Sprintf("PodPolicy %s has the same weight %d and gives the same kind of default: where both match, the first by name decides (%s)", other.Name, p.Spec.Weight, min(p.Name, other.Name))
}

// makesControllers are kinds that make controllers of pods, and no pods.
var makesControllers = map[schema.GroupKind]string{
	{Group: appsv1.GroupName, Kind: "Deployment"}: "ReplicaSet",
	{Group: batchv1.GroupName, Kind: "CronJob"}:   "Job",
}

// controllers are kinds of Kubernetes' own by which ownerKinds select pods.
var controllers = []v1alpha1.OwnerKind{"ReplicaSet", "StatefulSet", "DaemonSet", "Job", "ReplicationController", "Node", v1alpha1.OwnerKindNone}

// remarkOwnerKinds tells of kinds that no pod has as its controller.
func remarkOwnerKinds(m *v1alpha1.PodMatch) []string {
	if m == nil {
		return nil
	}
	var remarks []string
	for _, kind := range m.OwnerKinds {
		for maker, controller := range makesControllers {
			if strings.EqualFold(string(kind), maker.Kind) {
				remarks = append(remarks, fmt.Sprintf("match.ownerKinds names %s, which matches no pod: the pods of a %s are a %s's", kind, maker.Kind, controller))
			}
		}
		for _, known := range controllers {
			if kind != known && strings.EqualFold(string(kind), string(known)) {
				remarks = append(remarks, fmt.Sprintf("match.ownerKinds names %s, which matches no pod: the kind is %s", kind, known))
			}
		}
	}
	return remarks
}

// missingKeys are those of the scheduler's own default constraints that a policy does not have.
func missingKeys(zone, host bool) []string {
	var missing []string
	if !zone {
		missing = append(missing, corev1.LabelTopologyZone)
	}
	if !host {
		missing = append(missing, corev1.LabelHostname)
	}
	return missing
}

// ConflictWith is the remark on a limit of another policy that makes a part of this one idle if both match; empty: there is none.
func (p *Policy) ConflictWith(other *Policy) string {
	if name := ClassName(p.Spec); name != "" && other.Spec.Priority != nil {
		if l := other.Spec.Priority.AllowedClassNames; len(l) > 0 && !slices.Contains(l, name) {
			return fmt.Sprintf("PodPolicy %s does not allow PriorityClass %s: where both match it is not given", other.Name, name)
		}
	}
	if g, o := p.Spec.GracePeriod, other.Spec.GracePeriod; g != nil && o != nil && g.MinSeconds != nil && o.MaxSeconds != nil && *g.MinSeconds > *o.MaxSeconds {
		return fmt.Sprintf("minSeconds %d is above maxSeconds %d of PodPolicy %s: where both match the minimum holds", *g.MinSeconds, *o.MaxSeconds, other.Name)
	}
	return ""
}

func spreadsOver(s *v1alpha1.TopologySpreadSection, key string) bool {
	return slices.ContainsFunc(s.Constraints, func(c v1alpha1.TopologySpreadConstraint) bool { return c.TopologyKey == key })
}

func sharesDefaults(a, b *v1alpha1.PodPolicySpec) bool {
	return ClassName(a) != "" && ClassName(b) != "" ||
		a.TopologySpread != nil && b.TopologySpread != nil ||
		DefaultGrace(a) != nil && DefaultGrace(b) != nil ||
		a.Node != nil && b.Node != nil
}

// ClassName is the class that a policy gives to pods; empty: none.
func ClassName(s *v1alpha1.PodPolicySpec) string {
	if s.Priority == nil {
		return ""
	}
	return s.Priority.ClassName
}

// DefaultGrace is the grace period in seconds that a policy gives to pods; nil: none.
func DefaultGrace(s *v1alpha1.PodPolicySpec) *int64 {
	if s.GracePeriod == nil {
		return nil
	}
	return s.GracePeriod.DefaultSeconds
}

// Summary describes each section of a policy in a few words, for the columns of kubectl get.
func Summary(s *v1alpha1.PodPolicySpec) v1alpha1.PolicySummary {
	var sum v1alpha1.PolicySummary
	if p := s.Priority; p != nil {
		sum.Priority = p.ClassName
		if len(p.AllowedClassNames) > 0 {
			sum.Priority = strings.TrimSpace(sum.Priority + " of " + strings.Join(p.AllowedClassNames, ","))
		}
	}
	if t := s.TopologySpread; t != nil {
		var keys []string
		for _, c := range t.Constraints {
			key := c.TopologyKey[strings.LastIndex(c.TopologyKey, "/")+1:]
			if c.WhenUnsatisfiable == corev1.DoNotSchedule {
				key += "!"
			}
			keys = append(keys, key)
		}
		sum.TopologySpread = strings.Join(keys, ",")
	}
	if g := s.GracePeriod; g != nil {
		sum.GracePeriod = summariseGrace(g)
	}
	if r := s.Removal; r != nil {
		protected := []string{string(cmp.Or(r.Protect, v1alpha1.ProtectStateful))}
		for _, o := range r.Owners {
			protected = append(protected, o.Kind)
		}
		if r.BlockClaims == v1alpha1.BlockClaimsExclusive {
			protected = append(protected, "block claims")
		}
		sum.Removal = fmt.Sprintf("%s %s", cmp.Or(r.ForceDelete, v1alpha1.RemovalDeny), strings.Join(protected, ","))
	}
	return sum
}

func summariseGrace(g *v1alpha1.GracePeriodSection) string {
	var parts []string
	if g.DefaultSeconds != nil {
		parts = append(parts, fmt.Sprintf("%ds", *g.DefaultSeconds))
	}
	switch {
	case g.MinSeconds != nil && g.MaxSeconds != nil:
		parts = append(parts, fmt.Sprintf("in %d..%ds", *g.MinSeconds, *g.MaxSeconds))
	case g.MinSeconds != nil:
		parts = append(parts, fmt.Sprintf(">=%ds", *g.MinSeconds))
	case g.MaxSeconds != nil:
		parts = append(parts, fmt.Sprintf("<=%ds", *g.MaxSeconds))
	}
	if g.PreStopMarginSeconds != nil {
		parts = append(parts, fmt.Sprintf("preStop+%ds", *g.PreStopMarginSeconds))
	}
	return strings.Join(parts, " ")
}
