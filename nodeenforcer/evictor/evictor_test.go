package evictor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgroupfile"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgrouptest"
	"github.com/podgrace/podgrace/nodeenforcer/eviction"
	"github.com/podgrace/podgrace/nodeenforcer/plan"
	"github.com/podgrace/podgrace/nodeenforcer/pressure"
	"github.com/podgrace/podgrace/nodeenforcer/state"
	"github.com/podgrace/podgrace/nodeenforcer/state/statetest"
	"github.com/podgrace/podgrace/nodeenforcer/status"
	"github.com/podgrace/podgrace/nodeenforcer/terminate"
)

// told is a Terminator that does what it is told, and no more.
type told struct {
	asked     []terminate.Request
	removed   []types.UID
	released  []types.UID
	recovered int
	lost      error // what Recover fails with
	keeps     bool  // Recover was told that the pod of that name is about to end
	standing  []terminate.VictimStatus
}

func (f *told) Ask(r terminate.Request) error {
	f.asked = append(f.asked, r)
	f.Removed(r.Pod.UID)
	f.removed = f.removed[:len(f.removed)-1]
	f.standing = append(f.standing, terminate.VictimStatus{
		Pod:  terminate.Ref{NamespacedName: types.NamespacedName{Namespace: r.Pod.Namespace, Name: r.Pod.Name}, UID: r.Pod.UID},
		Kind: r.Kind, Path: r.Path, Contained: r.Contain && r.Kind == eviction.Hard,
	})
	return nil
}

func (f *told) Removed(uid types.UID) {
	f.removed = append(f.removed, uid)
	f.standing = slices.DeleteFunc(f.standing, func(s terminate.VictimStatus) bool { return s.Pod.UID == uid })
}
func (f *told) Release(uid types.UID)             { f.released = append(f.released, uid) }
func (f *told) Victims() []terminate.VictimStatus { return f.standing }

func (f *told) Recover(_ context.Context, ending func(types.UID) bool) error {
	f.recovered++
	f.keeps = ending("uid-keeps")
	return f.lost
}

func (f *told) names() (names []string) {
	for _, r := range f.asked {
		names = append(names, r.Pod.Name)
	}
	return names
}

// stage is an evictor on a machine of 8 GiB.
type stage struct {
	*Evictor
	t          *testing.T
	clock      *testclock.FakeClock
	source     *statetest.Source
	terminator *told
	cgroups    *cgrouptest.Fake
	stat       string
	log        *statetest.Log
	paths      map[types.UID]string
	waited     map[types.UID]time.Duration // for memory, by pod; all in sum by no UID
}

func newStage(t *testing.T, spec *v1alpha1.NodeEviction, pods ...*corev1.Pod) *stage {
	t.Helper()
	proc, _, v2 := statetest.Sensed()
	root := t.TempDir()
	sensor := &pressure.Sensor{CgroupRoot: statetest.Folder(t, v2), ProcRoot: statetest.Folder(t, proc), Version: cgroupfile.V2, KubeletRoot: root, ImageRoot: root, Aside: atOnce}
	s := &stage{t: t, clock: testclock.NewFakeClock(statetest.LongAgo), source: statetest.NewSource(), terminator: &told{}, cgroups: cgrouptest.NewFake(), log: &statetest.Log{}, paths: map[types.UID]string{}, waited: map[types.UID]time.Duration{}}
	s.stat = filepath.Join(sensor.CgroupRoot, "memory.stat")
	sensor.Clock = s.clock
	s.Evictor = &Evictor{
		Source: s.source, Paths: func(state.State) map[types.UID]string { return s.paths }, Cgroups: s.cgroups, Sensor: sensor, Terminator: s.terminator,
		Clock: s.clock, Log: funcr.New(s.log.Write, funcr.Options{}),
	}
	s.disks.Go = atOnce
	s.begin()
	for _, p := range pods {
		s.paths[p.UID] = "/kubepods/pod" + string(p.UID)
		s.cgroups.Add(s.paths[p.UID], nil)
		s.waits(p, 0)
	}
	s.waits(nil, 0)
	s.free(false)
	s.source.Say(func(now *state.State) {
		*now = state.State{Node: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, Pods: pods, Live: true, Policy: &v1alpha1.NodePolicy{Spec: v1alpha1.NodePolicySpec{Mode: v1alpha1.NodeModeTune, Eviction: spec}}}
	})
	s.left(6 << 30)
	// Nothing was short when the policy was applied.
	var proofs []pressure.Proof
	thresholds, _ := pressure.Compile(spec) // what is invalid is a test's own matter
	for _, of := range thresholds.List {
		proofs = append(proofs, pressure.Proof{Signal: of.Signal, Kind: of.Kind, Bound: of.Value.Of(8 << 30)})
	}
	s.state = pressure.Proved(proofs)
	return s
}

