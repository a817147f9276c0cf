package evictor

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/nodeenforcer/eviction"
	"github.com/podgrace/podgrace/nodeenforcer/pressure"
	"github.com/podgrace/podgrace/nodeenforcer/state"
	"github.com/podgrace/podgrace/nodeenforcer/state/statetest"
	"github.com/podgrace/podgrace/nodeenforcer/status"
	"github.com/podgrace/podgrace/nodeenforcer/terminate"
)

// observed records what the stage's evictor tells.
func (s *stage) observed() (events *statetest.Recorded, metrics *prometheus.Registry) {
	events, metrics = &statetest.Recorded{}, prometheus.NewPedanticRegistry()
	s.Events, s.Metrics, s.Status = status.NewEvents(events), status.NewMetrics(metrics), status.NewNodeUpdater(nil, s.clock, s.Log)
	return events, metrics
}

func (s *stage) change(spec func(*v1alpha1.NodePolicySpec)) {
	s.source.Say(func(state *state.State) {
		state.Policy = state.Policy.DeepCopy()
		spec(&state.Policy.Spec)
	})
}

// wait steps every second for so long.
func (s *stage) wait(d time.Duration) {
	for range int(d / time.Second) {
		s.later(time.Second)
	}
}

// ends has the victims end: their pods are gone.
func (s *stage) ends() {
	gone := map[types.UID]bool{}
	for _, v := range s.terminator.standing {
		gone[v.Pod.UID] = true
	}
	s.terminator.standing = nil
	s.source.Say(func(state *state.State) {
		state.Pods = slices.DeleteFunc(slices.Clone(state.Pods), func(p *corev1.Pod) bool { return gone[p.UID] })
	})
}

// manyPods use so much each.
func manyPods(n int) (pods []*corev1.Pod) {
	for i := range n {
		pods = append(pods, victim(fmt.Sprintf("p%02d", i), 0))
	}
	return pods
}

// In mode Observe, the policy's or its eviction's, no pod is evicted: log, Event, metric and condition say who would be, once, and the Node has no taint.
func TestObserveEvictsNobody(t *testing.T) {
	const observe, tune, evict = v1alpha1.NodeModeObserve, v1alpha1.NodeModeTune, v1alpha1.EvictionModeEvict
	for _, tt := range []struct {
		mode   v1alpha1.NodeMode
		own    v1alpha1.EvictionMode
		evicts bool
	}{
		{observe, "", false}, {"", "", false}, {tune, "", true}, {v1alpha1.NodeModeRepair, "", true}, {observe, evict, true}, {tune, v1alpha1.EvictionModeObserve, false},
	} {
		t.Run(fmt.Sprintf("%s %s", tt.mode, tt.own), func(t *testing.T) {
			big, then := victim("big", 0), victim("then", 10)
			s := newStage(t, onMemory("1Gi", ""), big, then)
			s.change(func(spec *v1alpha1.NodePolicySpec) { spec.Mode, spec.Eviction.Mode = tt.mode, tt.own })
			events, metrics := s.observed()
			s.uses(big, 3<<30)
			s.uses(then, 3<<30)
			s.left(900 << 20)
			s.wait(10 * time.Second)
			if evicted := len(s.terminator.asked) > 0; evicted != tt.evicts {
				t.Fatalf("%v have to go", s.terminator.names())
			}
			now := s.Status.Status()
			if now.Untainted == tt.evicts || !slices.Equal(now.Pressure, []string{"memory"}) {
				t.Errorf("the Node says %+v", now)
			}
			if tt.evicts {
				return
			}
			if n := s.log.Count(`"msg"="would evict"`); n != 1 {
				t.Errorf("%d lines of the log", n)
			}
			if got := strings.Join(statetest.Gathered(t, metrics), "\n"); !strings.Contains(got, `podgrace_node_would_evict_total signal="memory.available" 1`) {
				t.Errorf("metrics:\n%s", got)
			}
			if got := fmt.Sprint(*events); strings.Count(got, "WouldEvict") != 1 || strings.Contains(got, "Evicted") {
				t.Errorf("events %s", got)
			}
			if !strings.Contains(now.Message, "mode Observe") {
				t.Errorf("the condition says %q", now.Message)
			}
		})
	}
}

