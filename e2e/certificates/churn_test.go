package certificates

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// graceSeconds is what the policy gives to a pod. Mutation fails open: one without it was not mutated.
const graceSeconds int64 = 45

// churn creates pods and force-deletes them, one after the other without pause, each on new connections. A call of the webhook
// that fails is a failure: of mutation by the pod's grace period, of the removal guard because it fails closed.
type churn struct {
	pair      *pair
	namespace string
	// held by the request that is under way; a test that takes it has none in flight.
	between  sync.Mutex
	pods     int
	failures []string
	longest  time.Duration
}

// start runs the churn until the function that it returns, which returns when it has ended.
func (p *pair) churn(t *testing.T, namespace string) (c *churn, end func()) {
	t.Helper()
	c = &churn{pair: p, namespace: namespace}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			c.once()
		}
	}()
	return c, func() { cancel(); <-ended }
}

func (c *churn) once() {
	c.between.Lock()
	defer c.between.Unlock()
	began := time.Now()
	if err := c.cycle(context.Background()); err != nil {
		c.failures = append(c.failures, fmt.Sprintf("%s: %v", time.Now().Format(time.TimeOnly), err))
	}
	c.pods++
	c.longest = max(c.longest, time.Since(began))
}

// cycle is one pod's life.
func (c *churn) cycle(ctx context.Context) error {
	c.pair.balancer.Cut()
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, GenerateName: "p-"},
		Spec:       corev1.PodSpec{NodeName: "nowhere", Containers: []corev1.Container{{Name: "c", Image: "localhost/none:1"}}},
	}
	if err := c.pair.Client.Create(ctx, p); err != nil {
		return fmt.Errorf("create: %w", err)
	}
	c.pair.balancer.Cut()
	err := c.pair.Client.Delete(ctx, p, client.GracePeriodSeconds(0))
	if err != nil {
		return fmt.Errorf("force delete: %w", err)
	}
	if got := *p.Spec.TerminationGracePeriodSeconds; got != graceSeconds {
		return fmt.Errorf("create: the pod was not mutated: a grace period of %d s", got)
	}
	return nil
}

// report fails for every failure and logs the figures.
func (c *churn) report(t *testing.T, what string) {
	t.Helper()
	c.between.Lock()
	defer c.between.Unlock()
	for _, f := range c.failures {
		t.Error(f)
	}
	t.Logf("%s: %d pods created and force-deleted, %d failed; the longest took %s", what, c.pods, len(c.failures), c.longest.Round(time.Millisecond))
}

// The churn sees a certificate that the API server refuses; else its 0 failures would say nothing.
func TestChurnSeesARefusedCertificate(t *testing.T) {
	p, namespace := newPair(t)
	c := &churn{pair: p, namespace: namespace}
	c.once()
	c.report(t, "before")
	p.balancer.to(t, stranger(t))
	c.once()
	p.balancer.to(t, p.replicas[0].URL, p.replicas[1].URL)
	if len(c.failures) != 1 || !strings.Contains(c.failures[0], "the pod was not mutated") { // a policy that only warns fails open
		t.Errorf("got %q", c.failures)
	}
}
