package kernel

import (
	"testing"

	"github.com/podgrace/podgrace/nodeenforcer/cgroup"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgroupfile"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgrouptest"
)

func TestV2Conforms(t *testing.T) {
	cgrouptest.Conformance(t, func(t *testing.T) *cgrouptest.Harness {
		return cgrouptest.OnV2(t, mountpoint, cgroup.NewV2(mountpoint))
	})
}

func TestV2IsDetected(t *testing.T) {
	if version, err := cgroup.Detect(mountpoint); version != cgroupfile.V2 || err != nil {
		t.Errorf("got %d, %v", version, err)
	}
	if version, err := cgroup.Detect("/proc"); err == nil {
		t.Errorf("proc: got %d", version)
	}
}