// Who is in flight when a policy begins to observe is let be, unless the deletion was accepted.
func TestObserveWithdraws(t *testing.T) {
	big, then := victim("big", 0), victim("then", 10)
	s := newStage(t, onMemory("1Gi", ""), big, then)
	s.uses(big, 100<<20)
	s.uses(then, 100<<20)
	s.left(900 << 20)
	s.later(time.Second)
	s.change(func(spec *v1alpha1.NodePolicySpec) { spec.Mode = v1alpha1.NodeModeObserve })
	s.later(time.Second)
	if len(s.terminator.asked) != 2 || len(s.terminator.released) != 2 {
		t.Errorf("asked for %v, and withdrawn are %v", s.terminator.names(), s.terminator.released)
	}
}

// A threshold that is met when it is applied evicts no pod for a minute, and nobody at all if all pods together would not be enough.
func TestThresholdThatIsMetWhenApplied(t *testing.T) {
	const gib = int64(1) << 30
	for name, tt := range map[string]struct {
		value  v1alpha1.ThresholdValue
		uses   int64
		change func(*v1alpha1.NodeEviction)
		after  time.Duration // the first eviction; 0: none in ten minutes
		says   string
	}{
		"a minute later":                  {value: "6500Mi", uses: gib, after: time.Minute, says: "ThresholdOnTrial"},
		"at once, if the policy says so":  {value: "6500Mi", uses: gib, change: func(e *v1alpha1.NodeEviction) { e.EvictImmediately = true }, after: time.Second},
		"90% of a node":                   {value: "90%", uses: gib, says: "ThresholdUnusable"},
		"90% of a node at once":           {value: "90%", uses: gib, change: func(e *v1alpha1.NodeEviction) { e.EvictImmediately = true }, says: "ThresholdUnusable"},
		"more than the node has":          {value: "10Gi", uses: 2 * gib, says: "ThresholdUnusable"},
		"minimum reclaim can't be freed":  {value: "6500Mi", uses: gib, change: func(e *v1alpha1.NodeEviction) { e.Hard[0].MinimumReclaim = "10Gi" }, after: time.Minute, says: "ThresholdOnTrial"},
		"the threshold before was proved": {value: "1Gi", uses: gib},
	} {
		t.Run(name, func(t *testing.T) {
			p := victim("p", 0)
			s := newStage(t, onMemory("1Gi", ""), p)
			events, _ := s.observed()
			s.uses(p, tt.uses)
			s.change(func(spec *v1alpha1.NodePolicySpec) {
				spec.Eviction.Hard[0].Value = tt.value
				if tt.change != nil {
					tt.change(spec.Eviction)
				}
			})
			began := s.clock.Now()
			for range 600 {
				if s.later(time.Second); len(s.terminator.asked) > 0 {
					break
				}
			}
			took := s.clock.Now().Sub(began)
			if evicted := len(s.terminator.asked) > 0; evicted != (tt.after > 0) || evicted && (took < tt.after || took > tt.after+2*time.Second) {
				t.Errorf("evicted: %t, after %s", evicted, took)
			}
			if got := fmt.Sprint(*events); tt.says != "" && strings.Count(got, tt.says) != 1 {
				t.Errorf("events %s", got)
			}
		})
	}
}

// A restart forgets no proof: a threshold that is met just then is no new one.
func TestRestartPutsNoThresholdOnTrial(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kept")
	p := victim("p", 0)
	s := newStage(t, onMemory("1Gi", ""), p)
	s.KeptFile = file
	s.later(time.Second)
	after := newStage(t, onMemory("1Gi", ""), p)
	after.KeptFile = file
	after.begin()
	after.uses(p, 3<<30)
	after.left(900 << 20)
	after.later(time.Second)
	if len(after.terminator.asked) != 1 {
		t.Errorf("asked for %v", after.terminator.names())
	}
}

// An enforcer that has just started acts on its checkpoint only if the API server does not list the pods in time, and freezes nobody by it.
func TestRestartWaitsForTheFirstList(t *testing.T) {
	p := victim("p", 0)
	s := newStage(t, onMemory("1Gi", ""), p)
	s.source.Say(func(state *state.State) { state.Live = false })
	s.begin()
	s.state = pressure.Proved([]pressure.Proof{{Signal: v1alpha1.SignalMemoryAvailable, Kind: 1, Bound: 1 << 30}})
	s.uses(p, 3<<30)
	s.left(900 << 20)
	s.wait(firstList - time.Second)
	if len(s.terminator.asked) != 0 {
		t.Fatalf("asked for %v", s.terminator.names())
	}
	s.wait(2 * time.Second)
	if len(s.terminator.asked) != 1 || !s.terminator.asked[0].Stale {
		t.Errorf("asked for %+v", s.terminator.asked)
	}
}

