package cgroupv1

import (
	"testing"

	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/e2e/cluster/clustertest"
	"github.com/podgrace/podgrace/e2e/manypods"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgroupfile"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgrouptest"
)

func TestV1ManyPods(t *testing.T) {
	clustertest.Require(t, cluster.NodeSupported())
	v1 := tree(t, "/proc")
	manypods.Test(t, cgrouptest.OnV1(t, v1.Mountpoints(), v1), cgroupfile.V1)
}
