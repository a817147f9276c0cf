package report

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/podgrace/podgrace/cli/review"
	"github.com/podgrace/podgrace/cli/review/reviewtest"
	"github.com/podgrace/podgrace/internal/console"
)

// Prose keeps to the terminal's width where its words are short enough, and loses none of them.
func TestTextKeepsToTheWidth(t *testing.T) {
	words := rapid.SliceOfN(rapid.StringMatching(`[a-zé]{1,12}`), 1, 60)
	rapid.Check(t, func(rt *rapid.T) {
		r := calm()
		message := words.Draw(rt, "message")
		r.Decision, r.Message, r.Warnings = review.Denied, strings.Join(message, " "), []string{strings.Join(words.Draw(rt, "warning"), " ")}
		width := rapid.IntRange(console.Narrowest, 300).Draw(rt, "width")
		out := printed(t, FormatText, review.NewReport(1, 0, []review.Result{r}, nil), Options{Details: rapid.Bool().Draw(rt, "details"), Style: console.Style{Width: width}})
		for line := range strings.Lines(out) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > min(width, 120) && strings.HasPrefix(line, " ") {
				rt.Fatalf("%d columns of %d: %s", n, width, line)
			}
		}
		if all := strings.Join(strings.Fields(out), " "); !strings.Contains(all, strings.Join(message, " ")) {
			rt.Fatalf("words are lost:\n%s", out)
		}
	})
}

// The summary and what is most urgent stand together, at the end.
func TestTextOrder(t *testing.T) {
	var order []string
	for line := range strings.Lines(printed(t, FormatText, samples()["mixed"], Options{Details: true, All: true})) {
		if line[0] != ' ' && line[0] != '\n' {
			order = append(order, strings.Fields(line)[0])
		}
	}
	want := []string{"OK", "CHANGED", "UNKNOWN", "WARNED", "DENIED", "DENIED", "ERROR", "ERROR", "Reviewed", "2", "7", "2"}
	if diff := cmp.Diff(want, order); diff != "" {
		t.Error(diff)
	}
}

// What is printed as JSON is the report, and lists are lists when they are empty.
func TestJSONIsTheReport(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := reviewtest.HostileReport().Draw(rt, "report")
		var got, want review.Report
		decode(rt, printed(t, FormatJSON, r, Options{}), &got)
		raw, err := json.Marshal(r)
		if err != nil {
			rt.Fatal(err)
		}
		decode(rt, string(raw), &want)
		if diff := cmp.Diff(want, got, orEmptyLists, meaning); diff != "" {
			rt.Fatal(diff)
		}
		for _, result := range got.Results {
			if result.Warnings == nil || result.Patch == nil || result.Policies == nil {
				rt.Fatal("an empty list is null")
			}
		}
	})
	out := printed(t, FormatJSON, &review.Report{Results: []review.Result{{}}}, Options{})
	for _, list := range []string{`"warnings": []`, `"patch": []`, `"policies": []`} {
		if !strings.Contains(out, list) {
			t.Errorf("lacks %s:\n%s", list, out)
		}
	}
}

// An absent list is an empty one.
var orEmptyLists = cmp.FilterPath(func(p cmp.Path) bool { return p.Last().Type() != reflect.TypeFor[json.RawMessage]() }, cmpopts.EquateEmpty())

// meaning compares JSON but for its blanks.
var meaning = cmp.Transformer("meaning", func(raw json.RawMessage) (value any) {
	if json.Unmarshal(raw, &value) != nil {
		return string(raw)
	}
	return value
})

func decode(t *rapid.T, text string, into any) {
	if err := json.Unmarshal([]byte(text), into); err != nil {
		t.Fatalf("%v:\n%s", err, text)
	}
}