// No more pods of a node are evicted in a minute than the policy allows.
func TestEvictionsPerMinute(t *testing.T) {
	for most, want := range map[int32][]int{0: {10, 20, 30}, 3: {3, 6, 9}} {
		pods := manyPods(40)
		s := newStage(t, onMemory("4Gi", ""), pods...)
		events, _ := s.observed()
		if most > 0 {
			s.change(func(spec *v1alpha1.NodePolicySpec) { spec.Eviction.MaxEvictionsPerMinute = &most })
		}
		for _, p := range pods {
			s.uses(p, 100<<20)
		}
		s.left(400 << 20) // 37 have to go
		for minute, n := range want {
			s.later(time.Second)
			s.wait(5 * time.Second)
			if got := len(s.terminator.asked); got != n {
				t.Fatalf("%d a minute: in minute %d %d have to go", most, minute, got)
			}
			s.left(int64(400+100*n) << 20)
			s.ends()
			s.wait(54 * time.Second)
		}
		if got := fmt.Sprint(*events); !strings.Contains(got, "EvictionsLimited") {
			t.Errorf("events %s", got)
		}
	}
}

// Memory that no pod holds: the first victim shows it, and the next ones go one by one, at growing intervals.
func TestEvictionsInVain(t *testing.T) {
	pods := manyPods(30)
	s := newStage(t, onMemory("1Gi", ""), pods...)
	events, _ := s.observed()
	for _, p := range pods {
		s.uses(p, 20<<20)
	}
	s.left(1014 << 20)
	var at []int
	for second := range 600 {
		before := len(s.terminator.asked)
		s.later(time.Second)
		if len(s.terminator.asked) > before {
			at = append(at, second)
		}
		s.ends() // what it frees is taken by the host
	}
	if want := []int{0, 11, 32, 73, 154, 315}; len(s.terminator.asked) != len(want) || !slices.Equal(at, want) {
		t.Errorf("%d have to go, after %v seconds", len(s.terminator.asked), at)
	}
	if got := fmt.Sprint(*events); strings.Count(got, "EvictionsInVain") < 1 || !strings.Contains(s.Status.Status().Message, "hostPath") {
		t.Errorf("events %s, condition %q", got, s.Status.Status().Message)
	}
	// It is over, and what comes later is judged for itself.
	s.left(6 << 30)
	s.wait(6 * time.Minute)
	before := len(s.terminator.asked)
	s.left(1004 << 20)
	s.later(time.Second)
	if n := len(s.terminator.asked) - before; n != 1 {
		t.Errorf("%d have to go, of a new shortage", n)
	}
}

// Not even all of them together would be enough: whoever frees next to nothing of what is missing stays.
func TestSharesThatAreTooSmall(t *testing.T) {
	pods := manyPods(30)
	s := newStage(t, onMemory("1Gi", ""), pods...)
	events, _ := s.observed()
	for _, p := range pods {
		s.uses(p, 20<<20)
	}
	s.left(100 << 20)
	s.wait(5 * time.Minute)
	if len(s.terminator.asked) != 0 || !strings.Contains(fmt.Sprint(*events), "EvictionsInVain") {
		t.Errorf("%v have to go; events %v", s.terminator.names(), *events)
	}
}

// A pod that takes what others free goes next, whatever its priority, but not if it has requested that.
func TestWhoUsesUpWhatOthersFree(t *testing.T) {
	for name, tt := range map[string]struct {
		request string
		want    []string
	}{
		"it exceeds its request": {want: []string{"p00", "hog"}},
		"it has requested it":    {request: "4Gi", want: []string{"p00", "p01"}},
	} {
		t.Run(name, func(t *testing.T) {
			pods := append(manyPods(10), victim("hog", 1000))
			of := pods[10]
			if tt.request != "" {
				of.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(tt.request)}
			}
			s := newStage(t, onMemory("1Gi", ""), pods...)
			for _, p := range pods {
				s.uses(p, 20<<20)
			}
			s.left(1014 << 20)
			s.later(time.Second)
			s.ends()
			s.uses(of, 60<<20)
			s.left(1014 << 20)
			s.later(time.Second)
			if got := s.terminator.names(); !slices.Equal(got, tt.want) {
				t.Errorf("%v have to go", got)
			}
		})
	}
}

