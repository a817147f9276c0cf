package review_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/podgrace/podgrace/cli/review"
	"github.com/podgrace/podgrace/internal/manifest"
	"github.com/podgrace/podgrace/policy/policyfile"
)

const remarked = `
apiVersion: podgrace.dev/v1alpha1
kind: PodPolicy
metadata: {name: owners}
spec: {weight: 3, match: {ownerKinds: [Deployment]}}
---
apiVersion: podgrace.dev/v1alpha1
kind: PodPolicy
metadata: {name: namespaces}
spec: {weight: 2, match: {namespaceSelector: {matchLabels: {team: shop}}}}
---
apiVersion: podgrace.dev/v1alpha1
kind: PodPolicy
metadata: {name: all}
spec: {weight: 1, gracePeriod: {minSeconds: 1}}
`

// What a cluster says in the status of a policy is said offline, and which policies are for nothing; but not of what is unknown.
func TestRemarks(t *testing.T) {
	policies, err := policyfile.Parse("p.yaml", []byte(remarked))
	if err != nil {
		t.Fatal(err)
	}
	owners := review.Remark{Policy: "owners", Message: "match.ownerKinds names Deployment, which matches no pod: the pods of a Deployment are a ReplicaSet's"}
	idle := func(name string) review.Remark {
		return review.Remark{Policy: name, Message: "it is for none of what was reviewed"}
	}
	const pod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"shop"},"spec":{"containers":[{"name":"c","image":"i"}]}}`
	namespace := func(labels string) string {
		return `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"shop","labels":{` + labels + `}}}`
	}
	for name, tc := range map[string]struct {
		state     string // a Namespace, if any
		operation string
		want      []review.Remark
	}{
		"known":   {namespace(`"team":"bank"`), review.OperationCreate, []review.Remark{owners, idle("owners"), idle("namespaces")}},
		"matched": {namespace(`"team":"shop"`), review.OperationCreate, []review.Remark{owners, idle("owners")}},
		"whether the namespace matches is not known": {"", review.OperationCreate, []review.Remark{owners, idle("owners")}},
		"a removal names only who speaks against it": {namespace(`"team":"bank"`), review.OperationDelete, []review.Remark{owners}},
	} {
		t.Run(name, func(t *testing.T) {
			state := review.NewState()
			if tc.state != "" {
				if err := state.Add(document(t, tc.state), ""); err != nil {
					t.Fatal(err)
				}
			}
			engine, err := review.NewEngine(state, policies...)
			if err != nil {
				t.Fatal(err)
			}
			result, wrong := engine.Review(t.Context(), document(t, pod), review.Question{Operation: tc.operation})
			if wrong != nil {
				t.Fatal(wrong)
			}
			if diff := cmp.Diff(tc.want, engine.Remarks([]review.Result{*result})); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff([]review.Remark{owners}, engine.Remarks(nil), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("nothing was reviewed: %s", diff)
			}
		})
	}
}

func document(t *testing.T, text string) *manifest.Document {
	t.Helper()
	var meta struct {
		APIVersion, Kind string
		Metadata         struct{ Name, Namespace string }
	}
	if err := json.Unmarshal([]byte(text), &meta); err != nil {
		t.Fatal(err)
	}
	return &manifest.Document{APIVersion: meta.APIVersion, Kind: meta.Kind, Name: meta.Metadata.Name, Namespace: meta.Metadata.Namespace, File: "f", Line: 1, JSON: []byte(text)}
}

// Policies are compared if both match something that was reviewed, each two once.
func TestRemarksOnPairs(t *testing.T) {
	const same = `
apiVersion: podgrace.dev/v1alpha1
kind: PodPolicy
metadata: {name: NAME}
spec: {match: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: NAMESPACE}}}, gracePeriod: {GRACE}}
---`
	var text string
	for _, p := range [][3]string{{"a", "shop", "defaultSeconds: 40, maxSeconds: 50"}, {"b", "shop", "defaultSeconds: 70, minSeconds: 60"}, {"c", "bank", "defaultSeconds: 70, minSeconds: 60"}} {
		text += strings.NewReplacer("NAMESPACE", p[1], "NAME", p[0], "GRACE", p[2]).Replace(same)
	}
	policies, err := policyfile.Parse("p.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	engine, err := review.NewEngine(review.NewState(), policies...)
	if err != nil {
		t.Fatal(err)
	}
	result, wrong := engine.Review(t.Context(), document(t, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"shop"},"spec":{"containers":[{"name":"c","image":"i"}]}}`), review.Question{})
	if wrong != nil {
		t.Fatal(wrong)
	}
	want := []review.Remark{
		{Policy: "a", Message: "PodPolicy b has the same weight 0 and gives the same kind of default: where both match, the first by name decides (a)"},
		{Policy: "b", Message: "minSeconds 60 is above maxSeconds 50 of PodPolicy a: where both match the minimum holds"},
		{Policy: "c", Message: "it is for none of what was reviewed"},
	}
	if diff := cmp.Diff(want, engine.Remarks([]review.Result{*result})); diff != "" {
		t.Error(diff)
	}
}

// A policy's hard constraints that count tainted nodes are remarked on.
func TestRemarksOnTaints(t *testing.T) {
	const policy = `{apiVersion: podgrace.dev/v1alpha1, kind: PodPolicy, metadata: {name: p}, spec: {topologySpread: {constraints: [
		{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: WHEN, nodeTaintsPolicy: TAINTS}, {maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: ScheduleAnyway}]}}}`
	for _, test := range []struct {
		when, taints, effect string
		want                 bool
	}{
		{"DoNotSchedule", "Ignore", "NoSchedule", true}, {"DoNotSchedule", "Ignore", "NoExecute", true}, {"DoNotSchedule", "Ignore", "PreferNoSchedule", false},
		{"DoNotSchedule", "Honor", "NoSchedule", false}, {"ScheduleAnyway", "Ignore", "NoSchedule", false},
	} {
		policies, err := policyfile.Parse("p.yaml", []byte(strings.NewReplacer("WHEN", test.when, "TAINTS", test.taints).Replace(policy)))
		if err != nil {
			t.Fatal(err)
		}
		state := review.NewState()
		if err := state.Add(document(t, `{"apiVersion":"v1","kind":"Node","metadata":{"name":"cp"},"spec":{"taints":[{"key":"a","effect":"`+test.effect+`"}]}}`), ""); err != nil {
			t.Fatal(err)
		}
		engine, err := review.NewEngine(state, policies...)
		if err != nil {
			t.Fatal(err)
		}
		remarks := engine.Remarks(nil)
		if got := len(remarks) == 1 && strings.Contains(remarks[0].Message, "count nodes with taints (cp)"); got != test.want || len(remarks) > 1 {
			t.Errorf("%+v: %v", test, remarks)
		}
	}
}
