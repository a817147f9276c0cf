package report

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/podgrace/podgrace/cli/review"
	"github.com/podgrace/podgrace/cli/scheduling"
	"github.com/podgrace/podgrace/internal/console"
	"github.com/podgrace/podgrace/internal/manifest"
)

// maxAnnotations of one kind are shown of a step's; GitHub drops the others without a word.
const maxAnnotations = 10

// kinds of annotations, by the levels that they are made of.
var kinds = []struct{ command, level string }{{"error", levelError}, {"warning", levelWarning}, {"notice", levelNote}}

// becomes says what a finding makes of its subject.
func (f finding) becomes() string {
	switch {
	case f.level == levelError:
		return "is denied"
	case f.rule == scheduling.Unschedulable.Code || f.rule == scheduling.NeedsPreemption.Code:
		return "would be pending"
	case f.level == levelWarning:
		return "is warned about"
	case f.rule == ruleUnknown:
		return "is not fully known"
	}
	return "is changed"
}

// writeGitHub prints workflow commands, which GitHub shows as annotations beside the lines of a pull request, and elsewhere in
// the log: refusals first, then what is wrong in the input, warnings, and changes. Where there are more of a kind than GitHub
// shows, the last one tells of the others.
func writeGitHub(w io.Writer, r *review.Report, o Options) error {
	var out strings.Builder
	for _, kind := range kinds {
		list := ofLevel(r, kind.level)
		if kind.level == levelError {
			for _, e := range r.Errors {
				list = append(list, located{finding{text: console.OneLine(e.Message)}, "", errorSource(e)})
			}
		}
		shown := list
		if len(list) > maxAnnotations {
			shown = list[:maxAnnotations-1]
		}
		for _, l := range shown {
			title := "Podgrace: bad input"
			if l.subject != "" {
				title = "Podgrace: " + l.subject + " " + l.becomes()
			}
			annotation(&out, kind.command, l.at, o, title, l.text)
		}
		if left := list[len(shown):]; len(left) > 0 {
			annotation(&out, kind.command, manifest.Source{}, o, fmt.Sprintf("Podgrace: %d more", len(left)), leftOut(left))
		}
	}
	fmt.Fprintf(&out, "Podgrace: %s\n", oneLineSummary(r))
	_, err := io.WriteString(w, out.String())
	return err
}

// maxNamed is how many are named of those that are left out.
const maxNamed = 20

// leftOut names what has no annotation of its own.
func leftOut(left []located) string {
	lines := []string{fmt.Sprintf("%s, since GitHub shows %d of a kind:", console.Plural(len(left), "more is not shown", "more are not shown"), maxAnnotations)}
	for i, l := range left {
		if i == maxNamed {
			lines = append(lines, fmt.Sprintf("and %d more", len(left)-maxNamed))
			break
		}
		lines = append(lines, where(l.at.File, l.at.Line)+": "+cmp.Or(l.subject, "bad input"))
	}
	return strings.Join(lines, "\n")
}

// annotation is one command (actions/toolkit, docs/commands.md): properties escape what separates them, too.
func annotation(out *strings.Builder, command string, at manifest.Source, o Options, title, message string) {
	properties := []string{"title=" + property(title)}
	if at.File != "" && at.File != "-" {
		place := "file=" + property(console.Visible(relative(at.File, o.Dir)))
		if at.Line > 0 {
			place += ",line=" + strconv.Itoa(at.Line)
		}
		properties = append([]string{place}, properties...)
	}
	fmt.Fprintf(out, "::%s %s::%s\n", command, strings.Join(properties, ","), data(console.Clip(message, maxMessage)))
}

var (
	dataEscapes     = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	propertyEscapes = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
)

func data(text string) string     { return dataEscapes.Replace(text) }
func property(text string) string { return propertyEscapes.Replace(console.Clip(text, maxLine)) }

// oneLineSummary is the counts without colours.
func oneLineSummary(r *review.Report) string {
	s := r.Summary
	text := fmt.Sprintf("%d reviewed in %s: %d denied, %d warned, %d changed", s.Reviewed, whereAll(&s), s.Denied, s.Warned, s.Changed)
	if s.Pending > 0 {
		text += fmt.Sprintf(", %d would be pending", s.Pending)
	}
	if s.Unknown > 0 {
		text += fmt.Sprintf(", %d not fully known", s.Unknown)
	}
	if unknown := notKnown(s); unknown != "" {
		text += "; " + unknown
	}
	if s.NoPolicies {
		text += "; no PodPolicy is known, so that none judged anything"
	}
	if s.NoNodes {
		text += "; no Node is known, so that nothing was previewed"
	}
	if s.Errors > 0 {
		text += ", " + console.Plural(s.Errors, "error in the input", "errors in the input")
	}
	return text
}
