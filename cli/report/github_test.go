package report

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/podgrace/podgrace/cli/review"
	"github.com/podgrace/podgrace/cli/review/reviewtest"
)

// command is a workflow command as GitHub's runner reads it (actions/runner, ActionCommand.TryParseV2).
type command struct {
	name       string
	properties map[string]string
	message    string
}

var commandLine = regexp.MustCompile(`^::([a-z-]+) ([^:]*)::(.*)$`)

func commands(t *testing.T, out string) []command {
	t.Helper()
	unescapeData := strings.NewReplacer("%0D", "\r", "%0A", "\n", "%25", "%")
	unescapeProperty := strings.NewReplacer("%0D", "\r", "%0A", "\n", "%3A", ":", "%2C", ",", "%25", "%")
	var all []command
	for line := range strings.Lines(out) {
		line = strings.TrimSuffix(line, "\n")
		if !strings.HasPrefix(line, "::") {
			continue
		}
		match := commandLine.FindStringSubmatch(line)
		if match == nil {
			t.Fatalf("no command: %q", line)
		}
		c := command{name: match[1], properties: map[string]string{}, message: unescapeData.Replace(match[3])}
		for pair := range strings.SplitSeq(match[2], ",") {
			key, value, _ := strings.Cut(pair, "=")
			c.properties[key] = unescapeProperty.Replace(value)
		}
		all = append(all, c)
	}
	return all
}

func TestGitHubCommands(t *testing.T) {
	r := impatient()
	r.Source.File, r.Source.Line = "/src/a,b:c%.yaml", 7
	r.Message, r.Warnings = "100%\nis too much: really", nil
	got := commands(t, printed(t, FormatGitHub, review.NewReport(1, 0, []review.Result{r}, nil), Options{Dir: "/src"}))
	want := []command{{
		"error", map[string]string{"file": "a,b:c%.yaml", "line": "7", "title": "Podgrace: Deployment shop/impatient is denied"},
		"100% is too much: really",
	}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(command{})); diff != "" {
		t.Error(diff)
	}
}

// GitHub shows ten of a kind: refusals come before bad input, and what is left out is named in the last.
func TestGitHubLimits(t *testing.T) {
	var results []review.Result
	for i := range 15 {
		calm := calm()
		calm.Warnings = []string{"careful"}
		r := impatient()
		r.Resource.Name, r.Warnings = fmt.Sprintf("impatient-%d", i), nil
		results = append(results, calm, r)
	}
	got := commands(t, printed(t, FormatGitHub, review.NewReport(1, 0, results, samples()["mixed"].Errors), Options{}))
	counts := map[string]int{}
	for _, c := range got {
		counts[c.name]++
	}
	if diff := cmp.Diff(map[string]int{"error": 10, "warning": 10}, counts); diff != "" {
		t.Error(diff)
	}
	last := got[9]
	for _, part := range []string{"8 more are not shown", "Deployment shop/impatient-9\n", "Deployment shop/impatient-14\n", "manifests/broken.yaml:12: bad input"} {
		if !strings.Contains(last.message, part) {
			t.Errorf("the last error lacks %q:\n%s", part, last.message)
		}
	}
}

// Whatever the texts: a command is one line that the runner reads, of which the author of a manifest chooses neither name nor
// properties.
func TestGitHubCommandsAreOurs(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		out := printed(t, FormatGitHub, reviewtest.HostileReport().Draw(rt, "report"), Options{})
		lines := strings.Count(out, "\n")
		all := commands(t, out)
		if len(all) != lines-1 {
			rt.Fatalf("%d lines, %d commands:\n%s", lines, len(all), out)
		}
		for _, c := range all {
			for key := range c.properties {
				if key != "file" && key != "line" && key != "title" {
					rt.Fatalf("property %q:\n%s", key, out)
				}
			}
		}
	})
}
