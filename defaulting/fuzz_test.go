package defaulting_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/defaulting"
	"github.com/podgrace/podgrace/policy"
	. "github.com/podgrace/podgrace/policy/policytest"
)

// FuzzEnforcementAnnotation: what Validate accepts means the same to a plain reader, and nothing of it is said twice.
func FuzzEnforcementAnnotation(f *testing.F) {
	for _, text := range []string{
		`{"memory":{"protection":"Low"},"cpu":{"weight":500}}`, ` {"cpu":{"weight":500},"memory":{"protection":"Low"}} `, `{"cpu":{"weight":500}}`, "", "null", "{}", "[", `"`,
		`{"memory":{"protection":"Low"},"cpu":{"weight":500},"cpu":{"weight":500}}`, `{"memory":{"protection":"Low"},"CPU":{"weight":500}}`,
		`{"memory":{"protection":"Low","throttlePercent":null},"cpu":{"weight":500},"io":null}`, `{"memory":{"protection":"\u004cow"},"cpu":{"weight":500}}`,
		`{"memory":{"protection":"Low"},"cpu":{"weight":5e2}}`, `{"memory":{"protection":"Low"},"cpu":{"weight":500},"x":1}`, "\xff", `{"memory":{"protection":"Low"},"cpu":{"weight":500}}{}`,
	} {
		f.Add(text)
	}
	want := CPUWeight(500)
	want.Memory = &v1alpha1.MemoryEnforcement{Protection: v1alpha1.MemoryProtectionLow}
	policies := Compile(f, PodPolicy("p", Node(want)))
	f.Fuzz(func(t *testing.T, text string) {
		s := scenario{pod: Pod(enforced(text))}
		result := defaulting.For(policies, s.request(), policy.Exempt{}).Validate(s.request(), s.facts)
		if len(result.Warnings) > 0 || len(result.Denials) > 1 {
			t.Fatalf("%q: %+v", text, result)
		}
		if len(result.Denials) == 1 {
			if result.Denials[0].Reason.Code != "EnforcementForged" {
				t.Fatalf("%q: %+v", text, result)
			}
			return
		}
		var plain v1alpha1.Enforcement
		if err := json.Unmarshal([]byte(text), &plain); err != nil {
			t.Fatalf("%q was accepted, but is %v", text, err)
		}
		if diff := cmp.Diff(want, plain); diff != "" {
			t.Fatalf("%q was accepted, but says something else: %s", text, diff)
		}
		for _, key := range []string{"cpu", "weight", "memory", "protection"} {
			if strings.Count(strings.ToLower(text), `"`+key+`"`) > 1 {
				t.Fatalf("%q was accepted, but says %s twice", text, key)
			}
		}
	})
}

// FuzzSkipAnnotation: exactly the permitted words between commas decline a default; all else is said in a few warnings that
// the API server does not drop.
func FuzzSkipAnnotation(f *testing.F) {
	for _, text := range []string{"", ",", "priority", " priority ,gracePeriod", "priority;gracePeriod", "Priority", "priority\n", "priority\u00a0", "gracePeriod,gracePeriod", "topologySpread", "a,b,c,d,e,f,g,h", "\x00,\x7f,\xff", "ü"} {
		f.Add(text)
	}
	policies := Compile(f, PodPolicy("p", Gives("high"), DefaultGrace(45), AllowsSkip(v1alpha1.SectionPriority)))
	known := facts(classes(high))
	f.Fuzz(func(t *testing.T, text string) {
		s := scenario{pod: Pod(skipping(text))}
		result := defaulting.For(policies, s.request(), policy.Exempt{}).Apply(s.request(), known)
		var words []string
		for part := range strings.SplitSeq(text, ",") {
			words = append(words, strings.TrimSpace(part))
		}
		given := slices.ContainsFunc(result.Changes, func(c changeT) bool { return c.Path == "/spec/priorityClassName" })
		if given == slices.Contains(words, "priority") {
			t.Fatalf("%q: class given %v", text, given)
		}
		if !slices.ContainsFunc(result.Changes, func(c changeT) bool { return c.Path == "/spec/terminationGracePeriodSeconds" }) {
			t.Fatalf("%q: the default grace period can't be declined here", text)
		}
		if len(result.Denials) > 0 || len(result.Warnings) > 3 {
			t.Fatalf("%q: denials %v, %d warnings", text, result.Denials, len(result.Warnings))
		}
		for _, w := range result.Warnings {
			if problem := unfit(w.Message); problem != "" {
				t.Fatalf("warning %q %s", w, problem)
			}
		}
	})
}
