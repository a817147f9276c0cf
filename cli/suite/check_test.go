package suite

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"

	"github.com/joshdk/go-junit"
	"pgregory.net/rapid"

	"github.com/podgrace/podgrace/cli/review"
	"github.com/podgrace/podgrace/internal/manifest"
)

func TestPart(t *testing.T) {
	for name, tc := range map[string]struct {
		want, got string
		is        bool
	}{
		"part":                 {"b c", "a b c d", true},
		"not":                  {"b d", "a b c d", false},
		"folded":               {"b\n  c", "a b c", true},
		"got of several lines": {"b c", "a b\n c", true},
		"empty, none":          {"", " ", true},
		"empty, some":          {"", "a", false},
		"some, none":           {"a", "", false},
		"gap":                  {"a ... d", "a b c d", true},
		"gap of nothing":       {"a...b", "ab", true},
		"gap, wrong order":     {"d...a", "a b c d", false},
		"gap, twice the same":  {"a...a", "a b", false},
		"clipped":              {"kubect...", "say kubect...", true},
		"case":                 {"A", "a", false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := part(tc.want, tc.got); got != tc.is {
				t.Errorf("%q in %q: %t", tc.want, tc.got, got)
			}
		})
	}
}

func TestCheckPath(t *testing.T) {
	for path, says := range map[string]string{
		"spec.terminationGracePeriodSeconds":             "",
		"/spec/terminationGracePeriodSeconds":            "",
		"spec.containers[web].resources.requests[cpu]":   "",
		"spec.topologySpreadConstraints[0].maxSkew":      "",
		"spec.containers[0].livenessProbe.httpGet.port":  "", // of a type that decodes itself, and of a member that is inline
		"metadata.annotations[podgrace.dev/a].oom.rank":  "",
		"metadata.creationTimestamp":                     "",
		"kind":                                           "",
		"spec.terminationGracePeriod":                    "a pod has no field spec.terminationGracePeriod",
		"Spec.priority":                                  "a pod has no field Spec",
		"spec.containers[0].imagee":                      "a pod has no field",
		"spec.priority.value":                            "nothing below spec.priority",
		"spec.containers[0].livenessProbe.httpGett.port": "a pod has no field",
	} {
		if err := checkPath(path); says == "" && err != nil || says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
			t.Errorf("%s: %v, want %q", path, err, says)
		}
	}
}

func TestCheck(t *testing.T) {
	pod := json.RawMessage(`{"metadata":{"annotations":{"a":"{\"b\":{\"c\":1}}","d":"{"}},"spec":{"priority":5,"containers":[{"name":"x","image":"i"}]}}`)
	allowed := &review.Result{Decision: review.Allowed, Warnings: []string{"one is", "two is"}, After: pod, Unknown: []string{"Node n"}, Patch: []review.Operation{{Op: "add", Path: "/spec/priority", Value: json.RawMessage(`{"b": 1, "a":2}`)}, {Op: "remove", Path: "/x"}}}
	denied := &review.Result{Decision: review.Denied, Reason: "Unsafe", Message: "it may run", After: pod}
	for name, tc := range map[string]struct {
		then   string
		result *review.Result
		fields string
	}{
		"decision":                     {`{"decision":"Allowed"}`, allowed, ""},
		"other decision":               {`{"decision":"Denied"}`, allowed, "decision"},
		"reason and message":           {`{"reason":"Unsafe","message":"may"}`, denied, ""},
		"reason is whole":              {`{"reason":"Un"}`, denied, "reason"},
		"no reason, no message":        {`{"reason":"","message":""}`, denied, "reason message"},
		"none of both":                 {`{"reason":"","message":""}`, allowed, ""},
		"warnings in any order":        {`{"warnings":["two","one"]}`, allowed, ""},
		"one for both":                 {`{"warnings":["is"]}`, allowed, ""},
		"a warning more":               {`{"warnings":["one"]}`, allowed, "warnings"},
		"a warning less":               {`{"warnings":["one","two","three"]}`, allowed, "warnings"},
		"no warnings":                  {`{"warnings":[]}`, allowed, "warnings"},
		"no warnings there":            {`{"warnings":[]}`, denied, ""},
		"unknown":                      {`{"unknown":["Node"]}`, allowed, ""},
		"all known":                    {`{"unknown":[]}`, allowed, "unknown"},
		"patch":                        {`{"patch":[{"op":"add","path":"/spec/priority","value":{"a":2,"b":1}},{"op":"remove","path":"/x"}]}`, allowed, ""},
		"patch, order":                 {`{"patch":[{"op":"remove","path":"/x"},{"op":"add","path":"/spec/priority","value":{"a":2,"b":1}}]}`, allowed, "patch"},
		"patch, a value of null":       {`{"patch":[{"op":"add","path":"/spec/priority","value":{"a":2,"b":1}},{"op":"remove","path":"/x","value":null}]}`, allowed, "patch"},
		"no patch":                     {`{"patch":[]}`, allowed, "patch"},
		"field":                        {`{"fields":{"spec.priority":5,"spec.containers[x].image":"i","/spec/containers/0/image":"i","spec.nodeName":null,"spec.containers[y]":null,"spec.containers[3]":null}}`, allowed, ""},
		"field of another type":        {`{"fields":{"spec.priority":"5"}}`, allowed, "fields"},
		"field that is absent":         {`{"fields":{"spec.nodeName":""}}`, allowed, "fields"},
		"field that is there":          {`{"fields":{"spec.priority":null}}`, allowed, "fields"},
		"within a text":                {`{"fields":{"metadata.annotations[a].b.c":1,"metadata.annotations[a]":{"b":{"c":1}},"metadata.annotations[d].x":null}}`, allowed, ""},
		"a text as it is":              {`{"fields":{"metadata.annotations[a]":"{\"b\":{\"c\":1}}"}}`, allowed, ""},
		"within a text, other":         {`{"fields":{"metadata.annotations[a]":{"b":{"c":2}}}}`, allowed, "fields"},
		"a refused pod has no fields":  {`{"fields":{"spec.priority":5}}`, denied, "fields"},
		"nor is one absent without it": {`{"fields":{"spec.nodeName":null}}`, denied, "fields"},
	} {
		t.Run(name, func(t *testing.T) {
			var then Then
			r := &decoder{document: &manifest.Document{}}
			if r.strict(nil, []byte(tc.then), &then); len(r.errors) > 0 {
				t.Fatal(r.errors)
			}
			found := then.check(tc.result)
			var fields []string
			for _, d := range found {
				fields = append(fields, d.Field)
				if d.Want == nil || d.Got == nil {
					t.Errorf("%+v: what was wanted, or what came, is not said", d)
				}
			}
			if got := strings.Join(fields, " "); got != tc.fields {
				t.Errorf("got %q, want %q: %+v", got, tc.fields, found)
			}
		})
	}
}

