package evictor

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/nodeenforcer/pressure"
	"github.com/podgrace/podgrace/nodeenforcer/state"
	"github.com/podgrace/podgrace/nodeenforcer/state/statetest"
	"github.com/podgrace/podgrace/nodeenforcer/status"
)

// armed is a trigger that fires when it is told to. It keeps how it was armed.
type armed struct {
	File string
	Want pressure.Stall

	fires  chan struct{}
	fails  chan error
	closed bool
}

// Wait is for waiter.
func (a *armed) Wait(ctx context.Context) error {
	select {
	case <-a.fires:
		return nil
	case err := <-a.fails:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close is for waiter.
func (a *armed) Close() error { a.closed = true; return nil }

// fire does not wait for anybody to hear it, nor does the kernel.
func (a *armed) fire() { a.fires <- struct{}{} }

// arming keeps all triggers that the stage's evictor opens, the newest last.
func (s *stage) arming() *[]*armed {
	var all []*armed
	s.trigger.Open = func(file string, want pressure.Stall) (pressure.Waiter, error) {
		all = append(all, &armed{File: file, Want: want, fires: make(chan struct{}, 1), fails: make(chan error, 1)})
		return all[len(all)-1], nil
	}
	return &all
}

func onStall(kind v1alpha1.StallKind, stall time.Duration) *v1alpha1.NodeEviction {
	return &v1alpha1.NodeEviction{MemoryStall: &v1alpha1.MemoryStall{Kind: kind, Stall: metav1.Duration{Duration: stall}, Window: metav1.Duration{Duration: time.Second}}}
}

// From the kernel's event to the victim, through the loop as the agent runs it. Its clock stands still: only the event can have
// brought a round about.
func TestEvictorHearsTheTrigger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		big, small := victim("big", 0), victim("small", 0)
		s := newStage(t, onStall("", 150*time.Millisecond), big, small)
		s.uses(big, 300<<20)
		s.uses(small, 200<<20)
		triggers := s.arming()
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()

		synctest.Wait()
		if len(*triggers) != 1 || len(s.terminator.asked) > 0 {
			t.Fatalf("before any stall there are %d triggers, and %v have to go", len(*triggers), s.terminator.names())
		}
		trigger := (*triggers)[0]
		trigger.fire()
		synctest.Wait()
		if got := s.terminator.asked; len(got) != 1 || got[0].Pod != big || !got[0].Contain {
			t.Fatalf("after a stall asked for %+v", got)
		}

		// It was one event: the next round, for another reason, finds no stall in it.
		s.source.Say(func(state *state.State) { state.Pods = []*corev1.Pod{small} })
		s.clock.Step(time.Minute)
		synctest.Wait()
		if !slices.Equal(s.terminator.removed, []types.UID{big.UID}) || len(s.terminator.asked) != 1 {
			t.Fatalf("removed %v, and %v had to go", s.terminator.removed, s.terminator.names())
		}
		trigger.fire()
		synctest.Wait()
		if got := s.terminator.names(); !slices.Equal(got, []string{"big", "small"}) {
			t.Errorf("after another stall %v had to go", got)
		}

		stop()
		if err := <-ended; err != nil || !trigger.closed {
			t.Errorf("ended with %v, the trigger closed: %t", err, trigger.closed)
		}
	})
}

// The trigger is on the whole node's stall on memory, and as the policy has it: armed anew when the policy changes, gone with it.
func TestEvictorArmsTheTrigger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, onStall("", 150*time.Millisecond))
		triggers := s.arming()
		arms := func(what string, eviction *v1alpha1.NodeEviction, want ...armed) {
			t.Helper()
			s.source.Say(func(state *state.State) { state.Policy.Spec.Eviction = eviction })
			s.later(time.Second)
			var open []armed
			for _, a := range *triggers {
				if !a.closed {
					open = append(open, armed{File: a.File, Want: a.Want})
				}
			}
			if diff := cmp.Diff(want, open, cmp.AllowUnexported(armed{})); diff != "" {
				t.Errorf("%s (-want +got):\n%s", what, diff)
			}
		}
		file := filepath.Join(s.Sensor.ProcRoot, "pressure", "memory")
		arms("by default all wait", onStall("", 150*time.Millisecond), armed{File: file, Want: pressure.Stall{Kind: v1alpha1.StallFull, Stall: 150 * time.Millisecond, Window: time.Second}})
		arms("all", onStall(v1alpha1.StallFull, 150*time.Millisecond), armed{File: file, Want: pressure.Stall{Kind: v1alpha1.StallFull, Stall: 150 * time.Millisecond, Window: time.Second}})
		if len(*triggers) != 1 {
			t.Errorf("the same again armed %d triggers", len(*triggers))
		}
		arms("some", onStall(v1alpha1.StallSome, 150*time.Millisecond), armed{File: file, Want: pressure.Stall{Kind: v1alpha1.StallSome, Stall: 150 * time.Millisecond, Window: time.Second}})
		arms("longer", onStall(v1alpha1.StallSome, 200*time.Millisecond), armed{File: file, Want: pressure.Stall{Kind: v1alpha1.StallSome, Stall: 200 * time.Millisecond, Window: time.Second}})
		arms("no stall", onMemory("1Gi", ""))
		arms("again", onStall(v1alpha1.StallSome, 200*time.Millisecond), armed{File: file, Want: pressure.Stall{Kind: v1alpha1.StallSome, Stall: 200 * time.Millisecond, Window: time.Second}})
		arms("no thresholds", nil)
	})
}

// Where the kernel has no trigger, it is said once, and a stall is not known; nobody goes for it.
func TestEvictorWithoutTrigger(t *testing.T) {
	p := victim("p", 0)
	s := newStage(t, onStall("", 150*time.Millisecond), p)
	s.uses(p, 300<<20)
	s.trigger.Open = func(string, pressure.Stall) (pressure.Waiter, error) {
		return nil, errors.New("psi=0")
	}
	for range 3 {
		s.later(time.Second)
	}
	if s.log.Count("failed to watch memory stall") != 1 || len(s.terminator.asked) > 0 {
		t.Errorf("%v have to go; said: %v", s.terminator.names(), s.log.Lines())
	}
}

// Where the wait for a stall fails, a stall is not known from then on, which is not the same as none: it is said at once, once, in the log and in
// the metric, until a policy has the trigger armed again.
func TestEvictorLosesTheTrigger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := victim("p", 0)
		s := newStage(t, onStall("", 150*time.Millisecond), p)
		s.uses(p, 300<<20)
		registry := prometheus.NewPedanticRegistry()
		s.Metrics = status.NewMetrics(registry)
		triggers := s.arming()
		s.later(time.Second)
		known := func(value string) {
			t.Helper()
			if want, got := `podgrace_node_eviction_signal_known signal="memory.stall" `+value, statetest.Gathered(t, registry); !slices.Contains(got, want) {
				t.Errorf("want %s, got %q", want, got)
			}
		}
		known("1")
		(*triggers)[0].fails <- errors.New("the kernel took it away")
		synctest.Wait()
		select {
		case <-s.trigger.Fired():
		default:
			t.Error("the loop is not woken")
		}
		for range 3 {
			s.later(time.Second)
		}
		known("0")
		if s.log.Count("the kernel took it away") != 1 || len(s.terminator.asked) > 0 {
			t.Errorf("%v have to go; said: %v", s.terminator.names(), s.log.Lines())
		}
		s.source.Say(func(state *state.State) { state.Policy.Spec.Eviction = onStall("", 200*time.Millisecond) })
		s.later(time.Second)
		known("1")
		s.trigger.Close()
	})
}
