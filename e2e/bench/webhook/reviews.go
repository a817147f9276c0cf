package webhook

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	jsonpatch "gomodules.xyz/jsonpatch/v2"
	admissionv1 "k8s.io/api/admission/v1"

	"github.com/podgrace/podgrace/webhook"
)

// recordedReviews are what an API server sent to a mutating webhook, one a line: pods that a person runs and pods of a
// ReplicaSet.
//
//go:embed testdata/reviews.jsonl
var recordedReviews []byte

// review is one request, and what its answer must hold.
type review struct {
	// path of the webhook's that it is sent to.
	path string
	body []byte
	uid  []byte
	// refused says that it must be, and otherwise allowed.
	refused bool
}

func recorded() ([]review, error) {
	var reviews []review
	for line := range bytes.Lines(recordedReviews) {
		var r admissionv1.AdmissionReview
		if err := json.Unmarshal(line, &r); err != nil {
			return nil, fmt.Errorf("testdata/reviews.jsonl, review %d: %w", len(reviews)+1, err)
		}
		if r.Request == nil {
			return nil, fmt.Errorf("testdata/reviews.jsonl, review %d: not an AdmissionReview with a request", len(reviews)+1)
		}
		reviews = append(reviews, review{path: webhook.PathMutatePods, body: bytes.TrimSpace(line), uid: []byte(r.Request.UID)})
	}
	return reviews, nil
}

// patchedPaths are the fields that a pod of the recorded ones gets: one at least from every section of the policy.
var patchedPaths = []string{
	"/spec/priorityClassName", "/spec/topologySpreadConstraints", "/spec/terminationGracePeriodSeconds", "/metadata/annotations",
}

// judge reads an answer in full. It is for before and after the rounds.
func (r review) judge(answer []byte, patched bool) error {
	var got admissionv1.AdmissionReview
	if err := json.Unmarshal(answer, &got); err != nil {
		return fmt.Errorf("not an AdmissionReview: %w: %s", err, answer)
	}
	switch {
	case got.Response == nil:
		return fmt.Errorf("not an AdmissionReview with a response: %s", answer)
	case string(got.Response.UID) != string(r.uid):
		return fmt.Errorf("uid %s was asked, %s was answered", r.uid, got.Response.UID)
	case got.Response.Allowed && r.refused:
		return fmt.Errorf("review %s was allowed: %s", r.uid, answer)
	case r.refused:
		return nil
	case !got.Response.Allowed:
		return fmt.Errorf("review %s was refused: %s", r.uid, answer)
	case !patched && got.Response.Patch != nil:
		return fmt.Errorf("review %s got a patch", r.uid)
	case !patched:
		return nil
	}
	var patch []jsonpatch.Operation
	if err := json.Unmarshal(got.Response.Patch, &patch); err != nil {
		return fmt.Errorf("review %s got no patch (%w); warnings: %q", r.uid, err, got.Response.Warnings)
	}
	for _, path := range patchedPaths {
		if !slices.ContainsFunc(patch, func(o jsonpatch.Operation) bool { return strings.HasPrefix(o.Path, path) }) {
			return fmt.Errorf("the patch for review %s has no %s: %s; warnings: %q", r.uid, path, got.Response.Patch, got.Response.Warnings)
		}
	}
	return nil
}

var (
	allowed = []byte(`"allowed":true`)
	refused = []byte(`"allowed":false`)
	patch   = []byte(`"patch":"`)

	errWrongAnswer = errors.New("the answer is not the one from before the rounds")
)

// glance is a judge that costs next to nothing, for within the rounds.
func (r review) glance(answer []byte, patched bool) error {
	if r.refused {
		if !bytes.Contains(answer, refused) || !bytes.Contains(answer, r.uid) {
			return fmt.Errorf("%w: review %s: %s", errWrongAnswer, r.uid, answer)
		}
		return nil
	}
	if !bytes.Contains(answer, allowed) || !bytes.Contains(answer, r.uid) || bytes.Contains(answer, patch) != patched {
		return fmt.Errorf("%w: review %s: %s", errWrongAnswer, r.uid, answer)
	}
	return nil
}
