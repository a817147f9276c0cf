package apiserver_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"

	"github.com/podgrace/podgrace/cli/apiserver"
	"github.com/podgrace/podgrace/webhook"
)

// recorded are reviews that a real API server (1.36.3) sent, with other names and identifiers.
func recorded(t testing.TB) []*admissionv1.AdmissionRequest {
	t.Helper()
	text, err := os.ReadFile("testdata/reviews.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	var requests []*admissionv1.AdmissionRequest
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var review admissionv1.AdmissionReview
		if err := json.Unmarshal(lines.Bytes(), &review); err != nil {
			t.Fatal(err)
		}
		requests = append(requests, review.Request)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return requests
}

func TestRecordedReviews(t *testing.T) {
	want := []struct {
		what                 string
		mutating, validating []string
	}{
		{what: "pod created", mutating: []string{webhook.PathMutatePods}, validating: []string{webhook.PathValidatePods}},
		{what: "pod created by the ReplicaSet controller", mutating: []string{webhook.PathMutatePods}, validating: []string{webhook.PathValidatePods}},
		{what: "pod bound"},
		{what: "Deployment created", validating: []string{webhook.PathValidateWorkloads}},
		{what: "force delete, first call", validating: []string{webhook.PathValidateRemoval}},
		{what: "force delete, second call", validating: []string{webhook.PathValidateRemoval}},
		{what: "delete now, grace 1"},
		{what: "delete with grace 3"},
		{what: "kubelet's delete"},
		{what: "eviction with grace 0", mutating: []string{webhook.PathMutateEvictions}, validating: []string{webhook.PathValidateRemoval}},
	}
	requests := recorded(t)
	if len(requests) != len(want) {
		t.Fatalf("%d reviews, %d wanted", len(requests), len(want))
	}
	w, p := webhooks(t), policies(t)
	for i, tc := range want {
		t.Run(tc.what, func(t *testing.T) {
			r := apiserver.Request{AdmissionRequest: requests[i]}
			mutating, err := w.Mutating(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			validating, err := w.Validating(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]apiserver.Calls{{Paths: tc.mutating}, {Paths: tc.validating}}, []apiserver.Calls{mutating, validating}, byPath); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if denials, unknown, err := p.Validate(t.Context(), r); len(denials)+len(unknown) > 0 || err != nil {
				t.Errorf("the policies say %+v, not known %q, error %v", denials, unknown, err)
			}
		})
	}
}

// FuzzRequest: whatever the objects and options of a request are, there is an answer or an error.
func FuzzRequest(f *testing.F) {
	for _, r := range recorded(f) {
		f.Add(uint8(0), r.UserInfo.Username, []byte(r.Object.Raw), []byte(r.OldObject.Raw), []byte(r.Options.Raw))
	}
	f.Add(uint8(7), "", []byte(confirmedOff), []byte(heardOf), []byte(`null`))
	resources := []string{"pods", "pods/status", "pods/resize", "pods/eviction", "evictions of old", "nodes", "volumeattachments", "deployments", "statefulsets", "old deployments", "configmaps"}
	operations := []admissionv1.Operation{create, update, remove}
	w, p := webhooks(f, "someone"), policies(f)
	f.Fuzz(func(t *testing.T, which uint8, user string, object, old, options []byte) {
		n := int(which)
		r := request(t, operations[n%3], resources[n/3%len(resources)], asking(&answers{Answer: apiserver.Answer(n % 3)}), params(refusing("p", labelled("team", "till"))))
		r.UserInfo.Username = user
		r.Object.Raw, r.OldObject.Raw, r.Options.Raw = object, old, options
		if n > 100 {
			r.Namespace = nil
		}
		if calls, err := w.Validating(t.Context(), r); err == nil && len(calls.Paths) > 0 && r.Resource.Resource == "configmaps" {
			t.Errorf("no webhook is for configmaps: %+v", calls)
		}
		if calls, err := w.Mutating(t.Context(), r); (err != nil || len(calls.Paths) > 0) && r.Resource.Resource != "pods" && r.Resource.Resource != "nodes" {
			t.Errorf("no mutating webhook is for %s: %+v, %v", r.Resource.Resource, calls, err)
		}
		_, _, _ = p.Validate(t.Context(), r)
	})
}
