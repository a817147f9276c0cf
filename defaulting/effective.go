package defaulting

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/internal/pod/graceperiod"
	"github.com/podgrace/podgrace/policy"
)

// Effective is what all matching policies together require of one pod.
type Effective struct {
	// Policies that match, the heaviest first; without those that select by priority until it is Settled.
	Policies []string
	// Excluded says that no policy may touch the pod: it is a mirror pod, or in an exempt namespace.
	Excluded bool

	class    from[string]
	grace    from[int64]
	spread   from[*v1alpha1.TopologySpreadSection]
	node     from[*v1alpha1.Enforcement]
	skip     map[v1alpha1.Section]bool
	allowed  *allowList
	minGrace from[int64]
	maxGrace from[int64]
	margin   from[int64]
	removal  *removal
	warnings []Warning

	// lifted are the exceptions for the pod, and strict is what the policies require without them; nil: there are none.
	lifted []Lifted
	strict *Effective

	needs Needs
	// open are the candidates among which Settled chooses; nil: no policy that may match selects by priority.
	open *candidates
}

// from is a value and the policy that it comes from; the policy is nil where no policy gives the value.
type from[T any] struct {
	value  T
	policy *policy.Policy
}

func (f from[T]) given() bool { return f.policy != nil }

// name of the policy for messages.
func (f from[T]) name() string { return f.policy.Name }

// allowList is the intersection of the lists of all matching policies.
type allowList struct {
	names    []string
	policies []string
}

// first is the heaviest of the policies.
func (a *allowList) first() string { return a.policies[0] }

func (a *allowList) permits(class string) bool {
	return a == nil || class == "" || slices.Contains(a.names, class)
}

// removal is the matching policies' zeroGrace: what they do about a grace period of 0. The strictest of those that protect the pod holds. All of them
// protect a pod with an identity or exclusive storage.
type removal struct {
	policies []from[v1alpha1.ZeroGraceAction]
	ofAny    from[v1alpha1.ZeroGraceAction] // the strictest
	ofAll    from[v1alpha1.ZeroGraceAction] // of those that protect all pods; not given: none does
}

func stricterZeroGrace(have, other from[v1alpha1.ZeroGraceAction]) from[v1alpha1.ZeroGraceAction] {
	if !have.given() || policy.StricterZeroGrace(other.value, have.value) {
		return other
	}
	return have
}

// For returns what the policies require of a pod. Those of exempt namespaces are left alone.
func For(ps policy.Policies, req policy.Request, exempt policy.Exempt) *Effective {
	if isMirror(req) || exempt.Has(req.Namespace.Name) {
		return &Effective{Excluded: true}
	}
	question := policy.NewEvaluation(req)
	defer question.Done()
	all := candidates{exceptions: req.Namespace.Exceptions}
	for _, p := range ps {
		if !p.Matchable() {
			if p.Spec.Removal != nil && p.Guards(req.Namespace) {
				all.list = append(all.list, candidate{policy: p, how: policy.MatchUnread})
			}
			continue
		}
		if m, err := p.Match(question); m != policy.MatchNo {
			all.list = append(all.list, candidate{p, m, err})
		}
	}
	if ps.Undecided(req.Namespace) {
		all.remark = fmt.Sprintf("namespace %s could not be looked up: policies that select by its labels were not applied to this pod", req.Namespace.Name)
	}
	byPriority := func(c candidate) bool { return c.how != policy.MatchUnread && c.policy.SelectsByPriority() }
	e := all.together(req.Pod, func(c candidate) candidate {
		if byPriority(c) {
			c.how = policy.MatchNo
		}
		return c
	})
	if slices.ContainsFunc(all.list, byPriority) {
		e.open = &all
		for _, c := range all.list { // it is open too which policy gives the constraints, and whether the pod may decline them
			e.needs.add(req.Pod, &Effective{}, c.policy.Spec.TopologySpread)
		}
	}
	return e
}

