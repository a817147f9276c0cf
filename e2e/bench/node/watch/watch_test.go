package watch

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A hog comes, crosses, is contained and goes: each is seen in the look after it.
func TestLook(t *testing.T) {
	root, proc := t.TempDir(), t.TempDir()
	pod := filepath.Join(root, "pod")
	w := watcher{Options: Options{Root: root, Proc: proc, Pod: pod, Threshold: 700}, capacity: 1000}
	look := func(want bool) {
		t.Helper()
		if done, err := w.look(); err != nil || done != want {
			t.Fatal(done, err)
		}
	}
	write(t, filepath.Join(root, "memory.stat"), "anon 100\nfile 120\nkernel 900\ninactive_file 20\n")
	look(false)
	if w.seen.Available != 800 || !w.seen.Crossed.IsZero() || w.pid != "" {
		t.Errorf("before the hog: %+v", w.seen)
	}
	write(t, filepath.Join(pod, "memory.high"), "max\n")
	write(t, filepath.Join(pod, "sandbox", "cgroup.procs"), "6\n")
	write(t, filepath.Join(pod, "main", "cgroup.procs"), "7\n")
	write(t, filepath.Join(proc, "6", "cmdline"), "/pause\x00")
	write(t, filepath.Join(proc, "7", "cmdline"), "/program\x00eat\x001400\x0050\x00")
	write(t, filepath.Join(proc, "7", "stat"), "7 (program) S 1")
	write(t, filepath.Join(root, "memory.stat"), "anon 200\nfile 120\nkernel 900\ninactive_file 20\n")
	look(false)
	if !w.seen.Crossed.IsZero() {
		t.Error("the threshold itself is not beyond it")
	}
	write(t, filepath.Join(root, "memory.stat"), "anon 201\nfile 120\nkernel 900\ninactive_file 20\n")
	look(false)
	if w.pid != "7" || w.seen.Crossed.IsZero() || !w.seen.Contained.IsZero() {
		t.Errorf("crossed: pid %s, %+v", w.pid, w.seen)
	}
	write(t, filepath.Join(pod, "memory.high"), "4096\n")
	look(false)
	if w.seen.Contained.IsZero() {
		t.Error("not contained")
	}
	crossed := w.seen.Crossed
	write(t, filepath.Join(root, "memory.stat"), "anon 10\nfile 120\nkernel 900\ninactive_file 20\n")
	write(t, filepath.Join(proc, "7", "stat"), "7 (program) Z 1")
	look(true)
	if w.seen.Gone.IsZero() || w.seen.Crossed != crossed || w.seen.Lowest != 699 {
		t.Errorf("gone: %+v", w.seen)
	}
}

func TestWatchGivesUp(t *testing.T) {
	root, proc := t.TempDir(), t.TempDir()
	write(t, filepath.Join(root, "memory.stat"), "anon 1\nfile 2\ninactive_file 3\n")
	write(t, filepath.Join(proc, "meminfo"), "MemFree: 1 kB\nMemTotal:       2 kB\n")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	seen, err := Watch(ctx, Options{Root: root, Proc: proc, Pod: filepath.Join(root, "pod")})
	if !errors.Is(err, context.Canceled) || seen.Available != 2048 {
		t.Error(seen, err)
	}
}

func TestParseWorkingSet(t *testing.T) {
	if n, err := parseWorkingSet("anon 5\nfile 3\ninactive_file 2\ninactive_anon 9\n"); err != nil || n != 6 {
		t.Error(n, err)
	}
	for _, bad := range []string{"", "anon 5\nfile 3\n", "anon x\nfile 3\ninactive_file 2\n"} {
		if _, err := parseWorkingSet(bad); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}
