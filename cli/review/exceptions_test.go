package review

import (
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"

	testclock "k8s.io/utils/clock/testing"

	"github.com/podgrace/podgrace/cli/input"
	"github.com/podgrace/podgrace/policy/policyfile"
)

const (
	atLeast = `{apiVersion: podgrace.dev/v1alpha1, kind: PodPolicy, metadata: {name: base}, spec: {gracePeriod: {minSeconds: 20}}}`
	asked   = `{apiVersion: podgrace.dev/v1alpha1, kind: PolicyException, metadata: {name: batch, namespace: shop, uid: u, generation: 2},
spec: {policy: base, limits: [gracePeriod.minSeconds], allPods: true, reason: r, owner: o, until: "2026-06-01T13:00:00Z"}`
	grantedTwo = asked + `, status: {grant: {by: eve, uid: u, generation: 2}}}`
	grantedOne = asked + `, status: {grant: {by: eve, uid: u, generation: 1}}}`
	quick      = `{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: shop}, spec: {terminationGracePeriodSeconds: 5, containers: [{name: c, image: i}]}}`
)

// An exception of a file counts as in the cluster: granted and not ended; what lifts nothing is remarked on.
func TestExceptionsOfFiles(t *testing.T) {
	noon := time.Date(2026, time.June, 1, 12, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		exception string
		now       time.Time
		raised    bool
		remark    string
	}{
		"granted":       {grantedTwo, noon, false, ""},
		"not granted":   {asked + "}", noon, true, "it was not granted yet"},
		"changed since": {grantedOne, noon, true, "its spec was changed since"},
		"ended":         {grantedTwo, noon.Add(time.Hour), true, "it ended at 2026-06-01T13:00:00Z"},
		"no policy":     {strings.Replace(grantedTwo, "policy: base", "policy: bases", 1), noon, true, "there is no PodPolicy bases"},
		"no such limit": {strings.Replace(grantedTwo, "minSeconds]", "maxSeconds]", 1), noon, true, "PodPolicy base has no gracePeriod.maxSeconds"},
	} {
		t.Run(name, func(t *testing.T) {
			policies, err := policyfile.Parse("p.yaml", []byte(atLeast))
			if err != nil {
				t.Fatal(err)
			}
			in := Read(&input.Reader{Stdin: strings.NewReader(tc.exception + "\n---\n" + quick)}, "-")
			if _, wrong := AddPolicies(policies, in.Documents); len(wrong) > 0 || len(in.Errors) > 0 {
				t.Fatal(wrong, in.Errors)
			}
			state := NewState()
			for _, d := range in.Documents {
				if err := state.Add(d, ""); err != nil {
					t.Fatal(err)
				}
			}
			e, err := NewEngine(state, policies...)
			if err != nil {
				t.Fatal(err)
			}
			e.Clock = testclock.NewFakePassiveClock(tc.now)
			results, other, errs, err := e.All(t.Context(), in.Documents, Question{}, nil)
			if err != nil || len(errs) > 0 || len(results) != 1 || other != 1 {
				t.Fatal(results, other, errs, err)
			}
			raised := slices.ContainsFunc(results[0].Patch, func(o Operation) bool { return o.Path == "/spec/terminationGracePeriodSeconds" })
			if raised != tc.raised || (results[0].Exceptions == "") != tc.raised {
				t.Errorf("%+v", results[0])
			}
			var remarks []string
			for _, r := range e.Remarks(results) {
				if r.Exception == "shop/batch" {
					remarks = append(remarks, r.Message)
				}
			}
			if (tc.remark == "") != (len(remarks) == 0) || tc.remark != "" && !strings.Contains(remarks[0], tc.remark) {
				t.Errorf("%q", remarks)
			}
		})
	}
}

// A grant that comes with the manifest is remarked on, one of the state is not: that is what the cluster has.
func TestGrantsOfManifests(t *testing.T) {
	noon := time.Date(2026, time.June, 1, 12, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		exception          string
		manifest, beside   bool
		namespace, remarks string
	}{
		"of a manifest":          {grantedTwo, true, false, "", "granted by eve according to the file itself"},
		"beside the policies":    {grantedTwo, false, true, "", "granted by eve according to the file itself"},
		"of the state":           {grantedTwo, false, false, "", ""},
		"of a manifest, asked":   {asked + "}", true, false, "", ""},
		"of a manifest, changed": {grantedOne, true, false, "", ""},
		"that names no namespace": {strings.Replace(grantedTwo, "namespace: shop, ", "", 1), true, false, "shop",
			"kubectl get policyexceptions.podgrace.dev -n shop batch"},
	} {
		t.Run(name, func(t *testing.T) {
			in := Read(&input.Reader{Stdin: strings.NewReader(tc.exception)}, "-")
			e := engineOf(t, atLeast)
			e.Clock, e.Namespace = testclock.NewFakePassiveClock(noon), cmp.Or(tc.namespace, "default")
			documents := in.Documents
			if tc.beside {
				exceptions, err := policyfile.ParseExceptions("x.yaml", []byte(tc.exception))
				if err != nil {
					t.Fatal(err)
				}
				e.Exceptions = exceptions
			} else if err := e.State.Add(in.Documents[0], tc.namespace); err != nil {
				t.Fatal(err)
			}
			if !tc.manifest {
				documents = nil
			}
			remarks := e.RemarkGrants(documents)
			if (tc.remarks == "") != (len(remarks) == 0) || len(remarks) > 0 && (remarks[0].Exception != "shop/batch" || !strings.Contains(remarks[0].Message, tc.remarks)) {
				t.Errorf("%q", remarks)
			}
		})
	}
}

// What the API server would refuse of an exception is bad input.
func TestBadExceptionOfAFile(t *testing.T) {
	in := Read(&input.Reader{Stdin: strings.NewReader(strings.Replace(grantedTwo, "2026-06-01T13", "2026-06-31T13", 1))}, "-")
	if _, wrong := AddPolicies(nil, in.Documents); len(wrong) != 1 || !strings.Contains(wrong[0].Message, "spec.until") {
		t.Error(wrong)
	}
}
