package nodeenforcer

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/podgrace/podgrace/nodeenforcer/status"
)

// An address for the metrics opens them there, and nothing else; without one they are where the probes are.
func TestMetricsAddress(t *testing.T) {
	for metrics, want := range map[string]string{"127.0.0.2": "127.0.0.2", "": "127.0.0.1"} {
		t.Run("metrics on "+want, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			group, ctx := errgroup.WithContext(ctx)
			health, free := freePorts(t)
			o := &Options{BindAddress: "127.0.0.1", MetricsAddress: metrics, HealthPort: health, MetricsPort: free, Registry: prometheus.NewRegistry()}
			servers, err := o.serve((&Agent{}).Ready, status.NewPulses(clock.RealClock{}))
			if err != nil {
				t.Fatal(err)
			}
			for _, run := range servers {
				group.Go(func() error { return run(ctx) })
			}
			for _, address := range []string{"127.0.0.1", "127.0.0.2"} {
				for url, open := range map[string]bool{
					fmt.Sprintf("http://%s:%d/healthz", address, o.HealthPort):  address == "127.0.0.1",
					fmt.Sprintf("http://%s:%d/metrics", address, o.MetricsPort): address == want,
				} {
					if err := get(url); (err == nil) != open {
						t.Errorf("%s: got %v", url, err)
					}
				}
			}
			cancel()
			if err := group.Wait(); err != nil {
				t.Error(err)
			}
		})
	}
}

func get(url string) error {
	response, err := http.Get(url)
	if err != nil {
		return err
	}
	return response.Body.Close()
}

// freePorts are two ports that were free a moment ago.
func freePorts(t *testing.T) (int, int) {
	t.Helper()
	var ports [2]int
	for i := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close() }() // once both are known, or they could be one
		ports[i] = l.Addr().(*net.TCPAddr).Port
	}
	return ports[0], ports[1]
}

// A round or a step that hangs makes the enforcer unready, then has the kubelet restart it; one that ends late, or a pause between two, does not.
func TestProbesSeeWhatHangs(t *testing.T) {
	c := clocktesting.NewFakePassiveClock(time.Unix(1, 0))
	p := status.NewPulses(c)
	health, _ := freePorts(t)
	o := &Options{BindAddress: "127.0.0.1", HealthPort: health, Registry: prometheus.NewRegistry()}
	servers, err := o.serve(func() error { return nil }, p)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return servers[0](ctx) })
	probe := func(path string) bool {
		response, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d%s", health, path))
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		return response.StatusCode == http.StatusOK
	}
	for name, loop := range map[string]*status.Pulse{"round": p.Round, "step": p.Step} {
		for range 2 {
			done := loop.Begin()
			for _, test := range []struct {
				after        time.Duration
				ready, lives bool
			}{{status.SlowAfter, true, true}, {time.Second, false, true}, {status.HungAfter, false, false}} {
				c.SetTime(c.Now().Add(test.after))
				if ready, lives := probe("/readyz"), probe("/healthz"); ready != test.ready || lives != test.lives {
					t.Errorf("%s, %s later: ready %t, alive %t", name, test.after, ready, lives)
				}
			}
			done()
			c.SetTime(c.Now().Add(time.Hour))
			if !probe("/readyz") || !probe("/healthz") {
				t.Errorf("%s: idle for an hour, and not ready or not alive", name)
			}
		}
	}
	cancel()
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
}