// atOnce reads in the step itself what is read aside.
func atOnce(read func()) { read() }

// left makes so much memory available.
func (s *stage) left(bytes int64) {
	text := fmt.Sprintf("anon %d\nfile 0\ninactive_file 0\n", int64(8<<30)-bytes)
	if err := os.WriteFile(s.stat, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) uses(p *corev1.Pod, bytes int64) { s.cgroups.SetUsage(s.paths[p.UID], bytes, 0, 1) }

// later steps once after a time.
func (s *stage) later(d time.Duration) {
	s.clock.Step(d)
	s.step(s.t.Context())
}

func victim(name string, priority int32) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID("uid-" + name)},
		Spec:       corev1.PodSpec{Priority: new(priority), TerminationGracePeriodSeconds: new(int64(20)), Containers: []corev1.Container{{Name: "c"}}},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning},
	}
}

func onMemory(hard, soft v1alpha1.ThresholdValue) *v1alpha1.NodeEviction {
	e := &v1alpha1.NodeEviction{}
	if hard != "" {
		e.Hard = []v1alpha1.EvictionThreshold{{Signal: v1alpha1.SignalMemoryAvailable, Value: hard}}
	}
	if soft != "" {
		e.Soft = []v1alpha1.SoftEvictionThreshold{{EvictionThreshold: v1alpha1.EvictionThreshold{Signal: v1alpha1.SignalMemoryAvailable, Value: soft}, GracePeriod: metav1.Duration{Duration: time.Second}}}
	}
	return e
}

// A hard threshold is met: as many as it takes, once each, contained, with the hard grace; never who is critical.
func TestEvictorHard(t *testing.T) {
	big, small, high, critical := victim("big", 0), victim("small", 0), victim("high", 1000), victim("critical", 2_000_000_000)
	s := newStage(t, onMemory("1Gi", ""), big, small, high, critical)
	s.uses(big, 300<<20)
	s.uses(small, 200<<20)
	s.uses(high, 3<<30)
	s.uses(critical, 4<<30)
	s.later(time.Second)
	if len(s.terminator.asked) != 0 {
		t.Fatalf("nothing is short, and %v have to go", s.terminator.names())
	}
	s.left(624 << 20) // 400Mi too little
	s.later(time.Second)
	if got := s.terminator.names(); len(got) > 0 {
		t.Fatalf("it is not known whether the largest grows, and %v have to go", got)
	}
	s.later(peekPause)
	if got := s.terminator.names(); !slices.Equal(got, []string{"big", "small"}) {
		t.Fatalf("%v have to go", got)
	}
	for _, r := range s.terminator.asked {
		if r.Kind != eviction.Hard || r.GraceSeconds != 1 || !r.Contain || r.Left != 312<<20 || r.Path != s.paths[r.Pod.UID] || !strings.Contains(r.Message, "low on resource: memory") {
			t.Errorf("asked for %+v", r)
		}
	}
	for range 10 {
		s.later(300 * time.Millisecond)
	}
	if got := s.terminator.names(); len(got) != 2 {
		t.Errorf("they are on their way, and still %v", got)
	}
	s.source.Say(func(state *state.State) { state.Pods = []*corev1.Pod{small, high, critical} })
	s.later(time.Second)
	if !slices.Equal(s.terminator.removed, []types.UID{big.UID}) {
		t.Errorf("removed: %v", s.terminator.removed)
	}
}

