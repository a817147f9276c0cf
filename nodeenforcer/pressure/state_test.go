package pressure_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/nodeenforcer/eviction"
	"github.com/podgrace/podgrace/nodeenforcer/pressure"
	"github.com/podgrace/podgrace/policy/enforcement"
)

var start = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

const mib = int64(1) << 20

// node is a node under test: memory of 1000 MiB, a disk of 1000, 1000 processes.
type node struct {
	clock      *clocktesting.FakeClock
	thresholds pressure.Thresholds
	state      pressure.State
	signals    pressure.Signals
	stall      *bool
}

// newNode has thresholds that are acted upon although they are met from the beginning: trials are TestTrial's.
func newNode(t *testing.T, e *v1alpha1.NodeEviction) *node {
	n := &node{clock: clocktesting.NewFakeClock(start), thresholds: compile(t, e), signals: pressure.Signals{}, stall: new(false)}
	n.thresholds.Immediate = true
	return n
}

// memory is measured now; in MiB.
func (n *node) memory(available int64) *node {
	n.signals[v1alpha1.SignalMemoryAvailable] = pressure.Sample{Available: available * mib, Capacity: 1000 * mib, Time: n.clock.Now()}
	return n
}

// disk is measured now, of 1000.
func (n *node) disk(available int64) *node {
	n.signals[v1alpha1.SignalNodeFsAvailable] = pressure.Sample{Available: available, Capacity: 1000, Time: n.clock.Now()}
	return n
}

func (n *node) after(d time.Duration) *node {
	n.clock.SetTime(n.clock.Now().Add(d))
	return n
}

// step says in one line what is found.
func (n *node) step() string {
	var v pressure.Verdict
	n.state, v = n.state.Step(n.clock.Now(), n.thresholds, n.signals, n.stall)
	return tell(v, n.clock.Now())
}

func tell(v pressure.Verdict, now time.Time) string {
	var out []string
	for _, m := range v.Due {
		s := fmt.Sprintf("%s hard=%t need=%d", m.Signal, m.Kind == eviction.Hard, m.Amount)
		if m.Amount%mib == 0 && m.Amount > 0 {
			s = fmt.Sprintf("%s hard=%t need=%dMi", m.Signal, m.Kind == eviction.Hard, m.Amount/mib)
		}
		if !m.Fresh {
			s += " seen"
		}
		out = append(out, s)
	}
	for _, m := range v.Waiting {
		out = append(out, fmt.Sprintf("%s waits since %s", m.Signal, m.For))
	}
	for _, c := range []corev1.NodeConditionType{corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure} {
		if v.Conditions[c] {
			out = append(out, string(c))
		}
	}
	for _, s := range v.Unknown {
		out = append(out, "unknown "+string(s))
	}
	if !v.Next.IsZero() {
		out = append(out, "next "+v.Next.Sub(now).String())
	}
	return strings.Join(out, ", ")
}

