package kernel

import (
	"os"
	"testing"

	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgrouptest"
)

const mountpoint = "/sys/fs/cgroup"

func TestMain(m *testing.M) {
	cgrouptest.RunHelper()
	if what := os.Getenv(hogVariable); what != "" {
		hog(what)
	}
	m.Run()
}