// On a node whose kubelet is too old no pod is evicted, and no pressure is told.
func TestEvictorLeavesAnOldKubeletAlone(t *testing.T) {
	for version, goes := range map[string]int{"v1.32.4": 0, "v1.33.0": 1} {
		big := victim("big", 0)
		s := newStage(t, onMemory("1Gi", ""), big)
		s.source.Say(func(state *state.State) { state.Node.Status.NodeInfo.KubeletVersion = version })
		s.uses(big, 3<<30)
		s.left(1 << 20)
		for range 3 {
			s.later(time.Second)
		}
		if len(s.terminator.asked) != goes || (s.short != "") != (goes > 0) {
			t.Errorf("%s: %v have to go, and %q is short", version, s.terminator.names(), s.short)
		}
	}
}

// Who came just now, while a round is still writing, goes like anybody else: no plan is needed to find its cgroup.
func TestEvictorNeedsNoPlan(t *testing.T) {
	hog, other := victim("hog", 0), victim("other", 1000)
	s := newStage(t, onMemory("1Gi", ""), other)
	s.Paths = state.Machine{Version: cgroupfile.V2, Driver: plan.Cgroupfs}.Paths
	for p, bytes := range map[*corev1.Pod]int64{hog: 5 << 30, other: 100 << 20} {
		s.paths[p.UID] = "/kubepods/besteffort/pod" + string(p.UID)
		s.cgroups.Add(s.paths[p.UID], nil)
		s.uses(p, bytes)
	}
	s.source.Say(func(now *state.State) { now.Pods = append(now.Pods, hog) })
	s.left(900 << 20)
	s.later(time.Second)
	if got := s.terminator.names(); !slices.Equal(got, []string{"hog"}) || s.terminator.asked[0].Path != s.paths[hog.UID] {
		t.Errorf("%v have to go: %+v", got, s.terminator.asked)
	}
}

// A pod that was deleted by others counts with what it frees, if it ends as soon as an eviction would have it end: not one with an hour left, nor one
// that should have ended.
func TestEvictorCountsWhoIsLeaving(t *testing.T) {
	for name, tc := range map[string]struct {
		left     time.Duration
		priority int32
		static   bool
		want     []string
	}{
		"ends soon":                    {4 * time.Second, 1000, false, nil},
		"ends in an hour":              {time.Hour, 1000, false, []string{"other"}},
		"should have ended":            {-time.Minute, 1000, false, []string{"other"}},
		"critical, ends soon":          {4 * time.Second, 2_000_001_000, false, nil},
		"critical, ends in an hour":    {time.Hour, 2_000_001_000, false, []string{"other"}},
		"static: its mirror ends soon": {4 * time.Second, 2_000_001_000, true, []string{"other"}},
	} {
		t.Run(name, func(t *testing.T) {
			going, other := victim("going", tc.priority), victim("other", 0)
			if tc.static {
				going.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "hash"}
			}
			going.DeletionTimestamp, going.DeletionGracePeriodSeconds = new(metav1.NewTime(statetest.LongAgo.Add(tc.left))), new(int64(5))
			s := newStage(t, onMemory("1Gi", ""), going, other)
			s.uses(going, 3<<30)
			s.uses(other, 500<<20)
			s.left(700 << 20)
			s.later(time.Second)
			s.later(peekPause)
			if got := s.terminator.names(); !slices.Equal(got, tc.want) {
				t.Errorf("%v have to go", got)
			}
		})
	}
}