func expect(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func memoryPolicy(reclaim v1alpha1.ThresholdValue) *v1alpha1.NodeEviction {
	return &v1alpha1.NodeEviction{
		Hard:                     []v1alpha1.EvictionThreshold{hard(v1alpha1.SignalMemoryAvailable, "100Mi", reclaim)},
		Soft:                     []v1alpha1.SoftEvictionThreshold{soft(v1alpha1.SignalMemoryAvailable, "30%", reclaim, 3*time.Second)},
		PressureTransitionPeriod: &metav1.Duration{Duration: 5 * time.Second},
	}
}

func TestHardAndTransition(t *testing.T) {
	t.Parallel()
	n := newNode(t, memoryPolicy(""))
	n.thresholds.List = n.thresholds.List[:1]
	expect(t, n.memory(100).step(), "")
	expect(t, n.after(time.Second).memory(99).step(), "memory.available hard=true need=1Mi, MemoryPressure")
	expect(t, n.after(time.Millisecond).step(), "memory.available hard=true need=1Mi seen, MemoryPressure")
	expect(t, n.after(time.Second).memory(100).step(), "MemoryPressure, next 2s")
	expect(t, n.after(2*time.Second).memory(100).step(), "MemoryPressure, next 2s")
	expect(t, n.after(time.Second).memory(100).step(), "MemoryPressure, next 1s")
	expect(t, n.after(998*time.Millisecond).memory(100).step(), "MemoryPressure, next 2ms")
	expect(t, n.after(2*time.Millisecond).memory(100).step(), "")
}

// A threshold that is met when it is applied, or when its bound grows, is acted upon after a minute; one that was once not met at once.
func TestTrial(t *testing.T) {
	t.Parallel()
	with := func(value v1alpha1.ThresholdValue) *v1alpha1.NodeEviction {
		return &v1alpha1.NodeEviction{Hard: []v1alpha1.EvictionThreshold{hard(v1alpha1.SignalMemoryAvailable, value, "")}, PressureTransitionPeriod: &metav1.Duration{}}
	}
	begin := func(value v1alpha1.ThresholdValue) *node {
		n := newNode(t, with(value))
		n.thresholds.Immediate = false
		return n
	}
	wait := func(n *node, memory int64, d time.Duration) (said string) {
		for range d / (2 * time.Second) {
			said = n.after(2 * time.Second).memory(memory).step()
		}
		return said
	}
	n := begin("90%")
	expect(t, n.memory(800).step(), "memory.available waits since 0s, MemoryPressure, next 2s")
	expect(t, wait(n, 800, 58*time.Second), "memory.available waits since 58s, MemoryPressure, next 2s")
	expect(t, wait(n, 800, 2*time.Second), "memory.available hard=true need=104857575, MemoryPressure")

	n = begin("100Mi")
	expect(t, n.memory(800).step(), "")
	expect(t, n.after(time.Second).memory(90).step(), "memory.available hard=true need=10Mi, MemoryPressure")

	// It is not met for a moment, and never on trial again, in a later process either.
	n = begin("500Mi")
	expect(t, n.memory(400).step(), "memory.available waits since 0s, MemoryPressure, next 2s")
	expect(t, n.after(time.Second).memory(500).step(), "")
	expect(t, n.after(time.Second).memory(400).step(), "memory.available hard=true need=100Mi, MemoryPressure")
	later := begin("500Mi")
	later.state = pressure.Proved(n.state.Proofs())
	expect(t, later.memory(400).step(), "memory.available hard=true need=100Mi, MemoryPressure")

	// Raised while it is not met: on trial, but where the lower one is met as well that one counts.
	raise := func(to v1alpha1.ThresholdValue) { n.thresholds.List = compile(t, with(to)).List }
	n = begin("100Mi")
	n.memory(800).step()
	raise("900Mi")
	expect(t, n.after(time.Second).memory(800).step(), "memory.available waits since 0s, MemoryPressure, next 2s")
	expect(t, n.after(time.Second).memory(90).step(), "memory.available hard=true need=10Mi, MemoryPressure")
	expect(t, n.after(time.Second).memory(800).step(), "memory.available waits since 2s, MemoryPressure, next 2s")
	expect(t, wait(n, 800, 58*time.Second), "memory.available hard=true need=100Mi, MemoryPressure")
	// Raised while the lower one is met.
	n = begin("100Mi")
	n.memory(800).step()
	expect(t, wait(n, 90, 2*time.Minute), "memory.available hard=true need=10Mi, MemoryPressure")
	raise("900Mi")
	expect(t, n.after(time.Second).memory(110).step(), "memory.available waits since 1m59s, MemoryPressure, next 2s")
	// What was proved counts also once the trial is over, or if the policy wants none.
	expect(t, wait(n, 800, 2*time.Minute), "memory.available hard=true need=100Mi, MemoryPressure")
	expect(t, n.after(time.Second).memory(90).step(), "memory.available hard=true need=10Mi, MemoryPressure")
	n.thresholds.Immediate = true
	expect(t, n.after(time.Second).memory(90).step(), "memory.available hard=true need=10Mi, MemoryPressure")
	n.thresholds.Immediate = false
	// Lowered: it was proved by more.
	raise("95Mi")
	expect(t, n.after(time.Second).memory(90).step(), "memory.available hard=true need=5Mi, MemoryPressure")
	// Taken away and given again: new.
	n.thresholds.List = nil
	n.after(time.Second).memory(90).step()
	raise("95Mi")
	expect(t, n.after(time.Second).memory(90).step(), "memory.available waits since 0s, MemoryPressure, next 2s")

	// A capacity that changes by less than a fiftieth is the same one.
	n = begin("50%")
	n.memory(501).step()
	n.signals[v1alpha1.SignalMemoryAvailable] = pressure.Sample{Available: 490 * mib, Capacity: 1010 * mib, Time: n.clock.Now()}
	expect(t, n.step(), "memory.available hard=true need=15Mi seen, MemoryPressure")
	n.signals[v1alpha1.SignalMemoryAvailable] = pressure.Sample{Available: 490 * mib, Capacity: 2000 * mib, Time: n.clock.Now()}
	expect(t, n.step(), "memory.available hard=true need=10Mi seen, MemoryPressure")

	// A clock that jumps does not end a trial, and a gap counts for two seconds.
	n = begin("90%")
	n.memory(800).step()
	expect(t, n.after(time.Hour).memory(800).step(), "memory.available waits since 2s, MemoryPressure, next 2s")
}

func TestSoftGrace(t *testing.T) {
	t.Parallel()
	n := newNode(t, memoryPolicy(""))
	expect(t, n.memory(299).step(), "memory.available waits since 0s, MemoryPressure, next 2s")
	expect(t, n.after(2*time.Second).memory(150).step(), "memory.available waits since 2s, MemoryPressure, next 1s")
	expect(t, n.after(time.Second-1).memory(150).step(), "memory.available waits since 2.999999999s, MemoryPressure, next 1ns")
	expect(t, n.after(1).memory(299).step(), "memory.available hard=false need=1048588, MemoryPressure")
	// A pause of one sample, and the grace period begins again.
	expect(t, n.after(time.Second).memory(301).step(), "MemoryPressure, next 2s")
	expect(t, n.after(time.Second).memory(299).step(), "memory.available waits since 0s, MemoryPressure, next 2s")
	// Hard before soft, and the grace period goes on under it.
	expect(t, n.after(time.Second).memory(50).step(), "memory.available hard=true need=50Mi, memory.available waits since 1s, MemoryPressure, next 2s")
	n.after(2 * time.Second)
	expect(t, n.memory(50).step(), "memory.available hard=true need=50Mi, memory.available hard=false need=262144012, MemoryPressure")
}

func TestMinimumReclaim(t *testing.T) {
	t.Parallel()
	n := newNode(t, memoryPolicy("50Mi"))
	n.thresholds.List = n.thresholds.List[:1]
	expect(t, n.memory(120).step(), "") // not met: the reclaim is no threshold of its own
	expect(t, n.after(time.Second).memory(99).step(), "memory.available hard=true need=51Mi, MemoryPressure")
	expect(t, n.after(time.Second).memory(149).step(), "memory.available hard=true need=1Mi, MemoryPressure")
	expect(t, n.after(time.Second).memory(150).step(), "MemoryPressure, next 2s")
	expect(t, n.after(time.Second).memory(120).step(), "MemoryPressure, next 2s")
	// A soft one that was not acted upon yet has nothing to reclaim.
	n = newNode(t, memoryPolicy("50Mi"))
	expect(t, n.memory(299).step(), "memory.available waits since 0s, MemoryPressure, next 2s")
	expect(t, n.after(time.Second).memory(301).step(), "MemoryPressure, next 2s")
}

// No jump of the clock ends a grace period at once, and none makes it last forever.
func TestClockJumps(t *testing.T) {
	t.Parallel()
	policy := memoryPolicy("")
	policy.Soft[0].GracePeriod.Duration = 10 * time.Second
	for _, jump := range []time.Duration{time.Hour, -time.Hour, 24 * 365 * time.Hour, -24 * 365 * time.Hour} {
		n := newNode(t, policy)
		expect(t, n.memory(200).step(), "memory.available waits since 0s, MemoryPressure, next 2s")
		n.after(jump)
		got := n.memory(200).step()
		if !strings.Contains(got, "waits since") {
			t.Errorf("jump of %s: %s", jump, got)
		}
		for range 10 {
			got = n.after(time.Second).memory(200).step()
		}
		if !strings.Contains(got, "hard=false") || !strings.Contains(got, "need") {
			t.Errorf("jump of %s, 10 s later: %s", jump, got)
		}
		// The same with the condition, which lasts 5 s.
		n.memory(500).step()
		n.after(jump)
		if got = n.memory(500).step(); !strings.Contains(got, "MemoryPressure") {
			t.Errorf("jump of %s: the condition is gone", jump)
		}
		for range 5 {
			got = n.after(time.Second).memory(500).step()
		}
		if got != "" {
			t.Errorf("jump of %s, 5 s later: %s", jump, got)
		}
	}
}

func TestUnknownKeepsTheLast(t *testing.T) {
	t.Parallel()
	n := newNode(t, memoryPolicy(""))
	expect(t, n.step(), "unknown memory.available")
	expect(t, n.memory(200).step(), "memory.available waits since 0s, MemoryPressure, next 2s")
	n.after(time.Second).memory(200).step()
	n.after(2001 * time.Millisecond) // the sample is too old
	expect(t, n.step(), "MemoryPressure, unknown memory.available")
	n.after(time.Hour)
	expect(t, n.step(), "MemoryPressure, unknown memory.available")
	// Its grace period goes on where it was; what nobody saw counts for MaxStep.
	expect(t, n.after(time.Second).memory(200).step(), "memory.available waits since 2s, MemoryPressure, next 1s")
	// One that is no longer met goes out by its period, but not while it is not known.
	expect(t, n.after(time.Second).memory(500).step(), "MemoryPressure, next 2s")
	delete(n.signals, v1alpha1.SignalMemoryAvailable)
	n.after(time.Hour)
	expect(t, n.step(), "MemoryPressure, unknown memory.available")
	expect(t, n.after(time.Second).memory(500).step(), "MemoryPressure, next 2s")
	// Percentages need a capacity.
	n.signals[v1alpha1.SignalMemoryAvailable] = pressure.Sample{Available: 1, Time: n.clock.Now()}
	expect(t, n.step(), "memory.available hard=true need=104857599 seen, MemoryPressure, unknown memory.available")
	// A sample from the future is none.
	n.memory(1).after(-3 * time.Second)
	expect(t, n.step(), "MemoryPressure, unknown memory.available")
}

// A condition that one threshold gave stays as long as that one is not known, whatever another signal of the condition says.
func TestUnknownThresholdHoldsTheCondition(t *testing.T) {
	t.Parallel()
	n := newNode(t, &v1alpha1.NodeEviction{
		Hard:                     []v1alpha1.EvictionThreshold{hard(v1alpha1.SignalImageFsAvailable, "10%", ""), hard(v1alpha1.SignalNodeFsAvailable, "10%", "")},
		PressureTransitionPeriod: &metav1.Duration{Duration: time.Second},
	})
	images := func(available int64) {
		n.signals[v1alpha1.SignalImageFsAvailable] = pressure.Sample{Available: available, Capacity: 1000, Time: n.clock.Now()}
	}
	images(50)
	expect(t, n.disk(500).step(), "imagefs.available hard=true need=50, DiskPressure")
	delete(n.signals, v1alpha1.SignalImageFsAvailable)
	for range 5 {
		expect(t, n.after(time.Second).disk(500).step(), "DiskPressure, unknown imagefs.available")
	}
	n.after(time.Second)
	images(500)
	n.disk(500).step()
	n.after(2 * time.Second)
	images(500)
	expect(t, n.disk(500).step(), "")
}

func TestConditionsAreApart(t *testing.T) {
	t.Parallel()
	n := newNode(t, &v1alpha1.NodeEviction{
		Hard: []v1alpha1.EvictionThreshold{
			hard(v1alpha1.SignalImageFsAvailable, "10%", ""), hard(v1alpha1.SignalNodeFsAvailable, "10%", "5%"),
			hard(v1alpha1.SignalMemoryAvailable, "100Mi", ""), hard(v1alpha1.SignalPIDAvailable, "10%", ""),
		},
		PressureTransitionPeriod: &metav1.Duration{Duration: time.Second},
	})
	n.signals[v1alpha1.SignalPIDAvailable] = pressure.Sample{Available: 5, Capacity: 1000, Time: start.Add(time.Second)}
	expect(t, n.memory(500).disk(99).step(), "pid.available hard=true need=95, nodefs.available hard=true need=51, DiskPressure, PIDPressure, unknown imagefs.available")
	// imagefs was never known: it does not hold the condition that nodefs no longer gives. The others' samples are still good.
	expect(t, n.after(500*time.Millisecond).memory(500).disk(149).step(), "pid.available hard=true need=95 seen, nodefs.available hard=true need=1, DiskPressure, PIDPressure, unknown imagefs.available")
	n.after(500 * time.Millisecond).memory(50).disk(150)
	expect(t, n.step(), "memory.available hard=true need=50Mi, pid.available hard=true need=95 seen, MemoryPressure, DiskPressure, PIDPressure, unknown imagefs.available, next 500ms")
	n.after(500 * time.Millisecond).memory(500)
	n.signals[v1alpha1.SignalPIDAvailable] = pressure.Sample{Available: 500, Capacity: 1000, Time: n.clock.Now()}
	expect(t, n.step(), "MemoryPressure, PIDPressure, unknown imagefs.available, next 500ms")
}

func TestStall(t *testing.T) {
	t.Parallel()
	policy := memoryPolicy("")
	policy.MemoryStall = &v1alpha1.MemoryStall{Stall: metav1.Duration{Duration: 1}, Window: metav1.Duration{Duration: time.Second}}
	n := newNode(t, policy)
	expect(t, n.memory(500).step(), "")
	n.stall = new(true)
	expect(t, n.memory(500).step(), "memory.stall hard=true need=0, MemoryPressure")
	expect(t, n.after(time.Millisecond).memory(50).step(), "memory.available hard=true need=50Mi, memory.stall hard=true need=0, memory.available waits since 0s, MemoryPressure, next 2s")
	n.stall = new(false)
	expect(t, n.memory(500).step(), "MemoryPressure, next 2s")
	n.stall = nil
	expect(t, n.after(2*time.Second).memory(500).step(), "MemoryPressure, unknown memory.stall, next 2s")
	expect(t, n.after(3*time.Second).memory(500).step(), "MemoryPressure, unknown memory.stall, next 1s")
	// Without the section nobody asks.
	n.thresholds.Stall, n.stall = nil, new(true)
	expect(t, n.after(time.Second).memory(500).step(), "")
}

func TestPolicyIsTakenAway(t *testing.T) {
	t.Parallel()
	n := newNode(t, memoryPolicy(""))
	n.memory(50).step()
	n.thresholds = pressure.Thresholds{Transition: time.Second}
	expect(t, n.after(500*time.Millisecond).memory(50).step(), "MemoryPressure, next 500ms")
	expect(t, n.after(500*time.Millisecond).memory(50).step(), "")
}

func TestStepLeavesTheOldState(t *testing.T) {
	t.Parallel()
	n := newNode(t, memoryPolicy("50Mi"))
	n.memory(50).step()
	old := n.state
	first := n.after(time.Second).memory(200).step()
	n.after(time.Second).memory(900).step()
	n.state = old
	n.after(-time.Second).memory(200)
	expect(t, n.step(), first)
}

// A loop that sleeps until Next finds the end of a grace period to the nanosecond, and never turns without need.
func TestNextIsExact(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		grace := time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(t, "grace"))
		transition := time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(t, "transition"))
		th := pressure.Thresholds{List: []pressure.Threshold{{Signal: v1alpha1.SignalMemoryAvailable, Value: enforcement.Amount{Quantity: 100}, Grace: grace}}, Transition: transition, Immediate: rapid.Bool().Draw(t, "immediate")}
		if !th.Immediate {
			grace = max(grace, pressure.TrialTime)
		}
		now, state, turns := start, pressure.State{}, 0
		run := func(available int64, done func(pressure.Verdict) bool) time.Duration {
			began := now
			for {
				var v pressure.Verdict
				state, v = state.Step(now, th, pressure.Signals{v1alpha1.SignalMemoryAvailable: {Available: available, Capacity: 1000, Time: now}}, nil)
				if done(v) {
					return now.Sub(began)
				}
				if turns++; !v.Next.After(now) || turns > 100 {
					t.Fatalf("sleeps until %s, %d turns", v.Next.Sub(now), turns)
				}
				now = v.Next
			}
		}
		if got := run(50, func(v pressure.Verdict) bool { return len(v.Due) > 0 }); got != grace {
			t.Fatalf("due after %s, want %s", got, grace)
		}
		if got := run(100, func(v pressure.Verdict) bool { return !v.Conditions[corev1.NodeMemoryPressure] }); got != transition {
			t.Fatalf("condition for %s, want %s", got, transition)
		}
	})
}

