package limits

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/defaulting"
	"github.com/podgrace/podgrace/internal/pod/graceperiod"
)

// Bounds of what is looked at in a pod, so that none costs the API server more than it grants a policy. Beyond them less is refused, never more,
// and a policy with bounds of the grace period says so (beyond).
const (
	// MaxItems of a list of the pod. The cost of going through one is bounded by the API server; its time grows with the square of its length
	// (cel-go interpreter/runtimecost.go refValStack.drop, 0.30.0).
	MaxItems = 256
	// MaxCommand is the longest preStop command that is compared with one that sleeps, in characters, one between two words counted.
	MaxCommand = 256
)

// beyond is for what a limit that is compiled is not judged in CEL.
func (s *subject) beyond(l Limit) (all []string) {
	if s.Spec.Match != nil && len(s.Spec.Match.OwnerKinds) > 0 {
		all = append(all, fmt.Sprintf("for a pod with more than %d ownerReferences", MaxItems))
	}
	if l != GraceBounds {
		return all
	}
	var of []string
	if marginOf(s) != nil || maxOf(s) != nil {
		of = append(of, "hooks")
	}
	of = append(of, "probes")
	words := fmt.Sprintf("for the %s of a pod with more than %d containers", strings.Join(of, " and "), MaxItems)
	if marginOf(s) != nil {
		words += fmt.Sprintf(", and for a preStop command of more than %d characters or that is not plainly a sleep,", MaxCommand)
	}
	return append(all, words)
}

func minOf(s *subject) *int64    { return s.Spec.GracePeriod.MinSeconds }
func maxOf(s *subject) *int64    { return s.Spec.GracePeriod.MaxSeconds }
func marginOf(s *subject) *int64 { return s.Spec.GracePeriod.PreStopMarginSeconds }

// What lifts them.
const (
	liftMin    = v1alpha1.LiftMinSeconds
	liftMax    = v1alpha1.LiftMaxSeconds
	liftMargin = v1alpha1.LiftPreStopMarginSeconds
)

// bounding are the policies with bounds of the grace period of which one is set, compiled or not.
func (b *builder) bounding(of func(*subject) *int64) (all []*subject) {
	for _, s := range b.subjects {
		if slices.Contains(s.limits(), GraceBounds) && of(s) != nil {
			all = append(all, s)
		}
	}
	return all
}

// unsettled says why the bounds of a policy can't be compiled: the minimum of another policy lifts a maximum, and a maximum lifts what preStop
// needs. Where it can't be known for sure whether that other one is for a pod, a pod could be refused that the webhook lets go.
func (b *builder) unsettled(s *subject) string {
	other := func(of func(*subject) *int64, lifts func(int64) bool) *subject {
		for _, o := range b.bounding(of) {
			if o != s && (o.condition || o.why != "") && o.Matchable() && lifts(*of(o)) {
				return o
			}
		}
		return nil
	}
	if high := maxOf(s); high != nil {
		if o := other(minOf, func(low int64) bool { return low > *high }); o != nil {
			return fmt.Sprintf("its maximum is below the minimum of PodPolicy %s, and the API server can't know for sure which pods that one is for", o.Name)
		}
	}
	if marginOf(s) != nil {
		if o := other(maxOf, func(int64) bool { return true }); o != nil {
			return fmt.Sprintf("the maximum of PodPolicy %s limits what preStop may need, and the API server can't know for sure which pods that one is for", o.Name)
		}
	}
	return ""
}

// settled are those of which it is known for sure, without an error, whether they are for a pod.
func settled(subjects []*subject) []*subject {
	return slices.DeleteFunc(slices.Clone(subjects), func(s *subject) bool { return s.why != "" || s.condition })
}

// graceBounds is the rest of validateGracePeriod of package defaulting, a bound of a policy by itself: with the strictest of each over all
// policies that are for the pod,
//
//	value >= minimum, value <= max(maximum, minimum), sleep <= max(maximum, minimum), value >= min(known + margin, maximum)
//
// is the same as that each of them says so by itself, or another lifts it.
func (b *builder) graceBounds() []admissionregistrationv1.Validation {
	limited := b.having(GraceBounds)
	var sleeps, bounds, probes []string
	for _, s := range limited {
		if low := minOf(s); low != nil {
			bounds = append(bounds, unless(s, liftMin, "variables.have >= "+number(*low)))
			probes = append(probes, unless(s, liftMin, "variables.shortest >= "+number(*low)))
		}
		if high := maxOf(s); high != nil {
			sleeps = append(sleeps, unless(s, liftMax, b.atMost(s, "variables.sleep")))
			bounds = append(bounds, unless(s, liftMax, b.atMost(s, "variables.have")))
			probes = append(probes, unless(s, liftMax, b.atMost(s, "variables.longest")))
		}
		if marginOf(s) != nil {
			bounds = append(bounds, unless(s, liftMargin, b.leaves(s)))
			probes = append(probes, unless(s, liftMargin, leavesProbes(s)))
		}
	}
	var validations []admissionregistrationv1.Validation
	if len(sleeps) > 0 {
		validations = append(validations, validation(all(sleeps), b.sleepMessage()))
	}
	if len(bounds) > 0 {
		validations = append(validations, validation(all(bounds), b.podMessage()), validation(all(probes), b.probeMessage()))
	}
	return validations
}

