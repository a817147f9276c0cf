package cgrouptest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/podgrace/podgrace/nodeenforcer/cgroup"
)

// stopped tells whether a helper, which else waits for its input, is held. The freezer of v1 holds a process where it is, and shows it in state D; v2 holds it where
// it would handle a signal: in do_freezer_trap, or get_signal, of which that is a part.
func stopped(t testing.TB, _ string, pid int) bool {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	in, err := os.ReadFile(fmt.Sprintf("/proc/%d/wchan", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return strings.HasPrefix(state, "D") || slices.Contains([]string{"do_freezer_trap", "get_signal"}, string(in))
}

// freeze stops all that is below, and thaw has it go on; a second time neither does harm.
func (s *suite) freeze(t *testing.T) {
	at := s.child(t, "freeze")
	pid := s.Processes.Start(t, s.below(t, at, "deeper"), 1)[0]
	outside := s.child(t, "warm")
	other := s.Processes.Start(t, outside, 1)[0]
	for _, step := range []struct {
		name   string
		do     func(ctx context.Context, path string) error
		frozen bool
	}{
		{"freeze", s.Tree.Freeze, true}, {"freeze again", s.Tree.Freeze, true}, {"thaw", s.Tree.Thaw, false}, {"thaw again", s.Tree.Thaw, false}, {"freeze anew", s.Tree.Freeze, true},
	} {
		if err := step.do(t.Context(), at); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		s.until(t, step.name, func() bool { return s.Stopped(t, at, pid) == step.frozen })
		if s.Stopped(t, outside, other) {
			t.Errorf("%s: a neighbour is stopped", step.name)
		}
	}
	// What is frozen can be killed, and does not come to life for it.
	if err := s.Tree.Kill(t.Context(), at); err != nil {
		t.Error(err)
	}
	if err := s.Tree.Thaw(t.Context(), at); err != nil {
		t.Error(err)
	}
	s.Processes.Ended(t, pid)
}

// until waits for what a process shows of itself. The kernel tells that all are frozen as soon as none returns to its program any more, and that they are thawed
// with the first of its threads that does (kernel/cgroup/freezer.c, cgroup_update_frozen): where a thread waits in the kernel shows a moment later.
func (s *suite) until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	for deadline := time.Now().Add(time.Minute); !holds(); <-poll.C {
		if time.Now().After(deadline) {
			t.Fatalf("a minute after %s the process is not as it should be", what)
		}
	}
}

// freezeForking is a cgroup whose processes start others all the time: once it is frozen their number stays.
func (s *suite) freezeForking(t *testing.T) {
	at := s.child(t, "freezeforking")
	s.Processes.StartForking(t, at)
	if err := s.Tree.Freeze(t.Context(), at); err != nil {
		t.Fatal(err)
	}
	one, err := s.Tree.Processes(at)
	two, err2 := s.Tree.Processes(at)
	if err != nil || err2 != nil || fmt.Sprint(one) != fmt.Sprint(two) || len(one) == 0 {
		t.Errorf("processes %v, then %v: %v, %v", one, two, err, err2)
	}
	if err := errors.Join(s.Tree.Kill(t.Context(), at), s.Tree.Thaw(t.Context(), at)); err != nil {
		t.Error(err)
	}
}

// canNotFreeze: that a cgroup can't be frozen is said, and is not that it is gone.
func (s *suite) canNotFreeze(t *testing.T) {
	at := s.child(t, "cannotfreeze")
	for _, do := range []func(context.Context, string) error{s.Tree.Freeze, s.Tree.Thaw} {
		if err := do(t.Context(), at); !errors.Is(err, cgroup.ErrNoFile) {
			t.Errorf("got %v, want %v", err, cgroup.ErrNoFile)
		}
		if err := do(t.Context(), s.name(s.Root, "gone")); !errors.Is(err, cgroup.ErrGone) {
			t.Errorf("got %v, want %v", err, cgroup.ErrGone)
		}
	}
}
