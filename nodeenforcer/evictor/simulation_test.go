package evictor

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"pgregory.net/rapid"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgroupfile"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgrouptest"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup/ledger"
	"github.com/podgrace/podgrace/nodeenforcer/eviction"
	"github.com/podgrace/podgrace/nodeenforcer/pressure"
	"github.com/podgrace/podgrace/nodeenforcer/state"
	"github.com/podgrace/podgrace/nodeenforcer/state/statetest"
	"github.com/podgrace/podgrace/nodeenforcer/terminate"
)

const (
	capacity = int64(8 << 30)
	hardAt   = int64(1 << 30)
	softAt   = int64(3 << 29)
	reclaim  = int64(100 << 20)
	moment   = 50 * time.Millisecond
)

// simulation is a node on which everybody does what he likes, and the enforcer that runs on it.
type simulation struct {
	*simulatedNode
	t interface {
		Fatalf(format string, args ...any)
	}
	draw   *rapid.T // nil: nothing is drawn, and nothing judged
	dir    string   // of the enforcer's files
	sensor string   // of the machine's
	source *statetest.Source
	names  int
	steps  int
	moment time.Duration

	relief     *Evictor
	terminator *terminate.Terminator
	hands      *hands
	asks       []terminate.Request
	nextStep   time.Time
	end        func()
}

// The enforcer, a kernel, a kubelet and an API server that fail, and tenants that do what they like: no pod is evicted without need or out of turn, nothing is done that was not promised, and
// nothing stays behind. More of it: -rapid.checks=N.
func TestSimulation(t *testing.T) {
	dir, sensor := simulatedMachine(t)
	steps := 0
	rapid.Check(t, func(rt *rapid.T) {
		var panicked any
		synctest.Test(t, func(*testing.T) {
			defer func() { panicked = recover() }()
			s := newSimulation(rt, dir, sensor)
			defer func() { s.crash(); steps += s.steps }()
			for range rapid.IntRange(1, 30).Draw(rt, "events") {
				s.event()
				s.run(time.Duration(rapid.IntRange(1, 60).Draw(rt, "moments")) * moment)
			}
			s.calm()
		})
		// A panic is rapid's own way to fail, and to say that a case is too short to be one. Outside of the bubble it tells them apart by the line.
		switch {
		case fmt.Sprintf("%T", panicked) == "rapid.invalidData":
			panic(panicked)
		case panicked != nil:
			panic(panicked)
		}
	})
	t.Logf("%d steps of the enforcer", steps)
}

