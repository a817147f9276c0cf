package plan

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func drawn(t *rapid.T) (seed uint64, number int, o Options) {
	o = Options{Storm: time.Duration(rapid.Int64Range(int64(20*time.Second), int64(3*time.Minute)).Draw(t, "storm"))}
	if rapid.Bool().Draw(t, "only some") {
		o.Only = rapid.SliceOfNDistinct(rapid.SampledFrom(Faults()), 1, 4, rapid.ID[Fault]).Draw(t, "only")
	}
	return rapid.Uint64().Draw(t, "seed"), rapid.IntRange(0, 1000).Draw(t, "number"), o
}

func TestSameSeedSamePlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed, number, o := drawn(t)
		if a, b := Draw(seed, number, o), Draw(seed, number, o); !reflect.DeepEqual(a, b) {
			t.Fatalf("%+v\n%+v", a, b)
		}
	})
	o := Options{Storm: time.Minute}
	if reflect.DeepEqual(Draw(1, 0, o), Draw(2, 0, o)) || reflect.DeepEqual(Draw(1, 0, o).Steps, Draw(1, 1, o).Steps) {
		t.Error("another seed, or round, has the same plan")
	}
}

// Whatever is broken is mended before the storm ends, and only what was asked for is broken.
func TestEachFaultIsMended(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed, number, o := drawn(t)
		for _, s := range Draw(seed, number, o).Steps {
			all := allKinds()
			k := all[slices.IndexFunc(all, func(k kind) bool { return k.fault == s.Fault })]
			if s.At < 0 || s.For < k.min || s.For > k.max && !lasts(s.Fault) || lasts(s.Fault) && s.End() != o.Storm || s.End() > o.Storm {
				t.Fatalf("%+v in a storm of %s", s, o.Storm)
			}
			if len(o.Only) > 0 && !slices.Contains(o.Only, s.Fault) {
				t.Fatalf("%+v, but only %v", s, o.Only)
			}
			most := map[Scope]int{Replica: Replicas, Clock: Replicas, Node: Nodes, Watcher: VolumeLocks + Fencers, Machine: Machines}[k.scope]
			if s.Target < 0 || s.Target >= max(most, 1) {
				t.Fatalf("%+v: there is no such target", s)
			}
		}
	})
}

// At each moment one thing is hit by one fault, of the control plane one part, of the nodes no more than NodesCut; and there is no longer time than AllAway in which no replica is well.
func TestBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed, number, o := drawn(t)
		steps := Draw(seed, number, o).Steps
		const tick = 50 * time.Millisecond
		var away time.Duration
		for at := time.Duration(0); at < o.Storm; at += tick {
			hit := map[Scope]map[int]int{Replica: {}, Webhook: {}, ControlPlane: {}, Node: {}, Nothing: {}, Watcher: {}, Machine: {}, Enforcer: {}, Kubelet: {}, Cgroup: {}}
			for _, s := range steps {
				if s.At <= at && at < s.End() {
					scope := Of(s.Fault)
					if scope == Clock {
						scope = Replica
					}
					hit[scope][s.Target]++
				}
			}
			for scope, targets := range hit {
				for target, n := range targets {
					if n > 1 {
						t.Fatalf("at %s %d of scope %v is hit by %d at once: %+v", at, target, scope, n, steps)
					}
				}
			}
			if len(hit[Node]) > NodesCut {
				t.Fatalf("at %s %d nodes are cut off: %+v", at, len(hit[Node]), steps)
			}
			if away += tick; len(hit[Replica]) < Replicas && len(hit[Webhook]) == 0 {
				away = 0
			}
			if away > AllAway+tick {
				t.Fatalf("at %s no replica has been well for %s: %+v", at, away, steps)
			}
		}
	})
}

// In each era there is a replica that is never started again.
func TestSpared(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed, number, o := drawn(t)
		for _, s := range Draw(seed, number, o).Steps {
			if StartsAnew(s.Fault) && s.Target == Spared(number) {
				t.Fatalf("round %d: %+v", number, s)
			}
		}
	})
	for number := range 4 * EraRounds {
		if same := Spared(number) == Spared(number+EraRounds); same {
			t.Errorf("the rounds %d and %d spare the same replica", number, number+EraRounds)
		}
	}
}

// Nothing is left out in the long run.
func TestEachHappens(t *testing.T) {
	faults, asked := map[Fault]int{}, map[Verb]int{}
	for number := range 100 {
		round := Draw(1, number, Options{Storm: time.Minute})
		for _, s := range round.Steps {
			faults[s.Fault]++
		}
		for _, o := range round.Operations {
			asked[o.Do]++
		}
	}
	for _, f := range Faults() {
		if faults[f] < 20 {
			t.Errorf("%s: %d times in 100 rounds", f, faults[f])
		}
	}
	for _, v := range Verbs() {
		if asked[v] < 50 {
			t.Errorf("%s: %d times in 100 rounds", v, asked[v])
		}
	}
}

// What is paused is of one program alone.
func TestPauses(t *testing.T) {
	for s, want := range map[Step]Scope{
		{Fault: PauseReplica, Target: 1}: PausedWebhook, {Fault: PauseWatcher, Target: VolumeLocks - 1}: PausedVolumeLock, {Fault: PauseWatcher, Target: VolumeLocks}: PausedFencer,
	} {
		if of, is := s.Pauses(); !is || of != want {
			t.Errorf("%+v: %d, %t", s, of, is)
		}
	}
	for _, s := range []Step{{Fault: KillReplica}, {Fault: CutWatcher}, {Fault: PauseEtcd}, {Fault: PauseEnforcer}} {
		if _, is := s.Pauses(); is {
			t.Errorf("%+v pauses what may lead", s)
		}
	}
}

func TestNear(t *testing.T) {
	r := Round{Steps: []Step{{At: 30 * time.Second, For: time.Second, Fault: KillEtcd}, {At: 0, For: 20 * time.Second, Fault: CutNode}, {At: 50 * time.Second, Fault: ReplaceCA}}}
	got := r.Near(25*time.Second, 5*time.Second)
	if len(got) != 2 || got[0].Fault != CutNode || got[1].Fault != KillEtcd {
		t.Errorf("got %+v", got)
	}
}
