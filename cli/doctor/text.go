package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/podgrace/podgrace/internal/console"
)

// margin is the width of the labels, in columns.
const margin = 12

// Text is the report for a person.
func (r *Report) Text(style console.Style) string {
	p := console.New(style, margin)
	p.Marked(console.Bold, "Cluster", r.Cluster.line())
	for _, k := range r.Cluster.Nodes[:min(len(r.Cluster.Nodes), maxKinds)] {
		p.Row("", k.String())
	}
	if more := len(r.Cluster.Nodes) - maxKinds; more > 0 {
		p.Row("", fmt.Sprintf("and %s", console.Plural(more, "more kind of nodes", "more kinds of nodes")))
	}
	p.Marked(console.Bold, "Podgrace", r.Cluster.podgrace())
	for _, f := range r.Findings {
		p.Gap()
		p.Marked(colorOf(f.Severity), title(string(f.Severity)), f.About+" ("+f.Check+")")
		p.Row("", f.Message)
		if f.Remedy != "" {
			p.Row("", "Do: "+f.Remedy)
		}
		if len(f.Actors) > 0 {
			copied(p, "allowedActors: ["+strings.Join(quoted(f.Actors), ", ")+"]")
		}
		for _, flag := range f.flags() {
			copied(p, flag)
		}
		for _, c := range f.Commands {
			copied(p, c)
		}
	}
	if len(r.NotLooked) > 0 {
		p.Gap()
		p.Columns(console.Purple, "Not looked", r.unlooked())
	}
	if len(r.NotAsked) > 0 {
		p.Gap()
		p.Row("Not asked", strings.Join(r.NotAsked, ", ")+": --kubelet-config looks, and takes the right nodes/proxy, by which one can run commands in every pod")
	}
	if flags := r.flags(); len(flags) > 0 && !r.Cluster.Installed {
		p.Gap()
		p.Row("Install", "with all of these values, where you agree:")
		copied(p, strings.Join(flags, " "))
	}
	p.Gap()
	p.Marked(r.color(), "Result", r.result())
	return p.String()
}

// copied writes what is there to be copied: it is not wrapped, and a name in it that steers a terminal is harmless.
func copied(p *console.Page, text string) {
	p.Command(strings.Repeat(" ", margin)+console.Visible(text), "")
}

// maxKinds is how many kinds of nodes are shown.
const maxKinds = 5

func (c Cluster) line() string {
	line := "Kubernetes " + cmp.Or(c.Version, "of an unknown version")
	if c.Distribution != "" {
		line += fmt.Sprintf(", %s (a guess, by %s)", c.Distribution, c.Because)
	}
	nodes := 0
	for _, k := range c.Nodes {
		nodes += k.Count
	}
	if nodes == 0 {
		return line
	}
	return line + ", " + console.Plural(nodes, "node", "nodes")
}

func (c Cluster) podgrace() string {
	if !c.Installed {
		return "not installed; looked for in the namespace " + c.Namespace
	}
	if c.Image == "" {
		return "in the namespace " + c.Namespace
	}
	return "in the namespace " + c.Namespace + ", image " + c.Image
}

// flags are the values of all findings but notes, each once.
func (r *Report) flags() (flags []string) {
	for _, f := range r.Findings {
		for _, flag := range f.flags() {
			if f.Severity != Note && !slices.Contains(flags, flag) {
				flags = append(flags, flag)
			}
		}
	}
	return flags
}

// quoted are names as YAML has them: of somebody else's, none may end its text and begin another.
func quoted(names []string) []string {
	all := make([]string, len(names))
	for i, name := range names {
		all[i] = strconv.Quote(name)
	}
	return all
}

// unlooked are rows, one for each source that could not be read and all checks that wanted it.
func (r *Report) unlooked() (rows [][]string) {
	place := map[Source]int{}
	for _, n := range r.NotLooked {
		i, is := place[n.Source]
		if !is {
			i = len(rows)
			place[n.Source] = i
			rows = append(rows, []string{string(n.Source), n.Why + ". So nothing is known of: " + n.Check})
			continue
		}
		rows[i][1] += ", " + n.Check
	}
	return rows
}