// simulatedMachine has the folders of a simulation: the enforcer's own, and the machine's.
func simulatedMachine(t *testing.T) (dir, sensor string) {
	t.Helper()
	proc, _, v2 := statetest.Sensed()
	dir, sensor = t.TempDir(), statetest.Folder(t, v2)
	for name, text := range proc {
		file := filepath.Join(sensor, "proc", name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir, sensor
}

func newSimulation(t *rapid.T, dir, sensor string) *simulation {
	s := &simulation{simulatedNode: &simulatedNode{kernel: cgrouptest.NewFake(), ledger: &ledger.Ledger{}}, t: t, draw: t, moment: moment, dir: dir, sensor: sensor, source: statetest.NewSource()}
	s.api.mood, s.kubelet, s.writes = "fine", "fine", "fine"
	_ = os.Remove(filepath.Join(dir, "releasing")) // of the simulation before
	s.policy()
	s.begin()
	s.run(2 * moment) // the thresholds are not met when they are applied
	for range rapid.IntRange(2, 5).Draw(t, "pods") {
		s.tenant()
	}
	return s
}

func (s *simulation) policy() {
	soft := rapid.Bool().Draw(s.draw, "soft threshold")
	spec := onMemory("1Gi", "")
	spec.Hard[0].MinimumReclaim = "100Mi"
	if soft {
		spec.Soft = onMemory("", "1536Mi").Soft
	}
	s.source.Now = state.State{Node: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, Policy: &v1alpha1.NodePolicy{Spec: v1alpha1.NodePolicySpec{Mode: v1alpha1.NodeModeTune, Eviction: spec}}}
}

// tenant starts a pod of any kind.
func (s *simulation) tenant() {
	t := s.draw
	s.names++
	mib := func(name string, of ...int) int64 { return int64(rapid.SampledFrom(of).Draw(t, name)) << 20 }
	priority := rapid.SampledFrom([]int32{0, 0, 10, 1000, 2_000_000_000}).Draw(t, "priority")
	s.start(fmt.Sprint("p", s.names), priority, mib("request", 0, 100, 1000), mib("usage", 1, 100, 300, 900, 2000), mib("grows", 0, 0, 50, 300, -50), rapid.Bool().Draw(t, "obeys"), time.Duration(rapid.SampledFrom([]int{0, 0, 1, 5}).Draw(t, "hook"))*time.Second)
	s.pods[len(s.pods)-1].planned = s.now().Add(time.Duration(rapid.SampledFrom([]int{0, 0, 3}).Draw(t, "planned")) * time.Second)
}

// begin starts an enforcer, which finds what the one before it left.
func (s *simulation) begin() {
	for _, p := range s.pods {
		p.byEnforcer = simulatedPod{}.byEnforcer
	}
	s.hands = &hands{simulatedNode: s.simulatedNode}
	s.terminator = terminate.New(terminate.Config{API: s.hands, Cgroups: s.hands, Processes: s.hands, Ledger: s.hands, Recorder: s.hands, Clock: clock.RealClock{}, Limits: terminate.DefaultLimits()})
	sensor := &pressure.Sensor{CgroupRoot: s.sensor, ProcRoot: filepath.Join(s.sensor, "proc"), Version: cgroupfile.V2, KubeletRoot: s.dir, ImageRoot: s.dir, Clock: clock.RealClock{}, Aside: atOnce}
	s.relief = &Evictor{
		Source: s.source, Cgroups: s.kernel, Sensor: sensor, Terminator: witness{s.terminator, s}, Clock: clock.RealClock{}, Log: logr.Discard(),
		KeptFile: filepath.Join(s.dir, "releasing"),
		Paths: func(now state.State) map[types.UID]string {
			paths := map[types.UID]string{}
			s.mu.Lock()
			defer s.mu.Unlock()
			for _, p := range now.Pods {
				if of := s.byUID(p.UID); of != nil && !s.now().Before(of.planned) {
					paths[p.UID] = of.path
				}
			}
			return paths
		},
	}
	s.relief.begin()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- s.terminator.Run(ctx) }()
	s.end = func() { cancel(); <-ended; s.end = func() {} }
	s.nextStep, s.troubled = s.now(), s.now()
}

// crash ends the enforcer as SIGKILL does.
func (s *simulation) crash() {
	s.mu.Lock()
	s.hands.dead = true
	s.mu.Unlock()
	s.end()
}

// witness sees what the evictor asks for.
type witness struct {
	Terminator
	s *simulation
}

// Ask is for Terminator.
func (w witness) Ask(r terminate.Request) error {
	w.s.asks = append(w.s.asks, r)
	return w.Terminator.Ask(r)
}

// event is what happens next.
func (s *simulation) event() {
	switch what := rapid.SampledFrom([]string{"start", "grow", "grow", "grow", "jump", "moves", "delete", "api", "api", "kubelet", "writes", "crash", "end", "host", "nothing"}).Draw(s.draw, "event"); what {
	case "crash":
		s.crash()
		s.begin()
	case "end":
		s.end()
		s.ended()
		s.begin()
	default:
		s.change(what)
	}
}

// change is what is different from now on. A draw panics where rapid has no more of the case, so what is locked is let go in any case.
func (s *simulation) change(what string) {
	t := s.draw
	s.mu.Lock()
	defer s.mu.Unlock()
	var live []*simulatedPod
	for _, p := range s.pods {
		if !p.gone {
			live = append(live, p)
		}
	}
	any := func() *simulatedPod { return rapid.SampledFrom(live).Draw(t, "pod") }
	switch {
	case what == "start" && len(live) < 8:
		s.tenant()
	case what == "api":
		s.api.mood = rapid.SampledFrom(apiMoods).Draw(t, "API server")
		s.api.latency = time.Duration(rapid.SampledFrom([]int{1, 20, 400, 2000}).Draw(t, "latency")) * time.Millisecond
	case what == "kubelet":
		s.kubelet = rapid.SampledFrom(kubeletMoods).Draw(t, "kubelet")
	case what == "writes":
		s.writes = rapid.SampledFrom(writeMoods).Draw(t, "writes")
	case what == "host":
		s.host = int64(rapid.SampledFrom([]int{0, 200, 2000, 6500}).Draw(t, "host")) << 20
	case len(live) == 0:
	case what == "grow":
		any().grows = int64(rapid.SampledFrom([]int{-200, 0, 20, 200, 1000}).Draw(t, "grows")) << 20
	case what == "jump":
		if p := any(); p.running && !s.kernel.Frozen(p.path) {
			s.grow(p, time.Duration(rapid.IntRange(0, 20).Draw(t, "jump"))*time.Second)
		}
	case what == "moves": // its process into a cgroup that the container made
		if p := any(); p.running && !s.kernel.Frozen(p.path) {
			s.kernel.Remove(p.path + "/" + p.container())
			s.kernel.Add(p.path+"/"+p.container()+"/own", nil, p.main)
		}
	case what == "delete":
		s.remove(any(), int64(rapid.SampledFrom([]int{1, 20, 3600}).Draw(t, "grace")))
	}
}

// run lets time pass.
func (s *simulation) run(d time.Duration) {
	for end := s.now().Add(d); s.now().Before(end); {
		s.pass(s.moment)
		s.publish()
		if !s.now().Before(s.nextStep) {
			s.step()
		}
		s.frozenTooLong()
		if len(s.broken) > 0 {
			s.t.Fatalf("%v", s.broken)
		}
		time.Sleep(s.moment)
	}
}

// publish is the watch of the API server, and the kernel's count of the node's memory.
func (s *simulation) publish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	var pods []*corev1.Pod
	for _, p := range s.pods {
		if !p.gone {
			pods = append(pods, p.pod.DeepCopy())
		}
	}
	live := s.api.mood != "away" && s.api.mood != "hang"
	s.source.Say(func(now *state.State) {
		if now.Live = live; live || now.Pods == nil {
			now.Pods = pods
		}
	})
	// As long as the last one: a file that is truncated again and again keeps the disk busy.
	text := fmt.Sprintf("anon %020d\nfile 0\ninactive_file 0\n", s.used())
	file, err := os.OpenFile(filepath.Join(s.sensor, "memory.stat"), os.O_WRONLY, 0)
	if err == nil {
		_, err = file.WriteString(text)
		_ = file.Close()
	}
	if err != nil {
		s.t.Fatalf("%v", err)
	}
}

