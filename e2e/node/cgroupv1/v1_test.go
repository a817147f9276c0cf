package cgroupv1

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/e2e/cluster/clustertest"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgroupfile"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgrouptest"
)

const mountpoint = "/sys/fs/cgroup"

func TestMain(m *testing.M) {
	cgrouptest.RunHelper()
	m.Run()
}

func tree(t *testing.T, procRoot string) *cgroup.V1 {
	t.Helper()
	v1, err := cgroup.NewV1(mountpoint, procRoot)
	clustertest.Require(t, err)
	return v1
}

func TestV1Conforms(t *testing.T) {
	clustertest.Require(t, cluster.NodeSupported())
	cgrouptest.Conformance(t, func(t *testing.T) *cgrouptest.Harness {
		v1 := tree(t, "/proc")
		return cgrouptest.OnV1(t, v1.Mountpoints(), v1)
	})
}

// Without the freezer it kills one by one, until nothing is left.
func TestV1ConformsWithoutTheFreezer(t *testing.T) {
	clustertest.Require(t, cluster.NodeSupported())
	mountinfo, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	var without strings.Builder
	for line := range strings.Lines(string(mountinfo)) {
		if !strings.Contains(line, "freezer") {
			without.WriteString(line)
		}
	}
	proc := t.TempDir()
	if err := os.Mkdir(filepath.Join(proc, "self"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(proc, "self", "mountinfo"), []byte(without.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	cgrouptest.Conformance(t, func(t *testing.T) *cgrouptest.Harness {
		v1 := tree(t, proc)
		return cgrouptest.OnV1(t, v1.Mountpoints(), v1)
	})
}

func TestV1IsDetected(t *testing.T) {
	clustertest.Require(t, cluster.NodeSupported())
	v1 := tree(t, "/proc")
	for _, at := range append(v1.Mountpoints(), mountpoint) {
		if version, err := cgroup.Detect(at); version != cgroupfile.V1 || err != nil {
			t.Errorf("%s: got %d, %v", at, version, err)
		}
	}
}

func BenchmarkV1(b *testing.B) {
	v1, err := cgroup.NewV1(mountpoint, "/proc")
	if err != nil {
		b.Fatal(err)
	}
	cgrouptest.Benchmark(b, cgrouptest.OnV1(b, v1.Mountpoints(), v1))
}
