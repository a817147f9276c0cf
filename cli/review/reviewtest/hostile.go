// Package reviewtest generates reports for tests of what prints them.
package reviewtest

import (
	"encoding/json"
	"strings"

	"pgregory.net/rapid"

	"github.com/podgrace/podgrace/cli/review"
	"github.com/podgrace/podgrace/internal/manifest"
)

// nasty are texts that mean something to one format or another.
var nasty = []string{
	"\x1b[2J", "\x1b]0;title\a", "\u009b31m", "\r", "\n", "\n::error::x", "  ::add-mask::x", "##vso[task.complete]x", "##[error]x", "##teamcity[x]",
	"</script>", "<img src=x onerror=y>", "]]>", "|", "`", "```", "@all", "#1", "$x$", "%0A", "%", ",", ":", "\x00", "\x7f", "\xff", "\u202e", "\u2028", "\ufeff", "\ufffd",
	"\U000e0041", "~", "/", "\\", "- ", "{", "'", `"`, "https://x", strings.Repeat("long ", 500), strings.Repeat("x", 3000),
}

// HostileText generates one such text.
func HostileText() *rapid.Generator[string] {
	piece := rapid.OneOf(rapid.SampledFrom(nasty), rapid.StringN(0, 8, -1), rapid.StringMatching(`[a-z :]{1,8}`))
	return rapid.Map(rapid.SliceOfN(piece, 0, 4), func(pieces []string) string { return strings.Join(pieces, "") })
}

func hostileResult() *rapid.Generator[review.Result] {
	return rapid.Custom(func(t *rapid.T) review.Result {
		text := func(name string) string { return HostileText().Draw(t, name) }
		list := func(name string) []string { return rapid.SliceOfN(HostileText(), 0, 2).Draw(t, name) }
		r := review.Result{
			Resource:  manifest.Resource{Kind: text("kind"), Namespace: text("namespace"), Name: text("name")},
			Source:    manifest.Source{File: text("file"), Line: rapid.IntRange(0, 99).Draw(t, "line")},
			Operation: rapid.SampledFrom([]string{"CREATE", "DELETE", text("operation")}).Draw(t, "an operation"), User: text("user"),
			Decision: rapid.SampledFrom([]review.Decision{review.Allowed, review.Denied}).Draw(t, "decision"),
			Reason:   text("reason"), Message: text("message"), Warnings: list("warnings"), Unknown: list("unknown"), Policies: list("policies"),
			Why: map[string]string{"enforcement": text("reason")}, Changes: []review.Change{{Path: "/metadata/annotations", Name: text("name"), Value: text("changed"), Why: text("why")}},
		}
		if rapid.Bool().Draw(t, "is pending") {
			r.Pending = &review.Pending{Reason: rapid.SampledFrom([]string{"Unschedulable", text("why pending")}).Draw(t, "pending"), Message: text("pending, in words")}
		}
		key, value := text("key"), text("value")
		raw, err := json.Marshal(map[string]any{key: map[string]any{"a": value}, "b": []string{value}})
		if err != nil {
			t.Fatal(err)
		}
		switch rapid.IntRange(0, 3).Draw(t, "patch") {
		case 1:
			r.Patch = []review.Operation{{Op: "add", Path: "/metadata/annotations", Value: raw}, {Op: "remove", Path: "/spec/" + key}}
		case 2:
			r.Patch = []review.Operation{{Op: "add", Path: key, Value: raw}}
			r.Before, r.After = json.RawMessage(`{"`+"a"+`":[{"name":"x"}]}`), raw
		case 3:
			r.Patch = []review.Operation{{Op: "add", Path: ""}}
		}
		return r
	})
}

// HostileReport generates reports whose every text may mean something to a terminal, a page, a CI system or a format: escapes, commands, markup, what is no UTF-8, what is far too long.
func HostileReport() *rapid.Generator[*review.Report] {
	return rapid.Custom(func(t *rapid.T) *review.Report {
		var errs []*manifest.Error
		for range rapid.IntRange(0, 2).Draw(t, "errors") {
			errs = append(errs, &manifest.Error{File: HostileText().Draw(t, "its file"), Line: rapid.IntRange(0, 9).Draw(t, "its line"), Message: HostileText().Draw(t, "its message")})
		}
		r := review.NewReport(1, 0, rapid.SliceOfN(hostileResult(), 0, 3).Draw(t, "results"), errs)
		for i := range r.Results {
			text := HostileText().Draw(t, "remark")
			r.Remarks = append(r.Remarks, review.Remark{Policy: text, Message: text})
			r.Repeated = append(r.Repeated, review.Repeated{Resource: r.Results[i].Resource, Sources: []manifest.Source{{File: text}, {File: text, Line: 1}}})
		}
		return r
	})
}