// candidates are all policies that may hold for a pod, the heaviest first.
type candidates struct {
	list       []candidate
	exceptions policy.Exceptions // of the pod's namespace
	remark     string            // about those that are none; empty: nothing
}

// together combines the candidates that match, as settle says.
func (cs candidates) together(pod *corev1.Pod, settle func(candidate) candidate) *Effective {
	e := &Effective{}
	lifting := &lifting{exceptions: cs.exceptions, pod: pod.Labels}
	for _, c := range cs.list {
		if c = settle(c); c.how != policy.MatchNo {
			e.add(c, lifting)
		}
	}
	if e.lifted = lifting.lifted; len(e.lifted) > 0 {
		cs.exceptions = nil
		e.strict = cs.together(pod, settle)
	}
	if cs.remark != "" {
		e.warnings = append(e.warnings, Warning{Reason: becauseNamespaceUnknown, Message: cs.remark})
	}
	e.addSkips(pod)
	e.addNeeds(pod)
	if e.strict != nil {
		e.needs.Claims = e.needs.Claims || e.strict.needs.Claims
	}
	return e
}

func (e *Effective) add(c candidate, lifting *lifting) {
	e.Policies = append(e.Policies, c.policy.Name)
	if c.how == policy.MatchUnread {
		e.addRemoval(c.policy, lifting)
		return
	}
	if c.why != nil {
		e.warnings = append(e.warnings, Warning{Reason: ConditionFailed, Policy: c.policy.Name, Message: fmt.Sprintf("PodPolicy %s: its limits hold for this pod, its defaults do not: %v", c.policy.Name, c.why)})
	}
	e.addLimits(c.policy, lifting)
	if c.how == policy.MatchYes {
		e.addDefaults(c.policy)
	}
}

// Needs names the facts that Apply and Validate depend on.
func (e *Effective) Needs() Needs { return e.needs }

func (e *Effective) addDefaults(p *policy.Policy) {
	s := p.Spec
	if name := policy.ClassName(s); name != "" && !e.class.given() {
		e.class = from[string]{name, p}
	}
	if seconds := policy.DefaultGrace(s); seconds != nil && !e.grace.given() {
		e.grace = from[int64]{*seconds, p}
	}
	if spread := p.Spread(); spread != nil && !e.spread.given() {
		e.spread = from[*v1alpha1.TopologySpreadSection]{spread, p}
	}
	if s.Node != nil && !e.node.given() {
		e.node = from[*v1alpha1.Enforcement]{s.Node, p}
	}
}

func (e *Effective) addLimits(p *policy.Policy, lifting *lifting) {
	if s := p.Spec.Priority; s != nil && len(s.AllowedClassNames) > 0 && !lifting.lifts(p, v1alpha1.LiftAllowedClassNames) {
		if e.allowed == nil {
			e.allowed = &allowList{names: slices.Clone(s.AllowedClassNames)}
		} else {
			e.allowed.names = slices.DeleteFunc(e.allowed.names, func(n string) bool { return !slices.Contains(s.AllowedClassNames, n) })
		}
		e.allowed.policies = append(e.allowed.policies, p.Name)
	}
	if g := p.Spec.GracePeriod; g != nil {
		unlifted := func(value *int64, limit v1alpha1.LiftedLimit) *int64 {
			if value != nil && lifting.lifts(p, limit) {
				return nil
			}
			return value
		}
		e.minGrace = stricter(e.minGrace, unlifted(g.MinSeconds, v1alpha1.LiftMinSeconds), p, func(a, b int64) bool { return a > b })
		e.maxGrace = stricter(e.maxGrace, unlifted(g.MaxSeconds, v1alpha1.LiftMaxSeconds), p, func(a, b int64) bool { return a < b })
		e.margin = stricter(e.margin, unlifted(g.PreStopMarginSeconds, v1alpha1.LiftPreStopMarginSeconds), p, func(a, b int64) bool { return a > b })
	}
	e.addRemoval(p, lifting)
}

