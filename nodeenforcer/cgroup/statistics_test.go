package cgroup_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/podgrace/podgrace/nodeenforcer/cgroup"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgrouptest"
)

func files(t *testing.T, folder string, files map[string]string) {
	t.Helper()
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// What is not counted is nil, and not 0: the library says 0 for both.
func TestStatV2(t *testing.T) {
	root := cgrouptest.NewFolder(t)
	tree := cgroup.NewV2(root)
	pressure := func(some, full string) string {
		return "some avg10=1.50 avg60=0.00 avg300=0.00 total=" + some + "\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=" + full + "\n"
	}
	psi := func(some, full time.Duration) *cgroup.Pressure {
		return &cgroup.Pressure{Some: cgroup.Stall{Avg10: 1.5, Total: some}, Full: cgroup.Stall{Total: full}}
	}
	files(t, filepath.Join(root, "all"), map[string]string{
		"cgroup.procs": "", "memory.current": "8192\n", "memory.peak": "9000\n", "memory.max": "max\n", "memory.stat": "anon 4096\nfile 4096\ninactive_file 1024\nunheard_of 7\n",
		"memory.events": "low 1\nhigh 2\nmax 3\noom 4\noom_kill 5\noom_group_kill 1\n",
		"cpu.stat":      "usage_usec 3000\nuser_usec 2000\nsystem_usec 1000\nnr_periods 10\nnr_throttled 4\nthrottled_usec 500\n",
		"io.stat":       "8:0 rbytes=10 wbytes=20 rios=1 wios=2 dbytes=0 dios=0\n8:16 rbytes=1 wbytes=2 rios=1 wios=2 dbytes=0 dios=0\n",
		"pids.current":  "7\n", "pids.max": "100\n", "memory.pressure": pressure("10", "5"), "cpu.pressure": pressure("20", "0"), "io.pressure": pressure("30", "1"),
	})
	want := cgroup.Statistics{
		Memory: &cgroup.MemoryStatistics{Memory: cgroup.Memory{Usage: 8192, InactiveFile: 1024}, Anon: 4096, Peak: 9000, Limit: cgroup.Unlimited, Events: cgroup.MemoryEvents{Low: 1, High: 2, Max: 3, OOM: 4, OOMKills: 5}},
		CPU:    &cgroup.CPUStatistics{Usage: 3 * time.Millisecond, Throttled: 500 * time.Microsecond, Periods: 10, ThrottledPeriods: 4},
		IO:     &cgroup.IOStatistics{ReadBytes: 11, WriteBytes: 22}, PIDs: &cgroup.PIDStatistics{Current: 7, Limit: 100},
		CPUPressure: psi(20*time.Microsecond, 0), MemoryPressure: psi(10*time.Microsecond, 5*time.Microsecond), IOPressure: psi(30*time.Microsecond, time.Microsecond),
	}
	got, err := tree.Stat("/all")
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if got, err := tree.Stat("/test"); err != nil || got != (cgroup.Statistics{}) {
		t.Errorf("without controllers: %+v, %v", got, err)
	}
	if _, err := tree.Stat("/gone"); !errors.Is(err, cgroup.ErrGone) {
		t.Errorf("gone: %v", err)
	}
	files(t, filepath.Join(root, "all"), map[string]string{"cpu.stat": "usage_usec many\n"})
	if got, err := tree.Stat("/all"); err == nil {
		t.Errorf("what can't be read is %+v", got)
	}
}

// v1Files are hierarchies of ordinary files, those that share one under the names of both where linked.
func v1Files(t *testing.T, linked bool) (tree *cgroup.V1, root string) {
	t.Helper()
	root, proc := t.TempDir(), t.TempDir()
	mountinfo := ""
	for _, at := range []string{"memory", "cpu,cpuacct", "pids", "blkio"} {
		mountinfo += "32 31 0:29 / " + filepath.Join(root, at) + " rw - cgroup cgroup rw," + at + "\n"
		files(t, filepath.Join(root, at, "pod"), map[string]string{"cgroup.procs": ""})
	}
	files(t, filepath.Join(proc, "self"), map[string]string{"mountinfo": mountinfo})
	for _, name := range []string{"cpu", "cpuacct"} {
		if err := os.Symlink("cpu,cpuacct", filepath.Join(root, name)); linked && err != nil {
			t.Fatal(err)
		} else if !linked {
			_ = os.Remove(filepath.Join(root, name))
		}
	}
	tree, err := cgroup.NewV1(root, proc)
	if err != nil {
		t.Fatal(err)
	}
	return tree, root
}

func TestStatV1(t *testing.T) {
	tree, root := v1Files(t, true)
	if got, err := tree.Stat("/pod"); err != nil || got.Memory != nil || got.PIDs != nil {
		t.Errorf("without files: %+v, %v", got, err)
	}
	files(t, filepath.Join(root, "memory", "pod"), map[string]string{
		"memory.stat": "cache 1\nrss 1\ntotal_cache 8192\ntotal_rss 4096\ntotal_inactive_file 1024\n", "memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 5\n",
		"memory.usage_in_bytes": "12288\n", "memory.max_usage_in_bytes": "16384\n", "memory.failcnt": "3\n", "memory.limit_in_bytes": "9223372036854771712\n",
	})
	files(t, filepath.Join(root, "cpu,cpuacct", "pod"), map[string]string{
		"cpu.stat": "nr_periods 10\nnr_throttled 4\nthrottled_time 500000\n", "cpuacct.usage": "3000000\n", "cpuacct.stat": "user 2\nsystem 1\n", "cpuacct.usage_percpu": "1 2\n",
	})
	files(t, filepath.Join(root, "pids", "pod"), map[string]string{"pids.current": "7\n", "pids.max": "max\n"})
	want := cgroup.Statistics{
		Memory: &cgroup.MemoryStatistics{Memory: cgroup.Memory{Usage: 12288, InactiveFile: 1024}, Anon: 4096, Peak: 16384, Limit: cgroup.Unlimited, Events: cgroup.MemoryEvents{Max: 3, OOMKills: 5}},
		CPU:    &cgroup.CPUStatistics{Usage: 3 * time.Millisecond, Throttled: 500 * time.Microsecond, Periods: 10, ThrottledPeriods: 4},
		IO:     &cgroup.IOStatistics{}, PIDs: &cgroup.PIDStatistics{Current: 7, Limit: cgroup.Unlimited},
	}
	got, err := tree.Stat("/pod")
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if _, err := tree.Stat("/gone"); !errors.Is(err, cgroup.ErrGone) {
		t.Errorf("gone: %v", err)
	}
	tree, _ = v1Files(t, false)
	if got, err := tree.Stat("/pod"); err != nil || got.CPU != nil {
		t.Errorf("a hierarchy that the library can't find: %+v, %v", got, err)
	}
}
