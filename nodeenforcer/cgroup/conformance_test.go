package cgroup_test

import (
	"testing"

	"github.com/podgrace/podgrace/nodeenforcer/cgroup"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgrouptest"
)

func TestFakeConforms(t *testing.T) {
	cgrouptest.Conformance(t, cgrouptest.OnFake)
}

// The real kernel's trees are tested by e2e/node; here it is what needs no kernel.
func TestV2ConformsOnOrdinaryFiles(t *testing.T) {
	cgrouptest.Conformance(t, func(t *testing.T) *cgrouptest.Harness {
		root := cgrouptest.NewFolder(t)
		return cgrouptest.OnFiles(root, cgroup.NewV2(root), cgrouptest.SamplesV2)
	})
}
