package explain

import (
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/defaulting"
	"github.com/podgrace/podgrace/nodeenforcer/plan"
	"github.com/podgrace/podgrace/policy"
	"github.com/podgrace/podgrace/policy/enforcement"
)

// Policies of the cluster, the heaviest first.
type Policies []PolicyMatch

// Match reports whether a policy is for the pod.
type Match string

// Whether a policy is for the pod.
const (
	MatchYes Match = "Yes"
	MatchNo  Match = "No"
	// MatchLimits: a match condition could not be evaluated. Its limits hold, its defaults do not.
	MatchLimits Match = "LimitsOnly"
)

// PolicyMatch is one policy and whether it is for the pod.
type PolicyMatch struct {
	Name    string `json:"name"`
	Weight  int32  `json:"weight"`
	Matches Match  `json:"matches"`
	// Why it does not, or not in full; empty where it does.
	Why string `json:"why,omitempty"`
	// Does is what it asks for, in a few words.
	Does string `json:"does"`
}

func policies(v *view) (out Policies) {
	for _, p := range v.in.Policies {
		m := PolicyMatch{Name: p.Name, Weight: p.Spec.Weight, Matches: MatchNo, Does: does(p.Spec)}
		switch {
		case slices.Contains(v.giving, p):
			m.Matches = MatchYes
		case slices.Contains(v.limiting, p):
			m.Matches, m.Why = MatchLimits, v.doubt(p)
		case v.effective.Excluded:
			m.Why = v.excluded()
		default:
			m.Why = v.refusal(p)
		}
		out = append(out, m)
	}
	return out
}

func does(s *v1alpha1.PodPolicySpec) string {
	sum := policy.Summary(s)
	var parts []string
	for _, part := range []struct{ what, how string }{
		{"priority", sum.Priority}, {"spread", sum.TopologySpread}, {"grace", sum.GracePeriod}, {"removal", sum.Removal},
	} {
		if part.how != "" {
			parts = append(parts, part.what+" "+part.how)
		}
	}
	if s.Node != nil {
		parts = append(parts, "node")
	}
	return strings.Join(parts, "; ")
}

func (v *view) excluded() string {
	if plan.IsMirror(v.pod) {
		return "it is a mirror pod: its kubelet runs it from a file"
	}
	why := "no policy is for pods of namespace " + v.in.Namespace.Name
	if by := v.in.Exempt.By(v.in.Namespace.Name); by != "" {
		why += ": it is excluded (--exclude-namespaces=" + by + " of the webhook)"
	}
	return why
}

// marker is a default that is cheap to recognise.
var marker = &v1alpha1.Enforcement{Eviction: &v1alpha1.EvictionEnforcement{Order: 1}}

// certain reports whether a policy that holds gives its defaults too: one of the same match that would write an annotation does.
func (v *view) certain(p *policy.Policy) bool {
	r := v.probe(p)
	for _, c := range r.Changes {
		if c.Operation == defaulting.OperationAdd {
			return true
		}
	}
	return false
}

// doubt is why it does not: the engine says it as a warning.
func (v *view) doubt(p *policy.Policy) string {
	for _, w := range v.probe(p).Warnings {
		if w.Reason == defaulting.ConditionFailed {
			return strings.TrimPrefix(w.Message, "PodPolicy "+p.Name+": ") // it stands under the policy's name
		}
	}
	return "a match condition could not be evaluated: its limits hold, its defaults do not"
}

func (v *view) probe(p *policy.Policy) defaulting.Result {
	marked := *p
	marked.Spec = &v1alpha1.PodPolicySpec{Match: p.Spec.Match, Node: marker}
	pod := v.pod.DeepCopy()
	delete(pod.Annotations, v1alpha1.AnnotationEnforcement)
	request := v.asking(pod)
	return defaulting.For(policy.Policies{&marked}, request, v.in.Exempt).Settled(request, v.in.Facts).Apply(request, v.in.Facts)
}

// refusal says which part of a policy's match the pod does not meet, by asking for one part at a time.
func (v *view) refusal(p *policy.Policy) string {
	m := p.Spec.Match
	if m == nil {
		return "not known"
	}
	switch {
	case p.Undecided(v.in.Namespace):
		return fmt.Sprintf("its namespaceSelector is %s, and namespace %s is not known", m.NamespaceSelector.String(), v.in.Namespace.Name)
	case m.NamespaceSelector != nil && !v.meets(v1alpha1.PodMatch{NamespaceSelector: m.NamespaceSelector}):
		return fmt.Sprintf("namespace %s is not %s (namespaceSelector)", v.in.Namespace.Name, m.NamespaceSelector.String())
	case m.PodSelector != nil && !v.meets(v1alpha1.PodMatch{PodSelector: m.PodSelector}):
		return fmt.Sprintf("its labels are not %s (podSelector)", m.PodSelector.String())
	case len(m.OwnerKinds) > 0 && !v.meets(v1alpha1.PodMatch{OwnerKinds: m.OwnerKinds}):
		return fmt.Sprintf("%s is not among ownerKinds %s", ownerKind(v.pod), join(m.OwnerKinds, ", "))
	}
	if why := v.rankRefusal(m); why != "" {
		return why
	}
	for _, c := range m.MatchConditions {
		if !v.meets(v1alpha1.PodMatch{MatchConditions: []admissionregistrationv1.MatchCondition{c}}) {
			return fmt.Sprintf("match condition %s is false", c.Name)
		}
	}
	return "not known"
}