// Limits that were left behind are restored for as long as that takes, whatever the policy says. It is told once why not. A pod that is about to
// end keeps its limit, and one with an hour left does not.
func TestEvictorRecovers(t *testing.T) {
	keeps := victim("keeps", 0)
	s := newStage(t, nil, keeps)
	s.source.Say(func(state *state.State) { state.PolicyUnknown = true })
	s.terminator.lost = errors.New("busy")
	for range 25 {
		s.later(time.Second)
	}
	if s.terminator.recovered != 3 || s.log.Count("failed to restore") != 1 || s.terminator.keeps {
		t.Errorf("tried %d times, said %v; it is about to end: %t", s.terminator.recovered, s.log.Lines(), s.terminator.keeps)
	}
	for left, want := range map[time.Duration]bool{time.Hour: false, 3 * time.Second: true} {
		keeps.DeletionTimestamp = new(metav1.NewTime(s.clock.Now().Add(recoverPause + left)))
		s.later(recoverPause)
		if s.terminator.keeps != want {
			t.Errorf("with %s left it is about to end: %t", left, s.terminator.keeps)
		}
	}
	s.DryRun = true
	s.later(time.Minute)
	if s.terminator.recovered != 5 {
		t.Errorf("recovered %d times", s.terminator.recovered)
	}
}

// As long as it is not known which pods there are everyone may be about to end and keeps his limit; that an enforcer before us froze one is undone at once all
// the same (terminate.Recover), and limits as soon as it is known.
func TestEvictorRecoversAtOnce(t *testing.T) {
	s := newStage(t, nil, victim("keeps", 0))
	s.source.Known = false
	s.later(time.Second)
	if s.terminator.recovered != 1 || !s.terminator.keeps {
		t.Errorf("recovered %d times; it is about to end: %t", s.terminator.recovered, s.terminator.keeps)
	}
	s.source.Say(func(*state.State) {})
	s.later(time.Second)
	if s.terminator.recovered != 2 || s.terminator.keeps {
		t.Errorf("recovered %d times; it is about to end: %t", s.terminator.recovered, s.terminator.keeps)
	}
}

// One that is stuck counts for nothing: the next one goes.
func TestEvictorOverdue(t *testing.T) {
	stuck, next := victim("stuck", 0), victim("then", 10)
	s := newStage(t, onMemory("1Gi", ""), stuck, next)
	s.uses(stuck, 500<<20)
	s.uses(next, 500<<20)
	s.left(800 << 20)
	s.later(time.Second)
	s.terminator.standing[0].Stopping = true // late, but killed just now
	for range 60 {
		s.later(time.Second)
	}
	if got := s.terminator.names(); !slices.Equal(got, []string{"stuck"}) {
		t.Errorf("while the first one gives its memory back %v have to go", got)
	}
	// The API server has taken the eviction only now: the kubelet has its grace period for it, and a second for each container.
	s.terminator.standing[0].Stopping = false
	stuck = stuck.DeepCopy()
	stuck.DeletionTimestamp = new(metav1.NewTime(s.clock.Now().Add(time.Second)))
	s.source.Say(func(state *state.State) { state.Pods[0] = stuck })
	s.later(time.Second)
	if got := s.terminator.names(); !slices.Equal(got, []string{"stuck"}) {
		t.Errorf("while the first one is being deleted %v have to go", got)
	}
	for range 20 {
		s.later(time.Second)
	}
	if got := s.terminator.names(); !slices.Equal(got, []string{"stuck", "then"}) {
		t.Errorf("%v have to go", got)
	}
}

