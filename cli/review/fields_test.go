package review

import (
	"strings"
	"testing"

	"github.com/podgrace/podgrace/internal/manifest"
)

func TestUnknownFields(t *testing.T) {
	typo := strings.Replace(deployment, "terminationGracePeriodSeconds: 10", "terminationGracePeriodSecond: 10", 1)
	for name, test := range map[string]struct {
		text, says string
	}{
		"none":              {deployment, ""},
		"a typo":            {typo, `Deployment web: unknown field "spec.template.spec.terminationGracePeriodSecond"`},
		"stored already":    {strings.Replace(typo, "name: web,", "name: web, resourceVersion: '1',", 1), ""},
		"a kind of others":  {`{apiVersion: example.com/v1, kind: Thing, metadata: {name: t}, spec: {x: 1}}`, ""},
		"can't be decoded":  {`{apiVersion: v1, kind: Pod, spec: 7}`, ""},
		"a policy":          {`{apiVersion: podgrace.dev/v1alpha1, kind: PodPolicy, metadata: {name: p}, spec: {wieght: 1}}`, ""},
		"an admission case": {`{apiVersion: admission.k8s.io/v1, kind: AdmissionReview, requst: {}}`, ""},
	} {
		errs, err := NewState().UnknownFields(t.Context(), []*manifest.Document{document(t, test.text)})
		if err != nil {
			t.Fatal(err)
		}
		if test.says == "" && len(errs) > 0 || test.says != "" && (len(errs) != 1 || errs[0].Message != test.says || errs[0].Line != 3) {
			t.Errorf("%s: %v", name, errs)
		}
	}
}
