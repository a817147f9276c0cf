package pressure

import (
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	testclock "k8s.io/utils/clock/testing"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgroupfile"
	"github.com/podgrace/podgrace/nodeenforcer/eviction"
	"github.com/podgrace/podgrace/nodeenforcer/state/statetest"
)

func sensor(t *testing.T, version cgroupfile.Version, proc, cgroups map[string]string) *Sensor {
	t.Helper()
	root := t.TempDir()
	return &Sensor{
		CgroupRoot: statetest.Folder(t, cgroups), ProcRoot: statetest.Folder(t, proc), Version: version, KubeletRoot: root, ImageRoot: root,
		Clock: testclock.NewFakePassiveClock(statetest.LongAgo), Aside: func(read func()) { read() },
	}
}

func thresholdsOn(signals ...v1alpha1.EvictionSignal) (all Thresholds) {
	for _, s := range signals {
		all.List = append(all.List, Threshold{Signal: s}, Threshold{Signal: s, Kind: eviction.Hard})
	}
	return all
}

func TestSensor(t *testing.T) {
	proc, v1, v2 := statetest.Sensed()
	for version, files := range map[cgroupfile.Version]map[string]string{cgroupfile.V1: v1, cgroupfile.V2: v2} {
		s := sensor(t, version, proc, files)
		want := Signals{
			v1alpha1.SignalMemoryAvailable: {Available: 5 << 30, Capacity: 8 << 30, Time: statetest.LongAgo},
			v1alpha1.SignalPIDAvailable:    {Available: 400, Capacity: 1000, Time: statetest.LongAgo},
		}
		for range 2 {
			got, err := s.Measure(thresholdsOn(v1alpha1.SignalMemoryAvailable, v1alpha1.SignalPIDAvailable))
			if diff := cmp.Diff(want, got); diff != "" || err != nil {
				t.Errorf("v%d: %v (-want +got):\n%s", version, err, diff)
			}
		}
		got, err := s.Measure(thresholdsOn(v1alpha1.SignalNodeFsAvailable, v1alpha1.SignalNodeFsInodesFree, v1alpha1.SignalImageFsAvailable, v1alpha1.SignalImageFsInodesFree))
		if err != nil && !strings.Contains(err.Error(), "no fixed number of inodes") { // a build machine's file system may be such
			t.Errorf("v%d: %v", version, err)
		}
		for signal, sample := range got {
			if sample.Capacity <= 0 || sample.Available < 0 || sample.Available > sample.Capacity || !sample.Time.Equal(statetest.LongAgo) {
				t.Errorf("v%d: %s: %+v", version, signal, sample)
			}
		}
		if _, measured := got[v1alpha1.SignalNodeFsAvailable]; !measured {
			t.Errorf("v%d: got %v", version, got)
		}
	}
	if got, err := (&Sensor{}).Measure(Thresholds{}); len(got) > 0 || err != nil {
		t.Errorf("nothing is to be measured: %v, %v", got, err)
	}
}

// Half of the memory is set aside for huge pages, and the rest is used up: there is none left, though no cgroup uses that half.
func TestSensorOfHugePages(t *testing.T) {
	for version := range map[cgroupfile.Version]bool{cgroupfile.V1: true, cgroupfile.V2: true} {
		proc, v1, v2 := statetest.Sensed()
		proc["meminfo"] = "MemTotal:        8388608 kB\nMemFree:            1024 kB\nHugePages_Total:    2048\nHugepagesize:       2048 kB\nHugetlb:         4194304 kB\n"
		v2["memory.stat"] = "anon 4290772992\nfile 0\ninactive_file 0\n"
		v1["memory/memory.usage_in_bytes"], v1["memory/memory.stat"] = "4290772992\n", "total_inactive_file 0\n"
		s := sensor(t, version, proc, map[cgroupfile.Version]map[string]string{cgroupfile.V1: v1, cgroupfile.V2: v2}[version])
		got, err := s.Measure(thresholdsOn(v1alpha1.SignalMemoryAvailable))
		if got := got[v1alpha1.SignalMemoryAvailable]; err != nil || got.Available != 4<<20 || got.Capacity != 8<<30 {
			t.Errorf("v%d: got %+v, %v", version, got, err)
		}
	}
}

// A usage that is all inactive cache, or less than it (they are not read at one moment), is none.
func TestSensorOfAnIdleMachine(t *testing.T) {
	proc, _, v2 := statetest.Sensed()
	v2["memory.stat"] = "anon 1\nfile 2\ninactive_file 9\n"
	got, err := sensor(t, cgroupfile.V2, proc, v2).Measure(thresholdsOn(v1alpha1.SignalMemoryAvailable))
	if s := got[v1alpha1.SignalMemoryAvailable]; err != nil || s.Available != s.Capacity {
		t.Errorf("got %+v, %v", s, err)
	}
}

