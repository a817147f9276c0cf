package limits

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/podgrace/podgrace/api/v1alpha1"
)

// text is a string literal. CEL has Go's escapes.
func text(s string) string { return strconv.QuoteToASCII(s) }

// texts is a list of string literals.
func texts(all []string) string {
	quoted := make([]string, len(all))
	for i, s := range all {
		quoted[i] = text(s)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

func number(n int64) string { return strconv.FormatInt(n, 10) }

// verbs of package fmt that the words have.
var verbs = regexp.MustCompile(`%[sdq]`)

// say makes an expression of words, which are a format of package fmt, and of one expression for each verb of it.
func say(words string, arguments ...string) string {
	var parts []string
	literal := func(s string) {
		if s != "" {
			parts = append(parts, text(s))
		}
	}
	from := 0
	for i, at := range verbs.FindAllStringIndex(words, -1) {
		literal(words[from:at[0]])
		switch words[at[0]:at[1]] {
		case "%s":
			parts = append(parts, "("+arguments[i]+")")
		case "%d":
			parts = append(parts, "string("+arguments[i]+")")
		case "%q":
			parts = append(parts, text(`"`), "("+arguments[i]+")", text(`"`))
		}
		from = at[1]
	}
	literal(words[from:])
	return strings.Join(parts, " + ")
}

// A limit holds for a pod where its policy is for it and no exception lifts it. That it is lifted can't fail to evaluate, so that it stands first: a
// condition of the policy that fails is then not asked.

// unless is within, or that the limit does not hold for the pod.
func unless(s *subject, limit v1alpha1.LiftedLimit, within string) string {
	if lifted := s.lifted[limit]; lifted != "" {
		within += " || " + lifted
	}
	if s.perhaps != "" {
		within += " || " + s.perhaps
	}
	if s.holds == "" {
		return within
	}
	return within + " || !" + s.holds
}

// unlifted is what is true where no exception lifts the limit, and false elsewhere.
func (s *subject) unlifted(limit v1alpha1.LiftedLimit, is string) string {
	if lifted := s.lifted[limit]; lifted != "" {
		return "!" + lifted + " && " + is
	}
	return is
}

// where is the value for pods for which the limit holds, and else the other.
func where(s *subject, limit v1alpha1.LiftedLimit, value, other string) string {
	return whether(s.conjoined(limit, s.holds), value, other)
}

// whereMay is the value for pods for which it may hold, by which less is refused.
func whereMay(s *subject, limit v1alpha1.LiftedLimit, value, other string) string {
	return whether(s.conjoined(limit, s.may), value, other)
}

// conjoined is a condition, and that the limit is not lifted.
func (s *subject) conjoined(limit v1alpha1.LiftedLimit, condition string) string {
	if s.lifted[limit] != "" && condition == "" {
		return "!" + s.lifted[limit]
	}
	return s.unlifted(limit, condition)
}

// always says that the limit holds for every pod.
func (s *subject) always(limit v1alpha1.LiftedLimit) bool { return s.conjoined(limit, s.holds) == "" }

// whether is the value where a condition holds, and without one.
func whether(condition, value, other string) string {
	if condition == "" {
		return value
	}
	return condition + " ? " + value + " : " + other
}

func each(all []*subject, expression func(*subject) string) []string {
	list := make([]string, len(all))
	for i, s := range all {
		list[i] = expression(s)
	}
	return list
}

// all of the expressions are true.
func all(expressions []string) string { return "(" + strings.Join(expressions, ") && (") + ")" }

// let is an expression in which a name stands for a value: a list of one, since CEL has nothing else for that.
func let(name, value, in string) string { return "[" + value + "].map(" + name + ", " + in + ")[0]" }

// names of the policies whose limit holds for the pod, in their order.
func names(subjects []*subject, limit v1alpha1.LiftedLimit) string {
	return "[" + strings.Join(each(subjects, func(s *subject) string { return where(s, limit, text(s.Name), `""`) }), ", ") + `].filter(n, n != "")`
}
