package defaulting_test

import (
	"strings"
	"testing"

	"github.com/podgrace/podgrace/api/v1alpha1"
	. "github.com/podgrace/podgrace/policy/policytest"
)

const (
	addEnforcement = "add /metadata/annotations/podgrace.dev~1enforcement "
	delEnforcement = "remove /metadata/annotations/podgrace.dev~1enforcement"
	weight500      = `{"cpu":{"weight":500}}`
)

func TestApplyEnforcement(t *testing.T) {
	t.Parallel()
	gives500 := One(PodPolicy("web", Node(CPUWeight(500))))
	testApply(t, []scenario{
		{
			name:     "a pod without annotations gets the map",
			pod:      Pod(),
			policies: gives500,
			changes:  []string{`add /metadata/annotations {"podgrace.dev/enforcement":"{\"cpu\":{\"weight\":500}}"}`},
		},
		{
			name:     "an empty map of annotations",
			pod:      Pod(Annotated()),
			policies: gives500,
			changes:  []string{`add /metadata/annotations {"podgrace.dev/enforcement":"{\"cpu\":{\"weight\":500}}"}`},
		},
		{
			name:     "other annotations stay",
			pod:      Pod(Annotated("a", "b")),
			policies: gives500,
			changes:  []string{addEnforcement + `"{\"cpu\":{\"weight\":500}}"`},
		},
		{
			name: "every field",
			pod:  Pod(Annotated("a", "b")),
			policies: One(PodPolicy("web", Node(v1alpha1.Enforcement{
				Memory:   &v1alpha1.MemoryEnforcement{Protection: v1alpha1.MemoryProtectionMin, ThrottlePercent: new(int32(80))},
				CPU:      &v1alpha1.WeightEnforcement{Weight: 1},
				IO:       &v1alpha1.WeightEnforcement{Weight: 10000},
				OOM:      &v1alpha1.OOMEnforcement{Rank: 0},
				Eviction: &v1alpha1.EvictionEnforcement{Order: 100},
			}))),
			changes: []string{addEnforcement + `"{\"memory\":{\"protection\":\"Min\",\"throttlePercent\":80},\"cpu\":{\"weight\":1},\"io\":{\"weight\":10000},\"oom\":{\"rank\":0},\"eviction\":{\"order\":100}}"`},
		},
		{
			name:     "forged annotation overwritten, with a warning",
			pod:      Pod(enforced(`{"cpu":{"weight":10000}}`)),
			policies: gives500,
			changes:  []string{addEnforcement + `"{\"cpu\":{\"weight\":500}}"`},
			warnings: []string{"annotation podgrace.dev/enforcement is written by Podgrace only: it was replaced"},
		},
		{
			name:     "empty forged annotation overwritten too",
			pod:      Pod(enforced("")),
			policies: gives500,
			changes:  []string{addEnforcement + `"{\"cpu\":{\"weight\":500}}"`},
			warnings: []string{"replaced"},
		},
		{
			name:     "forged annotation removed where no policy gives one",
			pod:      Pod(enforced(weight500)),
			policies: One(PodPolicy("web", MaxGrace(60))),
			changes:  []string{delEnforcement},
			warnings: []string{"annotation podgrace.dev/enforcement is written by Podgrace only: it was removed"},
		},
		{
			name:    "forged annotation removed where no policy matches at all",
			pod:     Pod(enforced("")),
			changes: []string{delEnforcement}, warnings: []string{"removed"},
		},
		{
			name:     "reinvocation: what is right already stays",
			pod:      Pod(enforced(weight500)),
			policies: gives500,
		},
		{
			name:     "the heaviest policy's as a whole, not merged",
			pod:      Pod(Annotated("a", "b")),
			policies: []*v1alpha1.PodPolicy{PodPolicy("a", Node(CPUWeight(1))), PodPolicy("b", Weight(1), Node(v1alpha1.Enforcement{OOM: &v1alpha1.OOMEnforcement{Rank: 7}}))},
			changes:  []string{addEnforcement + `"{\"oom\":{\"rank\":7}}"`},
		},
	})
}

func TestValidateEnforcement(t *testing.T) {
	t.Parallel()
	gives500 := One(PodPolicy("web", Node(CPUWeight(500))))
	const forged = "EnforcementForged: annotation podgrace.dev/enforcement does not hold what PodPolicy web gives"
	testValidate(t, []scenario{
		{name: "what the policy gives", pod: Pod(enforced(weight500)), policies: gives500},
		{name: "the same in another webhook's spelling", pod: Pod(enforced(" {\n\"cpu\" : { \"weight\":500 },\"memory\":null}\t")), policies: gives500},
		{name: "absent one warns", pod: Pod(), policies: gives500, warnings: []string{"annotation podgrace.dev/enforcement is missing: the mutating webhook was not called…PodPolicy web"}},
		{name: "no policy and no annotation", pod: Pod()},
		{name: "no policy gives one", pod: Pod(enforced(weight500)), policies: One(PodPolicy("web", MaxGrace(60))), denials: []string{"EnforcementForged: …no PodPolicy gives node settings to this pod. Remove"}},
		{name: "another value", pod: Pod(enforced(`{"cpu":{"weight":501}}`)), policies: gives500, denials: []string{forged + ` ({"cpu":{"weight":500}})`}},
		{name: "one field more", pod: Pod(enforced(`{"cpu":{"weight":500},"oom":{"rank":0}}`)), policies: gives500, denials: []string{forged}},
		{name: "an empty object more", pod: Pod(enforced(`{"cpu":{"weight":500},"memory":{}}`)), policies: gives500, denials: []string{forged}},
		{name: "an unknown field more", pod: Pod(enforced(`{"cpu":{"weight":500},"future":1}`)), policies: gives500, denials: []string{forged}},
		{name: "a duplicate key, the last one right", pod: Pod(enforced(`{"cpu":{"weight":9999},"cpu":{"weight":500}}`)), policies: gives500, denials: []string{forged}},
		{name: "a duplicate key, the first one right", pod: Pod(enforced(`{"cpu":{"weight":500,"weight":9999}}`)), policies: gives500, denials: []string{forged}},
		{name: "a key in other case beside the right one", pod: Pod(enforced(`{"cpu":{"weight":500},"CPU":{"weight":9999}}`)), policies: gives500, denials: []string{forged}},
		{name: "a key in other case alone", pod: Pod(enforced(`{"CPU":{"weight":500}}`)), policies: gives500, denials: []string{forged}},
		{name: "a number that is none of Go's int32", pod: Pod(enforced(`{"cpu":{"weight":500.0}}`)), policies: gives500, denials: []string{forged}},
		{name: "a number as text", pod: Pod(enforced(`{"cpu":{"weight":"500"}}`)), policies: gives500, denials: []string{forged}},
		{name: "something behind the JSON", pod: Pod(enforced(weight500 + weight500)), policies: gives500, denials: []string{forged}},
		{name: "empty", pod: Pod(enforced("")), policies: gives500, denials: []string{forged}},
		{name: "null", pod: Pod(enforced("null")), policies: gives500, denials: []string{forged}},
		{name: "a list", pod: Pod(enforced("[]")), policies: gives500, denials: []string{forged}},
		{name: "not JSON", pod: Pod(enforced("weight: 500")), policies: gives500, denials: []string{forged}},
		{name: "deeply nested", pod: Pod(enforced(strings.Repeat(`{"cpu":`, 100000))), policies: gives500, denials: []string{forged}},
	})
}
