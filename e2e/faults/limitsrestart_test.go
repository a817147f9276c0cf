package faults

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/defaulting/limits"
	"github.com/podgrace/podgrace/e2e/suite"
)

// creators create pods at the same time, half of them pods that are within the limits.
const creators = 8

// The API server is killed and comes back while pods are created and no webhook answers. A pod that is within the limits is never refused by them. One that is not is not let go once the API server
// has read which rights there are: it answers nothing before it has read the policies that it judges by (SetReadyFunc, k8s.io/apiserver/pkg/admission/plugin/policy/generic/plugin.go, 0.36.3), but
// waits for no Roles and RoleBindings (pkg/kubeapiserver/authorizer/config.go, 1.36.3), and the limits are in force by a right (keeps.go). So there is a gap for whom it lets in without rights, as these
// clients, system:masters.
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
	l.holds.Store(true)
	var all sync.WaitGroup
	for i := range creators {
		all.Go(func() { l.create(ctx, t, i%2 == 0) })
	}
	l.both(t, "before")
	l.holds.Store(false)
	all.Go(func() { l.untilHeld(ctx, t) })
	if err := g.RestartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	suite.Eventually(t, "the right by which the limits are in force", func(context.Context) (bool, error) { return l.holds.Load(), nil })
	l.both(t, "after")
	stop()
	all.Wait()
	t.Log(l.answers)
}

// load is what became of pods.
type load struct {
	*ground
	holds   atomic.Bool // the API server that answers is known to have read the right by which the limits are in force
	mu      sync.Mutex
	answers map[string]int
}

// untilHeld returns when the API server has been away, and the one that came back says that the webhook's account has the right for which the limits ask.
func (l *load) untilHeld(ctx context.Context, t *testing.T) {
	away := false
	err := wait.PollUntilContextCancel(ctx, 5*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: webhookUser, ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: "podgrace-system", Group: v1alpha1.GroupVersion.Group, Resource: limits.Resource, Verb: limits.HoldVerb,
		}}}
		err := l.Client.Create(ctx, review)
		away = away || utilnet.IsConnectionRefused(err)
		return away && err == nil && review.Status.Allowed, nil
	})
	if err != nil && !t.Failed() {
		t.Errorf("the right by which the limits are in force: %v", err)
	}
	l.holds.Store(err == nil)
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
		holds := l.holds.Load()
		err := l.try(ctx, grace, hook)
		limited := err != nil && strings.Contains(err.Error(), limits.Name)
		switch {
		case err == nil && !within && !holds:
			l.count("not held yet")
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
