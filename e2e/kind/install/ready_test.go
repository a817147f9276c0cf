package install

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/e2e/kind"
	"github.com/podgrace/podgrace/e2e/suite"
)

// namespace is Podgrace's, nodeNamespace the node enforcer's.
const (
	namespace     = "podgrace-system"
	nodeNamespace = "podgrace-node"
)

// waitReady returns when the webhook and the node enforcer are rolled out and all webhooks have a CA.
func (w *world) waitReady(t *testing.T, version string) {
	t.Helper()
	w.waitRolledOut(t, namespace, "deployment/podgrace-webhook")
	w.waitRolledOut(t, w.enforcerNamespace(version), "daemonset/podgrace-nodeenforcer")
	suite.EventuallyWithin(t, 2*time.Minute, "caBundle in all webhooks", func(ctx context.Context) (bool, error) {
		var m admissionregistrationv1.MutatingWebhookConfiguration
		var v admissionregistrationv1.ValidatingWebhookConfiguration
		key := client.ObjectKey{Name: "podgrace"}
		if err := errors.Join(w.client.Get(ctx, key, &m), w.client.Get(ctx, key, &v)); err != nil {
			return false, err
		}
		for _, hook := range m.Webhooks {
			if len(hook.ClientConfig.CABundle) == 0 {
				return false, nil
			}
		}
		for _, hook := range v.Webhooks {
			if len(hook.ClientConfig.CABundle) == 0 {
				return false, nil
			}
		}
		return true, nil
	})
}

// enforcerNamespace is where a version has its node enforcer. Versions before the component nodeenforcer have it in Podgrace's own.
func (w *world) enforcerNamespace(version string) string {
	if w.hasEnforcerApart(version) {
		return nodeNamespace
	}
	return namespace
}

// enforcingComponent is the component with the node enforcer that writes.
const enforcingComponent = "nodeenforcer-enforce"

// enforcerComponent is the component of a version with the node enforcer that writes. Versions before nodeEnforcer.mode have one component.
func (w *world) enforcerComponent(version string) string {
	if _, err := os.Stat(filepath.Join(w.lab.Dir, version, "deploy", "components", enforcingComponent)); err == nil {
		return enforcingComponent
	}
	return "nodeenforcer"
}

// hasEnforcerApart reports whether a version has the node enforcer apart, in a component.
func (w *world) hasEnforcerApart(version string) bool {
	_, err := os.Stat(filepath.Join(w.lab.Dir, version, "deploy", "components", "nodeenforcer"))
	return err == nil
}

// waitRolledOut returns when these workloads of a namespace are rolled out.
func (w *world) waitRolledOut(t *testing.T, namespace string, workloads ...string) {
	t.Helper()
	for _, workload := range workloads {
		if _, err := w.Kubectl(t.Context(), "rollout", "status", "--namespace="+namespace, "--timeout=4m", workload); err != nil {
			t.Fatalf("%v\n%s", err, w.state())
		}
	}
}

// waitReplaced returns when no replica of another version is left.
func (w *world) waitReplaced(t *testing.T, version string) {
	t.Helper()
	w.waitEnd(t, "the other version's replicas", func(pod corev1.Pod) bool {
		return !strings.HasSuffix(pod.Spec.Containers[0].Image, kind.Image("webhook", version)) // an installer may name the registry
	})
}

// waitEnd returns when none of these replicas is left: those that end go on serving for a while.
func (w *world) waitEnd(t *testing.T, what string, these func(corev1.Pod) bool) {
	t.Helper()
	suite.EventuallyWithin(t, 2*time.Minute, "the end of "+what, func(ctx context.Context) (bool, error) {
		var pods corev1.PodList
		err := w.client.List(ctx, &pods, client.InNamespace(namespace), client.MatchingLabels{"app.kubernetes.io/name": "podgrace-webhook"})
		return !slices.ContainsFunc(pods.Items, these), err
	})
}

// state describes what there is of Podgrace, for a failure.
func (w *world) state() string {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var text strings.Builder
	for _, args := range [][]string{
		{"get", "all,events", "--namespace=" + namespace, "--output=wide"},
		{"get", "all,events", "--namespace=" + nodeNamespace, "--output=wide"},
		{"logs", "--namespace=" + namespace, "--selector=app.kubernetes.io/part-of=podgrace", "--tail=15", "--prefix"},
	} {
		out, err := w.Kubectl(ctx, args...)
		if err != nil {
			out = err.Error()
		}
		text.WriteString(out + "\n")
	}
	return text.String()
}

// states are the replicas' containers, in a line: one that was killed has ended before.
func (w *world) states(t *testing.T) string {
	t.Helper()
	var all []string
	for _, pod := range w.webhookPods(t) {
		for _, c := range pod.Status.ContainerStatuses {
			text := fmt.Sprintf("%s ready %t, restarted %d times", pod.Name, c.Ready, c.RestartCount)
			if last := c.LastTerminationState.Terminated; last != nil {
				text += fmt.Sprintf(" (%s, exit code %d)", last.Reason, last.ExitCode)
			}
			all = append(all, text)
		}
	}
	return strings.Join(all, "; ")
}

// webhookPods are the replicas that serve.
func (w *world) webhookPods(t *testing.T) []corev1.Pod {
	t.Helper()
	var pods corev1.PodList
	if err := w.client.List(t.Context(), &pods, client.InNamespace(namespace), client.MatchingLabels{"app.kubernetes.io/name": "podgrace-webhook"}); err != nil {
		t.Fatal(err)
	}
	var serving []corev1.Pod
	for _, pod := range pods.Items {
		if pod.DeletionTimestamp == nil {
			serving = append(serving, pod)
		}
	}
	return serving
}

// metrics returns what a replica's port metrics serves, fetched through the API server.
func (w *world) metrics(ctx context.Context, pod string) (string, error) {
	return w.Kubectl(ctx, "get", "--raw", "/api/v1/namespaces/"+namespace+"/pods/"+pod+":8080/proxy/metrics")
}
