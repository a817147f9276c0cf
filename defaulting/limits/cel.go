package limits

import (
	"regexp"
	"strconv"
	"strings"
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

// unless is within, or that the policy is not for the pod.
func unless(s *subject, within string) string {
	if s.holds == "" {
		return within
	}
	return within + " || !" + s.holds
}

// where is the value for pods that the policy is for, and else the other.
func where(s *subject, value, other string) string { return whether(s.holds, value, other) }

// whereMay is the value for pods that the policy may be for, by which less is refused.
func whereMay(s *subject, value, other string) string { return whether(s.may, value, other) }

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

// names of the policies that are for the pod, in their order.
func names(subjects []*subject) string {
	return "[" + strings.Join(each(subjects, func(s *subject) string { return where(s, text(s.Name), `""`) }), ", ") + `].filter(n, n != "")`
}
