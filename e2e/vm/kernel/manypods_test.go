package kernel

import (
	"testing"

	"github.com/podgrace/podgrace/e2e/manypods"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgroupfile"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgrouptest"
)

func TestV2ManyPods(t *testing.T) {
	manypods.Test(t, cgrouptest.OnV2(t, mountpoint, cgroup.NewV2(mountpoint)), cgroupfile.V2)
}