// While victims end, and what is left falls though no pod grows, nobody more is evicted.
func TestNobodyMoreForMemoryOfTheHost(t *testing.T) {
	pods := manyPods(10)
	s := newStage(t, onMemory("1Gi", ""), pods...)
	for _, p := range pods {
		s.uses(p, 20<<20)
	}
	for i := range 5 {
		s.left(int64(1014-20*i) << 20)
		s.later(time.Second)
	}
	if got := s.terminator.names(); len(got) != 1 {
		t.Errorf("%v have to go", got)
	}
}

// A policy object that changes and asks for the same is the same: what is known of a stall holds.
func TestSamePolicyInAnotherObject(t *testing.T) {
	s := newStage(t, onMemory("1Gi", ""), victim("p", 0))
	s.later(time.Second)
	s.stall.watch = pressure.Busy()
	s.change(func(*v1alpha1.NodePolicySpec) {})
	s.source.Say(func(state *state.State) { state.Policy.Labels = map[string]string{"team": "a"} })
	s.later(time.Second)
	if s.stall.watch != pressure.Busy() {
		t.Error("the watch of stalls began anew")
	}
	s.change(func(spec *v1alpha1.NodePolicySpec) { spec.Eviction.Hard[0].Value = "2Gi" })
	s.later(time.Second)
	if s.stall.watch == pressure.Busy() {
		t.Error("the watch of stalls is that of another policy")
	}
}

// While there is no pod to evict the enforcer looks once a second; who comes then is found.
func TestBackOffWithoutVictims(t *testing.T) {
	critical, late := victim("critical", 2_000_000_000), victim("late", 0)
	s := newStage(t, onMemory("1Gi", ""), critical, late)
	s.source.Say(func(state *state.State) { state.Pods = []*corev1.Pod{critical} })
	s.uses(critical, 7<<30)
	s.left(500 << 20)
	s.later(time.Second)
	if next := s.step(t.Context()); next != idle {
		t.Errorf("the next step is in %s", next)
	}
	s.source.Say(func(state *state.State) { state.Pods = []*corev1.Pod{critical, late} })
	s.uses(late, 1<<30)
	s.later(time.Second)
	if got := s.terminator.names(); !slices.Equal(got, []string{"late"}) {
		t.Errorf("%v have to go", got)
	}
	if next := s.step(t.Context()); next > 100*time.Millisecond {
		t.Errorf("while it ends the next step is in %s", next)
	}
}

// A disk: who has ended frees its space for two minutes from then on, whatever becomes of its sandbox or of the API server; who does not end is waited for as long as the kubelet's
// statistics are old. Neighbours stay.
func TestVictimOfADiskThatLasts(t *testing.T) {
	for name, tt := range map[string]struct {
		then func(s *diskStage, v *terminate.VictimStatus)
		next time.Duration // when the neighbour goes
	}{
		"its sandbox lasts": {func(_ *diskStage, v *terminate.VictimStatus) { v.Dying, v.Ended = true, true }, releaseTime},
		"its sandbox lasts, and the API server is away": {func(s *diskStage, v *terminate.VictimStatus) {
			v.Dying, v.Ended = true, true
			s.source.Say(func(state *state.State) { state.Live = false })
		}, releaseTime},
		"its status says that it has ended": {func(s *diskStage, v *terminate.VictimStatus) {
			v.Dying = true
			s.source.Say(func(state *state.State) {
				p := state.Pods[1].DeepCopy()
				p.DeletionTimestamp = new(metav1.NewTime(s.clock.Now()))
				p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}}}
				state.Pods = []*corev1.Pod{state.Pods[0], p}
			})
		}, releaseTime},
		"its process is in state D":        {func(_ *diskStage, v *terminate.VictimStatus) { v.Dying = true }, diskStatsAge},
		"nobody has accepted its deletion": {func(*diskStage, *terminate.VictimStatus) {}, 8 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			neighbour, hog := victim("neighbour", 10), victim("hog", 0)
			s := newDiskStage(t, neighbour, hog)
			s.source.Say(func(state *state.State) { state.Pods = []*corev1.Pod{neighbour, hog} })
			s.measured(neighbour, much, 0)
			s.measured(hog, much, 0)
			s.later(2 * time.Second)
			s.later(2 * time.Second)
			s.want("measured", "hog")
			began := s.clock.Now()
			tt.then(s, &s.terminator.standing[0])
			for len(s.terminator.asked) == 1 && s.clock.Now().Sub(began) < 10*time.Minute {
				s.measured(neighbour, much, 0)
				s.measured(hog, much, 0)
				s.later(2 * time.Second)
			}
			if took := s.clock.Now().Sub(began); took < tt.next-4*time.Second || took > tt.next+14*time.Second {
				t.Errorf("the neighbour goes after %s", took)
			}
		})
	}
}

