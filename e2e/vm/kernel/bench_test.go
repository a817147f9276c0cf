package kernel

import (
	"testing"

	"github.com/podgrace/podgrace/nodeenforcer/cgroup"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgrouptest"
)

func BenchmarkV2(b *testing.B) {
	cgrouptest.Benchmark(b, cgrouptest.OnV2(b, mountpoint, cgroup.NewV2(mountpoint)))
}
