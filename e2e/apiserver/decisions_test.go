package apiserver

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/e2e/measure"
	"github.com/podgrace/podgrace/e2e/suite"
)

// What the webhook decides about an API server's requests is in its log, each line of which is JSON, and what it refuses is counted for the namespace, as
// long as that is there.
func TestDecisionsAreLoggedAndCounted(t *testing.T) {
	s := shared.Get(t)
	if s.Webhook == nil {
		t.Skip("it reads the log of the process that it started")
	}
	ns := s.Namespace(t)
	policy := s.Policy(t, ns, v1alpha1.PodPolicySpec{
		GracePeriod: &v1alpha1.GracePeriodSection{DefaultSeconds: new(int64(45))},
		Removal:     &v1alpha1.RemovalSection{Protect: v1alpha1.ProtectAll, ZeroGrace: v1alpha1.ZeroGraceDeny},
	})
	alice, _ := s.Warned(t, "alice@example.com", "system:masters")
	err := alice.Create(t.Context(), newPod(ns, grace(0)))
	if err == nil {
		t.Fatal("it is allowed")
	}
	refused := err.Error()
	if err := alice.Create(t.Context(), newPod(ns), client.DryRunAll); err != nil {
		t.Fatal(err)
	}
	common := map[string]any{"component": "webhook", "user": "alice@example.com", "operation": "CREATE", "resource": "pods", "namespace": ns, "name": "p", "policies": policy.Name}
	wants := []map[string]any{
		{"path": "/mutate-pods", "decision": "Deny", "reason": "ZeroGracePeriod", "policy": policy.Name},
		{"path": "/mutate-pods", "decision": "Allow", "reason": "Defaulted", "defaults": "terminationGracePeriodSeconds=45", "dryRun": true},
		{"path": "/validate-pods", "decision": "Allow", "reason": "WithinLimits", "dryRun": true},
	}
	var decided []map[string]any
	suite.Eventually(t, "its decisions in the log, which is written by and by", func(context.Context) (bool, error) {
		decided = decisionsOf(t, s.Webhook.LogPath, ns, "alice@example.com")
		return len(decided) >= len(wants), nil
	})
	if len(decided) != len(wants) {
		t.Fatalf("%d decisions: %v", len(decided), decided)
	}
	for i, want := range wants {
		maps.Copy(want, common)
		got := decided[i]
		if uid, _ := got["uid"].(string); len(uid) != 36 {
			t.Errorf("uid %q", uid)
		}
		if seconds, _ := got["seconds"].(float64); seconds <= 0 || seconds > 10 {
			t.Errorf("it took %v s", got["seconds"])
		}
		if message, _ := got["message"].(string); want["decision"] == "Deny" && !strings.Contains(refused, message) {
			t.Errorf("message %q, told %q", message, refused)
		}
		for _, key := range []string{"ts", "level", "v", "logger", "caller", "msg", "uid", "seconds", "message"} {
			delete(got, key)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}

	series := func(ctx context.Context) (map[string]float64, error) {
		text, err := s.Metrics(ctx)
		if err != nil {
			return nil, err
		}
		return measure.Series(text, fmt.Sprintf(`podgrace_namespace_decisions_total{namespace="%s"`, ns))
	}
	got, err := series(t.Context())
	want := map[string]float64{fmt.Sprintf(`podgrace_namespace_decisions_total{namespace="%s",policy="%s",reason="ZeroGracePeriod",verdict="Deny"}`, ns, policy.Name): 1}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	remove(t, s, ns)
	suite.Eventually(t, "its series to go", func(ctx context.Context) (bool, error) {
		left, err := series(ctx)
		return len(left) == 0, err
	})
}

// decisionsOf are those that a log has of what a user did in a namespace; each line of the log is a JSON object.
func decisionsOf(t *testing.T, path, namespace, user string) []map[string]any {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var decided []map[string]any
	for line := range bytes.Lines(text[:bytes.LastIndexByte(text, '\n')+1]) { // the last one may be half written
		var fields map[string]any
		if err := json.Unmarshal(line, &fields); err != nil {
			t.Errorf("%s: %v", line, err)
		}
		if at, err := time.Parse(time.RFC3339Nano, fmt.Sprint(fields["ts"])); err != nil || time.Since(at) > time.Hour {
			t.Errorf("ts %v: %v", fields["ts"], err)
		}
		if fields["logger"] == "decision" && fields["namespace"] == namespace && fields["user"] == user {
			decided = append(decided, fields)
		}
	}
	return decided
}

// remove deletes a namespace as the namespace controller does, which does not run here.
func remove(t *testing.T, s *suite.Suite, name string) {
	t.Helper()
	kube, err := kubernetes.NewForConfig(s.Config)
	if err != nil {
		t.Fatal(err)
	}
	var ns corev1.Namespace
	if err := s.Client.Get(t.Context(), client.ObjectKey{Name: name}, &ns); err != nil {
		t.Fatal(err)
	}
	if err := s.Client.Delete(t.Context(), &ns); err != nil {
		t.Fatal(err)
	}
	if err := s.Client.Get(t.Context(), client.ObjectKey{Name: name}, &ns); err != nil {
		t.Fatal(err)
	}
	ns.Spec.Finalizers = nil
	if _, err := kube.CoreV1().Namespaces().Finalize(t.Context(), &ns, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}