// Whatever is measured whenever: nothing soft is due before it was met for its grace period in the sum of the steps, a due one
// needs something, and what is unknown is never due.
func TestStepProperties(t *testing.T) {
	t.Parallel()
	all := []v1alpha1.EvictionSignal{v1alpha1.SignalMemoryAvailable, v1alpha1.SignalNodeFsAvailable, v1alpha1.SignalPIDAvailable}
	rapid.Check(t, func(t *rapid.T) {
		th := pressure.Thresholds{Transition: 4 * time.Second}
		for _, kind := range []eviction.Kind{eviction.Hard, eviction.Soft} {
			for _, s := range all {
				amount := enforcement.Amount{Quantity: rapid.Int64Range(1, 20).Draw(t, "value")}
				if rapid.Bool().Draw(t, "percent") {
					amount = enforcement.Amount{Percentage: float32(amount.Quantity) / 100}
				}
				th.List = append(th.List, pressure.Threshold{Signal: s, Kind: kind, Value: amount, Reclaim: enforcement.Amount{Quantity: rapid.Int64Range(0, 5).Draw(t, "reclaim")}})
				if kind == eviction.Soft {
					th.List[len(th.List)-1].Grace = 3 * time.Second
				}
			}
		}
		now, state := start, pressure.State{}
		met := map[string]time.Duration{}
		seen := pressure.Signals{}
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			passed := time.Duration(rapid.Int64Range(-int64(time.Hour), int64(time.Hour)).Draw(t, "jump"))
			if rapid.IntRange(0, 9).Draw(t, "jumps") > 0 {
				passed = time.Duration(rapid.Int64Range(0, int64(3*time.Second)).Draw(t, "passed"))
			}
			now = now.Add(passed)
			signals := pressure.Signals{}
			for _, s := range all {
				if rapid.IntRange(0, 5).Draw(t, "known") > 0 {
					signals[s] = pressure.Sample{Available: rapid.Int64Range(0, 30).Draw(t, "available"), Capacity: 100, Time: now}
				}
			}
			var v, again pressure.Verdict
			_, again = state.Step(now, th, signals, nil)
			state, v = state.Step(now, th, signals, nil)
			if diff := cmp.Diff(v, again); diff != "" {
				t.Fatalf("not a function: %s", diff)
			}
			for _, s := range all {
				if _, ok := signals[s]; !ok {
					continue
				}
				key := string(s)
				met[key] += min(max(passed, 0), pressure.MaxStep)
				if signals[s].Available >= 25 { // no value and reclaim are more
					met[key] = 0
				}
			}
			for _, m := range v.Due {
				if _, ok := signals[m.Signal]; !ok || m.Amount <= 0 || m.Fresh == now.Equal(seen[m.Signal].Time) {
					t.Fatalf("due: %+v", m)
				}
				if m.Kind != eviction.Hard && m.For < 3*time.Second || m.For > met[string(m.Signal)] {
					t.Fatalf("too early: %+v", m)
				}
				if !v.Conditions[pressure.Condition(m.Signal)] {
					t.Fatalf("no condition for %+v", m)
				}
			}
			maps.Copy(seen, signals)
			if !v.Next.IsZero() && (v.Next.Before(now) || v.Next.Sub(now) > pressure.MaxStep) {
				t.Fatalf("next %s", v.Next.Sub(now))
			}
		}
	})
}

