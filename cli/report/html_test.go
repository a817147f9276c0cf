package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/podgrace/podgrace/cli/review"
	"github.com/podgrace/podgrace/cli/webpage"
	"github.com/podgrace/podgrace/internal/manifest"
)

// render is the page, and the data that its script reads.
func render(t interface{ Fatal(...any) }, r *review.Report) (string, pageData) {
	var out bytes.Buffer
	if err := writeHTML(&out, r, Options{}); err != nil {
		t.Fatal(err)
	}
	match := regexp.MustCompile(`(?s)<script type="application/json" id="data">(.*?)</script>`).FindStringSubmatch(out.String())
	if match == nil {
		t.Fatal("the page has no data")
	}
	var data pageData
	if err := json.Unmarshal([]byte(match[1]), &data); err != nil {
		t.Fatal(err)
	}
	return out.String(), data
}

func TestHTMLRows(t *testing.T) {
	results := []review.Result{
		{Resource: manifest.Resource{Kind: "Pod", Name: "clean"}, Decision: review.Allowed},
		{
			Resource: manifest.Resource{Kind: "Pod", Name: "changed"}, Decision: review.Allowed, Operation: "CREATE", Source: manifest.Source{File: "-", Line: 3},
			Patch:   []review.Operation{{Op: "add", Path: "/spec/priority", Value: json.RawMessage("7")}},
			Changes: []review.Change{{Name: "priority", Value: "7", Why: "PodPolicy p: why (not)"}, {Name: "long", Value: strings.Repeat("x", 100), Why: "PodPolicy p"}},
			Before:  json.RawMessage(`{"spec":{"priority":0}}`), After: json.RawMessage(`{"spec":{"priority":7}}`),
		},
		{Resource: manifest.Resource{Kind: "Pod", Name: "denied"}, Decision: review.Denied, Reason: "Unsafe", Message: "no\nnever", Warnings: []string{"w"}},
		{Resource: manifest.Resource{Kind: "Pod"}, Decision: review.Allowed, Unknown: []string{"Node n"}},
	}
	page, data := render(t, review.NewReport(2, 1, results, []*manifest.Error{{File: "-", Line: 2, Message: "bad"}}))
	text := func(places ...int) string {
		var all []string
		for _, i := range places {
			all = append(all, data.Text[i])
		}
		return strings.Join(all, "|")
	}
	var got []string
	for _, r := range data.Results {
		line := fmt.Sprintf("%d %05b %s %s:%d %s %s [%s]", r.ID, r.In, r.Name, text(r.File), r.Line, text(r.Reason), text(r.Brief), text(r.Diff...))
		for _, why := range r.Why {
			line += " " + text(why[:]...)
		}
		got = append(got, line)
	}
	want := []string{
		"3 00011 denied :0 Unsafe no\nnever []",
		"4 00100 (unnamed) :0  not known: Node n []",
		"2 01000 changed stdin:3  sets long, priority [ spec:|-  priority: 0|+  priority: 7] long||PodPolicy p priority|7|PodPolicy p: why (not)",
		"1 10000 clean :0   []",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, part := range []string{
		"<title>1 of 4 would be denied · Podgrace review</title>", "4 results reviewed from 2 files; 1 object that make no pods",
		`data-decision="denied" aria-pressed="false"><b>1</b>`, "<code>stdin:2</code> <span>bad</span>",
	} {
		if !strings.Contains(page, part) {
			t.Errorf("the page lacks %q", part)
		}
	}
}

// Whatever the texts are, they stay in their place: the page has the same tags as without them, no character that acts, and the
// script gets all of them back.
func TestHTMLHostile(t *testing.T) {
	tags := func(page string) int { return strings.Count(page, "<") }
	report := func(s string) *review.Report {
		r := review.NewReport(1, 0, []review.Result{{
			Resource: manifest.Resource{APIVersion: s, Kind: s, Namespace: s, Name: s}, Source: manifest.Source{File: s}, Operation: s, User: s, Via: s,
			Decision: review.Denied, Reason: s, Message: s, Warnings: []string{s}, Pending: &review.Pending{Reason: s, Message: s}, Policies: []string{s}, Unknown: []string{s},
			Why: map[string]string{s: s}, Patch: []review.Operation{{Op: s, Path: s, Value: json.RawMessage(s)}}, Changes: []review.Change{{Path: s, Name: s, Value: s, Why: s}}, Before: json.RawMessage(s), After: json.RawMessage(s),
		}}, []*manifest.Error{{File: s, Message: s}})
		r.Remarks = []review.Remark{{Policy: s, Message: s}}
		r.Repeated = []review.Repeated{{Resource: r.Results[0].Resource, Sources: []manifest.Source{{File: s}}}}
		return r
	}
	plain, _ := render(t, report("x"))
	text := rapid.OneOf(rapid.String(), rapid.StringOf(rapid.RuneFrom([]rune("<>/!-scriptSCRIPT\"'&`{}$\\=\x00\x1b\u2028\u2029\u202e\n\r\t;\u009b"))),
		rapid.SampledFrom([]string{"</script><script>", "<!--<script>", "{{.}}", "]]>", "\xff\xfe", "\x1b[31m"}))
	rapid.Check(t, func(t *rapid.T) {
		s := text.Draw(t, "text")
		page, data := render(t, report(s))
		if tags(page) != tags(plain) {
			t.Fatalf("%d tags, want %d", tags(page), tags(plain))
		}
		if i := strings.IndexFunc(page, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }); i >= 0 {
			t.Fatalf("the page has %q", page[i:i+4])
		}
		if got, want := data.Text[data.Results[0].Message], webpage.Legible(s); got != want {
			t.Fatalf("message %q, want %q", got, want)
		}
	})
}

// A page is passed on, and read by somebody who saw neither the terminal nor the day.
func TestHTMLSaysWhenAndWhatBesides(t *testing.T) {
	made := time.Date(2026, 5, 1, 14, 30, 0, 0, time.FixedZone("", 2*60*60))
	page := printed(t, FormatHTML, remarked("no <b>"), Options{Made: made, Version: "v1.2.3"})
	for _, want := range []string{
		`Made on <time datetime="2026-05-01T12:30:00Z">1 May 2026, 12:30 UTC</time> by podgrace v1.2.3`, "<li>PodPolicy web, all: it is for none of what was reviewed</li>",
		"<li>PodPolicy odd: no &lt;b&gt;</li>", "Deployment shop/calm (a.yaml:1, no &lt;b&gt;:3, stdin)",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if plain := printed(t, FormatHTML, samples()["clean"], Options{}); strings.Contains(plain, "<time") || strings.Contains(plain, "Remarks</h2>") {
		t.Error("a page without a date or remarks has some")
	}
}

// The page of many results that are alike is hardly larger than its rows.
func TestHTMLSize(t *testing.T) {
	size := func(n int) int {
		results := make([]review.Result, 0, n)
		for i := range n {
			results = append(results, review.Result{
				Resource: manifest.Resource{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "shop", Name: fmt.Sprintf("web-%05d", i)},
				Source:   manifest.Source{File: "shop.yaml", Line: i + 1}, Decision: review.Denied, Message: strings.Repeat("no ", 100),
			})
		}
		page, _ := render(t, review.NewReport(1, 0, results, nil))
		return len(page)
	}
	if each := (size(2000) - size(1000)) / 1000; each > 200 {
		t.Errorf("%d bytes a result", each)
	}
}

func TestHTMLError(t *testing.T) {
	reader, writer := io.Pipe()
	reader.Close()
	if err := writeHTML(writer, review.NewReport(0, 0, nil, nil), Options{}); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("error %v", err)
	}
}
