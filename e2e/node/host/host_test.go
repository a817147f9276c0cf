package host

import (
	"context"
	"path/filepath"
	"sync"
	"testing"

	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/e2e/cluster/clustertest"
	"github.com/podgrace/podgrace/e2e/node/ordinary"
	"github.com/podgrace/podgrace/e2e/node/partition"
	"github.com/podgrace/podgrace/e2e/suite"
)

const (
	nodeName  = "real"
	slowImage = "localhost/podgrace/slow:1"
)

var shared = &suite.Shared{Options: cluster.Options{ControllerManager: true, Scheduler: true, ControllerManagerArgs: []string{"--node-monitor-period=1s"}}}

func TestMain(m *testing.M) { suite.Main(m, shared) }

var (
	startNode sync.Once
	node      *cluster.Node
	nodeErr   error
)

// start returns the cluster and its one real node, which all tests share.
func start(t *testing.T) (*suite.Suite, *cluster.Node) {
	t.Helper()
	clustertest.Require(t, cluster.NodeSupported())
	s := shared.Get(t)
	startNode.Do(func() { node, nodeErr = startKubelet(context.Background(), s) })
	if nodeErr != nil {
		t.Fatal(nodeErr)
	}
	return s, node
}

// startKubelet starts the node with the images of all tests.
func startKubelet(ctx context.Context, s *suite.Suite) (*cluster.Node, error) {
	var archives []string
	for image, source := range map[string]string{slowImage: "e2e/node/slow", ordinary.Image: ordinary.ImageSource, partition.Image: partition.ImageSource} {
		archive := filepath.Join(s.Dir, filepath.Base(source)+".tar")
		if err := cluster.BuildImage(ctx, image, source, archive); err != nil {
			return nil, err
		}
		archives = append(archives, archive)
	}
	return s.StartKubelet(ctx, cluster.KubeletOptions{Name: nodeName, Images: archives})
}

func TestOrdinaryWorkMakesNoCall(t *testing.T) {
	s, _ := start(t)
	ordinary.Run(t, s)
}

func TestPartition(t *testing.T) {
	s, n := start(t)
	partition.Run(t, s, n)
}
