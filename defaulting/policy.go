package defaulting

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"

	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/guard"
)

// Policy is a PodPolicy made ready to decide with.
type Policy struct {
	// Name of the PodPolicy.
	Name string
	// Generation of the spec, 0 for a policy from a file.
	Generation int64
	// Spec is shared with the object it was compiled from: read only.
	Spec *v1alpha1.PodPolicySpec

	namespaces labels.Selector // nil: every namespace
	pods       labels.Selector // nil: every pod
	conditions *conditions     // nil: none
	protect    guard.Protection
	unread     unread
}

// unread says which parts of a policy can't be read. They are not in force, and nothing else of the policy is hindered by it: one
// that is wrong in its topologySpread still refuses what its removal refuses.
type unread struct {
	// namespaces: for which namespaces the policy is. A removal is judged on the safe side, so that its section holds in all of them.
	namespaces bool
	// match: for which pods it is, its namespaces among that. Neither its defaults nor its limits on pods hold.
	match bool
	// spread: its topologySpread.
	spread bool
}

// InForce says what of the policy holds.
func (p *Policy) InForce() string {
	switch {
	case p.unread.match && p.Spec.Removal == nil:
		return "not in force"
	case p.unread.namespaces:
		return "not in force, but for removal, which holds in every namespace until the selector can be read"
	case p.unread.match:
		return "not in force, but for removal"
	case p.unread.spread:
		return "in force, but for topologySpread"
	}
	return "in force"
}

// Matchable says that it can be read which pods the policy is for.
func (p *Policy) Matchable() bool { return !p.unread.match }

// Policies are in the order in which they give defaults: the heaviest first, those of equal weight by name.
type Policies []*Policy

// Sort orders policies as Policies must be.
func Sort(policies []*Policy) Policies {
	slices.SortFunc(policies, func(a, b *Policy) int {
		return cmp.Or(cmp.Compare(b.Spec.Weight, a.Spec.Weight), strings.Compare(a.Name, b.Name))
	})
	return policies
}

// Compile makes a policy ready. The error says everything that can't be read of it; what can be read holds all the same, so that the
// policy is returned with the error, and InForce says what that is. The schema of the CRD refuses such a policy, but for match
// conditions; one may have been stored before the schema did.
func Compile(p *v1alpha1.PodPolicy) (*Policy, error) {
	c := &Policy{Name: p.Name, Generation: p.Generation, Spec: &p.Spec}
	var errs field.ErrorList
	if m := p.Spec.Match; m != nil {
		path := field.NewPath("spec", "match")
		c.namespaces = compileSelector(m.NamespaceSelector, path.Child("namespaceSelector"), &errs)
		c.unread.namespaces = len(errs) > 0
		c.pods = compileSelector(m.PodSelector, path.Child("podSelector"), &errs)
		if len(m.MatchConditions) > 0 {
			var bad field.ErrorList
			c.conditions, bad = compileConditions(m.MatchConditions, path.Child("matchConditions"))
			errs = append(errs, bad...)
		}
		if selectsByPriority(c.Spec) && p.Spec.Priority != nil {
			errs = append(errs, field.Forbidden(field.NewPath("spec", "priority"), "a policy that selects by priority cannot say which class pods get or may have: whether it matches would depend on itself"))
		}
		c.unread.match = len(errs) > 0
	}
	if r := p.Spec.Removal; r != nil {
		c.protect = protectionOf(r)
	}
	if s := p.Spec.TopologySpread; s != nil {
		bad := checkSpread(s, field.NewPath("spec", "topologySpread"))
		c.unread.spread = len(bad) > 0
		errs = append(errs, bad...)
	}
	if err := errs.ToAggregate(); err != nil {
		return c, fmt.Errorf("PodPolicy %s: %w", p.Name, err)
	}
	return c, nil
}

// CheckNodePolicy says what can't be read of a NodePolicy. Its schema refuses nearly all of that.
func CheckNodePolicy(p *v1alpha1.NodePolicy) error {
	var errs field.ErrorList
	compileSelector(p.Spec.NodeSelector, field.NewPath("spec", "nodeSelector"), &errs)
	if err := errs.ToAggregate(); err != nil {
		return fmt.Errorf("NodePolicy %s: %w", p.Name, err)
	}
	return nil
}

// FieldErrors takes an error of Compile or CheckNodePolicy apart.
func FieldErrors(err error) field.ErrorList {
	var errs field.ErrorList
	if all, is := errors.AsType[utilerrors.Aggregate](err); is {
		for _, e := range all.Errors() {
			if of, is := errors.AsType[*field.Error](e); is {
				errs = append(errs, of)
			}
		}
	}
	return errs
}

