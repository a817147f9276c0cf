package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/podgrace/podgrace/nodeenforcer"
)

// An address for the metrics opens them there, and nothing else; without one they are where the probes are.
func TestMetricsAddress(t *testing.T) {
	for metrics, want := range map[string]string{"127.0.0.2": "127.0.0.2", "": "127.0.0.1"} {
		t.Run("metrics on "+want, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			group, ctx := errgroup.WithContext(ctx)
			health, free := freePorts(t)
			o := &options{bindAddress: "127.0.0.1", metricsAddr: metrics, healthPort: health, metricsPort: free}
			if err := serve(ctx, o, &nodeenforcer.Agent{}, newRegistry(), group); err != nil {
				t.Fatal(err)
			}
			for _, address := range []string{"127.0.0.1", "127.0.0.2"} {
				for url, open := range map[string]bool{
					fmt.Sprintf("http://%s:%d/healthz", address, o.healthPort):  address == "127.0.0.1",
					fmt.Sprintf("http://%s:%d/metrics", address, o.metricsPort): address == want,
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
