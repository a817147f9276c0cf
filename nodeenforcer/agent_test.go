package nodeenforcer

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"
	"k8s.io/utils/clock"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgroupfile"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgrouptest"
	"github.com/podgrace/podgrace/nodeenforcer/plan"
	"github.com/podgrace/podgrace/nodeenforcer/state"
	"github.com/podgrace/podgrace/nodeenforcer/state/statetest"
)

// newAgent runs over the bed's cgroups, under the time of the test's bubble.
func newAgent(b *bed, source state.Source) (*Agent, *statetest.Log) {
	log := &statetest.Log{}
	a := &Agent{
		Source: source, Machine: state.Machine{Version: cgroupfile.V2, Driver: plan.Cgroupfs, ProcRoot: b.enforcer.ProcRoot}, Resync: 30 * time.Second,
		Clock: clock.RealClock{}, Log: funcr.New(log.Write, funcr.Options{}),
	}
	b.enforcer.Clock = a.Clock
	a.enforcer, a.driver = b.enforcer, plan.Cgroupfs
	return a, log
}

func TestAgentRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, statetest.Pod("a", "memory<64Mi")).make(statetest.AsPlanned)
		source := statetest.NewSource()
		agent, _ := newAgent(b, source)
		tree := b.watch()
		a := b.Path("a", "c")
		b.Cgroups.Set(a, "memory.max", "max")
		holds := func() string { v, _ := b.Cgroups.Get(a, "memory.max"); return v }
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- agent.Run(ctx) }()

		time.Sleep(time.Minute)
		synctest.Wait()
		if err := agent.Ready(); err == nil || len(tree.Seen()) > 0 {
			t.Errorf("nothing is known, and it is ready: %v", err)
		}

		source.Say(b.Live(v1alpha1.NodeModeRepair))
		synctest.Wait()
		if holds() != "max" {
			t.Error("it did not wait for further news")
		}
		time.Sleep(settle)
		synctest.Wait()
		if holds() != "67108864" || agent.Ready() != nil {
			t.Errorf("after the first news: %s, ready: %v", holds(), agent.Ready())
		}

		tree.Seen()
		for range 5 { // in a row: one round
			source.Say(func(s *state.State) { s.Pods = []*corev1.Pod{statetest.Pod("a", "memory<128Mi")} })
			time.Sleep(settle / 10)
		}
		time.Sleep(settle)
		synctest.Wait()
		if seen := slices.DeleteFunc(tree.Seen(), func(p string) bool { return p != a }); holds() != "134217728" || len(seen) != 1 {
			t.Errorf("after five more: %s, read %v", holds(), seen)
		}

		b.Cgroups.Set(a, "memory.max", "max")
		time.Sleep(agent.Resync)
		synctest.Wait()
		if holds() != "134217728" {
			t.Errorf("drift was not found in time: %s", holds())
		}

		source.Say(func(s *state.State) {}) // it is stopped while it waits for more
		synctest.Wait()
		stop()
		if err := <-ended; err != nil {
			t.Errorf("ended with %v", err)
		}
	})
}

func TestAgentSaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, statetest.Pod("a"))
		source := statetest.NewSource()
		agent, log := newAgent(b, source)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- agent.Run(ctx) }()
		expect := func(what string, saves int) {
			t.Helper()
			synctest.Wait()
			if got := len(source.Saved()); got != saves {
				t.Errorf("%s: saved %d times, want %d", what, got, saves)
			}
		}
		pods := func(names ...string) func(*state.State) {
			return func(s *state.State) {
				s.Pods = nil
				for _, name := range names {
					s.Pods = append(s.Pods, statetest.Pod(name))
				}
			}
		}

		source.Say(func(s *state.State) { b.Live(v1alpha1.NodeModeRepair)(s); s.Live = false })
		time.Sleep(time.Minute)
		expect("what comes from the checkpoint", 0)
		source.Say(func(s *state.State) { s.Live = true })
		time.Sleep(settle)
		expect("the first from the API server", 1)
		time.Sleep(10 * time.Minute)
		expect("nothing new", 1)

		source.Say(pods("a", "b"))
		time.Sleep(time.Second)
		expect("a pod more", 2)
		source.Say(pods("a", "b", "c"))
		time.Sleep(time.Second)
		source.Say(pods("a", "b", "c", "d"))
		time.Sleep(time.Second)
		expect("more of them, too soon", 2)
		time.Sleep(state.SaveEvery)
		expect("more of them, later", 3)
		if got := len(source.Saved()[len(source.Saved())-1].Pods); got != 4 {
			t.Errorf("the newest state was not saved: %d pods", got)
		}

		time.Sleep(time.Minute)
		source.Say(func(s *state.State) {
			s.Policy = &v1alpha1.NodePolicy{Spec: v1alpha1.NodePolicySpec{Mode: v1alpha1.NodeModeObserve}}
		})
		time.Sleep(time.Second)
		expect("another mode", 4)
		time.Sleep(time.Minute)
		source.Say(func(s *state.State) { s.Config = &kubeletconfigv1beta1.KubeletConfiguration{MaxPods: 3} })
		time.Sleep(time.Second)
		expect("another configuration", 5)

		time.Sleep(time.Minute)
		source.Fail(errors.New("the disk is full"))
		source.Say(pods("a"))
		time.Sleep(time.Second)
		expect("it fails", 6)
		time.Sleep(3 * state.SaveEvery)
		expect("it is tried again", 9)
		if n := log.Count("failed to save checkpoint"); n != 1 {
			t.Errorf("told %d times", n)
		}
		source.Fail(nil)
		time.Sleep(state.SaveEvery)
		expect("until it succeeds", 10)

		source.Say(pods("a", "e"))
		time.Sleep(time.Second)
		expect("too soon again", 10)
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		expect("before it ends", 11)
	})
}

