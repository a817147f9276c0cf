package report

import (
	"fmt"
	"html"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/podgrace/podgrace/cli/delta"
	"github.com/podgrace/podgrace/cli/review"
	"github.com/podgrace/podgrace/cli/review/reviewtest"
	"github.com/podgrace/podgrace/internal/console"
)

// A comment is no longer than GitHub takes, and says what it leaves out.
func TestMarkdownFits(t *testing.T) {
	for _, n := range []int{1, 50, 5000} {
		var results []review.Result
		for i := range n {
			r := frontend()
			r.Resource.Name = fmt.Sprintf("frontend-%d", i)
			results = append(results, r)
		}
		results = append(results, impatient())
		out := printed(t, FormatMarkdown, review.NewReport(1, 0, results, nil), Options{})
		if len(out) > delta.MaxComment {
			t.Errorf("%d results: %d bytes", n, len(out))
		}
		if !strings.Contains(out, "shop/impatient") {
			t.Errorf("%d results: the refusal is left out", n)
		}
		left := regexp.MustCompile(`_([0-9]+) (row|diff)s? left out`).FindAllStringSubmatch(out, -1)
		shown := strings.Count(out, "\n| changed |")
		diffs := strings.Count(out, "<details>")
		if want := (n > 50); (len(left) > 0) != want && n != 50 {
			t.Errorf("%d results: left out %q", n, left)
		}
		for _, l := range left {
			have := map[string]int{"row": shown, "diff": diffs}[l[2]]
			if want := fmt.Sprint(n - have); l[1] != want {
				t.Errorf("%d results: it says that %s of %s are left out, but there are %d", n, l[1], l[2], have)
			}
		}
		if opened := strings.Count(out, "```diff"); opened != diffs || strings.Count(out, "</details>") != diffs {
			t.Errorf("%d results: something is cut in the middle", n)
		}
	}
}

var (
	fenced = regexp.MustCompile("(?s)\n(````*)diff\n.*?\n````*\n")
	ours   = regexp.MustCompile(`</?(code|details|summary|br)>`)
	entity = regexp.MustCompile(`&#[0-9]+;`)
)

// signs of Markdown, of its tables, of HTML, and of GitHub's mentions, issues and formulas.
const signs = "\\`*_{}[]<>|~!&$^@#\""

// Outside of the diffs, no sign that Markdown, HTML or GitHub minds is anybody's but ours; and what is written can be read
// again.
func TestMarkdownIsOurs(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := reviewtest.HostileReport().Draw(rt, "report")
		out := printed(t, FormatMarkdown, r, Options{})
		rest := entity.ReplaceAllString(ours.ReplaceAllString(fenced.ReplaceAllString(out, "\n"), ""), "")
		for i, line := range strings.Split(rest, "\n") {
			switch {
			case i == 0:
				line = strings.TrimPrefix(line, "### ")
			case strings.HasPrefix(line, "|"):
				if strings.Count(line, "|") != 5 {
					rt.Fatalf("a row of other than four cells: %s", line)
				}
				line = strings.NewReplacer("|", "", "**error**", "", "**denied**", "", "**warned**", "").Replace(line)
			}
			if found := strings.IndexAny(line, signs); found >= 0 {
				rt.Fatalf("%q stands in %q", line[found], line)
			}
		}
	})
}

func TestEscape(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		text := console.Visible(reviewtest.HostileText().Draw(rt, "text"))
		if got := html.UnescapeString(delta.Markdown(text)); got != text {
			rt.Fatalf("%q comes back as %q", text, got)
		}
	})
	if got, want := prose("ask @all of alice@example.com about #1"), "ask &#64;\u200ball of alice&#64;example.com about &#35;\u200b1"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