// Whatever stands in a suite, what is printed steers no terminal, and XML and JSON stay such.
func TestHostileReports(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		hostile := func(name string) string {
			return rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"\x1b[31m", "]]>", "::error::x", "##[x]", "\u202e", "a\nb", "\xff", "<a>&"})).Draw(t, name)
		}
		r := newReport()
		r.Cases = []*Outcome{
			{Suite: hostile("suite"), Case: hostile("case"), Source: manifest.Source{File: hostile("file"), Line: 1}, Status: Failed, Differences: []Difference{{Field: fieldFields, Path: hostile("path"), Want: []string{hostile("want")}, Got: []string{hostile("got")}}},
				Result: &review.Result{Decision: review.Denied, Reason: hostile("reason"), Message: hostile("message"), Warnings: []string{hostile("warning")}, Unknown: []string{hostile("unknown")}}},
			{Suite: "s", Case: "c", Status: Errored, Error: hostile("error")},
		}
		r.AddErrors(&manifest.Error{File: hostile("error's file"), Message: hostile("error's message")})
		for _, format := range Formats() {
			out := printed(t, format, r, Options{Verbose: true})
			for i, c := range out {
				if c != '\n' && !unicode.IsPrint(c) && (c != '\uFFFD' || format == "json") {
					t.Fatalf("%s: %q at %d:\n%q", format, c, i, out)
				}
			}
			for line := range strings.Lines(out) {
				if strings.HasPrefix(strings.TrimSpace(line), "::") || strings.Contains(line, "##[") {
					t.Fatalf("%s has a command: %q", format, line)
				}
			}
		}
		if suites, err := junit.Ingest([]byte(printed(t, "junit", r, Options{}))); err != nil || len(suites) == 0 {
			t.Fatal(suites, err)
		}
		var read map[string]any
		if err := json.Unmarshal([]byte(printed(t, "json", r, Options{})), &read); err != nil {
			t.Fatal(err)
		}
	})
}

// Whatever is read: a suite, or what is wrong with it and where; never a panic.
func FuzzParse(f *testing.F) {
	f.Add(head + "cases:\n- name: a\n  when: {object: Pod a/b}\n  then: {decision: Allowed, fields: {spec.priority: 1}}\n")
	f.Add(head + "objects: [{kind: 5}]\ncases: [{when: {manifest: null}, state: [[]], then: []}]\n")
	f.Add(head + "policies: &a [*a]\ncases: &b\n- *b\n")
	f.Add(head + "cases:\n- {name: a, when: {object: {kind: x}}, then: {patch: [{op: 5}], fields: {'a[': 1}}}\n---\n" + head)
	f.Add("{\"apiVersion\":\"podgrace.dev/v1alpha1\",\"kind\":\"PolicySuite\",\"cases\":[{\"name\":\"a\",\"when\":{},\"then\":{}}]}")
	f.Fuzz(func(t *testing.T, text string) {
		suites, wrong := parse("suite.yaml", []byte(text))
		if len(suites) == 0 && len(wrong) == 0 {
			t.Fatal("neither a suite nor an error")
		}
		last := strings.Count(text, "\n") + 1
		for _, e := range wrong {
			if e.File != "suite.yaml" || e.Line > last || e.Message == "" {
				t.Errorf("%+v, of %d lines", e, last)
			}
		}
		for _, s := range suites {
			for _, c := range s.Cases {
				if c.Name == "" || (c.When.Object == nil) == (c.When.Manifest == nil && c.When.Review == "") || c.Source.Line < 1 {
					t.Errorf("%+v", c)
				}
			}
		}
	})
}
