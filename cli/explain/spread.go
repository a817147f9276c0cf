package explain

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/defaulting"
	"github.com/podgrace/podgrace/policy"
)

func spread(v *view) Spread {
	source, given := v.spreadSource()
	s := Spread{Source: source, Means: "The scheduler's own defaults for spread are switched off by these"}
	for _, c := range v.pod.Spec.TopologySpreadConstraints {
		s.Constraints = append(s.Constraints, Constraint{
			TopologyKey: c.TopologyKey, MaxSkew: c.MaxSkew, WhenUnsatisfiable: string(c.WhenUnsatisfiable),
			LabelSelector: selectorText(unmerged(v.pod, c)), MatchLabelKeys: c.MatchLabelKeys, MinDomains: c.MinDomains,
			NodeAffinityPolicy: string(ptr.Deref(c.NodeAffinityPolicy, "")), NodeTaintsPolicy: string(ptr.Deref(c.NodeTaintsPolicy, "")),
		})
	}
	switch {
	case len(s.Constraints) == 0 && ofDaemonSet(v.pod):
		s.Means = "Its DaemonSet pins it to one node: spread means nothing for it"
	case len(s.Constraints) == 0:
		s.Means = "The scheduler's own defaults hold, unless it is configured otherwise: hostname maxSkew 3 and zone maxSkew 5, both ScheduleAnyway, where a Service or the controller gives a selector"
	case given:
		s.Selector = v.selectorFrom()
	}
	return s
}

// selectorText: a nil selector matches nothing, an empty one everything.
func selectorText(s *metav1.LabelSelector) string {
	switch {
	case s == nil:
		return "no pod (no selector)"
	case len(s.MatchLabels)+len(s.MatchExpressions) == 0:
		return "every pod of the namespace"
	}
	return metav1.FormatLabelSelector(s)
}

func ofDaemonSet(p *corev1.Pod) bool {
	owner := metav1.GetControllerOfNoCopy(p)
	return owner != nil && owner.Kind == "DaemonSet" && owner.APIVersion == appsv1.SchemeGroupVersion.String()
}

func (v *view) spreadGiver() *policy.Policy {
	return v.giver(func(s *v1alpha1.PodPolicySpec) bool { return s.TopologySpread != nil })
}

// spreadSource says where the constraints are from, and whether they are those of a policy.
func (v *view) spreadSource() (source Source, given bool) {
	giver := v.spreadGiver()
	if c := v.reviewed(defaulting.SpreadPath); c != nil {
		return Source{OriginPolicy, nameOf(giver), c.Why}, true
	}
	have := v.pod.Spec.TopologySpreadConstraints
	switch {
	case len(have) == 0 && giver == nil:
		return Source{OriginNone, "", "it has none, and " + v.nobody("any")}, false
	case len(have) == 0:
		return Source{OriginNone, giver.Name, v.noSpread(giver)}, false
	case giver == nil || !v.created():
		return v.chosen(giver, left(giver)), false
	}
	want, reason, known := v.givenSpread()
	switch {
	case !known:
		return Source{OriginUnknown, giver.Name, fmt.Sprintf("its own, or those of PodPolicy %s: they can't be compared, since Services and controller are not known here", giver.Name)}, false
	case sameSpread(v.pod, have, want):
		return Source{OriginPodOrPolicy, giver.Name, fmt.Sprintf("PodPolicy %s gives them to pods that have none; or they are its own", giver.Name)}, true
	}
	return v.chosen(giver, fmt.Sprintf("; they are not those that PodPolicy %s gives today to pods that have none: %s", giver.Name, v.spreadDifference(have, want, reason))), false
}

func left(giver *policy.Policy) string {
	if giver == nil {
		return ""
	}
	return fmt.Sprintf("; PodPolicy %s gives its own only to pods that have none", giver.Name)
}

// noSpread says why a policy's constraints were not added.
func (v *view) noSpread(giver *policy.Policy) string {
	_, _, known := v.givenSpread()
	given, reason := v.spreadOf(v.recreated())
	switch {
	case v.declines(giver, v1alpha1.SectionTopologySpread):
		return "it has none: " + declined(giver)
	case ofDaemonSet(v.pod):
		return "it has none: a DaemonSet's pod gets none"
	case !v.created() && v.pod.Spec.NodeName != "":
		return "it has none: it names its node itself"
	case !known:
		return fmt.Sprintf("it has none; whether PodPolicy %s would give any can't be told, since Services and controller are not known here", giver.Name)
	case given != nil:
		return fmt.Sprintf("it has none, though PodPolicy %s gives some to pods like it: it was not there or not asked when the pod was made", giver.Name)
	case reason != "":
		return "it has none: " + reason
	}
	return "it has none"
}

// givenSpread are the constraints that today's policies would give if the pod had none, or why they give none.
func (v *view) givenSpread() (given []corev1.TopologySpreadConstraint, reason string, known bool) {
	if v.in.SelectorsUnknown {
		v.note("Services and the pod's controller are not known: a policy's selector can't be derived")
		return nil, "", false
	}
	given, reason = v.spreadOf(v.unspread())
	return given, reason, true
}

// spreadOf are the constraints that a pod would get, or why it gets none.
func (v *view) spreadOf(p *corev1.Pod) (given []corev1.TopologySpreadConstraint, reason string) {
	r := v.apply(p)
	if c := changed(r, defaulting.SpreadPath); c != nil {
		given, _ = c.Value.([]corev1.TopologySpreadConstraint)
		return given, ""
	}
	if r.Unspread != "" {
		return nil, r.Unspread
	}
	for _, d := range r.Denials {
		reason = d.Message
	}
	return nil, reason
}

