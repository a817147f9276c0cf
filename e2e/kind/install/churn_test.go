package install

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// churnNode is a node object without a kubelet: its pods cost the real one nothing, and go at once.
const churnNode = "churn"

// churn makes and force-deletes pods without pause until it is stopped. Each asks both webhooks: one that could not be
// asked shows as a pod without its minimum of grace, or as a refused delete.
type churn struct {
	begun  time.Time
	stop   context.CancelFunc
	wg     sync.WaitGroup
	mu     sync.Mutex
	pods   int
	failed []error
}

// churnWorkers at once; each waits for every answer.
const churnWorkers = 2

// startChurn starts it.
func (w *world) startChurn(t *testing.T) *churn {
	t.Helper()
	ns := w.churnNamespace(t)
	ctx, stop := context.WithCancel(t.Context())
	c := &churn{begun: time.Now(), stop: stop}
	for worker := range churnWorkers {
		c.wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				// Not ctx: the last pod is not cut off halfway.
				c.note(time.Now(), w.comeAndGo(context.WithoutCancel(ctx), ns, fmt.Sprintf("churn-%d-%d", worker, i)))
			}
		})
	}
	return c
}

// churnNamespace makes the node, and a namespace with the stateful example's policy.
func (w *world) churnNamespace(t *testing.T) string {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "churn-", Labels: map[string]string{"podgrace.dev/profile": "stateful"}}}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: churnNode}}
	if err := errors.Join(w.client.Create(t.Context(), ns), w.client.Create(t.Context(), node)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.Background()
		if err := errors.Join(w.client.Delete(ctx, ns), w.client.Delete(ctx, node)); err != nil {
			t.Error(err)
		}
	})
	if _, err := w.Kubectl(t.Context(), "wait", "--for=create", "--timeout=1m", "--namespace="+ns.Name, "serviceaccount/default"); err != nil {
		t.Fatal(err)
	}
	return ns.Name
}

// note counts a pod that was begun then. When and for how long something failed tells a call that nobody answered in time from a connection that was cut off.
func (c *churn) note(begun time.Time, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pods++
	if err != nil {
		c.failed = append(c.failed, fmt.Errorf("%.1f s after the churn began, for %.3f s: %w", begun.Sub(c.begun).Seconds(), time.Since(begun).Seconds(), err))
	}
}

// end stops it and returns how many pods there were, and what failed.
func (c *churn) end() (pods int, failed []error) {
	c.stop()
	c.wg.Wait()
	return c.pods, c.failed
}

// comeAndGo makes one pod, sees what it got, and force-deletes it: it has neither identity nor storage, so that it may.
func (w *world) comeAndGo(ctx context.Context, ns, name string) error {
	pod := churnPod(ns, name)
	if err := w.client.Create(ctx, pod); err != nil {
		return fmt.Errorf("create: %w", err)
	}
	var missed error
	if got := *pod.Spec.TerminationGracePeriodSeconds; got != 60 {
		missed = fmt.Errorf("pod %s has %d s to stop, want 60: the webhook was not asked", name, got)
	}
	if err := w.client.Delete(ctx, pod, client.GracePeriodSeconds(0)); err != nil {
		return errors.Join(missed, fmt.Errorf("delete: %w", err))
	}
	return missed
}

func churnPod(ns, name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name},
		Spec: corev1.PodSpec{
			NodeName: churnNode, TerminationGracePeriodSeconds: new(int64(5)), // less than the policy's minimum
			Containers: []corev1.Container{{Name: "a", Image: "localhost/podgrace/pause:1"}},
		},
	}
}
