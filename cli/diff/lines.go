package diff

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/podgrace/podgrace/cli/delta"
	"github.com/podgrace/podgrace/internal/console"
	"github.com/podgrace/podgrace/internal/manifest"
)

// lines of changes, the most urgent first: what a block is called after must not be among the lines that are left out. A message that
// names one workload is left out where many are told at once.
func lines(changes []Change, alone bool) []delta.Line {
	changes = slices.Clone(changes)
	slices.SortStableFunc(changes, func(a, b Change) int { return cmp.Compare(a.Kind.rank(), b.Kind.rank()) })
	var all []delta.Line
	for i := range changes {
		all = append(all, changes[i].lines(alone)...)
	}
	return all
}

func (c *Change) lines(alone bool) []delta.Line {
	switch c.Kind {
	case Changed:
		return delta.Lines(c.Fields)
	case Refused:
		return []delta.Line{{Sign: "+", Name: "refusal", Value: c.refusal(c.To)}}
	case Admitted:
		return []delta.Line{{Sign: "-", Name: "refusal", Value: c.refusal(c.From)}}
	case RefusedOtherwise:
		return []delta.Line{{Sign: "~", Name: "refusal", Value: c.refusal(c.To)}}
	case Warned:
		return []delta.Line{{Sign: "+", Name: "warning", Value: message(c.To)}}
	case Unwarned:
		return []delta.Line{{Sign: "-", Name: "warning", Value: message(c.From)}}
	case WarnedOtherwise:
		return []delta.Line{{Sign: "~", Name: "warning", Value: message(c.To)}}
	}
	text := c.From + delta.Arrow + c.To
	if c.Reason != "" {
		text += " (" + c.Reason + ")"
	}
	if alone && c.Message != "" {
		text += ": " + c.Message
	}
	return []delta.Line{{Sign: "~", Name: removalName(c.Kind), Value: message(text)}}
}

func (c *Change) refusal(text string) string {
	if c.Reason == "" || c.Reason == text {
		return message(text)
	}
	return message(c.Reason + ": " + text)
}

func message(text string) string { return console.Clip(delta.Shown(text), maxMessage) }

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

// subject is what a group is about: one object by its name, or how many of each kind and where.
func (g *group) subject() string {
	w := g.workloads[0]
	asked := ""
	if w.Request != "" {
		asked = strings.ToLower(w.Request) + " "
	}
	if len(g.workloads) == 1 {
		return delta.Shown(asked + w.Resource.String() + by(w.User))
	}
	return delta.Shown(asked + delta.Subject(g.resources()) + by(w.User))
}

func (g *group) resources() []manifest.Resource {
	all := make([]manifest.Resource, len(g.workloads))
	for i, w := range g.workloads {
		all[i] = w.Resource
	}
	return all
}

func by(user string) string {
	if user == "" {
		return ""
	}
	return " as " + user
}

// names of the first workloads of a group, as many as are asked for.
func (g *group) names(most int) string { return delta.Names(g.resources(), most) }

// subject of pods that run and differ alike.
func (g *runningGroup) subject() string {
	if len(g.running) == 1 {
		r := g.running[0]
		if r.Owner.Kind == "Pod" {
			return delta.Shown(r.Owner.String())
		}
		return delta.Shown(fmt.Sprintf("%d of %s of %s", len(r.Pods), console.Plural(r.Of, "pod", "pods"), r.Owner))
	}
	owners := make([]manifest.Resource, len(g.running))
	pods := true
	for i, r := range g.running {
		owners[i] = r.Owner
		pods = pods && r.Owner.Kind == "Pod"
	}
	if pods {
		return delta.Shown(delta.Subject(owners))
	}
	return delta.Shown(console.Plural(g.pods, "pod", "pods") + " of " + delta.Subject(owners))
}

func (g *runningGroup) lines() []delta.Line {
	r := g.running[0]
	if r.Refused != "" {
		return []delta.Line{{Sign: "+", Name: "refusal", Value: message(r.Refused)}}
	}
	return delta.Lines(r.Fields)
}

// where is file:line for a person.
func where(file string, at int) string {
	if file == "-" {
		file = "stdin"
	}
	if at > 0 {
		file += ":" + strconv.Itoa(at)
	}
	return delta.Shown(file)
}
