package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/podgrace/podgrace/cli/review"
	"github.com/podgrace/podgrace/cli/terminal"
	"github.com/podgrace/podgrace/internal/manifest"
)

// What an operation is about: each workload once, pods that nobody else is judged for, and of those that end nothing.
func TestConcerned(t *testing.T) {
	var documents []*manifest.Document
	for _, o := range []struct{ apiVersion, kind, name, owner, rest string }{
		{"apps/v1", "Deployment", "web", "", ""},
		{"apps/v1", "ReplicaSet", "web-abc", "apps/v1 Deployment web", ""},
		{"argoproj.io/v1alpha1", "Rollout", "canary", "", ""},
		{"apps/v1", "ReplicaSet", "canary-new", "argoproj.io/v1alpha1 Rollout canary", ""},
		{"apps/v1", "ReplicaSet", "other-old", "argoproj.io/v1alpha1 Rollout other", `"spec":{"replicas":0}`}, // as where Rollouts are not named
		{"apps/v1", "ReplicaSet", "other-new", "argoproj.io/v1alpha1 Rollout other", `"spec":{"replicas":1}`},
		{"batch/v1", "Job", "done", "", `"status":{"conditions":[{"type":"Complete","status":"True"}]}`},
		{"v1", "Node", "n1", "", ""},
		{"v1", "Pod", "web-abc-1", "apps/v1 ReplicaSet web-abc", ""},
		{"v1", "Pod", "canary-new-1", "apps/v1 ReplicaSet canary-new", ""},
		{"v1", "Pod", "other-new-1", "apps/v1 ReplicaSet other-new", ""},
		{"v1", "Pod", "alone", "", ""},
		{"v1", "Pod", "ended", "", `"status":{"phase":"Succeeded"}`},
		{"v1", "Pod", "static-n1", "v1 Node n1", `"status":{}`},
		{"v1", "Pod", "kafka-0", "strimzi.io/v1 StrimziPodSet kafka", ""},
		{"v1", "Pod", "job-1", "batch/v1 Job job", ""},                     // as where Jobs may not be listed
		{"v1", "Pod", "hidden", "apps/v1 Deployment web", ""},              // which makes none
		{"v1", "Pod", "hidden-too", "v1 Node n1", ""},                      // and is no static pod's
		{"apps/v1", "ReplicaSet", "api-abc", "apps/v1 Deployment api", ""}, // as where that one may not be read
		{"v1", "Pod", "api-abc-1", "apps/v1 ReplicaSet api-abc", ""},
	} {
		var owners []any
		if owner := strings.Fields(o.owner); len(owner) > 0 {
			owners = append(owners, map[string]any{"apiVersion": owner[0], "kind": owner[1], "name": owner[2], "uid": owner[1] + owner[2], "controller": true})
		}
		whole := map[string]any{}
		if err := json.Unmarshal([]byte("{"+o.rest+"}"), &whole); err != nil {
			t.Fatal(err)
		}
		whole["metadata"] = map[string]any{"name": o.name, "uid": o.kind + o.name, "ownerReferences": owners}
		if o.name == "static-n1" {
			whole["metadata"].(map[string]any)["annotations"] = map[string]any{"kubernetes.io/config.mirror": "x"}
		}
		raw, err := json.Marshal(whole)
		if err != nil {
			t.Fatal(err)
		}
		documents = append(documents, &manifest.Document{APIVersion: o.apiVersion, Kind: o.kind, Name: o.name, JSON: raw})
	}
	removed := []string{"n1", "web-abc-1", "canary-new-1", "other-new-1", "alone", "static-n1", "kafka-0", "job-1", "hidden", "hidden-too", "api-abc-1"}
	for operation, want := range map[string][]string{
		review.OperationCreate: {"web", "canary", "other-new", "alone", "kafka-0", "job-1", "hidden", "hidden-too", "api-abc-1"},
		review.OperationDelete: removed,
		review.OperationEvict:  removed,
	} {
		var got []string
		for _, d := range concerned(slices.Clone(documents), operation) {
			got = append(got, d.Name)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", operation, d)
		}
	}
}

