package evictor

import (
	"context"
	"errors"
	"fmt"
	"os"
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

// waits makes a pod wait for memory, and the node with it; nil: the node alone.
func (s *stage) waits(p *corev1.Pod, d time.Duration) {
	s.t.Helper()
	pressure := func(uid types.UID) string {
		s.waited[uid] += d
		line := fmt.Sprintf("avg10=0.00 avg60=0.00 avg300=0.00 total=%d\n", s.waited[uid].Microseconds())
		return "some " + line + "full " + line
	}
	if p != nil {
		s.cgroups.Set(s.paths[p.UID], "memory.pressure", pressure(p.UID))
	}
	s.proc("pressure/memory", pressure(""))
}

// free reports whether the node has free memory.
func (s *stage) free(free bool) {
	pages := map[bool]int{true: 1 << 20, false: 1000}
	s.proc("zoneinfo", fmt.Sprintf("Node 0, zone   Normal\n        high     5000\n        managed  2097152\n        protection: (0, 0)\n      nr_free_pages %d\n", pages[free]))
}

// proc writes a file of the machine's /proc.
func (s *stage) proc(name, text string) {
	s.t.Helper()
	name = filepath.Join(s.Sensor.ProcRoot, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// firing is a stage whose trigger has been armed; fire has the loop step for an event.
func firing(t *testing.T, pods ...*corev1.Pod) (s *stage, fire func()) {
	s = newStage(t, onStall("", 150*time.Millisecond), pods...)
	for _, p := range pods {
		s.uses(p, 100<<20)
	}
	triggers := s.arming()
	s.later(time.Second)
	t.Cleanup(s.trigger.Close)
	return s, func() {
		(*triggers)[0].fire()
		<-s.trigger.Fired()
		s.later(stallPause)
	}
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
		if len(s.terminator.asked) > 0 {
			t.Fatalf("for an event alone %v have to go", s.terminator.names())
		}
		s.waits(big, 200*time.Millisecond)
		s.clock.Step(stallPause)
		synctest.Wait()
		if got := s.terminator.asked; len(got) != 1 || got[0].Pod != big || !got[0].Contain {
			t.Fatalf("after a stall asked for %+v", got)
		}

		// It was one event: the next round, for another reason, finds no stall in it.
		s.source.Say(func(state *state.State) { state.Pods = []*corev1.Pod{small} })
		s.waits(small, time.Minute)
		for range 3 {
			s.clock.Step(time.Minute)
			synctest.Wait()
		}
		if !slices.Equal(s.terminator.removed, []types.UID{big.UID}) || len(s.terminator.asked) != 1 {
			t.Fatalf("removed %v, and %v had to go", s.terminator.removed, s.terminator.names())
		}
		trigger.fire()
		synctest.Wait()
		s.waits(small, 200*time.Millisecond)
		s.clock.Step(stallPause)
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

// An event that the kernel held back is told when the stall is over: nobody goes for it. The end of a victim is a time of its own: what was
// told meanwhile, and within a window after it, is dropped.
func TestEvictorDropsLateEvents(t *testing.T) {
	first, second := victim("first", 0), victim("second", 10)
	s, fire := firing(t, first, second)
	want := func(when string, names ...string) {
		t.Helper()
		if got := s.terminator.names(); !slices.Equal(got, names) {
			t.Fatalf("%s: %v have to go, want %v", when, got, names)
		}
	}
	fire()
	s.waits(first, 140*time.Millisecond)
	s.later(time.Second)
	want("less than a stall within the window")
	s.waits(first, time.Minute)
	s.later(time.Second)
	want("nothing was told")
	fire()
	s.waits(first, 150*time.Millisecond)
	s.later(stallPause)
	want("a stall", "first")
	for range 5 {
		s.waits(second, time.Second)
		fire()
		s.later(300 * time.Millisecond)
	}
	want("while its victim is stopped", "first")
	s.source.Say(func(state *state.State) { state.Pods = []*corev1.Pod{second} })
	s.later(300 * time.Millisecond)
	fire()
	s.waits(second, time.Second)
	s.later(300 * time.Millisecond)
	want("held back until the victim had ended", "first")
	s.later(time.Second)
	fire()
	s.later(time.Second)
	want("held back, and nobody waits", "first")
	fire()
	s.waits(second, 150*time.Millisecond)
	s.later(stallPause)
	want("the next stall", "first", "second")
}

// Who waits is judged by the pod's own pressure, and a pod at a limit of its own has itself to blame, and not a neighbour.
func TestEvictorStallIsOfWhoWaits(t *testing.T) {
	const long = 200 * time.Millisecond
	container := func(s *stage, p *corev1.Pod, name string, waited time.Duration, events string) {
		at := s.paths[p.UID] + "/" + name
		s.cgroups.Add(at, nil)
		s.cgroups.Set(at, "memory.pressure", fmt.Sprintf("some avg10=0.00 avg60=0.00 avg300=0.00 total=%d\n", waited.Microseconds()))
		s.cgroups.Set(at, "memory.events", events)
	}
	for name, tc := range map[string]struct {
		stall func(s *stage, hog, other *corev1.Pod)
		want  []string
	}{
		"only one waits":         {func(s *stage, hog, _ *corev1.Pod) { s.waits(hog, long) }, []string{"hog"}},
		"both wait, by priority": {func(s *stage, hog, other *corev1.Pod) { s.waits(hog, long); s.waits(other, long) }, []string{"other"}},
		"the other hardly waits": {func(s *stage, hog, other *corev1.Pod) { s.waits(hog, long); s.waits(other, long/10) }, []string{"hog"}},
		"the system waits":       {func(s *stage, _, _ *corev1.Pod) { s.waits(nil, long) }, nil},
		"the system, and they little": {func(s *stage, hog, other *corev1.Pod) {
			s.waits(nil, long)
			s.waits(hog, long/20)
			s.waits(other, long/20)
		}, nil},
		"each a part of the time": {func(s *stage, hog, other *corev1.Pod) {
			s.waits(nil, long)
			s.waits(hog, long/5)
			s.waits(other, long/5)
		}, []string{"other"}},
		"memory is free": {func(s *stage, hog, _ *corev1.Pod) { s.waits(hog, long); s.free(true) }, nil},
		"free, and kubepods' used": {func(s *stage, hog, _ *corev1.Pod) {
			s.waits(hog, long)
			s.free(true)
			s.cgroups.Set("/kubepods", "memory.events.local", "high 0\nmax 7\noom 0")
		}, []string{"hog"}},
		"contained, or at its own limit": {func(s *stage, hog, _ *corev1.Pod) {
			s.waits(hog, long)
			s.cgroups.Set(s.paths[hog.UID], "memory.events.local", "low 0\nhigh 3\nmax 0")
		}, nil},
		"its container throttled": {func(s *stage, hog, _ *corev1.Pod) {
			s.waits(hog, long)
			container(s, hog, "throttled", long, "high 1")
		}, nil},
		"its other container waits": {func(s *stage, hog, _ *corev1.Pod) {
			s.waits(hog, long)
			container(s, hog, "throttled", long, "high 1")
			container(s, hog, "waits", long, "high 0")
		}, []string{"hog"}},
		"its pressure is not kept": {func(s *stage, hog, _ *corev1.Pod) {
			s.waits(nil, long)
			s.cgroups.Remove(s.paths[hog.UID])
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			hog, other := victim("hog", 1000), victim("other", 0)
			s, fire := firing(t, hog, other)
			fire()
			tc.stall(s, hog, other)
			for range 3 {
				s.later(stallPause)
			}
			if got := s.terminator.names(); !slices.Equal(got, tc.want) {
				t.Errorf("%v have to go, want %v; said: %v", got, tc.want, s.log.Lines())
			}
			if pressed := s.short == "memory"; pressed != (len(tc.want) > 0) {
				t.Errorf("memory pressure is told: %t", pressed)
			}
		})
	}
}

// The trigger is on the whole node's stall on memory, and as the policy has it: armed again when the policy changes, gone with it.
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

// Where the kernel has no trigger, it is said once, and a stall is not known; nobody goes for it. It is tried again, ever more seldom.
func TestEvictorWithoutTrigger(t *testing.T) {
	p := victim("p", 0)
	s := newStage(t, onStall("", 150*time.Millisecond), p)
	s.uses(p, 300<<20)
	triggers := s.arming()
	opens, tries := s.trigger.Open, 0
	s.trigger.Open = func(string, pressure.Stall) (pressure.Waiter, error) { tries++; return nil, errors.New("psi=0") }
	for range 600 {
		s.later(time.Second)
	}
	if s.log.Count("failed to watch memory stall") != 1 || len(s.terminator.asked) > 0 || tries < 10 || tries > 20 {
		t.Errorf("tried %d times; %v have to go; said: %v", tries, s.terminator.names(), s.log.Lines())
	}
	s.trigger.Open = opens
	s.later(time.Minute)
	if len(*triggers) != 1 || !s.trigger.Armed() {
		t.Error("it is not armed when that can be done")
	}
	s.trigger.Close()
}

// Where the wait for a stall fails, a stall is not known from then on, which is not the same as none: it is said at once, once, in the log and in
// the metric, until the trigger is armed again: in a second, or as soon as the policy wants another.
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
			s.later(300 * time.Millisecond)
		}
		known("0")
		s.later(time.Second)
		known("1")
		(*triggers)[1].fails <- errors.New("the kernel took it away")
		synctest.Wait()
		for range 3 {
			s.later(300 * time.Millisecond)
		}
		known("0")
		if s.log.Count("the kernel took it away") != 2 || len(s.terminator.asked) > 0 {
			t.Errorf("%v have to go; said: %v", s.terminator.names(), s.log.Lines())
		}
		s.source.Say(func(state *state.State) { state.Policy.Spec.Eviction = onStall("", 200*time.Millisecond) })
		s.later(time.Second)
		known("1")
		s.trigger.Close()
	})
}

// A read-only enforcer arms no trigger, which takes a privilege, and says so once. What it measures without one it reports, and evicts no pod.
func TestEvictorReadOnly(t *testing.T) {
	p := victim("p", 0)
	wants := onStall("", 150*time.Millisecond)
	wants.Hard = onMemory("1Gi", "").Hard
	s := newStage(t, wants, p)
	s.DryRun, s.Untriggered = true, true
	s.Status = status.NewNodeUpdater(nil, s.clock, s.Log)
	triggers := s.arming()
	s.uses(p, 400<<20)
	s.left(900 << 20)
	for range 5 {
		s.later(time.Second)
	}
	if len(*triggers) > 0 || s.log.Count("not watching memory stall") != 1 || s.log.Count("failed to watch") > 0 {
		t.Errorf("armed %v; said: %v", *triggers, s.log.Lines())
	}
	if len(s.terminator.asked) > 0 || s.log.Count("would evict") != 1 || !slices.Equal(s.Status.Status().Pressure, []string{"memory"}) {
		t.Errorf("asked %v, reported %v, said: %v", s.terminator.names(), s.Status.Status(), s.log.Lines())
	}
}