func (s *simulation) used() (sum int64) {
	sum = s.host
	for _, p := range s.pods {
		sum += p.usage
	}
	return sum
}

// step has the enforcer look once, and judges whom it asked for.
func (s *simulation) step() {
	s.steps++
	s.asks = nil
	m := s.model()
	s.nextStep = s.now().Add(s.relief.step(context.Background()))
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draw != nil {
		m.judge(s.asks)
	}
	for _, r := range s.asks {
		if p := s.byUID(r.Pod.UID); p != nil {
			p.byEnforcer.asked, p.byEnforcer.hard = s.now(), p.byEnforcer.hard || r.Kind == eviction.Hard
		}
	}
}

// calm has everybody behave, and looks what is left behind.
func (s *simulation) calm() {
	s.mu.Lock()
	s.api.mood, s.api.latency, s.kubelet, s.writes, s.host = "fine", time.Millisecond, "fine", "fine", 0
	for _, p := range s.pods {
		p.grows = min(p.grows, 0)
	}
	s.mu.Unlock()
	for range 60 {
		s.run(5 * time.Second)
		if s.relieved() {
			break
		}
	}
	if !s.relieved() {
		s.t.Fatalf("short of memory for five minutes: %d MiB are left", (capacity-s.used())>>20)
	}
	s.run(15 * time.Second)
	s.end()
	s.ended()
	for _, p := range s.pods {
		if high, _ := s.kernel.Get(p.path, "memory.high"); !p.gone && p.deleted.IsZero() && high != "max" {
			s.t.Fatalf("%s lives, and its memory.high is %s", p.pod.Name, high)
		}
	}
}

// relieved reports whether there is enough memory, or nobody who could be evicted: not even all together would be enough, and none of them frees his share.
func (s *simulation) relieved() bool {
	missing, all := hardAt+reclaim-(capacity-s.used()), int64(0)
	for _, p := range s.pods {
		if !p.gone && evictable(p) {
			all += p.usage
		}
	}
	return capacity-s.used() >= hardAt || !slices.ContainsFunc(s.pods, func(p *simulatedPod) bool {
		return !p.gone && p.usage > 0 && evictable(p) && (all >= missing || p.usage >= missing/20)
	})
}

// ended is after an enforcer ended in order: where the kernel let it, nothing is frozen.
func (s *simulation) ended() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.pods {
		if !p.gone && s.writes != "refused" && s.writes != "no freezer" && s.kernel.Frozen(p.path) {
			s.t.Fatalf("%s is left frozen", p.pod.Name)
		}
	}
}

// model is what the test knows of a step: who uses how much, and who is sure to end without further ado.
type model struct {
	s      *simulation
	left   int64
	usage  map[types.UID]int64
	ending map[types.UID]bool // surely
	asked  map[types.UID]bool
	known  map[types.UID]bool // by the API server's watch
}