// sameSpread compares constraints after the API server's merge of matchLabelKeys into the selector
// (pkg/registry/core/pod/strategy.go applyLabelKeysToTopologySpreadConstraints, 1.36.3).
func sameSpread(p *corev1.Pod, have, want []corev1.TopologySpreadConstraint) bool {
	return slices.EqualFunc(have, want, func(a, b corev1.TopologySpreadConstraint) bool {
		return equality.Semantic.DeepEqual(a, b) || equality.Semantic.DeepEqual(a, merged(p, b))
	})
}

func merged(p *corev1.Pod, c corev1.TopologySpreadConstraint) corev1.TopologySpreadConstraint {
	c = *c.DeepCopy()
	if c.LabelSelector == nil {
		return c
	}
	for _, key := range c.MatchLabelKeys {
		if value, ok := p.Labels[key]; ok {
			c.LabelSelector.MatchExpressions = append(c.LabelSelector.MatchExpressions,
				metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpIn, Values: []string{value}})
		}
	}
	return c
}

// unmerged is a constraint's selector without what the API server merged into it from matchLabelKeys.
func unmerged(p *corev1.Pod, c corev1.TopologySpreadConstraint) *metav1.LabelSelector {
	if c.LabelSelector == nil {
		return nil
	}
	s := c.LabelSelector.DeepCopy()
	s.MatchExpressions = slices.DeleteFunc(s.MatchExpressions, func(r metav1.LabelSelectorRequirement) bool {
		return r.Operator == metav1.LabelSelectorOpIn && slices.Contains(c.MatchLabelKeys, r.Key) && slices.Equal(r.Values, []string{p.Labels[r.Key]})
	})
	return s
}

// selectorFrom says what the policy's selector was derived from.
func (v *view) selectorFrom() string {
	if v.in.SelectorsUnknown {
		return ""
	}
	var from []string
	services := 0
	for _, s := range v.in.Facts.ServiceSelectors {
		if labels.SelectorFromSet(s).Matches(labels.Set(v.pod.Labels)) {
			services++
		}
	}
	switch {
	case services == 1:
		from = append(from, "the Service that selects it")
	case services > 1:
		from = append(from, fmt.Sprintf("the %d Services that select it", services))
	}
	if owner := metav1.GetControllerOfNoCopy(v.pod); owner != nil {
		if defaulting.OwnerHasSelector(owner) {
			from = append(from, fmt.Sprintf("%s %s", owner.Kind, owner.Name))
		} else if giver := v.spreadGiver(); giver != nil && slices.ContainsFunc(giver.Spec.TopologySpread.OwnerRules, func(r v1alpha1.OwnerRule) bool { return r.Kind == owner.Kind }) {
			from = append(from, "labels by the policy's ownerRules for "+owner.Kind)
		}
	}
	if len(from) == 0 {
		return ""
	}
	return "selector from " + strings.Join(from, " and ")
}

// spreadDifference says in which values constraints are not those that a policy gives today, and why that gives none.
func (v *view) spreadDifference(have, want []corev1.TopologySpreadConstraint, reason string) string {
	if len(want) == 0 {
		return or(reason, "it gives none")
	}
	var out []string
	for _, w := range want {
		if i := over(have, w); i < 0 {
			out = append(out, w.TopologyKey+" is missing")
		} else if values := v.valueDifference(have[i], w); values != "" {
			out = append(out, w.TopologyKey+" "+values)
		}
	}
	for _, h := range have {
		if over(want, h) < 0 {
			out = append(out, h.TopologyKey+" is not among today's")
		}
	}
	return or(strings.Join(out, "; "), "their order")
}

// over is the constraint of a list over the same key, one that is as hard before the other; -1: there is none.
func over(list []corev1.TopologySpreadConstraint, c corev1.TopologySpreadConstraint) int {
	sameKey := func(o corev1.TopologySpreadConstraint) bool { return o.TopologyKey == c.TopologyKey }
	i := slices.IndexFunc(list, func(o corev1.TopologySpreadConstraint) bool {
		return sameKey(o) && o.WhenUnsatisfiable == c.WhenUnsatisfiable
	})
	if i < 0 {
		i = slices.IndexFunc(list, sameKey)
	}
	return i
}

// valueDifference names the values of two constraints over one key that differ: as the pod has it, and as it is given today.
func (v *view) valueDifference(have, want corev1.TopologySpreadConstraint) string {
	var out []string
	differ := func(what, has, gets string) {
		if has != gets {
			out = append(out, fmt.Sprintf("%s %s, today %s", what, or(has, "unset"), or(gets, "unset")))
		}
	}
	differ("maxSkew", fmt.Sprint(have.MaxSkew), fmt.Sprint(want.MaxSkew))
	differ("whenUnsatisfiable", string(have.WhenUnsatisfiable), string(want.WhenUnsatisfiable))
	differ("counts", selectorText(unmerged(v.pod, have)), selectorText(unmerged(v.pod, want)))
	differ("matchLabelKeys", strings.Join(have.MatchLabelKeys, ","), strings.Join(want.MatchLabelKeys, ","))
	differ("minDomains", number(have.MinDomains), number(want.MinDomains))
	differ("nodeAffinityPolicy", string(ptr.Deref(have.NodeAffinityPolicy, "")), string(ptr.Deref(want.NodeAffinityPolicy, "")))
	differ("nodeTaintsPolicy", string(ptr.Deref(have.NodeTaintsPolicy, "")), string(ptr.Deref(want.NodeTaintsPolicy, "")))
	return strings.Join(out, ", ")
}

func number(n *int32) string {
	if n == nil {
		return ""
	}
	return fmt.Sprint(*n)
}