// rankRefusal is refusal for the class that the pod has.
func (v *view) rankRefusal(m *v1alpha1.PodMatch) string {
	switch r := m.Priority; {
	case len(m.PriorityClassNames) > 0 && !slices.Contains(m.PriorityClassNames, v.pod.Spec.PriorityClassName):
		return fmt.Sprintf("its PriorityClass, %s, is not among priorityClassNames %s", or(v.pod.Spec.PriorityClassName, "none"), strings.Join(m.PriorityClassNames, ", "))
	case r != nil && !v.meets(v1alpha1.PodMatch{Priority: r}):
		ends := "priority"
		if r.Min != nil {
			ends += fmt.Sprintf(" min %d", *r.Min)
		}
		if r.Max != nil {
			ends += fmt.Sprintf(" max %d", *r.Max)
		}
		return fmt.Sprintf("its priority of %d is outside of %s", ptr.Deref(v.pod.Spec.Priority, 0), ends)
	}
	return ""
}

func (v *view) meets(m v1alpha1.PodMatch) bool {
	p, err := policy.Compile(&v1alpha1.PodPolicy{Spec: v1alpha1.PodPolicySpec{Match: &m}})
	return err != nil || len(defaulting.For(policy.Policies{p}, v.asking(v.pod), v.in.Exempt).Settled(v.asking(v.pod), v.in.Facts).Policies) > 0
}

func ownerKind(pod *corev1.Pod) string {
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
		return owner.Kind
	}
	return "a pod without a controller"
}

func join[S ~string](list []S, separator string) string {
	texts := make([]string, len(list))
	for i, s := range list {
		texts[i] = string(s)
	}
	return strings.Join(texts, separator)
}

// fields are what a contract says, one field each.
func fields(e *v1alpha1.Enforcement) (out []string) {
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if m := e.Memory; m != nil {
		if m.Protection != "" {
			add("memory.protection %s", m.Protection)
		}
		if m.ThrottlePercent != nil {
			add("memory.throttlePercent %d", *m.ThrottlePercent)
		}
	}
	if e.CPU != nil {
		add("cpu.weight %d", e.CPU.Weight)
	}
	if e.IO != nil {
		add("io.weight %d", e.IO.Weight)
	}
	if e.OOM != nil {
		add("oom.rank %d", e.OOM.Rank)
	}
	if e.Eviction != nil {
		add("eviction.order %d", e.Eviction.Order)
	}
	return out
}

func (v *view) contractGiver() *policy.Policy {
	return v.giver(func(s *v1alpha1.PodPolicySpec) bool { return s.Node != nil })
}

// contract is what admission decided for the node when the pod was made: a record, which no later policy changes.
func contract(v *view) Contract {
	giver := v.contractGiver()
	text, present := v.pod.Annotations[v1alpha1.AnnotationEnforcement]
	if !present {
		why := v.nobody("node settings")
		if giver != nil {
			why = fmt.Sprintf("it has none, though PodPolicy %s gives node settings: it was not there or not asked when the pod was made", giver.Name)
		}
		return Contract{Source: Source{OriginNone, nameOf(giver), why}}
	}
	e, err := enforcement.Parse(text)
	if err != nil {
		return Contract{Source: Source{OriginUnknown, nameOf(giver), fmt.Sprintf("it can't be read and counts for nothing: %v", err)}}
	}
	c := Contract{Fields: fields(e), Source: Source{OriginPolicy, nameOf(giver), ""}}
	switch {
	case !v.created() && giver == nil:
		c.Origin, c.Why = OriginPod, "its own; the webhook removes or refuses it"
	case !v.created():
		c.Why = "decided by PodPolicy " + nameOf(giver)
	case giver != nil && v.settledNode() == nil:
		c.Why = fmt.Sprintf("decided when it was made; PodPolicy %s decides the same today", giver.Name)
	case giver != nil && v.givenBySome(e):
		c.Why = fmt.Sprintf("decided when it was made; PodPolicy %s decides otherwise today", giver.Name)
	case v.doubtful():
		c.Origin, c.Why = OriginUnknown, "decided when it was made; by which policy can't be told, since not all are known here"
	case v.givenBySome(e):
		c.Origin, c.Why = OriginUnknown, "decided when it was made, by a policy that does not match today, or written past the policies"
	default:
		// A policy has changed since, or it was written past the webhook while that was away.
		c.Origin, c.Why = OriginUnknown, "no PodPolicy gives this today"
		c.Remove = fmt.Sprintf("kubectl annotate pod -n %s %s %s-", v.pod.Namespace, v.pod.Name, v1alpha1.AnnotationEnforcement)
	}
	return c
}

// givenBySome reports whether any policy gives this contract, to whichever pods.
func (v *view) givenBySome(e *v1alpha1.Enforcement) bool {
	return slices.ContainsFunc(v.in.Policies, func(p *policy.Policy) bool {
		return p.Spec.Node != nil && equality.Semantic.DeepEqual(e, p.Spec.Node)
	})
}

// settledNode is what today's policies would change in the contract; nil: nothing.
func (v *view) settledNode() *defaulting.Change {
	for i := range v.settled.Changes {
		if c := &v.settled.Changes[i]; c.Section == "node" {
			return c
		}
	}
	return nil
}
