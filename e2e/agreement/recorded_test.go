package agreement

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/cli/input"
	"github.com/podgrace/podgrace/cli/review"
	"github.com/podgrace/podgrace/e2e/suite"
	"github.com/podgrace/podgrace/webhook"
)

// AdmissionReviews that an API server sent: the same review, posted to the webhook and given to the offline engine, which both know
// the same cluster.
func TestRecordedReviews(t *testing.T) {
	s := shared.Get(t)
	s.Policy(t, "default", v1alpha1.PodPolicySpec{
		GracePeriod: &v1alpha1.GracePeriodSection{MinSeconds: new(int64(45))},
		TopologySpread: &v1alpha1.TopologySpreadSection{Constraints: []v1alpha1.TopologySpreadConstraint{
			{MaxSkew: 1, TopologyKey: "topology.kubernetes.io/zone", WhenUnsatisfiable: "ScheduleAnyway"},
		}},
		Removal: &v1alpha1.RemovalSection{ForceDelete: v1alpha1.RemovalDeny, Protect: v1alpha1.ProtectAll},
	})
	state, err := review.FromCluster(t.Context(), s.Client)
	if err != nil {
		t.Fatal(err)
	}
	policies, err := review.PoliciesOf(t.Context(), s.Client)
	if err != nil {
		t.Fatal(err)
	}
	engine, err := review.NewEngine(state, policies...)
	if err != nil {
		t.Fatal(err)
	}
	judged, changed, refused := 0, 0, 0
	for d, wrong := range (&input.Reader{}).Read("testdata/reviews.jsonl") {
		if wrong != nil {
			t.Fatal(wrong)
		}
		r, wrong := engine.Review(t.Context(), d, review.Question{})
		if wrong != nil {
			t.Fatal(wrong)
		}
		judged++
		changed += min(len(r.Patch), 1)
		want := answer{Refusal: r.Message, Warnings: sorted(r.Warnings)}
		if r.Decision == review.Denied {
			refused++
		} else {
			want.Refusal = ""
		}
		got, patch := posted(t, s, d.JSON)
		if diff := cmp.Diff(got, want); diff != "" {
			t.Errorf("line %d, %s %s (-webhook +offline):\n%s", d.Line, r.Operation, r.Resource, diff)
		}
		if diff := cmp.Diff(patch, r.Patch); diff != "" {
			t.Errorf("line %d, %s %s: patch (-webhook +offline):\n%s", d.Line, r.Operation, r.Resource, diff)
		}
	}
	if lines := lines(t, "testdata/reviews.jsonl"); judged != lines || changed == 0 || refused == 0 {
		t.Errorf("%d reviews of %d judged, %d changed, %d refused", judged, lines, changed, refused)
	}
}

func lines(t *testing.T, file string) int {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Count(text, []byte("\n"))
}

// paths that the API server calls for a request, by deploy/webhook/configurations.yaml; only what was recorded.
func paths(req *admissionv1.AdmissionRequest) []string {
	switch string(req.Operation) + " " + req.Resource.Resource + "/" + req.SubResource {
	case "CREATE pods/":
		return []string{webhook.PathMutatePods, webhook.PathValidatePods}
	case "DELETE pods/":
		return []string{webhook.PathValidateRemoval}
	case "CREATE pods/eviction": // without grace: the other ones are none of ours
		return []string{webhook.PathMutateEvictions, webhook.PathValidateRemoval}
	case "CREATE deployments/":
		return []string{webhook.PathValidateWorkloads}
	}
	return nil // bindings
}

// posted sends a review to the running webhook, on each of its paths; the second one sees what the first one changed.
func posted(t *testing.T, s *suite.Suite, body []byte) (answer, []review.Operation) {
	t.Helper()
	var sent admissionv1.AdmissionReview
	if err := json.Unmarshal(body, &sent); err != nil {
		t.Fatal(err)
	}
	a, patch := answer{}, []review.Operation{}
	for _, path := range paths(sent.Request) {
		text, err := s.Post(t.Context(), path, "application/json", body)
		if err != nil {
			t.Fatal(err)
		}
		var got admissionv1.AdmissionReview
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatal(err)
		}
		for _, w := range got.Response.Warnings {
			if !slices.Contains(a.Warnings, w) {
				a.Warnings = append(a.Warnings, w)
			}
		}
		if len(got.Response.Patch) > 0 {
			if err := json.Unmarshal(got.Response.Patch, &patch); err != nil {
				t.Fatal(err)
			}
			body = withPatch(t, sent, got.Response.Patch)
		}
		if !got.Response.Allowed {
			a.Refusal = got.Response.Result.Message
			break
		}
	}
	a.Warnings = sorted(a.Warnings)
	return a, patch
}

// withPatch is a review of the object as it is after a patch.
func withPatch(t *testing.T, sent admissionv1.AdmissionReview, text []byte) []byte {
	t.Helper()
	patch, err := jsonpatch.DecodePatch(text)
	if err != nil {
		t.Fatal(err)
	}
	request := *sent.Request
	if request.Object.Raw, err = patch.Apply(request.Object.Raw); err != nil {
		t.Fatal(err)
	}
	sent.Request = &request
	body, err := json.Marshal(sent)
	if err != nil {
		t.Fatal(err)
	}
	return body
}
