package limits

import (
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/defaulting"
	"github.com/podgrace/podgrace/policy"
)

// zeroGrace is what validateGracePeriod of package defaulting says of a grace period of 0, as far as it is by policies that protect all
// pods.
func (b *builder) zeroGrace() []admissionregistrationv1.Validation {
	strict := b.having(ZeroGrace)
	if len(strict) == 0 {
		return nil
	}
	var denying, raising []*subject
	for _, s := range strict {
		if policy.ZeroGraceOf(s.Spec.Removal) == v1alpha1.ZeroGraceDeny {
			denying = append(denying, s)
		} else {
			raising = append(raising, s)
		}
	}
	within := each(strict, func(s *subject) string { return unless(s, v1alpha1.LiftZeroGrace, "false") })
	by := func(of []*subject, words string) string {
		name := names(of, v1alpha1.LiftZeroGrace) + "[0]"
		return say(words, name, say(defaulting.WordsProtects, name))
	}
	var message string
	switch {
	case len(denying) == 0:
		message = by(raising, defaulting.WordsZeroRaised)
	case len(raising) == 0 || slices.ContainsFunc(denying, func(s *subject) bool { return s.always(v1alpha1.LiftZeroGrace) }):
		message = by(denying, defaulting.WordsZeroDenied)
	default: // the strictest of those that are for the pod
		message = "size(" + names(denying, v1alpha1.LiftZeroGrace) + ") > 0 ? " + by(denying, defaulting.WordsZeroDenied) + " : " + by(raising, defaulting.WordsZeroRaised)
	}
	return []admissionregistrationv1.Validation{validation("variables.have != 0 || "+all(within), message)}
}
