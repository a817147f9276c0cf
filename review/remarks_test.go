package review_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/podgrace/podgrace/manifest"
	"github.com/podgrace/podgrace/policy/policyfile"
	"github.com/podgrace/podgrace/review"
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
