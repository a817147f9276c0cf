package policyfile_test

import (
	"strings"
	"testing"

	"github.com/podgrace/podgrace/policy/policyfile"
)

const asked = `apiVersion: podgrace.dev/v1alpha1
kind: PolicyException
metadata: {name: batch, namespace: shop}
spec:
  policy: base
  limits: [gracePeriod.minSeconds]
  allPods: true
  reason: the vendor's image stops at once
  owner: team shop
  until: "2026-12-31T00:00:00Z"
`

// What the API server refuses of an exception is refused of a file: above all a time that can't be decoded.
func TestParseExceptions(t *testing.T) {
	for name, tc := range map[string]struct{ from, to, says string }{
		"fine":                    {"", "", ""},
		"a selector":              {"allPods: true", "podSelector: {matchLabels: {app: web}}", ""},
		"no end":                  {"  until: \"2026-12-31T00:00:00Z\"\n", "", "spec.until: Required value"},
		"a day that is not there": {"2026-12-31", "2026-02-30", "spec.until"},
		"a month that is not":     {"2026-12-31", "2026-13-01", "spec.until"},
		"no leap year":            {"2026-12-31", "2026-02-29", "there is no such day"},
		"another time zone":       {"00Z", "00+02:00", "spec.until"},
		"a fraction":              {"00Z", "00.5Z", "spec.until"},
		"a leap second":           {"00:00:00Z", "23:59:60Z", "spec.until"},
		"midnight at the end":     {"T00:00:00Z", "T24:00:00Z", "spec.until"},
		"a date of YAML":          {`"2026-12-31T00:00:00Z"`, "2026-12-31", "spec.until"},
		"a time of YAML":          {`"2026-12-31T00:00:00Z"`, "2026-12-31T00:00:00Z", ""},
		"small letters":           {"T00:00:00Z", "t00:00:00z", "spec.until"},
		"no reason":               {"the vendor's image stops at once", `"  "`, "spec.reason"},
		"no owner":                {"  owner: team shop\n", "", "spec.owner: Required value"},
		"no limits":               {"[gracePeriod.minSeconds]", "[]", "spec.limits"},
		"the protection":          {"[gracePeriod.minSeconds]", "[removal.forceDelete]", "spec.limits[0]: Unsupported value"},
		"no pods":                 {"  allPods: true\n", "", "either a podSelector or allPods: true"},
		"all pods, but not":       {"allPods: true", "allPods: false", "either a podSelector or allPods: true"},
		"an empty selector":       {"allPods: true", "podSelector: {}", "an empty selector selects all pods"},
		"both":                    {"allPods: true", "allPods: true\n  podSelector: {matchLabels: {app: web}}", "either a podSelector or allPods: true"},
		"a long name":             {"name: batch", "name: " + strings.Repeat("b", 64), "at most 63 characters"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := policyfile.ParseExceptions("x.yaml", []byte(strings.Replace(asked, tc.from, tc.to, 1)))
			switch {
			case tc.says == "" && (err != nil || len(got) != 1):
				t.Error(got, err)
			case tc.says != "" && (err == nil || !strings.Contains(err.Error(), tc.says)):
				t.Errorf("got %v", err)
			}
		})
	}
}

// One name may be in several namespaces.
func TestExceptionsOfNamespaces(t *testing.T) {
	known := map[string][]policyfile.File{"a": {{Name: "a.yaml", Text: []byte(asked)}, {Name: "b.yaml", Text: []byte(strings.Replace(asked, "shop}", "mall}", 1))}}}
	if got, err := policyfile.LoadExceptions(known, "a"); err != nil || len(got) != 2 {
		t.Error(got, err)
	}
	known["b"] = known["a"][:1]
	if _, err := policyfile.LoadExceptions(known, "a", "b"); err == nil || !strings.Contains(err.Error(), "PolicyException shop/batch is in a.yaml already") {
		t.Error(err)
	}
}
