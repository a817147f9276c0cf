package measure

import (
	"errors"
	"os"
	"os/exec"
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
	if want := (Memory{Resident: 50 << 10, Anonymous: 20 << 10, File: 30 << 10, Peak: 60 << 10}); err != nil || got != want {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
	for _, bad := range []string{"", strings.Replace(status, "RssAnon", "Other", 1), strings.Replace(status, "50", "x", 1)} {
		if _, err := parseMemory([]byte(bad)); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}

func TestOwnProcess(t *testing.T) {
	if _, err := CPU(os.Getpid()); err != nil {
		t.Error(err)
	}
	if m, err := MemoryOf(os.Getpid()); err != nil || m.Resident <= 0 || m.Peak < m.Resident {
		t.Errorf("%+v, %v", m, err)
	}
}

func TestRun(t *testing.T) {
	u, err := Run(exec.CommandContext(t.Context(), "sh", "-c", "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; exit 3"))
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 3 {
		t.Errorf("got %v, want exit code 3", err)
	}
	if u.Processor <= 0 || u.Took <= 0 || u.Peak < 100<<10 {
		t.Errorf("%+v", u)
	}
	if u, err := Run(exec.CommandContext(t.Context(), "./none")); err == nil || u.Peak != 0 {
		t.Errorf("%+v, %v", u, err)
	}
}

func TestSum(t *testing.T) {
	text := "# HELP a b\n# TYPE a counter\na{x=\"1\"} 2\na{x=\"2\",y=\"z w\"} 3\nab 7\nb 1e3\n"
	for metric, want := range map[string]float64{"a": 5, `a{x="1"}`: 2, `a{x="2"`: 3, "b": 1000, "c": 0} {
		if got, err := Sum(text, metric); err != nil || got != want {
			t.Errorf("%s: got %v, %v, want %v", metric, got, err, want)
		}
	}
	if _, err := Sum("a x\n", "a"); err == nil {
		t.Error("no error")
	}
}
