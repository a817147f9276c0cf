package faults

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/defaulting/limits"
	"github.com/podgrace/podgrace/e2e/suite"
)

// creators create pods at the same time, half of them pods that are within the limits.
const creators = 8

// The API server is killed and comes back while pods are created and no webhook answers. A pod that is within the limits is never refused by them,
// and one that is not is never let go: the API server answers nothing before it has read the policies that it judges by.
func TestLimitsAcrossARestart(t *testing.T) {
	s := shared.Get(t)
	g := &ground{Suite: s, namespace: s.Namespace(t)}
	p := s.Policy(t, g.namespace, v1alpha1.PodPolicySpec{
		GracePeriod: &v1alpha1.GracePeriodSection{DefaultSeconds: new(int64(45)), MinSeconds: new(int64(20)), MaxSeconds: new(int64(60)), PreStopMarginSeconds: new(int64(5))},
	})
	g.compiled(t, p)
	restore := g.callAt(t, "https://localhost:1", nil)
	defer func() { restore(); g.back(t) }()
	g.limited(t, "below the minimum", 10, nil, "PodPolicy "+p.Name+": minimum 20 s")

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	l := &load{ground: g, answers: map[string]int{}}
	var all sync.WaitGroup
	for i := range creators {
		all.Go(func() { l.create(ctx, t, i%2 == 0) })
	}
	l.both(t, "before")
	if err := g.RestartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.both(t, "after")
	stop()
	all.Wait()
	t.Log(l.answers)
}

// load is what became of pods.
type load struct {
	*ground
	mu      sync.Mutex
	answers map[string]int
}

// create makes pods within the limits, or beyond them, until the context ends or one gets the wrong answer.
func (l *load) create(ctx context.Context, t *testing.T, within bool) {
	grace, what := int64(61), "refused"
	if within {
		grace, what = 60, "let go"
	}
	hook := func(p *corev1.Pod) {
		p.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"sh", "-c", "sleep 30 && quit"}}}}
	}
	// At a pace: where nobody listens an answer takes no time.
	_ = wait.PollUntilContextCancel(ctx, 5*time.Millisecond, true, func(ctx context.Context) (wrong bool, _ error) {
		err := l.try(ctx, grace, hook)
		limited := err != nil && strings.Contains(err.Error(), limits.Name)
		switch {
		case err == nil && !within, limited && within, limited && !strings.Contains(err.Error(), "must be 60"):
			t.Errorf("a pod with a grace period of %d s: %v", grace, err)
			return true, nil
		case err == nil, limited:
			l.count(what)
		default: // nobody listens yet, or the API server is not ready to admit anything
			l.count("no answer")
		}
		return false, nil
	})
}

func (l *load) count(what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answers[what]++
}

// both returns when pods of both sorts were answered since it was called.
func (l *load) both(t *testing.T, when string) {
	t.Helper()
	seen := func() (letGo, refused int) {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.answers["let go"], l.answers["refused"]
	}
	letGo, refused := seen()
	suite.Eventually(t, "answers "+when+" the restart", func(context.Context) (bool, error) {
		a, b := seen()
		return t.Failed() || a > letGo && b > refused, nil
	})
}
