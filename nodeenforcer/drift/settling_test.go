package drift

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/nodeenforcer/plan"
)

// Every step looks again, a second after the one before.
func TestSettling(t *testing.T) {
	found := func(owner plan.Owner, have string) []Drift {
		return []Drift{{Where: Where{Path: "/kubepods/p"}, File: "cpu.weight", Have: have, Want: "4", Owner: owner}}
	}
	withheld := func(d []Drift) []Drift { d[0].Why = WhyUsage; return d }
	kubelet := found(plan.Kubelet, "1")
	for name, test := range map[string]struct {
		steps [][]Drift
		held  []bool
	}{
		"still there":                 {[][]Drift{kubelet, kubelet, kubelet, kubelet}, []bool{true, true, false, false}},
		"the runtime's":               {[][]Drift{found(plan.Runtime, "1"), found(plan.Runtime, "1"), found(plan.Runtime, "1")}, []bool{true, true, false}},
		"nobody else's":               {[][]Drift{found(plan.Nobody, "1")}, []bool{false}},
		"written by its owner":        {[][]Drift{kubelet, nil, nil}, []bool{true, false, false}},
		"being written":               {[][]Drift{kubelet, found(plan.Kubelet, "2"), found(plan.Kubelet, "3"), found(plan.Kubelet, "3"), found(plan.Kubelet, "3")}, []bool{true, true, true, true, false}},
		"right in between":            {[][]Drift{kubelet, nil, kubelet, kubelet, kubelet}, []bool{true, false, true, true, false}},
		"not written for another why": {[][]Drift{withheld(found(plan.Kubelet, "1"))}, []bool{false}},
	} {
		t.Run(name, func(t *testing.T) {
			s, now := NewSettling(2*time.Second), time.Unix(1000, 0)
			for i, drift := range test.steps {
				held, again := s.Observe(now, true, drift, nil)
				if held != test.held[i] || held != (again > 0) || again > 2*time.Second {
					t.Errorf("step %d: held %v, again in %v", i, held, again)
				}
				now = now.Add(time.Second)
			}
			if last := test.steps[len(test.steps)-1]; len(s.found) > len(last) {
				t.Errorf("remembers %v", s.found)
			}
		})
	}
}

// What was not looked at is not forgotten.
func TestSettlingInPart(t *testing.T) {
	s, now := NewSettling(2*time.Second), time.Unix(1000, 0)
	drift := []Drift{{Where: Where{Path: "/kubepods/p"}, File: "cpu.weight", Have: "1", Owner: plan.Kubelet}}
	s.Observe(now, true, drift, nil)
	s.Observe(now.Add(time.Second), false, nil, nil)
	if held, _ := s.Observe(now.Add(2*time.Second), true, drift, nil); held {
		t.Error("held for longer than two seconds")
	}
}

// An owner is given the time of his own loop, where he has one: the kubelet has for the QoS levels and for the CPUs of containers.
func TestSettlingOfALoop(t *testing.T) {
	for every, held := range map[time.Duration]bool{time.Minute: true, 10 * time.Second: true, 0: false} {
		s, now := NewSettling(2*time.Second), time.Unix(1000, 0)
		drift := []Drift{{Where: Where{Path: "/kubepods/burstable", Level: plan.LevelQOS}, File: "cpu.weight", Have: "1", Owner: plan.Kubelet, Every: every}}
		s.Observe(now, true, drift, nil)
		if got, _ := s.Observe(now.Add(every+2*time.Second), true, drift, nil); got != held {
			t.Errorf("every %s: held %v once it should have been written", every, got)
		}
		if got, _ := s.Observe(now.Add(every+lateness), true, drift, nil); got {
			t.Errorf("every %s: held after the loop", every)
		}
	}
}

// While a pod starts its cgroups are being made: however long that takes nothing is restored, nor is it a reason to look again. Two
// seconds later it is.
func TestSettlingOfAPodThatStarts(t *testing.T) {
	name := types.NamespacedName{Namespace: "shop", Name: "a"}
	s, now, starts := NewSettling(2*time.Second), time.Unix(1000, 0), true
	starting := func(n types.NamespacedName) Work {
		if n == name && starts {
			return Creating
		}
		return Settled
	}
	pod := Where{Path: "/kubepods/p", Level: plan.LevelPod, Pod: name}
	drift := []Drift{{Where: pod, File: "cpu.weight", Have: "1", Owner: plan.Kubelet}, {Where: pod, File: "memory.low", Have: "0", Owner: plan.Nobody}}
	for range 100 {
		now = now.Add(time.Second)
		if held, again := s.Observe(now, true, drift, starting); !held || again != 0 || !s.Fresh(drift[0]) || !s.Fresh(drift[1]) {
			t.Fatalf("held %v, again in %v", held, again)
		}
	}
	if held, _ := s.Observe(now, true, drift[1:], starting); !held {
		t.Error("what nobody owns is written while the pod starts")
	}
	starts = false
	if s.Observe(now, true, drift, starting); s.Fresh(drift[1]) {
		t.Error("what nobody owns is held back once the pod has started")
	}
	if held, again := s.Observe(now.Add(time.Second), true, drift, starting); !held || again != time.Second {
		t.Errorf("held %v, again in %v, once it has started", held, again)
	}
	if held, again := s.Observe(now.Add(2*time.Second), true, drift, starting); held || again != 0 {
		t.Errorf("held %v, again in %v, two seconds later", held, again)
	}
}