func (r *Report) result() string {
	var parts []string
	for _, part := range []struct {
		n         int
		one, many string
	}{{r.Summary.Errors, "error", "errors"}, {r.Summary.Warnings, "warning", "warnings"}, {r.Summary.Notes, "note", "notes"}} {
		if part.n > 0 {
			parts = append(parts, console.Plural(part.n, part.one, part.many))
		}
	}
	if n := r.Summary.NotLooked; n > 0 {
		parts = append(parts, console.Plural(n, "check", "checks")+" could not look")
	}
	return strings.Join(append(parts, console.Plural(r.Summary.Fine, "check", "checks")+" found nothing"), ", ")
}

func (r *Report) color() string {
	switch {
	case r.Summary.Errors > 0:
		return console.Red
	case r.Summary.Warnings > 0:
		return console.Yellow
	case r.Summary.NotLooked > 0:
		return console.Purple
	}
	return console.Green
}

func colorOf(s Severity) string {
	return map[Severity]string{Error: console.Red, Warning: console.Yellow, Note: console.Cyan}[s]
}

func title(word string) string { return strings.ToUpper(word[:1]) + word[1:] }

// Severity of a finding.
type Severity string

// The severities, the worst first.
const (
	// Error: something does not work, or will not.
	Error Severity = "error"
	// Warning: it works, but not as meant, or not when it matters.
	Warning Severity = "warning"
	// Note is worth knowing, or is to be set when installing.
	Note Severity = "note"
)

// Severities are all of them, the worst first.
func Severities() []Severity { return []Severity{Error, Warning, Note} }

// Finding is what a check has found.
type Finding struct {
	// Check is the check's id, which stays the same.
	Check    string   `json:"check"`
	Severity Severity `json:"severity"`
	// About is the object or the part of the cluster.
	About string `json:"about"`
	// Message says what would not work, and why.
	Message string `json:"message"`
	// Remedy says what to do; empty: nothing, or what Values and Commands say.
	Remedy string `json:"remedy,omitempty"`
	// Values of the chart, as --set takes them.
	Values []string `json:"values,omitempty"`
	// StringValues are values of the chart that are texts, though they look like something else, as --set-string takes them.
	StringValues []string `json:"stringValues,omitempty"`
	// Actors are users to be named in allowedActors of policies.
	Actors []string `json:"actors,omitempty"`
	// Commands to type.
	Commands []string `json:"commands,omitempty"`
}

// flags are Values and StringValues as helm takes them, for a shell.
func (f Finding) flags() (flags []string) {
	for _, v := range f.Values {
		flags = append(flags, "--set "+v)
	}
	for _, v := range f.StringValues {
		flags = append(flags, "--set-string '"+v+"'") // a backslash keeps a dot
	}
	return flags
}

// NotLooked is a check that could not look.
type NotLooked struct {
	Check string `json:"check"`
	// Source that could not be read, and why.
	Source Source `json:"source"`
	Why    string `json:"why"`
}

// sorted orders findings: the most severe first, those of a severity as their checks ran, and those of a check by what they are about.
func sorted(all []Finding) []Finding {
	slices.SortStableFunc(all, func(a, b Finding) int {
		return cmp.Or(slices.Index(Severities(), a.Severity)-slices.Index(Severities(), b.Severity), order(a.Check)-order(b.Check), strings.Compare(a.About, b.About))
	})
	return all
}

// remark is a finding that may be true of several objects.
type remark struct {
	severity        Severity
	message, remedy string
}

// sortedRemarks are the keys, in the order of their messages.
func sortedRemarks(said map[remark][]string) []remark {
	return slices.SortedFunc(maps.Keys(said), func(a, b remark) int { return strings.Compare(a.message, b.message) })
}