// A source that keeps nothing is not asked to, and does not keep the agent busy.
func TestAgentOfFixedState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, statetest.Pod("a")).make(statetest.AsPlanned)
		var fixed state.Fixed
		b.Live(v1alpha1.NodeModeRepair)((*state.State)(&fixed))
		agent, _ := newAgent(b, &fixed)
		tree := b.watch()
		ctx, stop := context.WithTimeout(t.Context(), 10*agent.Resync-time.Second)
		defer stop()
		if err := agent.Run(ctx); err != nil {
			t.Error(err)
		}
		if got, want := len(tree.Seen()), 10*len(b.Tree().Groups); got != want {
			t.Errorf("read %d groups in ten rounds, want %d", got, want)
		}
		if err := fixed.Start(ctx); err != nil {
			t.Error(err)
		}
	})
}

func TestAgentComplains(t *testing.T) {
	b := newBed(t)
	agent, log := newAgent(b, statetest.NewSource())
	for _, err := range []error{nil, errors.New("one"), errors.New("one"), errors.New("two"), nil, nil, errors.New("two")} {
		agent.reportError(err)
	}
	if log.Count("failed to reconcile cgroups") != 3 || log.Count("reconciled again") != 1 || len(log.Lines()) != 4 {
		t.Errorf("told %q", log.Lines())
	}
}

// Cgroups that can't be opened are told once, and keep it from being ready.
func TestAgentWithoutCgroups(t *testing.T) {
	b := newBed(t, statetest.Pod("a"))
	source := statetest.NewSource()
	agent, log := newAgent(b, source)
	agent.enforcer = nil
	agent.Machine = state.Machine{Version: cgroupfile.V1, ProcRoot: filepath.Join(t.TempDir(), "none"), CgroupRoot: t.TempDir()}
	source.Say(b.Live(v1alpha1.NodeModeObserve))
	for range 3 {
		agent.round(t.Context(), true)
	}
	if log.Count("open the cgroups") != 1 || agent.Ready() == nil {
		t.Errorf("told %q, ready: %v", log.Lines(), agent.Ready())
	}
}

// closingTree notices that it is closed.
type closingTree struct {
	*cgrouptest.Watched
	closed int
}

func (c *closingTree) Close() { c.closed++ }

// The kubelet comes back with another driver: its tree has other names.
func TestAgentFollowsTheDriver(t *testing.T) {
	b := newBed(t, statetest.Pod("a"))
	source := statetest.NewSource()
	agent, log := newAgent(b, source)
	first := &closingTree{Watched: b.watch()}
	b.enforcer.Cgroups = first
	root := t.TempDir()
	agent.Machine.Driver, agent.Machine.CgroupRoot = "", root
	if err := os.MkdirAll(filepath.Join(root, "kubepods.slice"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, driver := range []string{"cgroupfs", "systemd", "systemd", "cgroupfs", "nonsense"} {
		source.Say(func(s *state.State) {
			b.Live(v1alpha1.NodeModeObserve)(s)
			s.Config = &kubeletconfigv1beta1.KubeletConfiguration{CgroupDriver: driver}
		})
		before := agent.enforcer.Cgroups
		agent.round(t.Context(), true)
		want := map[string]plan.Driver{"cgroupfs": plan.Cgroupfs, "systemd": plan.Systemd, "nonsense": plan.Systemd}[driver] // as the tree looks
		if agent.driver != want || strings.Contains(agent.Machine.Paths(source.Now)["uid.a"], ".slice") != (want == plan.Systemd) {
			t.Errorf("%s: driver %s, paths %v", driver, agent.driver, agent.Machine.Paths(source.Now))
		}
		if driver == "cgroupfs" && before == first && agent.enforcer.Cgroups != first {
			t.Error("the cgroups were opened again for nothing")
		}
	}
	if first.closed != 1 || log.Count("NodePolicy in force") != 1 || len(log.Lines()) != 1 {
		t.Errorf("closed %d times, told %q", first.closed, log.Lines())
	}
}