// A soft threshold waits for its grace period, gives the pod its own, and passes over whom a budget protects; once nothing is
// short, who was not begun with is let be.
func TestEvictorSoft(t *testing.T) {
	first, second := victim("first", 0), victim("second", 10)
	s := newStage(t, onMemory("100Mi", "1Gi"), first, second)
	s.uses(first, 400<<20)
	s.uses(second, 400<<20)
	s.left(900 << 20)
	s.later(500 * time.Millisecond)
	s.later(500 * time.Millisecond)
	if len(s.terminator.asked) != 0 {
		t.Fatalf("within the grace period %v have to go", s.terminator.names())
	}
	s.later(600 * time.Millisecond)
	if got := s.terminator.asked; len(got) != 1 || got[0].Pod.Name != "first" || got[0].Kind != eviction.Soft || got[0].GraceSeconds != 20 {
		t.Fatalf("asked for %+v", got)
	}
	s.terminator.standing[0].Refused, s.terminator.standing[0].RefusedFor = true, time.Minute
	s.later(time.Second)
	if got := s.terminator.names(); !slices.Equal(got, []string{"first", "second"}) {
		t.Fatalf("%v have to go", got)
	}
	s.terminator.standing[1].Dying = true
	s.left(2 << 30)
	s.later(time.Second)
	if !slices.Equal(s.terminator.released, []types.UID{first.UID}) {
		t.Errorf("released: %v", s.terminator.released)
	}
}

// forbids is a stage on which the API server has just forbidden the eviction of the first of two pods.
func forbids(t *testing.T) (s *stage, forbidden *corev1.Pod) {
	t.Helper()
	forbidden, next := victim("forbidden", 0), victim("next", 10)
	s = newStage(t, onMemory("1Gi", ""), forbidden, next)
	s.uses(forbidden, 500<<20)
	s.uses(next, 500<<20)
	s.left(800 << 20)
	s.later(time.Second)
	s.terminator.standing[0].Refused, s.terminator.standing[0].RefusedFor = true, time.Minute
	return s, forbidden
}

// What the API server forbids is let be, and the next pod goes. Once it may be asked again it is, without a word.
func TestEvictorForbidden(t *testing.T) {
	s, _ := forbids(t)
	s.later(time.Second)
	if got := s.terminator.names(); !slices.Equal(got, []string{"forbidden", "next"}) {
		t.Fatalf("%v have to go", got)
	}
	s.terminator.standing[1].Refused, s.terminator.standing[1].RefusedFor = true, time.Minute
	s.later(time.Second)
	s.terminator.standing[0].RefusedFor = 0
	s.later(time.Second)
	if got := s.terminator.names(); !slices.Equal(got, []string{"forbidden", "next", "forbidden"}) {
		t.Errorf("%v have to go", got)
	}
	if n := s.log.Count(`"evicting"`); n != 2 {
		t.Errorf("told %d times: %v", n, s.log.Lines())
	}
	if n := s.log.Count(`"component"="nodeenforcer" "decision"="Evict" "reason"="memory.available" "message"=`); n != 2 {
		t.Errorf("%d decisions: %v", n, s.log.Lines())
	}
}

// A pod whose eviction was forbidden counts once its owner has deleted it.
func TestEvictorForbiddenAndDeleted(t *testing.T) {
	s, forbidden := forbids(t)
	forbidden.DeletionTimestamp = new(metav1.NewTime(s.clock.Now().Add(2 * time.Second)))
	s.later(time.Second)
	if got := s.terminator.names(); !slices.Equal(got, []string{"forbidden"}) {
		t.Errorf("%v have to go", got)
	}
}

// The policy goes while a pod is asked to.
func TestEvictorPolicyGoes(t *testing.T) {
	p := victim("p", 0)
	s := newStage(t, onMemory("1Gi", ""), p)
	s.uses(p, 400<<20)
	s.left(900 << 20)
	s.later(time.Second)
	s.source.Say(func(state *state.State) { state.Policy = nil })
	s.later(time.Second)
	if len(s.terminator.asked) != 1 || !slices.Equal(s.terminator.released, []types.UID{p.UID}) {
		t.Errorf("asked for %v, released %v", s.terminator.names(), s.terminator.released)
	}
}