// While a pod is resized nothing that others write is restored, however long that takes, and what nobody else owns is after ten seconds. Two seconds after it
// the rest is.
func TestSettlingOfAPodThatIsResized(t *testing.T) {
	pod := Where{Path: "/kubepods/p", Level: plan.LevelPod, Pod: types.NamespacedName{Namespace: "shop", Name: "a"}}
	theirs, ours := Drift{Where: pod, File: "memory.max", Have: "1", Owner: plan.Runtime}, Drift{Where: pod, File: "memory.low", Have: "0", Owner: plan.Nobody}
	s, now, is := NewSettling(2*time.Second), time.Unix(1000, 0), Resizing
	for second := range 100 {
		held, again := s.Observe(now, true, []Drift{theirs, ours}, func(types.NamespacedName) Work { return is })
		want := max(10*time.Second-time.Duration(second)*time.Second, 0)
		if !held || again != want || !s.Fresh(theirs) || s.Fresh(ours) != (second < 10) {
			t.Fatalf("second %d: held %v, again in %v, of others %v, ours %v", second, held, again, s.Fresh(theirs), s.Fresh(ours))
		}
		now = now.Add(time.Second)
	}
	is = Settled
	for second, held := range []bool{true, false} { // the last look was a second ago
		if got, again := s.Observe(now, true, []Drift{theirs, ours}, func(types.NamespacedName) Work { return is }); got != held || got != (again > 0) || s.Fresh(ours) {
			t.Errorf("second %d after it: held %v, again in %v, ours %v", second, got, again, s.Fresh(ours))
		}
		now = now.Add(time.Second)
	}
}

func TestStarting(t *testing.T) {
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	waiting := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}
	ended := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
	for name, test := range map[string]struct {
		status corev1.PodStatus
		want   bool
	}{
		"nothing yet":    {corev1.PodStatus{}, true},
		"being made":     {corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{State: waiting}}}, true},
		"one runs":       {corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{State: waiting}, {State: running}}}, false},
		"one is there":   {corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{State: waiting, ContainerID: "containerd://1"}}}, false},
		"one has ended":  {corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{State: ended}}}, false},
		"it backs off":   {corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{State: waiting, LastTerminationState: ended}}}, false},
		"it initialises": {corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{{State: running}}, ContainerStatuses: []corev1.ContainerStatus{{State: waiting}}}, false},
	} {
		if got := Starting(&corev1.Pod{Status: test.status}); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestDiffHoldsBackWhatIsFresh(t *testing.T) {
	g := plan.Group{Path: "/kubepods/p", Level: plan.LevelPod, Files: map[string]plan.Value{"cpu.weight": {Want: "4", Owner: plan.Kubelet}, "memory.oom.group": {Want: "1", Owner: plan.Nobody}}}
	have := Have{g.Path: {Files: map[string]string{"cpu.weight": "100", "memory.oom.group": "0"}}}
	fresh := func(d Drift) bool { return d.Owner != plan.Nobody }
	got := Diff(&plan.Tree{Groups: []plan.Group{g}}, have, v1alpha1.NodeModeRepair, Options{Fresh: fresh})
	if len(got.Operations) != 1 || got.Operations[0].File != "memory.oom.group" || len(got.Drift) != 2 || got.Drift[0].Why != WhyFresh {
		t.Errorf("operations %v, drift %v", got.Operations, got.Drift)
	}
	processes := map[string]map[int]int{"/c": {1: 0, 2: 500, 3: 100}}
	want := &plan.Tree{Processes: []plan.Process{{Path: "/c", OOMScoreAdj: 100, Owner: plan.Runtime}}}
	of := ProcessOperations(want, processes, v1alpha1.NodeModeRepair, Options{Fresh: func(d Drift) bool { return d.Have == "0" }})
	if len(of.Operations) != 1 || of.Operations[0].PID != 2 || len(of.Drift) != 2 || of.Drift[0].Why != WhyFresh || of.Drift[1].Why != "" {
		t.Errorf("operations %v, drift %v", of.Operations, of.Drift)
	}
}
