package plan

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A clock that jumps is ahead and then as far behind; one that is fast gains, and no timer is ever set back; nothing else moves a clock.
func TestMoved(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed, number, o := drawn(t)
		for _, s := range Draw(seed, number, o).Steps {
			first, timers := s.Moved(0)
			last, later := s.Moved(s.For)
			switch s.Fault {
			case JumpClock:
				if first < time.Minute || last != -first || timers != 0 || later != 0 {
					t.Fatalf("%+v: %s and %s, then %s and %s", s, first, timers, last, later)
				}
			case FastClock:
				if first != 0 || timers != 0 || last != s.For/4 || later != last {
					t.Fatalf("%+v: %s and %s, then %s and %s", s, first, timers, last, later)
				}
			default:
				if first != 0 || last != 0 || timers != 0 || later != 0 {
					t.Fatalf("%+v moves a clock", s)
				}
			}
		}
	})
}

// In the long run clocks jump by each of the times.
func TestEachJumpHappens(t *testing.T) {
	by := map[time.Duration]bool{}
	for number := range 100 {
		for _, s := range Draw(1, number, Options{Storm: time.Minute}).Steps {
			if s.Fault == JumpClock {
				wall, _ := s.Moved(0)
				by[wall] = true
			}
		}
	}
	for _, j := range jumps {
		if !by[j] {
			t.Errorf("no clock jumps by %s", j)
		}
	}
}