func (e *Effective) addRemoval(p *policy.Policy, lifting *lifting) {
	r := p.Spec.Removal
	if r == nil {
		return
	}
	if e.removal == nil {
		e.removal = &removal{}
	}
	zero := from[v1alpha1.ZeroGraceAction]{policy.ZeroGraceOf(r), p}
	if zero.value != v1alpha1.ZeroGraceWarn && lifting.lifts(p, v1alpha1.LiftZeroGrace) {
		zero.value = v1alpha1.ZeroGraceWarn
	}
	e.removal.policies = append(e.removal.policies, zero)
	e.removal.ofAny = stricterZeroGrace(e.removal.ofAny, zero)
	if p.Protect.All {
		e.removal.ofAll = stricterZeroGrace(e.removal.ofAll, zero)
	}
}

func stricter(have from[int64], value *int64, p *policy.Policy, than func(a, b int64) bool) from[int64] {
	if value != nil && (!have.given() || than(*value, have.value)) {
		return from[int64]{*value, p}
	}
	return have
}

// addSkips reads the annotation by which a pod declines defaults. Only the policy that gives a default may permit that.
func (e *Effective) addSkips(pod *corev1.Pod) {
	e.skip = map[v1alpha1.Section]bool{}
	text, ok := pod.Annotations[v1alpha1.AnnotationSkip]
	if !ok {
		return
	}
	var unknown []string
	for part := range strings.SplitSeq(text, ",") {
		section := v1alpha1.Section(strings.TrimSpace(part))
		giver, known := e.giver(section)
		switch {
		case section == "":
		case !known && len(unknown) < maxNamed:
			unknown = append(unknown, fmt.Sprintf("%q", section))
		case giver == nil || e.skip[section]:
		case slices.Contains(giver.Spec.AllowSkip, section):
			e.skip[section] = true
		default:
			e.refuseSkip(giver, section)
		}
	}
	if len(unknown) > 0 {
		e.warnings = append(e.warnings, Warning{Reason: becauseSkipRefused, Message: fmt.Sprintf("annotation %s: priority, topologySpread and gracePeriod can be skipped, not %s: ignored", v1alpha1.AnnotationSkip, strings.Join(unknown, ", "))})
	}
}

// maxNamed is how many things of one sort a warning names: what a tenant can write may be long.
const maxNamed = 5

// giver returns the policy that gives the defaults of a section, and whether the section can be skipped at all.
func (e *Effective) giver(section v1alpha1.Section) (giver *policy.Policy, known bool) {
	switch section {
	case v1alpha1.SectionPriority:
		return e.class.policy, true
	case v1alpha1.SectionTopologySpread:
		return e.spread.policy, true
	case v1alpha1.SectionGracePeriod:
		return e.grace.policy, true
	}
	return nil, false
}

func (e *Effective) refuseSkip(giver *policy.Policy, section v1alpha1.Section) {
	w := Warning{Reason: becauseSkipRefused, Policy: giver.Name, Message: fmt.Sprintf("annotation %s: PodPolicy %s does not permit to skip %s (allowSkip): ignored", v1alpha1.AnnotationSkip, giver.Name, section)}
	if !slices.Contains(e.warnings, w) {
		e.warnings = append(e.warnings, w)
	}
}

func (e *Effective) addNeeds(pod *corev1.Pod) {
	e.needs.add(pod, e, e.spread.value)
	e.needs.Nodes = e.needs.Nodes || len(pod.Spec.TopologySpreadConstraints)+len(affinityTerms(pod)) > 0
	if e.removal != nil && !e.removal.allAlike() && graceperiod.Of(&pod.Spec) == 0 {
		e.needs.Claims = len(policy.ClaimNames(pod)) > 0
	}
}

// add names what the constraints of a section depend on; nil: none are given.
func (n *Needs) add(pod *corev1.Pod, e *Effective, section *v1alpha1.TopologySpreadSection) {
	if section == nil || wantsSpread(pod, e) != "" {
		return
	}
	n.Selectors = true
	for _, c := range section.Constraints {
		n.Nodes = n.Nodes || c.WhenUnsatisfiable == corev1.DoNotSchedule
	}
}
