package deploy

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/e2e/cluster/clustertest"
	"github.com/podgrace/podgrace/e2e/suite"
)

// shared is a cluster with Podgrace in it.
var shared = &suite.Shared{Options: cluster.Options{ControllerManager: true}}

func TestMain(m *testing.M) {
	code := m.Run()
	if helmDir != "" {
		_ = os.RemoveAll(helmDir)
	}
	if err := shared.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stop the cluster:", err)
		code = 1
	}
	os.Exit(code)
}

// empty starts a cluster without Podgrace, which ends with the test. Its API server looks for a Service's endpoints itself: where
// there are none it says so at once, as with a kube-proxy that rejects. It gets more flags, if there are any.
func empty(t *testing.T, flags ...string) *world {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Minute) // the first run on a machine builds Kubernetes
	defer cancel()
	options := cluster.Options{ControllerManager: true, APIServerArgs: append(flags, "--enable-aggregator-routing=true"), Log: os.Stderr}
	_, err := cluster.Binaries(ctx, os.Stderr, options.Programs()...)
	clustertest.Require(t, err)
	c, err := cluster.Start(ctx, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	return newWorld(t, c)
}