// Evictions that the API server refuses count for no limit.
func TestRefusedEvictionsCountForNoLimit(t *testing.T) {
	pods := manyPods(30)
	s := newStage(t, onMemory("500Mi", "1Gi"), pods...)
	for _, p := range pods {
		s.uses(p, 20<<20)
	}
	s.left(1020 << 20)
	for range 60 {
		s.later(250 * time.Millisecond)
		for i := range s.terminator.standing {
			s.terminator.standing[i].Refused, s.terminator.standing[i].RefusedFor = true, time.Minute
		}
	}
	soft := len(s.terminator.asked)
	s.left(490 << 20)
	s.later(time.Second)
	if hard := len(s.terminator.asked) - soft; soft < 11 || hard != 1 || s.terminator.asked[soft].Kind != eviction.Hard {
		t.Errorf("%d were refused, and then %d have to go", soft, hard)
	}
}

// A threshold without victims slows the watch of no other one.
func TestBackOffOfOneThreshold(t *testing.T) {
	p := victim("p", 0)
	s := newStage(t, onMemory("500Mi", "1Gi"), p)
	s.uses(p, 0)
	s.left(700 << 20)
	s.wait(5 * time.Second)
	if next := s.step(t.Context()); next >= idle {
		t.Errorf("memory is measured in %s, 200 MiB above its hard threshold", next)
	}
}

// A hard threshold that can't be kept leaves the soft one on the same signal as it was.
func TestUnusableThresholdBesideAnother(t *testing.T) {
	p := victim("p", 0)
	s := newStage(t, onMemory("", "1Gi"), p)
	s.change(func(spec *v1alpha1.NodePolicySpec) { spec.Eviction.Hard = onMemory("10Gi", "").Hard })
	s.uses(p, 500<<20)
	s.wait(2 * time.Minute)
	if len(s.terminator.asked) > 0 {
		t.Fatalf("asked for %v", s.terminator.names())
	}
	s.left(900 << 20)
	s.wait(5 * time.Second)
	if len(s.terminator.asked) != 1 || s.terminator.asked[0].Kind != eviction.Soft {
		t.Errorf("asked for %+v", s.terminator.asked)
	}
}

// While no pod is evicted for what the host has taken, a pod that begins to grow is found.
func TestHogDuringAWait(t *testing.T) {
	pods := append(manyPods(30), victim("hog", 1000))
	of := pods[30]
	s := newStage(t, onMemory("1Gi", ""), pods...)
	for _, p := range pods {
		s.uses(p, 20<<20)
	}
	s.left(1014 << 20)
	for range 200 { // the wait is more than a minute by then
		s.later(time.Second)
		s.ends()
	}
	before := len(s.terminator.asked)
	used := int64(20)
	for range 20 {
		used += 20
		s.uses(of, used<<20)
		s.left((1014 - used + 20) << 20)
		s.later(time.Second)
	}
	if got := s.terminator.names(); len(got) == before || got[before] != "hog" {
		t.Errorf("%d were evicted in vain, and then %v", before, got[before:])
	}
}

