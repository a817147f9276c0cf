package explain

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/podgrace/podgrace/guard"
	"github.com/podgrace/podgrace/internal/console"
)

// Style is how a text is laid out.
type Style = console.Style

const (
	// margin is the width of the labels' column.
	margin = 11
	// maxContainers and maxSentences are how many are printed; JSON has all.
	maxContainers = 3
	maxSentences  = 6
)

// Text prints it for a person: one screen for a usual pod.
func Text(w io.Writer, e *Explanation, style Style) error {
	t := &text{Page: console.New(style, margin), e: e}
	for _, section := range []func(){t.pod, t.ended, t.policies, t.priority, t.spread, t.scheduling, t.grace, t.qos, t.cgroups, t.eviction, t.removal, t.rest} {
		section()
	}
	if _, err := io.WriteString(w, t.String()); err != nil {
		return fmt.Errorf("print the explanation: %w", err)
	}
	return nil
}

type text struct {
	*console.Page
	e *Explanation
}

// section writes a bold label and sentences.
func (t *text) section(label string, sentences ...string) {
	t.Marked(console.Bold, label, sentences...)
}

// sentence makes sentences of phrases.
func sentence(phrases ...string) string {
	var said []string
	for _, phrase := range phrases {
		phrase = strings.TrimSuffix(phrase, ".")
		if phrase == "" {
			continue
		}
		if first := phrase[0]; first >= 'a' && first <= 'z' {
			phrase = strings.ToUpper(phrase[:1]) + phrase[1:]
		}
		said = append(said, phrase+".")
	}
	return strings.Join(said, " ")
}

func (t *text) pod() {
	s := t.e.Pod
	parts := []string{s.Namespace + "/" + s.Name}
	if s.Controller != "" {
		parts = append(parts, "of "+s.Controller)
	}
	switch {
	case !s.Created:
		parts = append(parts, "not created yet: as it would be stored")
	case s.Node == "":
		parts = append(parts, or(s.Phase, "phase unknown"), "no node")
	default:
		parts = append(parts, or(s.Phase, "phase unknown"), "on "+s.Node)
	}
	if s.Deleting {
		parts = append(parts, "being deleted")
	}
	t.section("Pod", strings.Join(parts, ", "))
}

func (t *text) policies() {
	if len(t.e.Policies) == 0 {
		none := "none"
		if t.e.PoliciesUnknown {
			none = "not known"
		}
		t.section("Policies", none)
		return
	}
	var rows [][]string
	others := 0
	for _, p := range t.e.Policies {
		says := p.Does
		switch p.Matches {
		case MatchNo:
			others++
			if others > maxSentences {
				continue
			}
			says = "not for it: " + p.Why
		case MatchLimits:
			says = p.Why
		case MatchYes:
		}
		rows = append(rows, []string{p.Name, fmt.Sprintf("weight %d", p.Weight), or(says, "says nothing")})
	}
	if more := others - maxSentences; more > 0 {
		rows = append(rows, []string{fmt.Sprintf("and %d more that are not for it", more)})
	}
	t.Columns(console.Bold, "Policies", rows)
}

func (t *text) priority() {
	p := t.e.Priority
	head := fmt.Sprintf("%s, %d", or(p.ClassName, "no class"), p.Value)
	if p.PreemptionPolicy != "" {
		head += ", " + string(p.PreemptionPolicy)
	}
	t.Gap()
	t.section("Priority", head, sentence(append([]string{p.Why}, p.Limits...)...), sentence(p.Means))
}