// atMost is that a value is within the maximum of a policy, or a minimum lifts that.
func (b *builder) atMost(s *subject, value string) string {
	within := []string{value + " <= " + number(*maxOf(s))}
	if slices.ContainsFunc(settled(b.bounding(minOf)), func(o *subject) bool { return *minOf(o) > *maxOf(s) }) {
		within = append(within, value+"IsLifted")
	}
	if low := minOf(s); low != nil && *low > *maxOf(s) { // which no schema lets pass
		within = append(within, s.unlifted(liftMin, value+" <= "+number(*low)))
	}
	return either(within)
}

// leaves is that enough is left after preStop, or a maximum leaves no more.
func (b *builder) leaves(s *subject) string {
	within := []string{"variables.known == 0", "variables.have >= variables.known + " + number(*marginOf(s)), "variables.haveIsMost"}
	if high := maxOf(s); high != nil { // its own holds wherever this is asked, but where it is lifted
		within = append(within, s.unlifted(liftMax, "variables.have >= "+number(*high)))
	}
	return either(within)
}

// lifting are the variables by which one policy's bound lifts another's.
func (b *builder) lifting() []admissionregistrationv1.Variable {
	lifted := func(name, comparison string, of func(*subject) *int64, limit v1alpha1.LiftedLimit) admissionregistrationv1.Variable {
		by := each(settled(b.bounding(of)), func(s *subject) string { return whereMay(s, limit, comparison+number(*of(s)), "false") })
		return admissionregistrationv1.Variable{Name: name, Expression: either(append(by, "false"))}
	}
	return []admissionregistrationv1.Variable{
		lifted("haveIsLifted", "variables.have <= ", minOf, liftMin), lifted("sleepIsLifted", "variables.sleep <= ", minOf, liftMin),
		lifted("haveIsMost", "variables.have >= ", maxOf, liftMax), lifted("longestIsLifted", "variables.longest <= ", minOf, liftMin),
	}
}

// either of the expressions is true.
func either(expressions []string) string {
	return "(" + strings.Join(expressions, ") || (") + ")"
}

// no bound is given.
const (
	noLeast = int64(-1)
	noMost  = int64(math.MaxInt64)
)

func (b *builder) sleepMessage() string {
	most := "variables.maximum > variables.minimum ? variables.maximum : variables.minimum"
	return say(defaulting.WordsSleep, "variables.sleeper", say(defaulting.WordsSeconds, "variables.sleep"), "variables.maximumBy", say(defaulting.WordsSeconds, most))
}

// judged names the expressions for a grace period that is judged: what it is, what its hooks need by themselves, what of that a maximum leaves, and
// the words about them.
type judged struct{ have, needs, least, stop string }

// boundsMessage says what Effective.bound says. words are those around what the grace period must be, and why.
func (b *builder) boundsMessage(of judged, words func(want, why string) string) string {
	sec := func(of string) string { return say(defaulting.WordsSeconds, of) }
	minimum := say(defaulting.WordsMinimum, "variables.minimumBy", sec("variables.minimum"))
	maximum := say(defaulting.WordsMaximum, "variables.maximumBy", sec("variables.maximum"))
	var cases []string
	if b.margins() {
		margin := say(defaulting.WordsMargin, "variables.marginBy", of.stop, sec("variables.margin"))
		cases = append(cases,
			"variables.minimum > "+of.least+" && "+of.have+" < variables.minimum ? "+words("variables.minimum", minimum),
			of.have+" < "+of.least+" && "+of.needs+" > variables.maximum ? "+words("variables.maximum", maximum+" + "+text(defaulting.WordsAlthough)+" + "+of.stop),
			of.have+" < "+of.least+" ? "+words(of.needs, margin))
	} else { // hooks need nothing by themselves
		cases = append(cases, of.have+" < variables.minimum ? "+words("variables.minimum", minimum))
	}
	return strings.Join(append(cases,
		"variables.minimum > variables.maximum ? "+words("variables.minimum", maximum+" + "+text(defaulting.WordsBut)+" + "+minimum),
		words("variables.maximum", maximum)), " : ")
}