// The largest pod is within its request: who grows is looked for all the same, among the others.
func TestPeekBesideALargePod(t *testing.T) {
	database, hog, small := victim("database", 1000), victim("hog", 10), victim("small", 0)
	database.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("4Gi")}
	s := newStage(t, onMemory("1Gi", ""), database, hog, small)
	s.uses(database, 4<<30)
	s.uses(hog, 1<<30)
	s.uses(small, 50<<20)
	s.left(1000 << 20)
	s.later(time.Second)
	s.uses(hog, 1<<30+30<<20)
	s.left(970 << 20)
	s.later(peekPause)
	if got := s.terminator.names(); !slices.Equal(got, []string{"hog"}) {
		t.Errorf("%v have to go", got)
	}
}

// fresh steps every two seconds for so long, and the kubelet measures the pods each time.
func (s *diskStage) fresh(d time.Duration, pods ...*corev1.Pod) {
	for range int(d / (2 * time.Second)) {
		for _, p := range pods {
			s.measured(p, much, 0)
		}
		s.later(2 * time.Second)
	}
}

// The two minutes of a victim of a disk begin when its containers have ended, not when it was asked for.
func TestReleaseBeginsWhenContainersHaveEnded(t *testing.T) {
	neighbour, hog := victim("neighbour", 10), victim("hog", 0)
	s := newDiskStage(t, neighbour, hog)
	fresh := func(d time.Duration) { s.fresh(d, neighbour, hog) }
	fresh(4 * time.Second)
	s.want("measured", "hog")
	s.terminator.standing[0].Dying = true
	fresh(100 * time.Second)
	s.terminator.standing[0].Ended = true
	fresh(releaseTime - 10*time.Second)
	s.want("while its space may not be free", "hog")
	fresh(30 * time.Second)
	s.want("when it should be", "hog", "neighbour")
}

// A soft victim of a disk frees nothing more after its two minutes, even if its object lasts and its grace period is long.
func TestSoftVictimWhoseObjectLasts(t *testing.T) {
	neighbour, hog := victim("neighbour", 10), victim("hog", 0)
	hog.Spec.TerminationGracePeriodSeconds = new(int64(1200))
	s := newDiskStage(t, neighbour, hog)
	s.change(func(spec *v1alpha1.NodePolicySpec) {
		soft := v1alpha1.SoftEvictionThreshold{EvictionThreshold: spec.Eviction.Hard[0]}
		spec.Eviction = &v1alpha1.NodeEviction{EvictImmediately: true, Soft: []v1alpha1.SoftEvictionThreshold{soft}, MaxPodGracePeriodSeconds: new(int64(1200))}
	})
	fresh := func(d time.Duration) { s.fresh(d, neighbour, hog) }
	fresh(4 * time.Second)
	s.want("measured", "hog")
	s.terminator.standing[0].Dying, s.terminator.standing[0].Ended = true, true
	fresh(releaseTime - 6*time.Second)
	s.want("while its space may not be free", "hog")
	fresh(vainWait + 10*time.Second)
	s.want("when it should be", "hog", "neighbour")
}

// Evictions that were in vain for nodefs are so for imagefs, if both are one file system.
func TestEvictionsInVainOnOneDisk(t *testing.T) {
	neighbour, hog := victim("neighbour", 10), victim("hog", 0)
	s := newDiskStage(t, neighbour, hog)
	s.source.Say(onDisks)
	fresh := func(d time.Duration) { s.fresh(d, neighbour, hog) }
	fresh(4 * time.Second)
	s.want("measured", "hog")
	s.ends()
	fresh(releaseTime + 4*time.Second)
	s.want("when its space should be free", "hog")
	fresh(vainWait)
	s.want("after a wait", "hog", "neighbour")
}

// What a dry run or Observe has told of pods that are gone is forgotten, however long the threshold is met.
func TestWouldEvictForgetsPods(t *testing.T) {
	big := victim("big", 0)
	s := newStage(t, onMemory("1Gi", ""), big)
	s.change(func(spec *v1alpha1.NodePolicySpec) { spec.Mode = v1alpha1.NodeModeObserve })
	s.uses(big, 3<<30)
	s.left(900 << 20)
	s.wait(2 * time.Second)
	if len(s.would) != 1 {
		t.Fatalf("%d pods would be evicted", len(s.would))
	}
	s.source.Say(func(state *state.State) { state.Pods = nil })
	s.wait(time.Second)
	if len(s.would) != 0 {
		t.Error("the evictor remembers a pod that is gone")
	}
}
