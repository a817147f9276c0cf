package fencing_test

import (
	"testing"
	"time"

	"github.com/podgrace/podgrace/fencing"
)

func TestSilence(t *testing.T) {
	t.Parallel()
	type at struct {
		after   time.Duration // since the one before
		sign    string
		restart bool
	}
	for _, tt := range []struct {
		name   string
		ats    []at
		silent time.Duration
		heard  bool
	}{
		{"seen once is not heard of", []at{{0, "u/b//1", false}, {5 * time.Second, "u/b//1", false}}, 5 * time.Second, false},
		{"a renewal", []at{{0, "u/b//1", false}, {5 * time.Second, "u/b//2", false}, {5 * time.Second, "u/b//2", false}}, 5 * time.Second, true},
		{"a renewal of a clock that was set back", []at{{0, "u/b//5", false}, {5 * time.Second, "u/b//2", false}}, 0, true},
		{"a Lease that was deleted is no sign of life", []at{{0, "u/b//1", false}, {5 * time.Second, "u/b//2", false}, {5 * time.Second, "u/b//", false}}, 5 * time.Second, true},
		{"a fencer that was paused begins again", []at{{0, "u/b//1", false}, {5 * time.Second, "u/b//2", false}, {10 * time.Minute, "u/b//2", false}}, 0, false},
		{"watches that were cut begin again", []at{{0, "u/b//1", false}, {5 * time.Second, "u/b//2", false}, {10 * time.Second, "u/b//2", true}, {5 * time.Second, "u/b//2", false}}, 5 * time.Second, false},
		{"what changed meanwhile was heard of", []at{{0, "u/b//1", false}, {10 * time.Minute, "u/b//3", false}}, 0, true},
		{"a clock that goes back begins again", []at{{10 * time.Second, "u/b//1", false}, {-5 * time.Second, "u/b//1", false}}, 0, false},
	} {
		var s fencing.Silence
		now := time.Duration(0)
		for _, a := range tt.ats {
			now += a.after
			s.Tick(now)
			if a.restart {
				s.Restart(now)
			}
			s.Hear("node", a.sign, now)
		}
		if silent, heard := s.Of("node", now); silent != tt.silent || heard != tt.heard {
			t.Errorf("%s: silent for %s, heard %v", tt.name, silent, heard)
		}
	}
	var s fencing.Silence
	s.Hear("gone", "u/b//1", 0)
	s.Keep(nil)
	if silent, heard := s.Of("gone", time.Hour); silent != 0 || heard {
		t.Errorf("a node that is there no more is silent for %s", silent)
	}
}

// A Node that is not there is gone since the fencer first knew it: again from the beginning where it was heard of meanwhile, or the watches were cut.
func TestGone(t *testing.T) {
	t.Parallel()
	var s fencing.Silence
	for _, at := range []struct {
		now, since time.Duration
		before     func()
	}{
		{now: 10 * time.Second, since: 10 * time.Second},
		{now: 15 * time.Second, since: 10 * time.Second},
		{now: 25 * time.Second, since: 25 * time.Second, before: func() { s.Hear("n", "u/b//1", 20*time.Second) }},
		{now: 35 * time.Second, since: 35 * time.Second, before: func() { s.Restart(30 * time.Second) }},
		{now: 40 * time.Second, since: 35 * time.Second},
	} {
		if at.before != nil {
			at.before()
		}
		if since := s.Gone("n", at.now); since != at.since {
			t.Errorf("at %s it is gone since %s, not %s", at.now, since, at.since)
		}
	}
	if since := s.Gone("another", time.Minute); since != time.Minute {
		t.Errorf("another node is gone since %s", since)
	}
}
