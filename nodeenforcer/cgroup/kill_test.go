package cgroup

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"testing"
)

// A number that is listed at first and then no more is not signalled, whoever has it now: here it is ours.
func TestKillingSparesWhoLeft(t *testing.T) {
	lists := [][]int{{os.Getpid()}, {}, {}}
	list := func() (pids []int, err error) {
		pids, lists = lists[0], lists[1:]
		return pids, nil
	}
	if err := killEach(t.Context(), "/a", list); err != nil {
		t.Error(err)
	}
}

func TestKillingEndsWithTheContext(t *testing.T) {
	sleeper := exec.Command("sleep", "600")
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	calls := 0
	err := killEach(ctx, "/a", func() ([]int, error) { // it never gets empty: a zombie, or a process that waits for a disk
		if calls++; calls == 3 {
			cancel()
		}
		return []int{sleeper.Process.Pid}, nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if err := sleeper.Wait(); err == nil {
		t.Error("it was not killed")
	}
}

func TestKillingWhatGoesAway(t *testing.T) {
	gone := func() ([]int, error) { return nil, ErrGone }
	if err := killEach(t.Context(), "/a", gone); !errors.Is(err, ErrGone) {
		t.Errorf("gone from the start: %v", err)
	}
	calls := 0
	err := killEach(t.Context(), "/a", func() ([]int, error) {
		if calls++; calls == 1 {
			return []int{1 << 22}, nil // above the kernel's greatest number of a process
		}
		return nil, ErrGone
	})
	if err != nil {
		t.Errorf("gone meanwhile: %v", err)
	}
}
