package report

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/podgrace/podgrace/cli/review"
)

// graced is a workload of which the grace period changes.
func graced(name string, from, to int) review.Result {
	r := workload(name, 1)
	pod := func(seconds int) json.RawMessage {
		return json.RawMessage(fmt.Sprintf(`{"metadata":{"labels":{"app":%q}},"spec":{"terminationGracePeriodSeconds":%d}}`, name, seconds))
	}
	r.Before, r.After = pod(from), pod(to)
	r.Patch = []review.Operation{{Op: "replace", Path: "/spec/terminationGracePeriodSeconds", Value: json.RawMessage(fmt.Sprint(to))}}
	return r
}

// large is a report as that of a large repository: few things are said of a lot of workloads.
func large() *review.Report {
	var results []review.Result
	for i := range 40 {
		r := graced(fmt.Sprintf("web-%d", i), 30, 45)
		if i%2 == 0 {
			r.Warnings = []string{fmt.Sprintf("namespace shop could not be looked up, so that web-%d may get other values", i)}
		}
		if i < 7 {
			r.Decision, r.Reason, r.Message = review.Denied, "PriorityClassNotAllowed", "PriorityClass top is not allowed here"
		}
		if i%20 == 1 {
			r.Unknown = []string{fmt.Sprintf("PriorityClass class-%d", i), "Namespace shop"}
		}
		results = append(results, r)
	}
	for i := range 10 {
		results = append(results, graced(fmt.Sprintf("odd-%d", i), 1+i, 45))
	}
	return review.NewReport(3, 0, results, nil)
}

// What is alike is told once, however many it is about, and what is left out is counted.
func TestCompact(t *testing.T) {
	want := `...      3 others change in 3 other ways (--all shows them)

CHANGED  Deployment shop/odd-3 (manifests/workloads.yaml:1)
  ~      terminationGracePeriodSeconds  4 → 45
         by PodPolicy production-web
`
	out := printed(t, FormatText, large(), Options{})
	if !strings.HasPrefix(out, want) {
		t.Errorf("begins with %s", out[:min(len(out), len(want)+200)])
	}
	want = `
CHANGED  33 Deployments in shop: web-7, web-8, web-9, web-10, web-11 and 28 more
  ~      terminationGracePeriodSeconds  30 → 45
         by PodPolicy production-web

UNKNOWN  2 Deployments in shop: web-1, web-21
         not known: PriorityClass class-1, PriorityClass class-21
         to be given with --state: the PriorityClass

UNKNOWN  2 Deployments in shop: web-1, web-21
         not known: Namespace shop
         to be given with --state: the Namespace, with its labels

WARNED   20 Deployments in shop
         namespace ... could not be looked up, so that ... may get other values
         Deployment shop/web-0  manifests/workloads.yaml:1
         Deployment shop/web-2  manifests/workloads.yaml:1
         Deployment shop/web-4  manifests/workloads.yaml:1
         Deployment shop/web-6  manifests/workloads.yaml:1
         Deployment shop/web-8  manifests/workloads.yaml:1
         and 15 more (--all shows them)

DENIED   7 Deployments in shop
         PriorityClassNotAllowed: PriorityClass top is not allowed here
         Deployment shop/web-0  manifests/workloads.yaml:1
         Deployment shop/web-1  manifests/workloads.yaml:1
         Deployment shop/web-2  manifests/workloads.yaml:1
         Deployment shop/web-3  manifests/workloads.yaml:1
         Deployment shop/web-4  manifests/workloads.yaml:1
         and 2 more (--all shows them)

Reviewed 50 in 3 files: 7 denied, 20 warned, 50 changed.
2 were not judged in full, since not all that matters is known; removals are judged on the safe side.
--details shows each with the reasons of its changes, -o table a line for each.
`
	if !strings.HasSuffix(out, want) {
		t.Error(cmp.Diff(want, out[max(0, len(out)-len(want)):]))
	}
	all := printed(t, FormatText, large(), Options{All: true})
	for i := range 40 {
		if !strings.Contains(all, fmt.Sprintf("web-%d", i)) {
			t.Errorf("--all does not name web-%d", i)
		}
	}
	if strings.Contains(all, "more") {
		t.Error("--all leaves something out")
	}
}

// What is not known is said for each who asks, though it is the same for all.
func TestFactsOfEachUser(t *testing.T) {
	var results []review.Result
	for _, user := range []string{"jane", "joe", "joe"} {
		r := workload("web", 1)
		r.User, r.Unknown = user, []string{"Namespace shop"}
		results = append(results, r)
	}
	out := printed(t, FormatText, review.NewReport(1, 0, results, nil), Options{})
	if n := strings.Count(out, "not known: Namespace shop\n"); n != 2 {
		t.Errorf("said %d times:\n%s", n, out)
	}
}

// Every remedy is of a phrase that a review can say; one that no file helps with has none.
func TestRemediesAreSaid(t *testing.T) {
	for phrase, want := range map[string]string{
		"Namespace shop": "labels", "heartbeat of Node n1": "kube-node-lease", "Services of Namespace shop": "kind: ServiceList", "Node n1": "kubectl get node",
		"PersistentVolumeClaim shop/data": "the object itself", "the Node that it runs on": "spec.nodeName",
	} {
		if got := review.Remedy(phrase); !strings.Contains(got, want) {
			t.Errorf("%s: %q", phrase, got)
		}
	}
	if got := review.Remedy("whether the user has the verb force-delete on pods.podgrace.dev shop/a"); got != "" {
		t.Error(got)
	}
}
