package certificates

import (
	"testing"

	"github.com/podgrace/podgrace/e2e/wire"
)

// balancer passes connections on to the replicas in turn, as their Service does.
type balancer struct{ *wire.Balancer }

// newBalancer is one until the process ends: it is shared by all tests.
func newBalancer(tb testing.TB) balancer {
	tb.Helper()
	b, err := wire.NewBalancer()
	if err != nil {
		tb.Fatal(err)
	}
	return balancer{b}
}

// to makes these servers the targets.
func (b balancer) to(tb testing.TB, urls ...string) {
	tb.Helper()
	if err := b.To(urls...); err != nil {
		tb.Fatal(err)
	}
}