func TestNextSample(t *testing.T) {
	t.Parallel()
	both := compile(t, memoryPolicy(""))
	onlySoft := pressure.Thresholds{List: both.List[1:]}
	at := func(mi int64) pressure.Signals {
		return pressure.Signals{v1alpha1.SignalMemoryAvailable: {Available: mi * mib, Capacity: 1000 * mib, Time: start}}
	}
	for _, tc := range []struct {
		name       string
		signals    pressure.Signals
		thresholds pressure.Thresholds
		want       time.Duration
	}{
		{"no threshold", at(1), pressure.Thresholds{}, pressure.MaxSample},
		{"no threshold, not known", nil, pressure.Thresholds{}, pressure.MaxSample},
		{"not known", nil, both, pressure.MinSample},
		{"far away", at(1 << 20), both, pressure.MaxSample},
		{"2 GiB above the soft one", at(300 + 2048), both, 500 * time.Millisecond},
		{"just above the soft one", at(301), both, pressure.MinSample},
		{"between: the distance to the hard one", at(100 + 200), pressure.Thresholds{List: both.List[:1]}, 48828125 * time.Nanosecond},
		{"below the soft one only", at(50), onlySoft, pressure.MaxSample},
		{"below the hard one", at(99), both, pressure.MinSample},
		{"at the hard one", at(100), both, pressure.MinSample},
	} {
		if got := pressure.NextSample(tc.signals, tc.thresholds).Round(time.Microsecond); got != tc.want.Round(time.Microsecond) {
			t.Errorf("%s: got %s, want %s", tc.name, got, tc.want)
		}
	}
}

// A hog of 2 GiB/s is never past a threshold for longer than the shortest interval when the next sample is taken.
func TestNextSampleIsInTime(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		th := pressure.Thresholds{List: []pressure.Threshold{{Signal: v1alpha1.SignalMemoryAvailable, Kind: eviction.Hard, Value: enforcement.Amount{Quantity: rapid.Int64Range(1, 8*gi).Draw(t, "value")}}}}
		available := rapid.Int64Range(0, 1<<45).Draw(t, "available")
		next := pressure.NextSample(pressure.Signals{v1alpha1.SignalMemoryAvailable: {Available: available, Capacity: 1 << 45, Time: start}}, th)
		if next < pressure.MinSample || next > pressure.MaxSample {
			t.Fatalf("%s", next)
		}
		left := float64(available) - 2*float64(gi)*next.Seconds()
		if next > pressure.MinSample && left < float64(th.List[0].Value.Quantity) {
			t.Fatalf("%s is too late: %g left", next, left)
		}
	})
}
