package plan

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/podgrace/podgrace/guard"
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

// A plan says that a confirmation is void where the guard does, by the clock of a replica, and of each jump at one time or another, but for the least: what is void at no time is exempt at none.
func TestVoids(t *testing.T) {
	pod, now := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "1"}}, time.Now()
	pod.Annotations = map[string]string{guard.AnnotationConfirmForceDelete: guard.ConfirmPod(pod, guard.Node{}, now)}
	for i, by := range jumps {
		s := Step{Fault: JumpClock, For: 10*time.Second + time.Duration(i)*time.Millisecond}
		for _, after := range []time.Duration{0, s.For} {
			wall, _ := s.Moved(after)
			if wall.Abs() != by {
				t.Fatalf("%+v is wrong by %s", s, wall)
			}
			holds, void := guard.Confirmation(pod, guard.Node{}, now.Add(wall))
			if got := s.Voids(after); got == holds {
				t.Errorf("wrong by %s: void by the plan: %t, and by the guard: %q", wall, got, void)
			}
		}
		if want := by > 5*time.Minute; s.Voids(s.For) != want || s.Voids(0) != (by > time.Hour) {
			t.Errorf("a jump by %s: %t, then %t", by, s.Voids(0), s.Voids(s.For))
		}
	}
	if s := (Step{Fault: FastClock, For: 30 * time.Second}); s.Voids(s.For) || (Step{Fault: KillReplica}).Voids(0) {
		t.Error("void for nothing")
	}
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
