package review

import (
	"slices"
	"strings"
	"testing"

	"github.com/podgrace/podgrace/manifest"
)

// Services that nobody knows are told where one could change the selector of the constraints, and nowhere else.
func TestServicesMatter(t *testing.T) {
	const services = "Services of Namespace shop"
	more := func(labels string) string {
		return strings.Replace(deployment, "labels: {app: web}", "labels: "+labels, 1)
	}
	bare := `{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: shop, labels: LABELS}, spec: {containers: [{name: c, image: i}]}}`
	job := `{apiVersion: batch/v1, kind: Job, metadata: {name: j, namespace: shop}, spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}}`
	for name, test := range map[string]struct {
		object string
		none   bool // a list says that there are none
		want   bool
	}{
		"the selector has all labels":     {deployment, false, false},
		"a label more":                    {more("{app: web, tier: front}"), false, true},
		"a label more, and no Services":   {more("{app: web, tier: front}"), true, false},
		"a pod without labels":            {strings.Replace(bare, "LABELS", "{}", 1), false, false},
		"a pod that a Service may select": {strings.Replace(bare, "LABELS", "{app: p}", 1), false, true},
		"a Job's own labels":              {job, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			e := engineOf(t, web, shop, high)
			if test.none {
				e.State.Listed([]manifest.Listed{{APIVersion: "v1", Kind: "Service"}})
			}
			if got := mustReview(t, e, test.object, Question{}).Unknown; slices.Contains(got, services) != test.want {
				t.Errorf("unknown: %q", got)
			}
		})
	}
}

// What counts is the answer: if servicesMatter says no, a Service by any of the pod's own labels leaves it as it is.
func TestServicesThatDoNotMatter(t *testing.T) {
	without := mustReview(t, engineOf(t, web, shop, high), deployment, Question{})
	with := mustReview(t, engineOf(t, web, shop, high, service), deployment, Question{})
	if len(without.Unknown) > 0 || string(without.After) != string(with.After) {
		t.Errorf("unknown %q:\n%s\n%s", without.Unknown, without.After, with.After)
	}
}

// A list of Nodes that is empty makes no removal safe.
func TestListedServicesOnly(t *testing.T) {
	e := engineOf(t, web, shop, high)
	e.State.Listed([]manifest.Listed{{APIVersion: "v1", Kind: "Node"}, {APIVersion: "v1", Kind: "Pod"}})
	if r := mustReview(t, e, running, Question{Operation: OperationDelete, GracePeriodSeconds: new(int64(0))}); r.Decision != Denied {
		t.Errorf("%s %q", r.Decision, r.Unknown)
	}
}
