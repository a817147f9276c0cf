package main

import (
	"os"
	"strings"
	"testing"
	"time"
)

func TestParseCPU(t *testing.T) {
	const stat = "4711 (web) hook (2) S 1 4711 4711 0 -1 4194560 9 0 3 0 150 25 7 8 20 0 9 0 1 2 3\n"
	got, err := parseCPU(stat)
	if err != nil || got != 1750*time.Millisecond {
		t.Errorf("got %v, %v; want utime and stime, 1.75s, not those of children", got, err)
	}
	for _, bad := range []string{"", "1 (x) S 1", strings.Replace(stat, "150", "many", 1)} {
		if _, err := parseCPU(bad); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}

func TestParseMemory(t *testing.T) {
	const status = "Name:\twebhook\nVmPeak:\t  900 kB\nVmHWM:\t   60 kB\nVmRSS:\t   50 kB\nRssAnon:\t   20 kB\nRssFile:\t   30 kB\n"
	got, err := parseMemory([]byte(status))
	if want := (memory{resident: 50 << 10, anonymous: 20 << 10, peak: 60 << 10}); err != nil || got != want {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
	if _, err := parseMemory([]byte(strings.Replace(status, "RssAnon", "Other", 1))); err == nil {
		t.Error("a kernel without RssAnon: no error")
	}
}

func TestOwnProcess(t *testing.T) {
	if _, err := cpuOf(os.Getpid()); err != nil {
		t.Error(err)
	}
	if m, err := memoryOf(os.Getpid()); err != nil || m.resident <= 0 || m.peak < m.resident {
		t.Errorf("%+v, %v", m, err)
	}
}

func TestParseAllocations(t *testing.T) {
	const text = "# TYPE go_memstats_alloc_bytes gauge\ngo_memstats_alloc_bytes 5\n# TYPE go_memstats_alloc_bytes_total counter\ngo_memstats_alloc_bytes_total 1.5e+09\ngo_memstats_mallocs_total 12\n"
	size, objects, err := parseAllocations(strings.NewReader(text))
	if err != nil || size != 1.5e9 || objects != 12 {
		t.Errorf("got %v, %v, %v", size, objects, err)
	}
	if _, _, err := parseAllocations(strings.NewReader("go_goroutines 9\n")); err == nil {
		t.Error("without the counters: no error")
	}
}
