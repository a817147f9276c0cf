package cgroup_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/podgrace/podgrace/nodeenforcer/cgroup"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgrouptest"
)

func TestReadMemory(t *testing.T) {
	for _, test := range []struct {
		name       string
		files      map[string]string
		want       cgroup.Memory
		workingSet int64
		is         error
	}{
		{"v2", map[string]string{"memory.current": "1000", "memory.stat": "anon 600\nfile 400\nactive_file 1\ninactive_file 300"}, cgroup.Memory{Usage: 1000, InactiveFile: 300}, 700, nil},
		{"v1", map[string]string{"memory.usage_in_bytes": "1000", "memory.stat": "inactive_file 1\ntotal_inactive_file 300"}, cgroup.Memory{Usage: 1000, InactiveFile: 300}, 700, nil},
		{"read a moment apart", map[string]string{"memory.current": "100", "memory.stat": "inactive_file 300"}, cgroup.Memory{Usage: 100, InactiveFile: 300}, 0, nil},
		{"no controller", map[string]string{"pids.current": "1"}, cgroup.Memory{}, 0, cgroup.ErrNoFile},
	} {
		t.Run(test.name, func(t *testing.T) {
			fake := cgrouptest.NewFake()
			fake.Add("/a", test.files)
			got, err := cgroup.ReadMemory(fake, "/a")
			if got != test.want || got.WorkingSet() != test.workingSet || !errors.Is(err, test.is) {
				t.Errorf("got %+v, working set %d: %v", got, got.WorkingSet(), err)
			}
			if _, err := cgroup.ReadMemory(fake, "/gone"); !errors.Is(err, cgroup.ErrGone) {
				t.Errorf("gone: %v", err)
			}
		})
	}
}

func TestReadPIDs(t *testing.T) {
	fake := cgrouptest.NewFake()
	fake.Add("/a", nil)
	if _, err := cgroup.ReadPIDs(fake, "/a"); !errors.Is(err, cgroup.ErrNoFile) {
		t.Errorf("no controller: %v", err)
	}
	fake.SetUsage("/a", 0, 0, 12)
	if got, err := cgroup.ReadPIDs(fake, "/a"); got != 12 || err != nil {
		t.Errorf("got %d: %v", got, err)
	}
}

func TestReadPressure(t *testing.T) {
	fake := cgrouptest.NewFake()
	fake.Add("/a", map[string]string{
		"memory.pressure": "some avg10=1.50 avg60=0.20 avg300=0.03 total=1500\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7",
		"cpu.pressure":    "some avg10=0.00 avg60=0.00 avg300=0.00 total=3", // older kernels have no full line for the cpu
		"io.pressure":     "all quiet",
	})
	want := cgroup.Pressure{
		Some: cgroup.Stall{Avg10: 1.5, Avg60: 0.2, Avg300: 0.03, Total: 1500 * time.Microsecond},
		Full: cgroup.Stall{Total: 7 * time.Microsecond},
	}
	got, err := cgroup.ReadPressure(fake, "/a", "memory")
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if got, err := cgroup.ReadPressure(fake, "/a", "cpu"); got.Some.Total != 3*time.Microsecond || err != nil {
		t.Errorf("got %+v: %v", got, err)
	}
	if _, err := cgroup.ReadPressure(fake, "/a", "io"); err == nil {
		t.Error("nonsense was read")
	}
	if _, err := cgroup.ReadPressure(fake, "/a", "irq"); !errors.Is(err, cgroup.ErrNoFile) {
		t.Errorf("no file: %v", err)
	}
}

// FuzzUsage: whatever the files say, the figures are none that a threshold could be compared with wrongly.
func FuzzUsage(f *testing.F) {
	f.Add("1000", "anon 600\ninactive_file 300", "some avg10=0.50 avg60=0.10 avg300=0.00 total=1234\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n")
	f.Add("max", "inactive_file -1", "some avg10=NaN avg60=+Inf avg300=-1 total=9223372036854775807")
	f.Add("", "inactive_file", "full\n")
	f.Fuzz(func(t *testing.T, current, stat, pressure string) {
		fake := cgrouptest.NewFake()
		fake.Add("/a", map[string]string{"memory.current": current, "memory.stat": stat, "pids.current": current, "memory.pressure": pressure})
		if m, err := cgroup.ReadMemory(fake, "/a"); err == nil && (m.Usage < 0 || m.InactiveFile < 0 || m.WorkingSet() > m.Usage) {
			t.Errorf("%q, %q: %+v", current, stat, m)
		}
		if n, err := cgroup.ReadPIDs(fake, "/a"); err == nil && n < 0 {
			t.Errorf("%q: %d", current, n)
		}
		p, err := cgroup.ReadPressure(fake, "/a", "memory")
		if err != nil {
			return
		}
		for _, s := range []cgroup.Stall{p.Some, p.Full} {
			for _, share := range []float64{s.Avg10, s.Avg60, s.Avg300} {
				if math.IsNaN(share) || share < 0 || share > 100 {
					t.Errorf("%q: %+v", pressure, p)
				}
			}
			if s.Total < 0 {
				t.Errorf("%q: %+v", pressure, p)
			}
		}
	})
}