func (t *text) spread() {
	s := t.e.Spread
	t.Gap()
	if len(s.Constraints) == 0 {
		t.section("Spread", sentence(s.Why), sentence(s.Means))
		return
	}
	all := counted(s.Constraints[0])
	same := !slices.ContainsFunc(s.Constraints, func(c Constraint) bool { return counted(c) != all })
	var rows [][]string
	for _, c := range s.Constraints {
		row := []string{c.TopologyKey, fmt.Sprintf("maxSkew %d", c.MaxSkew), c.WhenUnsatisfiable}
		if c.MinDomains != nil {
			row[2] += fmt.Sprintf(", minDomains %d", *c.MinDomains)
		}
		if !same {
			row = append(row, counted(c))
		}
		rows = append(rows, row)
	}
	t.Columns(console.Bold, "Spread", rows)
	if same {
		if s.Selector != "" {
			all += "; " + s.Selector
		}
		t.Row("", sentence(all))
	}
	t.Row("", sentence(s.Why))
}

// counted says which pods a constraint counts.
func counted(c Constraint) string {
	text := "counts " + c.LabelSelector
	if len(c.MatchLabelKeys) > 0 {
		text += ", each " + strings.Join(c.MatchLabelKeys, ", ") + " by itself"
	}
	return text
}

func (t *text) qos() {
	q := t.e.QoS
	t.Gap()
	t.section("QoS", string(q.Class)+": "+strings.Join(q.Why, "; "), sentence(q.Means))
	c := t.e.Contract
	says := or(strings.Join(c.Fields, ", "), "none")
	if c.Origin == OriginUnknown && len(c.Fields) == 0 {
		says = "not readable"
	}
	t.section("Contract", says+": "+c.Why)
	if c.Remove != "" {
		t.Command(strings.Repeat(" ", margin)+console.Visible(c.Remove), "")
	}
}

func (t *text) eviction() {
	v := t.e.Eviction
	t.Gap()
	head := fmt.Sprintf("priority %d, request %s, eviction order %d", v.Priority, v.Request, v.Order)
	switch {
	case v.Exempt != "":
		t.section("Eviction", sentence(v.Means...))
		return
	case v.Place > 0:
		head = fmt.Sprintf("number %d of %d for want of memory: %s", v.Place, v.Of, head)
	}
	t.section("Eviction", head, sentence(v.Means...))
}

func (t *text) removal() {
	r := t.e.Removal
	t.Gap()
	why := "not protected"
	if r.Protected != "" {
		why = "protected: " + r.Protected
	}
	if len(r.Policies) > 0 {
		why += " (PodPolicy " + strings.Join(r.Policies, ", ") + ")"
	} else if !t.e.PoliciesUnknown {
		why += "; no policy guards its namespace"
	}
	t.section("Removal", why)
	for _, ungated := range r.Ungated {
		t.Row("", sentence(ungated))
	}
	if r.None != "" {
		t.Row("", sentence(r.None))
		return
	}
	t.Row("", "For "+or(r.User, "nobody in particular")+" now, as far as the guard is asked:")
	var rows [][]string
	message := ""
	for _, row := range []struct {
		what    string
		verdict *Verdict
	}{{"delete --force", r.ForceDelete}, {"delete", r.Delete}, {"evict, drain", r.Eviction}} {
		switch v := row.verdict; {
		case v == nil:
		case v.Message == message:
			rows = append(rows, []string{row.what, said[v.Decision], "as above"})
		default:
			rows = append(rows, []string{row.what, said[v.Decision], v.Message})
			message = v.Message
		}
	}
	t.Columns("", "", rows)
}

var said = map[string]string{string(guard.Allow): "allowed", string(guard.Warn): "WARNED", string(guard.Deny): "REFUSED"}

// rest is what a person must not miss, last.
func (t *text) rest() {
	for _, part := range []struct {
		color, label string
		sentences    []string
	}{{console.Red, "Refused", t.e.Refused}, {console.Yellow, "Today", t.e.Today}, {console.Red, "Warnings", t.e.Warnings}} {
		if len(part.sentences) > 0 {
			t.Gap()
			t.bullets(part.color, part.label, part.sentences)
		}
	}
	if len(t.e.Unknown) > 0 {
		t.Gap()
		t.Marked(console.Yellow, "Unknown", sentence(t.e.Unknown...))
	}
}