func compileSelector(s *v1alpha1.LabelSelector, path *field.Path, errs *field.ErrorList) labels.Selector {
	if s == nil {
		return nil
	}
	selector, err := s.AsSelector()
	if err != nil {
		*errs = append(*errs, field.Invalid(path, s, err.Error()))
	}
	return selector
}

func checkSpread(s *v1alpha1.TopologySpreadSection, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, c := range s.Constraints {
		at := path.Child("constraints").Index(i)
		errs = append(errs, metav1validation.ValidateLabelName(c.TopologyKey, at.Child("topologyKey"))...)
		for j, key := range c.MatchLabelKeys {
			errs = append(errs, metav1validation.ValidateLabelName(key, at.Child("matchLabelKeys").Index(j))...)
		}
	}
	for i, o := range s.OwnerRules {
		for j, key := range o.LabelKeys {
			errs = append(errs, metav1validation.ValidateLabelName(key, path.Child("ownerRules").Index(i).Child("labelKeys").Index(j))...)
		}
	}
	return errs
}

// Problem is what keeps a part of a policy from being applied, or a remark about it.
type Problem struct {
	// Reason is one of the Reason constants of api/v1alpha1.
	Reason string
	// Message for the person who wrote the policy.
	Message string
}

// Problems says what in a compiled policy can't be applied in this cluster.
func (p *Policy) Problems(facts Facts) []Problem {
	var problems []Problem
	if m := p.Spec.Match; m != nil {
		for _, name := range m.PriorityClassNames {
			if _, known := facts.PriorityClasses[name]; !known {
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
		class, known := facts.PriorityClasses[name]
		switch {
		case !known && name != p.Spec.Priority.ClassName:
			problems = append(problems, Problem{v1alpha1.ReasonUnknownPriorityClass, fmt.Sprintf("allowedClassNames has %q, a PriorityClass that does not exist", name)})
		case !known:
			problems = append(problems, Problem{v1alpha1.ReasonUnknownPriorityClass, fmt.Sprintf("PriorityClass %q does not exist: pods keep what they have until it does", name)})
		case class.Value > highestUserPriority && name == p.Spec.Priority.ClassName:
			problems = append(problems, Problem{v1alpha1.ReasonReservedPriorityClass, fmt.Sprintf("PriorityClass %q has value %d: values above %d are reserved for the system, it is not given to pods", name, class.Value, highestUserPriority)})
		}
	}
	return problems
}

// Remarks are about a policy that works, but perhaps not as meant. All are the policies of the cluster.
func (p *Policy) Remarks(all Policies) []string {
	var remarks []string
	for _, other := range all {
		if other.Name != p.Name && other.Spec.Weight == p.Spec.Weight && sharesDefaults(p.Spec, other.Spec) {
			first := min(p.Name, other.Name)
			remarks = append(remarks, fmt.Sprintf("PodPolicy %s has the same weight %d and gives the same kind of default: where both match, the first by name decides (%s)", other.Name, p.Spec.Weight, first))
		}
	}
	for _, other := range all {
		if c := conflict(p, other); c != "" && other.Name != p.Name {
			remarks = append(remarks, c)
		}
	}
	if s := p.Spec.TopologySpread; s != nil {
		zone, host := spreadsOver(s, corev1.LabelTopologyZone), spreadsOver(s, corev1.LabelHostname)
		for _, missing := range missingKeys(zone, host) {
			remarks = append(remarks, fmt.Sprintf("topologySpread does not name %s: one added constraint switches off the scheduler's own defaults, so the pods are no longer spread over it", missing))
		}
	}
	remarks = append(remarks, remarkOwnerKinds(p.Spec.Match)...)
	for _, owner := range p.protect.Owners {
		if controller, is := makesControllers[owner]; is {
			remarks = append(remarks, fmt.Sprintf("removal.owners names %s, which protects no pod: the pods of a %s are a %s's", owner, owner.Kind, controller))
		}
	}
	return remarks
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

// conflict says where a limit of another policy makes a part of this one idle wherever both match.
func conflict(p, other *Policy) string {
	if name := className(p.Spec); name != "" && other.Spec.Priority != nil {
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
	return className(a) != "" && className(b) != "" ||
		a.TopologySpread != nil && b.TopologySpread != nil ||
		defaultGrace(a) != nil && defaultGrace(b) != nil ||
		a.Node != nil && b.Node != nil
}

func className(s *v1alpha1.PodPolicySpec) string {
	if s.Priority == nil {
		return ""
	}
	return s.Priority.ClassName
}

func defaultGrace(s *v1alpha1.PodPolicySpec) *int64 {
	if s.GracePeriod == nil {
		return nil
	}
	return s.GracePeriod.DefaultSeconds
}

// Summary tells in a few words a section what the policy does.
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

// errUncertain is wrapped where a match condition could not be evaluated for a pod.
var errUncertain = errors.New("a match condition could not be evaluated")
