package faults

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/e2e/suite"
)

// The API server is killed and comes back: the webhooks do not end, the policies are in force at once, and the leader leads again.
func TestAPIServerRestarted(t *testing.T) {
	g := newGround(t)
	node := g.node(t, "api-restarted")
	p := g.runs(t, node, "p")
	second := g.replica(t)
	before := g.renewed(t)
	if err := g.RestartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	g.back(t)
	wantRefused(t, "a force delete", suite.Judged(t, func() error { return g.Client.Delete(t.Context(), p, client.GracePeriodSeconds(0)) }),
		"may still run on "+node+" (ready)", "kubectl podgrace confirm")
	g.ordinaryWork(t, node)
	g.decides(t, g.Webhook)
	g.decides(t, second)
	suite.Eventually(t, "a leader", func(context.Context) (bool, error) { return g.renewed(t).After(before), nil })
}

// renewed is when the webhooks' leader last said so.
func (g *ground) renewed(t *testing.T) time.Time {
	t.Helper()
	var lease coordinationv1.Lease
	if err := g.Client.Get(t.Context(), client.ObjectKey{Namespace: "podgrace-system", Name: "podgrace-webhook"}, &lease); err != nil {
		t.Fatal(err)
	}
	return lease.Spec.RenewTime.Time
}

// many pods are created at once, by so many clients.
const many, clients = 1000, 50

// A thousand pods at once: each is created, and each has what its policy gives.
func TestThousandPodsAtOnce(t *testing.T) {
	g := newGround(t)
	begin := time.Now()
	errs := g.createMany(t, many)
	t.Logf("%d pods in %.1f s", many, time.Since(begin).Seconds())
	if err := errors.Join(errs...); err != nil {
		t.Errorf("%d pods failed, such as: %v", len(errs), errs[0])
	}
	var pods corev1.PodList
	if err := g.Client.List(t.Context(), &pods, client.InNamespace(g.namespace)); err != nil {
		t.Fatal(err)
	}
	if len(pods.Items) != many {
		t.Errorf("%d pods are there", len(pods.Items))
	}
	for i := range pods.Items {
		if p := &pods.Items[i]; *p.Spec.TerminationGracePeriodSeconds != 45 {
			t.Fatalf("%s was missed", p.Name)
		}
	}
}

// createMany returns what failed.
func (g *ground) createMany(t *testing.T, n int) (errs []error) {
	t.Helper()
	var mu sync.Mutex
	var all sync.WaitGroup
	next := make(chan int)
	for range clients {
		all.Go(func() {
			for i := range next {
				p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: g.namespace, Name: fmt.Sprintf("many-%d", i)}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "localhost/none:1"}}}}
				if err := g.Client.Create(t.Context(), p); err != nil {
					mu.Lock()
					errs = append(errs, err)
					mu.Unlock()
				}
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	all.Wait()
	return errs
}

// etcd answers for a tenth of the time only: everything takes longer, nothing fails, and nothing is decided otherwise.
func TestEtcdSlow(t *testing.T) {
	g := newGround(t)
	node := g.node(t, "etcd-slow")
	p := g.runs(t, node, "p")
	end := g.slowEtcd(t)
	defer end()
	if errs := g.createMany(t, 50); len(errs) > 0 {
		t.Errorf("%d pods failed, such as: %v", len(errs), errs[0])
	}
	for range 5 {
		wantRefused(t, "a force delete", g.Client.Delete(t.Context(), p, client.GracePeriodSeconds(0)), "may still run on "+node+" (")
	}
	g.ordinaryWork(t, node)
	end()
	g.decides(t, g.Webhook)
}

// slowEtcd lets etcd run for 20 ms of every 200 ms.
func (g *ground) slowEtcd(t *testing.T) (end func()) {
	t.Helper()
	pid, err := g.EtcdPID()
	if err != nil {
		t.Fatal(err)
	}
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			for _, phase := range []struct {
				signal syscall.Signal
				long   time.Duration
			}{{syscall.SIGSTOP, 180 * time.Millisecond}, {syscall.SIGCONT, 20 * time.Millisecond}} {
				_ = syscall.Kill(pid, phase.signal)
				select {
				case <-done:
					_ = syscall.Kill(pid, syscall.SIGCONT)
					return
				case <-time.After(phase.long):
				}
			}
		}
	}()
	return sync.OnceFunc(func() { close(done); <-ended })
}