func (t *text) bullets(color, label string, sentences []string) {
	for i, s := range sentences {
		if i == maxSentences {
			t.Row("", fmt.Sprintf("and %d more", len(sentences)-i))
			return
		}
		t.Marked(color, label, s)
		label = ""
	}
}

func (t *text) cgroups() {
	c := t.e.Cgroups
	t.Gap()
	if c.None != "" {
		t.section("Cgroups", sentence(append([]string{c.None}, c.Notes...)...))
		return
	}
	t.section("Cgroups", fmt.Sprintf("v%d, %s driver: %s", c.Version, c.Driver, or(c.Path, "path not known")))
	rows, more := cgroupRows(c.Files)
	if more > 0 {
		rows = append(rows, []string{fmt.Sprintf("and %d more containers", more)})
	}
	t.Columns("", "", rows)
	t.bullets(console.Yellow, "", c.Notes)
}

// cgroupRows have the files of one cgroup that one writer writes; more is how many containers are left out.
func cgroupRows(files []File) (rows [][]string, more int) {
	at, containers, last := map[[2]string]int{}, 0, ""
	for _, f := range files {
		if minor(f) {
			continue
		}
		whose := or(f.Container, "(pod)")
		if whose != last && f.Container != "" {
			containers++
		}
		value := f.Name + " " + or(f.Value, "unknown")
		if f.Note != "" {
			value += " (" + f.Note + ")"
		}
		i, ok := at[[2]string{f.Container, f.Writer}]
		switch {
		case containers > maxContainers:
		case ok:
			rows[i][2] += ", " + value
		default:
			at[[2]string{f.Container, f.Writer}] = len(rows)
			row := []string{whose, "by " + f.Writer, value}
			if whose == last {
				row[0] = ""
			}
			rows = append(rows, row)
		}
		last = whose
	}
	return rows, max(containers-maxContainers, 0)
}

// minor are files that say nothing to a person, unless they do.
func minor(f File) bool {
	switch {
	case f.Name == "memory.oom.group" || strings.HasPrefix(f.Name, "hugetlb."):
		return true
	case f.Name == "cpu.weight" && f.Container != "":
		return true // within the pod
	case f.Name == "memory.min" || f.Name == "memory.low" || f.Name == "memory.swap.max":
		return f.Value == "0"
	case f.Name == "cpu.max":
		return strings.HasPrefix(f.Value, "max ")
	}
	return false
}

func (t *text) grace() {
	g := t.e.Grace
	t.Gap()
	t.section("Grace", fmt.Sprintf("%s: %s", seconds(g.Seconds), g.Why))
	if len(g.Limits) > 0 {
		t.Row("", sentence("limits: "+some(g.Limits)))
	}
	rows := [][]string{{"CONTAINER", "PRESTOP", "SIGTERM AFTER", "LEFT TO STOP", "SIGKILL BY"}}
	for i, s := range g.Containers {
		if i == maxContainers {
			rows = append(rows, []string{fmt.Sprintf("and %d more", len(g.Containers)-i)})
			break
		}
		rows = append(rows, stopRow(s))
	}
	t.Columns("", "", rows)
	last := fmt.Sprintf("The last SIGKILL comes at most %s after its kubelet learns of it", seconds(g.LongestSeconds))
	t.Row("", sentence(append([]string{g.Delete, last}, g.Others...)...))
	if len(g.Pitfalls) > 0 {
		t.bullets(console.Red, "  Pitfall", g.Pitfalls)
	}
}

func stopRow(s Stop) []string {
	name, term, left := s.Container, "not known", "not known"
	if s.TermAfterSeconds != nil {
		term, left = seconds(*s.TermAfterSeconds), seconds(*s.LeftSeconds)
	}
	if s.Turn > 0 {
		name += fmt.Sprintf(" (sidecar %d)", s.Turn)
		if s.TermAfterSeconds != nil {
			term, left = "its turn, "+term+" or more", left+" or less"
		}
	}
	return []string{name, or(s.PreStop, "-"), term, left, seconds(s.KillAfterSeconds)}
}
