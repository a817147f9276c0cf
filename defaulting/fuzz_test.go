package defaulting_test

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/defaulting"
	"github.com/podgrace/podgrace/graceperiod"
	"github.com/podgrace/podgrace/policy"
	. "github.com/podgrace/podgrace/policy/policytest"
)

// FuzzPreStopSeconds: a command, its words separated by NUL, is taken for a known sleep only if it is one for a reader who
// knows nothing but words: a shell with -c perhaps, exec perhaps, sleep, a number.
func FuzzPreStopSeconds(f *testing.F) {
	for _, command := range []string{
		"sleep\x005", "sleep\x005s", "sleep\x00+5", "sleep\x005m", "/bin/sleep\x00604800", "/usr/bin/sleep\x00604801", "sleep", "sleep\x00", "",
		"sh\x00-c\x00sleep 5", "/bin/sh\x00-c\x00exec /bin/sleep 5s ;\n", "bash\x00-c\x00sleep 5; sleep 5", "sh\x00-c\x00sleep\n5", "sh\x00-c\x00/usrsleep 5",
		"sh\x00-c\x00sleep 5 &", "sh\x00-c\x00sleep 5 # 6", "sh\x00-c\x00exec\nsleep 5", "sh\x00-c\x00sleep 99999999999999999999", "python\x00-c\x00sleep 5", "sh\x00-c\x00sleep ５",
	} {
		f.Add(command)
	}
	const margin100 = 100
	policies := Compile(f, PodPolicy("p", Margin(margin100)))
	f.Fuzz(func(t *testing.T, text string) {
		command := strings.Split(text, "\x00")
		s := scenario{pod: Pod(Grace(1), stopping("a", run(command...)))}
		result := defaulting.For(policies, s.request(), policy.Exempt{}).Apply(s.request(), s.facts)
		unknown := slices.ContainsFunc(texts(result.Warnings), func(w string) bool { return strings.Contains(w, "not known") })
		if len(result.Changes) == 0 {
			if !unknown && !wordsSleep(command, 0) { // a sleep of 0 needs no margin, so nothing is changed
				t.Fatalf("%q: warnings %q", command, result.Warnings)
			}
			return
		}
		took := result.Changes[0].Value.(int64) - margin100
		if unknown {
			// What it takes at least is fuzzed where it is found out, in graceperiod.
			if least := graceperiod.AtLeast(run(command...)); took != least || wordsSleep(command, took) {
				t.Fatalf("%q: at least %d s, taken for %d s", command, least, took)
			}
			return
		}
		if took < 1 || took > 7*24*3600 || !wordsSleep(command, took) {
			t.Fatalf("%q is taken for a sleep of %d s", command, took)
		}
	})
}

// wordsSleep says whether the command is a sleep of n seconds and nothing else.
func wordsSleep(command []string, n int64) bool {
	words := command
	if len(command) == 3 && command[1] == "-c" {
		script := strings.TrimSuffix(strings.Trim(command[2], " \t\n"), ";")
		words = strings.FieldsFunc(script, func(r rune) bool { return r == ' ' || r == '\t' })
		if len(words) > 0 && words[0] == "exec" {
			words = words[1:]
		}
	}
	if len(words) != 2 || words[0] != "sleep" && words[0] != "/bin/sleep" && words[0] != "/usr/bin/sleep" {
		return false
	}
	digits := strings.TrimSuffix(words[1], "s")
	parsed, err := strconv.ParseInt(digits, 10, 64)
	return err == nil && parsed == n && strings.Trim(digits, "0123456789") == ""
}

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
