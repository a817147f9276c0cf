package cgrouptest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func (s *suite) processes(t *testing.T) {
	at := s.child(t, "processes")
	left, right := s.below(t, at, "left"), s.below(t, at, "right")
	pids := append(s.Processes.Start(t, left, 2), s.Processes.Start(t, right, 1)...)
	outside := s.Processes.Start(t, s.child(t, "outside"), 1)[0]
	slices.Sort(pids)
	got, err := s.Tree.Processes(at)
	if diff := cmp.Diff(pids, got); diff != "" || err != nil {
		t.Errorf("process %d is outside: %v (-want +got):\n%s", outside, err, diff)
	}
}

func (s *suite) kill(t *testing.T) {
	at := s.child(t, "kill")
	left, right := s.below(t, at, "left"), s.below(t, at, "right")
	pids := append(s.Processes.Start(t, left, 3), s.Processes.Start(t, s.below(t, right, "deeper"), 2)...)
	outside := s.Processes.Start(t, s.child(t, "neighbour"), 1)[0]
	if err := s.Tree.Kill(t.Context(), at); err != nil {
		t.Fatal(err)
	}
	for _, pid := range pids {
		s.Processes.Ended(t, pid)
	}
	if !s.Processes.Alive(outside) {
		t.Error("a neighbour was killed")
	}
	if err := s.Tree.Kill(t.Context(), at); err != nil {
		t.Errorf("a second time: %v", err)
	}
}

// killForking is a cgroup whose processes start others faster than one could list them.
func (s *suite) killForking(t *testing.T) {
	at := s.child(t, "forking")
	s.Processes.StartForking(t, at)
	if err := s.Tree.Kill(t.Context(), at); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for {
		pids, err := s.Tree.Processes(at)
		if err != nil {
			t.Fatal(err)
		}
		if len(pids) == 0 {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%d processes outlived the kill", len(pids))
		case <-poll.C:
		}
	}
}
