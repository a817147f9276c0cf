package webhook

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestJudge(t *testing.T) {
	r := review{uid: []byte("u1")}
	full := make([]string, len(patchedPaths))
	for i, path := range patchedPaths {
		full[i] = fmt.Sprintf(`{"op":"add","path":%q,"value":1}`, path)
	}
	for _, test := range []struct {
		name    string
		answer  string
		patched bool
		wrong   string // nothing: right
	}{
		{"all sections", answer(t, "u1", true, full...), true, ""},
		{"no patch and none wanted", answer(t, "u1", true), false, ""},
		{"no patch", answer(t, "u1", true), true, "got no patch"},
		{"a section is missing", answer(t, "u1", true, full[:3]...), true, "has no /metadata/annotations"},
		{"patch that is not wanted", answer(t, "u1", true, full...), false, "got a patch"},
		{"of another review", answer(t, "u2", true, full...), true, "uid u1"},
		{"refused", answer(t, "u1", false), false, "was refused"},
		{"not JSON", "oops", false, "not an AdmissionReview"},
	} {
		t.Run(test.name, func(t *testing.T) {
			expect(t, r.judge([]byte(test.answer), test.patched), test.wrong)
			// What a glance finds wrong, a judge does too.
			if err := r.glance([]byte(test.answer), test.patched); err != nil && test.wrong == "" {
				t.Errorf("glance: %v", err)
			}
		})
	}
}

func answer(t *testing.T, uid string, allowed bool, operations ...string) string {
	t.Helper()
	a := admissionv1.AdmissionReview{Response: &admissionv1.AdmissionResponse{UID: types.UID(uid), Allowed: allowed}}
	if len(operations) > 0 {
		a.Response.Patch = []byte("[" + strings.Join(operations, ",") + "]")
	}
	text, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func expect(t *testing.T, err error, wrong string) {
	t.Helper()
	switch {
	case wrong == "" && err != nil:
		t.Errorf("unexpected: %v", err)
	case wrong != "" && (err == nil || !strings.Contains(err.Error(), wrong)):
		t.Errorf("got %v, want %q", err, wrong)
	}
}
