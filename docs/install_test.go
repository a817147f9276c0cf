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

// whileAway is what install.md says of each webhook that fails closed, and the match conditions by which that is so.
var whileAway = map[string]struct {
	told       string
	conditions []string
}{
	"delete":            {"force deletes of pods that may still run", []string{"not-by-its-kubelet", "may-run", "without-grace", "not-confirmed"}},
	"finalizer":         {"updates that complete one", []string{"not-by-its-kubelet", "completes-a-force-delete", "may-run", "not-confirmed"}},
	"status":            {"statuses that say such a pod has ended", []string{"not-by-its-kubelet", "ends", "scheduled", "not-confirmed"}},
	"eviction":          {"evictions with a grace period of 0, whatever the pod", []string{"without-grace"}},
	"node":              {"every DELETE of a Node, also one that would only begin its drain (Karpenter's), and the removal of the last finalizer of one that is being deleted,", []string{"removes", "not-confirmed-off"}},
	"out-of-service":    {"the out-of-service taint, where the node was not confirmed to be off", []string{"taint-added", "not-confirmed-off"}},
	"volume-attachment": {"DELETEs of VolumeAttachments that are attached, but for the attach-detach controller's", []string{"no-controller", "attached"}},
	"enforcer":          {"With any policy or none, in every namespace: deletes and evictions by the node enforcers", []string{"enforcer"}},
}

// What the API server refuses while the webhook is away is told before it is installed: no more of it, and no less.
func TestRefusedWhileAway(t *testing.T) {
	_, section, _ := strings.Cut(readPage(t, "install.md"), "\n## Before you install\n")
	section, _, _ = strings.Cut(section, "\n## ")
	section = strings.Join(strings.Fields(section), " ")
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
				t.Errorf("install.md does not tell what %s refuses: %q", w.Name, want.told)
			}
			var have []string
			for _, m := range w.MatchConditions {
				have = append(have, m.Name)
			}
			if diff := cmp.Diff(want.conditions, have); diff != "" {
				t.Errorf("%s: is what install.md tells still so? (-want +have):\n%s", w.Name, diff)
			}
		}
	}
	if closed != len(whileAway) {
		t.Errorf("%d webhooks fail closed, %d are told", closed, len(whileAway))
	}
}

// The line that is to be typed before Helm 3's uninstall finds both webhook configurations.
func TestLabelOfWebhookConfigurations(t *testing.T) {
	if !strings.Contains(readPage(t, "install.md"), "\nkubectl delete mutatingwebhookconfigurations,validatingwebhookconfigurations -l app.kubernetes.io/part-of=podgrace ") {
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