func (s *simulation) model() *model {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := &model{s: s, left: capacity - s.used(), usage: map[types.UID]int64{}, ending: map[types.UID]bool{}, asked: map[types.UID]bool{}, known: map[types.UID]bool{}}
	for _, p := range s.source.Now.Pods {
		m.known[p.UID] = true
	}
	live := s.source.Now.Live
	for _, p := range s.pods {
		if p.gone {
			continue
		}
		m.usage[p.pod.UID] = p.usage
		by := &p.byEnforcer
		m.asked[p.pod.UID] = !by.asked.IsZero() || p.pod.DeletionTimestamp != nil
		// Deleted with the hard grace a moment ago, which is known, by a kubelet that works.
		known := !s.now().Before(p.planned) && live && p.pod.DeletionTimestamp != nil || by.hard && by.accepted
		m.ending[p.pod.UID] = known && p.grace <= 1 && s.kubelet != "hangs" && s.hungAt.Before(p.deleted) && s.now().Sub(p.deleted) < 1500*time.Millisecond
	}
	return m
}

func evictable(p *simulatedPod) bool {
	return p.pod.Spec.Priority == nil || *p.pod.Spec.Priority < 2_000_000_000
}

// before is the order of eviction in the test's own words.
func before(a, b *simulatedPod) bool {
	over := func(p *simulatedPod) int64 {
		return p.usage - p.pod.Spec.Containers[0].Resources.Requests.Memory().Value()
	}
	rank := func(p *simulatedPod) int { return map[bool]int{true: 0, false: 1}[over(p) > 0] }
	return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(*a.pod.Spec.Priority, *b.pod.Spec.Priority), cmp.Compare(over(b), over(a))) < 0
}

// judge holds what the enforcer asked for in one step against the model.
func (m *model) judge(asks []terminate.Request) {
	for kind, bound := range map[eviction.Kind]int64{eviction.Hard: hardAt + reclaim, eviction.Soft: softAt} {
		victims, sum := map[types.UID]*simulatedPod{}, int64(0)
		for _, r := range asks {
			p := m.s.byUID(r.Pod.UID)
			if r.Kind != kind || p == nil {
				continue
			}
			if !evictable(p) {
				m.s.t.Fatalf("%s is critical, and asked for", p.pod.Name)
			}
			victims[r.Pod.UID] = p
			sum += m.usage[r.Pod.UID]
		}
		if len(victims) > 0 {
			m.enough(kind, bound-m.left, victims, sum)
		}
	}
}

// enough: there is a need, each victim is needed for it who was not on his way already, and nobody's turn was before.
func (m *model) enough(kind eviction.Kind, need int64, victims map[types.UID]*simulatedPod, sum int64) {
	names := func() (out []string) {
		for _, p := range victims {
			out = append(out, fmt.Sprintf("%s (%d MiB)", p.pod.Name, m.usage[p.pod.UID]>>20))
		}
		return out
	}
	surely, maybe := int64(0), int64(0)
	for uid, used := range m.usage {
		if victims[uid] != nil {
			continue
		}
		if m.ending[uid] {
			surely += used
		}
		if m.asked[uid] {
			maybe += used
		}
	}
	anew := slices.ContainsFunc(slices.Collect(maps.Keys(victims)), func(uid types.UID) bool { return !m.asked[uid] })
	if need <= 0 || kind == eviction.Hard && anew && surely >= need {
		m.s.t.Fatalf("%v are evicted %s for %d MiB, and %d MiB are being freed", names(), kind, need>>20, surely>>20)
	}
	for uid, p := range victims {
		if kind == eviction.Hard && len(victims) > 1 && !m.asked[uid] && surely+sum-m.usage[uid] >= need {
			m.s.t.Fatalf("%v are evicted for %d MiB: %s is one too many", names(), need>>20, p.pod.Name)
		}
	}
	for _, u := range m.s.pods {
		if u.gone || !m.known[u.pod.UID] || m.s.now().Before(u.planned) || m.asked[u.pod.UID] || victims[u.pod.UID] != nil || m.usage[u.pod.UID] == 0 || !u.running || !evictable(u) {
			continue
		}
		for v := range maps.Values(victims) {
			tooSmall := m.usage[u.pod.UID] < need/20 // where all together are not enough
			if !m.asked[v.pod.UID] && before(u, v) && sum+maybe < need && !tooSmall && m.s.now().Sub(v.grew) > eaten {
				m.s.t.Fatalf("%v are evicted for %d MiB, and it was the turn of %s", names(), need>>20, u.pod.Name)
			}
		}
	}
}