// margins reports whether a policy asks for time after preStop.
func (b *builder) margins() bool { return len(b.bounding(marginOf)) > 0 }

func (b *builder) podMessage() string {
	return b.boundsMessage(judged{"variables.have", "variables.needs", "variables.least", "variables.stop"}, func(want, why string) string {
		return say(defaulting.WordsBounds, "variables.have", want, why, want)
	})
}

// strictest are three variables' worth: the strictest value of the policies that are for the pod, and which policy has it, the first of equals.
func (b *builder) strictest(name string, of func(*subject) *int64, limit v1alpha1.LiftedLimit, none int64, order func(a, b int64) int, function string) []admissionregistrationv1.Variable {
	known := slices.DeleteFunc(b.bounding(of), func(s *subject) bool { return s.why != "" })
	slices.SortStableFunc(known, func(x, y *subject) int { return order(*of(x), *of(y)) })
	values := append(each(known, func(s *subject) string { return where(s, limit, number(*of(s)), number(none)) }), number(none))
	return []admissionregistrationv1.Variable{
		{Name: name, Expression: "[" + strings.Join(values, ", ") + "]." + function + "()"},
		{Name: name + "By", Expression: "(" + names(known, limit) + ` + [""])[0]`},
	}
}

// stored is the pod's grace period as it stands there.
var stored = "object.spec.?terminationGracePeriodSeconds.orValue(" + number(graceperiod.Unset) + ")"

// graceVariables are what the limits on the grace period read.
func (b *builder) graceVariables() []admissionregistrationv1.Variable {
	if len(b.having(GraceBounds))+len(b.having(ZeroGrace)) == 0 {
		return nil
	}
	vars := []admissionregistrationv1.Variable{
		// graceperiod.Of
		{Name: "have", Expression: stored + " < 0 ? 1 : " + stored},
	}
	if len(b.having(GraceBounds)) == 0 {
		return vars
	}
	vars = append(append(append(vars, hookVariables()...), b.probeVariables()...), b.lifting()...)
	vars = append(vars, b.strictest("minimum", minOf, liftMin, noLeast, func(x, y int64) int { return cmp.Compare(y, x) }, "max")...)
	vars = append(vars, b.strictest("maximum", maxOf, liftMax, noMost, cmp.Compare[int64], "min")...)
	vars = append(vars, b.strictest("margin", marginOf, liftMargin, noLeast, func(x, y int64) int { return cmp.Compare(y, x) }, "max")...)
	vars = append(vars,
		admissionregistrationv1.Variable{Name: "needs", Expression: b.needs("variables.known")},
		admissionregistrationv1.Variable{Name: "least", Expression: leastOf("variables.needs")},
	)
	return append(vars, b.probeWords()...)
}

// needs is how long a grace period must be for hooks that take so long.
func (b *builder) needs(took string) string {
	if !b.margins() {
		return "0"
	}
	return "(variables.margin >= 0 && " + took + " > 0 ? " + took + " + variables.margin : 0)"
}

// leastOf is what a maximum leaves of that.
func leastOf(needs string) string {
	return "(" + needs + " > variables.maximum ? variables.maximum : " + needs + ")"
}

// variables are those of users' conditions, and those that are read.
func (b *builder) variables() []admissionregistrationv1.Variable {
	vars := []admissionregistrationv1.Variable{
		{Name: "labels", Expression: podLabels},
		{Name: "namespaceLabels", Expression: "namespaceObject.metadata.?labels.orValue({})"},
		{Name: "manyOwners", Expression: fmt.Sprintf("size(object.metadata.?ownerReferences.orValue([])) > %d", MaxItems)},
		{Name: "controllers", Expression: "variables.manyOwners ? [] : object.metadata.?ownerReferences.orValue([]).filter(o, o.?controller.orValue(false))"},
		{Name: "ownerKind", Expression: fmt.Sprintf("variables.manyOwners ? '' : size(variables.controllers) == 0 ? %s : variables.controllers[0].kind", text(string(v1alpha1.OwnerKindNone)))},
	}
	if slices.ContainsFunc(b.subjects, func(s *subject) bool { return len(s.lifted) > 0 }) {
		vars = append(vars, created)
	}
	for _, s := range b.subjects {
		vars = append(vars, s.variables...)
	}
	vars = append(vars, b.graceVariables()...)
	return vars
}
