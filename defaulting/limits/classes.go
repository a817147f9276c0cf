package limits

import (
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/defaulting"
)

// class is the pod's, empty if it has none.
const class = "object.spec.?priorityClassName.orValue('')"

// classes is validatePriority of package defaulting, as far as policies decide.
func (b *builder) classes() []admissionregistrationv1.Validation {
	limited := b.having(AllowedClasses)
	if len(limited) == 0 {
		return nil
	}
	within := each(limited, func(s *subject) string {
		return unless(s, v1alpha1.LiftAllowedClassNames, class+" in "+texts(s.Spec.Priority.AllowedClassNames))
	})
	var union []string
	for _, s := range limited {
		union = append(union, s.Spec.Priority.AllowedClassNames...)
	}
	slices.Sort(union)
	in := each(limited, func(s *subject) string {
		return unless(s, v1alpha1.LiftAllowedClassNames, "c in "+texts(s.Spec.Priority.AllowedClassNames))
	})
	allowed := texts(slices.Compact(union)) + ".filter(c, " + all(in) + ")"
	list := "size(" + allowed + ") == 0 ? " + text(defaulting.WordsNothing) + " : " + allowed + ".join(', ')"
	hint := `""`
	if b.cluster.GlobalDefault != "" {
		hint = class + " == " + text(b.cluster.GlobalDefault) + " ? " + text(defaulting.WordsDefault) + ` : ""`
	}
	by := names(limited, v1alpha1.LiftAllowedClassNames)
	whose := "size(" + by + ") == 1 ? " + say(defaulting.WordsOneAllows, by+"[0]") + " : " + say(defaulting.WordsAllAllow, by+".join("+text(defaulting.WordsAnd)+")")
	message := say(defaulting.WordsClass, class, whose, list, hint)
	return []admissionregistrationv1.Validation{validation(strings.Join([]string{class + " == ''", all(within)}, " || "), message)}
}
