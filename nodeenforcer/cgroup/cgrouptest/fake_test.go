package cgrouptest

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/podgrace/podgrace/nodeenforcer/cgroup"
)

// A cgroup that vanishes at each step of a sequence: what comes before works, it and all after is gone.
func TestFakeVanishesAtEveryStep(t *testing.T) {
	steps := []func(f *Fake) error{
		func(f *Fake) error { _, err := f.Read("/a", "cpu.weight"); return err },
		func(f *Fake) error {
			_, err := f.Write(t.Context(), "/a", []cgroup.File{{Name: "cpu.weight", Value: "2"}})
			return err
		},
		func(f *Fake) error { _, err := f.Children("/a"); return err },
		func(f *Fake) error { _, err := f.Processes("/a"); return err },
		func(f *Fake) error { return f.Kill(t.Context(), "/a") },
	}
	for vanish := range len(steps) + 1 {
		f := NewFake()
		f.Add("/a/b", nil)
		f.Add("/a", map[string]string{"cpu.weight": "1"})
		f.VanishAfter("/a", vanish)
		for i, step := range steps {
			if err := step(f); errors.Is(err, cgroup.ErrGone) != (i >= vanish) {
				t.Errorf("vanishes at step %d: step %d: %v", vanish, i, err)
			}
		}
		want := []string{"/"}
		if vanish == len(steps) {
			want = []string{"/", "/a", "/a/b"}
		}
		if diff := cmp.Diff(want, f.Paths()); diff != "" {
			t.Errorf("vanishes at step %d (-want +got):\n%s", vanish, diff)
		}
	}
}

func TestFakeFaults(t *testing.T) {
	f := NewFake()
	f.Add("/a", map[string]string{"memory.max": "1", "cpu.weight": "1"}, 7, 8)
	write := func(file, value string) (int, error) {
		return f.Write(t.Context(), "/a", []cgroup.File{{Name: file, Value: value}})
	}
	f.Refuse("/a", cgroup.File{Name: "memory.max"}, unix.EBUSY)
	if n, err := write("memory.max", "2"); n != 0 || !errors.Is(err, unix.EBUSY) {
		t.Errorf("refused: %d, %v", n, err)
	}
	f.Refuse("/a", cgroup.File{Name: "memory.max"}, nil)
	if n, err := write("memory.max", "2"); n != 1 || err != nil {
		t.Errorf("not any more: %d, %v", n, err)
	}
	f.Revert("/a", "cpu.weight", "5", 2)
	for _, want := range []string{"5", "5", "9"} {
		if n, err := write("cpu.weight", "9"); n != 1 || err != nil {
			t.Errorf("wrote %d: %v", n, err)
		}
		if got, _ := f.Get("/a", "cpu.weight"); got != want {
			t.Errorf("after a rival: got %s, want %s", got, want)
		}
	}
	f.Refuse("/a", cgroup.File{Name: "cgroup.kill"}, unix.EPERM)
	if err := f.Kill(t.Context(), "/a"); !errors.Is(err, unix.EPERM) || len(f.Killed()) > 0 {
		t.Errorf("killed %v: %v", f.Killed(), err)
	}
	f.Refuse("/a", cgroup.File{Name: "cgroup.kill"}, nil)
	if err := f.Kill(t.Context(), "/a"); err != nil || !cmp.Equal(f.Killed(), []int{7, 8}) {
		t.Errorf("killed %v: %v", f.Killed(), err)
	}
	want := []Written{{"/a", "memory.max", "2"}, {"/a", "cpu.weight", "9"}, {"/a", "cpu.weight", "9"}, {"/a", "cpu.weight", "9"}}
	if diff := cmp.Diff(want, f.Writes()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
