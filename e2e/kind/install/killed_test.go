package install

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/e2e/kind"
	"github.com/podgrace/podgrace/e2e/suite"
)

// killReplicas kills all replicas at once, and lets none come back while it looks: pods come and go in ordinary ways, and what
// nobody can judge is refused. Then they come back by themselves.
func (w *world) killReplicas(t *testing.T) {
	t.Helper()
	w.applyPolicies(t)
	defer w.removeExamples(t)
	ns := w.churnNamespace(t)
	if err := w.comeAndGo(t.Context(), ns, "before"); err != nil {
		t.Fatal(err)
	}
	suite.EventuallyWithin(t, time.Minute, "the limits in the API server", func(ctx context.Context) (bool, error) {
		var p v1alpha1.PodPolicy
		err := w.client.Get(ctx, client.ObjectKey{Name: "stateful"}, &p)
		c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionCompiled)
		return c != nil && c.ObservedGeneration == p.Generation && c.Reason == v1alpha1.ReasonPartly, err // zeroGrace looks at claims
	})
	w.waitInForce(t) // by another controller of the leader's; the suite before has removed the last policy that guards, which disarms
	refused := w.withoutReplicas(t, ns)
	w.waitReady(t, current)
	n := 0
	suite.EventuallyWithin(t, 2*time.Minute, "the webhook to be asked again", func(ctx context.Context) (bool, error) {
		n++
		err := w.comeAndGo(ctx, ns, fmt.Sprintf("after-%d", n))
		return err == nil, err
	})
	if err := w.client.Delete(t.Context(), refused, client.GracePeriodSeconds(0)); err != nil {
		t.Errorf("what was refused for want of the webhook, again: %v", err)
	}
	w.lab.Logf("%s: all replicas killed, and back", t.Name())
}

// withoutReplicas looks at it while no replica runs or can start.
func (w *world) withoutReplicas(t *testing.T, ns string) *corev1.Pod {
	t.Helper()
	w.kubectl(t, "cordon", kind.Node)
	defer w.kubectl(t, "uncordon", kind.Node)
	w.waitCordoned(t, ns)
	w.kubectl(t, "delete", "pods", "--namespace="+namespace, "--selector=app.kubernetes.io/name=podgrace-webhook", "--force", "--grace-period=0")
	suite.Eventually(t, "the end of all replicas' processes", func(ctx context.Context) (bool, error) {
		names, err := w.lab.Docker.Run(ctx, "exec", kind.Node, "sh", "-c", "cat /proc/[0-9]*/comm 2>/dev/null; true") // one may end meanwhile
		return len(names) > 0 && !slices.Contains(strings.Fields(names), "webhook"), err
	})
	return w.whileAway(t, ns)
}

// waitCordoned returns when the scheduler knows of the cordon: it hears of Nodes and of Pods by separate watches, and could bind the replicas that come after those that are killed.
func (w *world) waitCordoned(t *testing.T, ns string) {
	t.Helper()
	suite.EventuallyWithin(t, time.Minute, "the scheduler to heed the cordon", func(ctx context.Context) (bool, error) {
		probe := churnPod(ns, "")
		probe.GenerateName, probe.Spec.NodeName = "probe-", ""
		if err := w.client.Create(ctx, probe); err != nil {
			return false, err
		}
		said := ""
		err := cluster.Until(ctx, "the scheduler's word on "+probe.Name, func(ctx context.Context) (bool, error) {
			err := w.client.Get(ctx, client.ObjectKeyFromObject(probe), probe)
			i := slices.IndexFunc(probe.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodScheduled })
			if i >= 0 {
				said = probe.Status.Conditions[i].Message
			}
			return i >= 0, err
		})
		err = errors.Join(err, w.client.Delete(ctx, probe, client.GracePeriodSeconds(0)))
		return strings.Contains(said, "were unschedulable"), err // as the plugin NodeUnschedulable says it; one that was bound has no message
	})
}

// whileAway is what holds while there is no replica. It returns a pod of which a force delete was refused.
func (w *world) whileAway(t *testing.T, ns string) *corev1.Pod {
	t.Helper()
	const limit = "terminationGracePeriodSeconds is 5 but must be 60"
	if err := w.client.Create(t.Context(), churnPod(ns, "beyond")); err == nil || !strings.Contains(err.Error(), limit) {
		t.Errorf("a pod beyond a limit, which the API server holds by itself: got %v, want %q", err, limit)
	}
	pod := churnPod(ns, "away")
	pod.Spec.TerminationGracePeriodSeconds = new(int64(60))
	if err := w.client.Create(t.Context(), pod); err != nil {
		t.Fatalf("a pod can't be created: %v", err)
	}
	if got := pod.Spec.PriorityClassName; got != "" {
		t.Errorf("it has the PriorityClass %s: somebody was asked", got)
	}
	const away = "failed calling webhook"
	if err := w.client.Delete(t.Context(), pod, client.GracePeriodSeconds(0)); err == nil || !strings.Contains(err.Error(), away) {
		t.Errorf("a force delete: got %v, want %q", err, away)
	}
	if err := w.client.Delete(t.Context(), pod); err != nil {
		t.Errorf("an ordinary delete: %v", err)
	}
	return pod
}
