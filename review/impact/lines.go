package impact

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/podgrace/podgrace/review/safe"
)

// line is one change in a block, as in a diff: sign is "+", "-" or "~".
type line struct{ sign, name, value string }

// arrow stands between what was and what is.
const arrow = " → "

// lines of changes, the most urgent first: what a block is called after must not be among the lines that are left out. A message that
// names one workload is left out where many are told at once.
func lines(changes []Change, alone bool) []line {
	changes = slices.Clone(changes)
	slices.SortStableFunc(changes, func(a, b Change) int { return cmp.Compare(a.Kind.rank(), b.Kind.rank()) })
	var all []line
	for i := range changes {
		all = append(all, changes[i].lines(alone)...)
	}
	return all
}

func (c *Change) lines(alone bool) []line {
	switch c.Kind {
	case Changed:
		return fieldLines(c.Fields)
	case Refused:
		return []line{{"+", "refusal", c.refusal(c.To)}}
	case Admitted:
		return []line{{"-", "refusal", c.refusal(c.From)}}
	case RefusedOtherwise:
		return []line{{"~", "refusal", c.refusal(c.To)}}
	case Warned:
		return []line{{"+", "warning", message(c.To)}}
	case Unwarned:
		return []line{{"-", "warning", message(c.From)}}
	case WarnedOtherwise:
		return []line{{"~", "warning", message(c.To)}}
	}
	text := c.From + arrow + c.To
	if c.Reason != "" {
		text += " (" + c.Reason + ")"
	}
	if alone && c.Message != "" {
		text += ": " + c.Message
	}
	return []line{{"~", removalName(c.Kind), message(text)}}
}

func (c *Change) refusal(text string) string {
	if c.Reason == "" || c.Reason == text {
		return message(text)
	}
	return message(c.Reason + ": " + text)
}

func message(text string) string { return safe.Clip(shown(text), maxMessage) }

// removalName is what was asked for.
func removalName(k Kind) string {
	switch {
	case strings.HasPrefix(string(k), "ForceDelete"):
		return "force delete"
	case strings.HasPrefix(string(k), "Eviction"):
		return "eviction without grace"
	}
	return "delete"
}

func fieldLines(fields []Field) []line {
	all := make([]line, len(fields))
	for i := range fields {
		f := &fields[i]
		switch {
		case f.From == nil:
			all[i] = line{"+", f.name(), f.value(f.To)}
		case f.To == nil:
			all[i] = line{"-", f.name(), f.value(f.From)}
		default:
			all[i] = line{"~", f.name(), f.value(f.From) + arrow + f.value(f.To)}
		}
	}
	return all
}

// subject is what a group is about: one object by its name, or how many of each kind and where.
func (g *group) subject() string {
	w := g.workloads[0]
	asked := ""
	if w.Request != "" {
		asked = strings.ToLower(w.Request) + " "
	}
	if len(g.workloads) == 1 {
		return shown(asked + w.Resource.String() + by(w.User))
	}
	var what, where []string
	counts := map[string]int{}
	for _, w := range g.workloads {
		counts[w.Resource.Kind]++
		what = add(what, w.Resource.Kind)
		where = add(where, w.Resource.Namespace)
	}
	for i, kind := range what {
		what[i] = plural(counts[kind], kind, several(kind))
	}
	return shown(asked + strings.Join(what, ", ") + places(where) + by(w.User))
}

func by(user string) string {
	if user == "" {
		return ""
	}
	return " as " + user
}

func add(list []string, text string) []string {
	if slices.Contains(list, text) {
		return list
	}
	return append(list, text)
}

// several is the plural of a kind.
func several(kind string) string {
	if strings.HasSuffix(kind, "s") {
		return kind + "es"
	}
	return kind + "s"
}

// places says in which namespaces.
func places(namespaces []string) string {
	namespaces = slices.DeleteFunc(slices.Clone(namespaces), func(n string) bool { return n == "" })
	switch len(namespaces) {
	case 0:
		return ""
	case 1, 2, 3:
		return " in " + strings.Join(namespaces, ", ")
	}
	return fmt.Sprintf(" in %d namespaces", len(namespaces))
}

// names of the first workloads of a group, as many as are asked for.
func (g *group) names(most int) string {
	names := make([]string, len(g.workloads))
	for i, w := range g.workloads {
		names[i] = w.Resource.Name
	}
	return enumerate(names, most)
}

func enumerate(names []string, most int) string {
	shownNames := make([]string, 0, most)
	for _, name := range names[:min(most, len(names))] {
		if name == "" {
			name = "(unnamed)"
		}
		shownNames = append(shownNames, shown(name))
	}
	text := strings.Join(shownNames, ", ")
	if more := len(names) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// subject of pods that run and differ alike.
func (g *runningGroup) subject() string {
	if len(g.running) == 1 {
		r := g.running[0]
		if r.Owner.Kind == "Pod" {
			return shown(r.Owner.String())
		}
		return shown(fmt.Sprintf("%d of %s of %s", len(r.Pods), plural(r.Of, "pod", "pods"), r.Owner))
	}
	var what, where []string
	counts := map[string]int{}
	for _, r := range g.running {
		counts[r.Owner.Kind]++
		what = add(what, r.Owner.Kind)
		where = add(where, r.Owner.Namespace)
	}
	if len(what) == 1 && what[0] == "Pod" {
		return shown(plural(g.pods, "Pod", "Pods") + places(where))
	}
	for i, kind := range what {
		what[i] = plural(counts[kind], kind, several(kind))
	}
	return shown(plural(g.pods, "pod", "pods") + " of " + strings.Join(what, ", ") + places(where))
}

func (g *runningGroup) lines() []line {
	r := g.running[0]
	if r.Refused != "" {
		return []line{{"+", "refusal", message(r.Refused)}}
	}
	return fieldLines(r.Fields)
}

// where is file:line for a person.
func where(file string, at int) string {
	if file == "-" {
		file = "stdin"
	}
	if at > 0 {
		file += ":" + strconv.Itoa(at)
	}
	return shown(file)
}
