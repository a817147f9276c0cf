package docs_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/podgrace/podgrace/deploy"
)

// whileAway is the row of operations.md for each webhook that fails closed, and the match conditions by which that is so.
var whileAway = map[string]struct {
	told       string
	conditions []string
}{
	"delete":            {"| force delete a pod that may run |", []string{"not-by-its-kubelet", "may-run", "without-grace", "not-confirmed"}},
	"finalizer":         {"| remove the last finalizer of a pod that is being removed with grace period 0 |", []string{"not-by-its-kubelet", "completes-a-force-delete", "may-run", "not-confirmed"}},
	"status":            {"| set the status of a running pod to Failed, not by its kubelet |", []string{"not-by-its-kubelet", "ends", "scheduled", "not-confirmed"}},
	"eviction":          {"| evict a pod with grace period 0 |", []string{"without-grace"}},
	"node":              {"| remove the last finalizer of a Node that is being deleted |", []string{"removes", "not-confirmed-off"}},
	"out-of-service":    {"| add the out-of-service taint |", []string{"taint-added", "not-confirmed-off"}},
	"volume-attachment": {"| delete an attached VolumeAttachment |", []string{"no-controller", "attached"}},
	"enforcer":          {"Evictions by node enforcers are refused with any policy or none.", []string{"enforcer"}},
}

// What the API server refuses while the webhook is away is told before it is installed, in one sentence, and by a table: no more of it, and no less. The table
// is tested on a real API server (e2e/faults TestRefusedWhileAway).
func TestRefusedWhileAway(t *testing.T) {
	const sentence = "unsafe removals of pods in namespaces that a policy which denies selects, and unsafe removals of Nodes and attached volumes"
	section := ""
	for page, heading := range map[string]string{"install.md": "\n## Before you install\n", "operations.md": "\n### While the webhook is away\n"} {
		_, text, _ := strings.Cut(readPage(t, page), heading)
		text, _, _ = strings.Cut(text, "\n#")
		text = strings.Join(strings.Fields(text), " ")
		if !strings.Contains(text, sentence) {
			t.Errorf("%s does not say that the API server refuses %s", page, sentence)
		}
		section += text
	}
	closed := 0
	for document := range strings.SplitSeq(string(deploy.WebhookConfigurations), "\n---\n") {
		var c admissionregistrationv1.ValidatingWebhookConfiguration // of the mutating one the same fields are looked at
		if err := yaml.Unmarshal([]byte(document), &c); err != nil {
			t.Fatal(err)
		}
		for _, w := range c.Webhooks {
			if *w.FailurePolicy != admissionregistrationv1.Fail {
				continue
			}
			closed++
			want, ok := whileAway[strings.TrimSuffix(w.Name, ".removal.podgrace.dev")]
			if !ok || !strings.Contains(section, want.told) {
				t.Errorf("operations.md does not tell what %s refuses: %q", w.Name, want.told)
			}
			var have []string
			for _, m := range w.MatchConditions {
				have = append(have, m.Name)
			}
			if diff := cmp.Diff(want.conditions, have); diff != "" {
				t.Errorf("%s: is what operations.md tells still so? (-want +have):\n%s", w.Name, diff)
			}
		}
	}
	if closed != len(whileAway) {
		t.Errorf("%d webhooks fail closed, %d are told", closed, len(whileAway))
	}
}

// The line with which a removal without Helm begins finds both webhook configurations.
func TestLabelOfWebhookConfigurations(t *testing.T) {
	if !strings.Contains(readPage(t, "install.md"), "\nkubectl delete validatingwebhookconfigurations,mutatingwebhookconfigurations -l app.kubernetes.io/part-of=podgrace\n") {
		t.Error("install.md lacks the line")
	}
	kinds := map[string]bool{}
	for document := range strings.SplitSeq(string(deploy.WebhookConfigurations), "\n---\n") {
		var o metav1.PartialObjectMetadata
		if err := yaml.Unmarshal([]byte(document), &o); err != nil {
			t.Fatal(err)
		}
		kinds[o.Kind] = o.Labels["app.kubernetes.io/part-of"] == "podgrace"
	}
	if diff := cmp.Diff(map[string]bool{"MutatingWebhookConfiguration": true, "ValidatingWebhookConfiguration": true}, kinds); diff != "" {
		t.Errorf("by kind, whether the label is there (-want +have):\n%s", diff)
	}
}