// Without -f it is what is in the cluster, by its own policies or others; of one namespace where one is named. What may not be read is told, and the rest is reviewed.
func TestReviewOfACluster(t *testing.T) {
	kubeconfig := cluster(t, map[string]string{
		"/apis/apps/v1/namespaces/shop/deployments": `{"items":[{"metadata":{"namespace":"shop","name":"only"},"spec":{"selector":{"matchLabels":{"app":"only"}},"template":{"metadata":{"labels":{"app":"only"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}]}`,
		"/apis/apps/v1/replicasets":                 `{"items":[{"metadata":{"namespace":"shop","name":"web-abc","uid":"u","ownerReferences":[{"apiVersion":"apps/v1","kind":"Deployment","name":"web","uid":"d","controller":true}]},"spec":{"selector":{"matchLabels":{"app":"web"}},"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}]}`,
		"/api/v1/nodes":                             `{"items":[{"metadata":{"name":"n1","uid":"n"},"status":{"conditions":[{"type":"Ready","status":"True"}]}}]}`,
		"/api/v1/namespaces":                        `{"items":[{"metadata":{"name":"shop","labels":{"kubernetes.io/metadata.name":"shop"}}}]}`,
	})
	denying := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(denying, []byte("apiVersion: podgrace.dev/v1alpha1\nkind: PodPolicy\nmetadata: {name: denying}\nspec: {removal: {forceDelete: Deny, protect: All}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		args string
		want []string
	}{
		"created":         {"", []string{"CREATE Deployment shop/web: Allowed 20 (cluster)", "CREATE Deployment shop/api: Allowed 20 (cluster)"}},
		"by other ones":   {"--policy testdata/diff/new.yaml", []string{"CREATE Deployment shop/web: Allowed 45 (cluster)", "CREATE Deployment shop/api: Allowed 45 (cluster)"}},
		"of a namespace":  {"-n shop", []string{"CREATE Deployment shop/only: Allowed 20 (cluster)"}},
		"deleted":         {"--operation delete --grace-period 0", []string{"DELETE Node n1: Allowed (cluster)", "DELETE Pod shop/web-abc-1: Allowed (cluster)"}},
		"deleted, denied": {"--operation delete --grace-period 0 --policy " + denying, []string{"DELETE Node n1: Denied (cluster)", "DELETE Pod shop/web-abc-1: Denied (cluster)"}},
	} {
		t.Run(name, func(t *testing.T) {
			var out, told bytes.Buffer
			root := newRoot(terminal.Terminal{In: strings.NewReader(""), Out: &out, Err: &told}, "podgrace")
			root.SetArgs(append([]string{"review", "-o", "json", "--kubeconfig", kubeconfig}, strings.Fields(tc.args)...))
			_ = root.ExecuteContext(t.Context()) // there is an error among the results
			var r review.Report
			if err := json.Unmarshal(out.Bytes(), &r); err != nil {
				t.Fatalf("%v: %s %s", err, out.String(), told.String())
			}
			var got []string
			for _, result := range r.Results {
				grace := ""
				for _, op := range result.Patch {
					if op.Path == "/spec/terminationGracePeriodSeconds" {
						grace = " " + string(op.Value)
					}
				}
				got = append(got, fmt.Sprintf("%s %s: %s%s (%s)", result.Operation, result.Resource, result.Decision, grace, result.Source.File))
			}
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Errorf("(-want +got):\n%s\n%s", d, told.String())
			}
			if len(r.Errors) != 1 || !strings.Contains(r.Errors[0].Message, "list the DaemonSet objects") || !r.Summary.Cluster || r.Summary.Files != 0 {
				t.Errorf("%+v %+v", r.Summary, r.Errors)
			}
		})
	}
}
