package explain

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/policy"
)

// limit is the strictest value of several policies, and whose it is.
type limit struct {
	seconds int64
	policy  string
}

func (l limit) by() string { return seconds(l.seconds) + " (PodPolicy " + l.policy + ")" }

// strictest returns the one value than which no other is stricter, the heaviest policy's of equal ones; nil where no policy has one.
func (v *view) strictest(lift v1alpha1.LiftedLimit, of func(*v1alpha1.GracePeriodSection) *int64, stricter func(a, b int64) bool) *limit {
	var found *limit
	for _, p := range v.limiting {
		g := p.Spec.GracePeriod
		if g == nil || of(g) == nil || v.lifted(p, lift) != nil {
			continue
		}
		if value := *of(g); found == nil || stricter(value, found.seconds) {
			found = &limit{value, p.Name}
		}
	}
	return found
}

func higher(a, b int64) bool { return a > b }
func lower(a, b int64) bool  { return a < b }

// lifted is the exception by which a limit of a policy does not hold for the pod; nil: it does.
func (v *view) lifted(p *policy.Policy, limit v1alpha1.LiftedLimit) *policy.Exception {
	for _, x := range v.in.Namespace.Exceptions {
		if x.Lifts(p.Name, limit, v.pod.Labels) {
			return x
		}
	}
	return nil
}

// exceptions say which of the limits that the policies have are lifted.
func (v *view) exceptions(limits ...v1alpha1.LiftedLimit) (out []string) {
	for _, p := range v.limiting {
		for _, limit := range limits {
			if x := v.lifted(p, limit); x != nil && policy.HasLimit(p.Spec, limit) {
				out = append(out, fmt.Sprintf("%s of PodPolicy %s is lifted until %s, by PolicyException %s", limit, p.Name, x.Spec.Until, x.Name))
			}
		}
	}
	return out
}

// graceLimits are the limits on the grace period, in words; in one where all are of one policy; and what of them is lifted.
func (v *view) graceLimits() []string {
	return append(v.graceBounds(), v.exceptions(v1alpha1.LiftMinSeconds, v1alpha1.LiftMaxSeconds, v1alpha1.LiftPreStopMarginSeconds, v1alpha1.LiftZeroGrace)...)
}

func (v *view) graceBounds() (out []string) {
	least := v.strictest(v1alpha1.LiftMinSeconds, func(g *v1alpha1.GracePeriodSection) *int64 { return g.MinSeconds }, higher)
	most := v.strictest(v1alpha1.LiftMaxSeconds, func(g *v1alpha1.GracePeriodSection) *int64 { return g.MaxSeconds }, lower)
	margin := v.strictest(v1alpha1.LiftPreStopMarginSeconds, func(g *v1alpha1.GracePeriodSection) *int64 { return g.PreStopMarginSeconds }, higher)
	if text := together(least, most, margin); text != "" {
		return []string{text}
	}
	switch {
	case least != nil && most != nil && least.seconds > most.seconds:
		out = append(out, fmt.Sprintf("at least %s: it wins over at most %s", least.by(), most.by()))
		most = nil
	case least != nil:
		out = append(out, "at least "+least.by())
	}
	if most != nil {
		out = append(out, "at most "+most.by())
	}
	if margin != nil {
		out = append(out, fmt.Sprintf("%s left after preStop (PodPolicy %s)", seconds(margin.seconds), margin.policy))
	}
	return out
}

// together says all limits of one policy; nothing where they are of several, or contradict each other.
func together(least, most, margin *limit) string {
	if least != nil && most != nil && least.seconds > most.seconds {
		return ""
	}
	var parts []string
	policy := ""
	for _, p := range []struct {
		*limit
		format string
	}{{least, "at least %s"}, {most, "at most %s"}, {margin, "%s left after preStop"}} {
		switch {
		case p.limit == nil:
			continue
		case policy != "" && policy != p.policy:
			return ""
		}
		policy = p.policy
		parts = append(parts, fmt.Sprintf(p.format, seconds(p.seconds)))
	}
	if policy == "" {
		return ""
	}
	return strings.Join(parts, ", ") + " (PodPolicy " + policy + ")"
}

// allowedClasses are the classes that every policy with a list allows, and those policies; none of these: no limit.
func (v *view) allowedClasses() (classes, by []string) {
	for _, p := range v.limiting {
		if p.Spec.Priority == nil || len(p.Spec.Priority.AllowedClassNames) == 0 || v.lifted(p, v1alpha1.LiftAllowedClassNames) != nil {
			continue
		}
		allowed := p.Spec.Priority.AllowedClassNames
		if by == nil {
			classes = slices.Clone(allowed)
		} else {
			classes = slices.DeleteFunc(classes, func(name string) bool { return !slices.Contains(allowed, name) })
		}
		by = append(by, p.Name)
	}
	slices.Sort(classes)
	return classes, by
}

func (v *view) classLimits() []string {
	classes, by := v.allowedClasses()
	lifted := v.exceptions(v1alpha1.LiftAllowedClassNames)
	if by == nil {
		return lifted
	}
	return append([]string{fmt.Sprintf("allowed are %s (PodPolicy %s)", or(strings.Join(classes, ", "), "none: the lists have nothing in common"), strings.Join(by, ", "))}, lifted...)
}

func seconds(n int64) string { return strconv.FormatInt(n, 10) + " s" }

func or(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}