// What can't be measured is missing, named in the error, and does not keep the rest from being measured.
func TestSensorThatCannotMeasure(t *testing.T) {
	proc, v1, v2 := statetest.Sensed()
	for name, tc := range map[string]struct {
		version    cgroupfile.Version
		file, text string // what the file holds instead; "-": it is not there
		want       string
	}{
		"v2: no statistics":        {cgroupfile.V2, "memory.stat", "-", "memory.stat"},
		"v2: empty":                {cgroupfile.V2, "memory.stat", "", "there is not each of anon, file, inactive_file"},
		"v2: a field is missing":   {cgroupfile.V2, "memory.stat", "anon 1\nfile 2\n", "there is not each of"},
		"v2: one is there twice":   {cgroupfile.V2, "memory.stat", "anon 1\nanon 2\nfile 3\n", "there is not each of"},
		"v2: a field of no number": {cgroupfile.V2, "memory.stat", "anon much\nfile 2\ninactive_file 3\n", "anon: strconv"},
		"v2: a name alone":         {cgroupfile.V2, "memory.stat", "anon\nfile 2\ninactive_file 3\n", "anon: strconv"},
		"v1: no usage":             {cgroupfile.V1, "memory/memory.usage_in_bytes", "-", "memory.usage_in_bytes"},
		"v1: usage of no number":   {cgroupfile.V1, "memory/memory.usage_in_bytes", "max\n", "memory.usage_in_bytes: strconv"},
		"v1: a field is missing":   {cgroupfile.V1, "memory/memory.stat", "inactive_file 5\n", "there is not each of total_inactive_file"},
		"huge pages of no number":  {cgroupfile.V2, "meminfo", "MemTotal: 8388608 kB\nHugetlb: many kB\n", "Hugetlb: strconv"},
		"no capacity":              {cgroupfile.V2, "meminfo", "MemFree: 1 kB\n", "it has no MemTotal"},
	} {
		t.Run(name, func(t *testing.T) {
			proc, v1, v2 := maps.Clone(proc), maps.Clone(v1), maps.Clone(v2)
			for _, files := range []map[string]string{proc, v1, v2} {
				if _, has := files[tc.file]; has {
					files[tc.file] = tc.text
					if tc.text == "-" {
						delete(files, tc.file)
					}
				}
			}
			s := sensor(t, tc.version, proc, map[cgroupfile.Version]map[string]string{cgroupfile.V1: v1, cgroupfile.V2: v2}[tc.version])
			got, err := s.Measure(thresholdsOn(v1alpha1.SignalMemoryAvailable, v1alpha1.SignalPIDAvailable))
			if err == nil || !strings.Contains(err.Error(), "measure memory.available: ") || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
			if _, memory := got[v1alpha1.SignalMemoryAvailable]; memory || got[v1alpha1.SignalPIDAvailable].Capacity != 1000 {
				t.Errorf("got %v", got)
			}
		})
	}
	for name, change := range map[string]func(map[string]string){
		"measure pid.available: loadavg: ":                                  func(files map[string]string) { files["loadavg"] = "0.1 0.2 0.3 four\n" },
		"measure pid.available: open ":                                      func(files map[string]string) { delete(files, "loadavg") },
		"measure pid.available: read the limit of processes: threads-max: ": func(files map[string]string) { files["sys/kernel/threads-max"] = "" },
		"measure pid.available: read the limit of processes: open ":         func(files map[string]string) { delete(files, "sys/kernel/pid_max") },
	} {
		proc := maps.Clone(proc)
		change(proc)
		got, err := sensor(t, cgroupfile.V2, proc, v2).Measure(thresholdsOn(v1alpha1.SignalPIDAvailable, v1alpha1.SignalMemoryAvailable))
		if err == nil || !strings.HasPrefix(err.Error(), name) || len(got) != 1 {
			t.Errorf("got %v, %v, want %q", got, err, name)
		}
	}
	s := sensor(t, cgroupfile.V2, proc, v2)
	s.ImageRoot = filepath.Join(s.ImageRoot, "none")
	signals := []v1alpha1.EvictionSignal{v1alpha1.SignalImageFsAvailable, v1alpha1.SignalImageFsInodesFree, v1alpha1.SignalMemoryStall, "of tomorrow"}
	got, err := s.Measure(thresholdsOn(signals...))
	if err == nil || len(got) > 0 {
		t.Fatalf("got %v, %v", got, err)
	}
	for _, signal := range signals {
		if !strings.Contains(err.Error(), "measure "+string(signal)+": ") {
			t.Errorf("%s is not named in %v", signal, err)
		}
	}
}

// A file system that does not answer keeps nothing else from being measured. What it said before counts until it is stale, and then it is said.
func TestSensorOfAHungFileSystem(t *testing.T) {
	proc, _, v2 := statetest.Sensed()
	s := sensor(t, cgroupfile.V2, proc, v2)
	clock := testclock.NewFakePassiveClock(statetest.LongAgo)
	s.Clock = clock
	var asked []func()
	s.Aside = func(read func()) { asked = append(asked, read) }
	measure := func(after time.Duration, disk bool, fails string) {
		t.Helper()
		clock.SetTime(clock.Now().Add(after))
		got, err := s.Measure(thresholdsOn(v1alpha1.SignalNodeFsAvailable, v1alpha1.SignalMemoryAvailable))
		if _, ok := got[v1alpha1.SignalNodeFsAvailable]; ok != disk || got[v1alpha1.SignalMemoryAvailable].Capacity == 0 || !strings.Contains(fmt.Sprint(err), fails) {
			t.Errorf("got %v, %v", got, err)
		}
	}
	measure(0, false, "<nil>")
	measure(maxAge, false, "<nil>")
	asked[0]()
	measure(time.Second, true, "<nil>")
	measure(maxAge, true, "<nil>")
	measure(time.Second, false, "does not answer")
	if len(asked) != 2 {
		t.Errorf("asked %d times", len(asked))
	}
	asked[1]()
	measure(time.Second, true, "<nil>")
}