func TestEvictorDoesNothing(t *testing.T) {
	p := victim("p", 0)
	for name, change := range map[string]func(*stage){
		"dry run":                     func(s *stage) { s.DryRun = true },
		"no state":                    func(s *stage) { s.source.Known = false },
		"the policy is not known yet": func(s *stage) { s.source.Now.PolicyUnknown = true },
		"no policy":                   func(s *stage) { s.source.Now.Policy = nil },
		"no thresholds":               func(s *stage) { s.source.Now.Policy.Spec.Eviction = &v1alpha1.NodeEviction{} },
		"a threshold that is broken":  func(s *stage) { s.source.Now.Policy.Spec.Eviction.Hard[0].Value = "much" },
		"memory can't be measured":    func(s *stage) { _ = os.Remove(s.stat) },
		"the pod's cgroup is gone":    func(s *stage) { s.cgroups.Remove(s.paths[p.UID]) },
		"its cgroup can't be named":   func(s *stage) { s.paths = nil },
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, onMemory("1Gi", ""), p)
			s.uses(p, 400<<20)
			s.left(900 << 20)
			change(s)
			for range 5 {
				s.later(time.Second)
			}
			if len(s.terminator.asked) != 0 {
				t.Errorf("%v have to go", s.terminator.names())
			}
			if name == "dry run" && s.log.Count("would evict") != 1 {
				t.Errorf("a dry run said: %v", s.log.Lines())
			}
		})
	}
}

// Without the kubelet nobody knows who fills the disk: nobody goes, and it is said.
func TestEvictorDiskWithoutKubelet(t *testing.T) {
	p := victim("p", 0)
	s := newStage(t, &v1alpha1.NodeEviction{EvictImmediately: true, Hard: []v1alpha1.EvictionThreshold{{Signal: v1alpha1.SignalNodeFsAvailable, Value: "99.9%"}}}, p)
	s.later(time.Second)
	if len(s.terminator.asked) != 0 || s.log.Count("failed to read the usage") == 0 {
		t.Errorf("%v have to go; said: %v", s.terminator.names(), s.log.Lines())
	}
}

// A signal that can't be measured is told as not known. Where the policy has no thresholds any more, none is told.
func TestEvictorForgetsSignals(t *testing.T) {
	s := newStage(t, onMemory("1Gi", ""))
	registry := prometheus.NewPedanticRegistry()
	s.Metrics = status.NewMetrics(registry)
	told := func() []string {
		return slices.DeleteFunc(statetest.Gathered(t, registry), func(l string) bool { return !strings.HasPrefix(l, "podgrace_node_eviction_signal_") })
	}
	const available, known = `podgrace_node_eviction_signal_available_bytes signal="memory.available" 6.442450944e+09`, `podgrace_node_eviction_signal_known signal="memory.available" `
	s.later(time.Second)
	if diff := cmp.Diff([]string{available, known + "1"}, told()); diff != "" {
		t.Error(diff)
	}
	if err := os.Remove(s.stat); err != nil {
		t.Fatal(err)
	}
	s.later(time.Second)
	if diff := cmp.Diff([]string{known + "0"}, told()); diff != "" {
		t.Errorf("memory can't be measured: %s", diff)
	}
	s.source.Say(func(state *state.State) { // as of a newer CustomResourceDefinition
		state.Policy.Spec.Eviction = &v1alpha1.NodeEviction{Hard: []v1alpha1.EvictionThreshold{{Signal: v1alpha1.SignalMemoryAvailable, Value: "1Gi"}, {Signal: "swap.available", Value: "1Gi"}}}
	})
	s.later(time.Second)
	if diff := cmp.Diff([]string{known + "0", `podgrace_node_eviction_signal_known signal="swap.available" 0`}, told()); diff != "" {
		t.Errorf("thresholds that are not understood: %s", diff)
	}
	s.source.Say(func(state *state.State) { state.Policy = nil })
	s.later(time.Second)
	if lines := told(); len(lines) != 0 {
		t.Errorf("there is no policy, and told are %v", lines)
	}
}
