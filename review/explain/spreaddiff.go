package explain

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

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
