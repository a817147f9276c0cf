package plan

import (
	"testing"
	"time"

	"github.com/podgrace/podgrace/api/v1alpha1"
)

// Every step looks again, a second after the one before.
func TestSettling(t *testing.T) {
	found := func(owner Owner, have string) []Drift {
		return []Drift{{Where: Where{Path: "/kubepods/p"}, File: "cpu.weight", Have: have, Want: "4", Owner: owner}}
	}
	withheld := func(d []Drift) []Drift { d[0].Why = WhyUsage; return d }
	kubelet := found(Kubelet, "1")
	for name, test := range map[string]struct {
		steps [][]Drift
		held  []bool
	}{
		"still there":                 {[][]Drift{kubelet, kubelet, kubelet, kubelet}, []bool{true, true, false, false}},
		"the runtime's":               {[][]Drift{found(Runtime, "1"), found(Runtime, "1"), found(Runtime, "1")}, []bool{true, true, false}},
		"nobody else's":               {[][]Drift{found(Nobody, "1")}, []bool{false}},
		"written by its owner":        {[][]Drift{kubelet, nil, nil}, []bool{true, false, false}},
		"being written":               {[][]Drift{kubelet, found(Kubelet, "2"), found(Kubelet, "3"), found(Kubelet, "3"), found(Kubelet, "3")}, []bool{true, true, true, true, false}},
		"right in between":            {[][]Drift{kubelet, nil, kubelet, kubelet, kubelet}, []bool{true, false, true, true, false}},
		"not written for another why": {[][]Drift{withheld(found(Kubelet, "1"))}, []bool{false}},
	} {
		t.Run(name, func(t *testing.T) {
			s, now := NewSettling(2*time.Second), time.Unix(1000, 0)
			for i, drift := range test.steps {
				if held := s.Observe(now, true, drift); held != test.held[i] {
					t.Errorf("step %d: held %v", i, held)
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
	drift := []Drift{{Where: Where{Path: "/kubepods/p"}, File: "cpu.weight", Have: "1", Owner: Kubelet}}
	s.Observe(now, true, drift)
	s.Observe(now.Add(time.Second), false, nil)
	if s.Observe(now.Add(2*time.Second), true, drift) {
		t.Error("held for longer than two seconds")
	}
}

func TestDiffHoldsBackWhatIsFresh(t *testing.T) {
	g := Group{Path: "/kubepods/p", Level: LevelPod, Files: map[string]Value{"cpu.weight": {Want: "4", Owner: Kubelet}, "memory.oom.group": {Want: "1", Owner: Nobody}}}
	have := Have{g.Path: {Files: map[string]string{"cpu.weight": "100", "memory.oom.group": "0"}}}
	fresh := func(d Drift) bool { return d.Owner != Nobody }
	got := Diff(&Tree{Groups: []Group{g}}, have, v1alpha1.NodeModeRepair, DiffOptions{Fresh: fresh})
	if len(got.Operations) != 1 || got.Operations[0].File != "memory.oom.group" || len(got.Drift) != 2 || got.Drift[0].Why != WhyFresh {
		t.Errorf("operations %v, drift %v", got.Operations, got.Drift)
	}
	processes := map[string]map[int]int{"/c": {1: 0, 2: 500, 3: 100}}
	want := &Tree{Processes: []Process{{Path: "/c", OOMScoreAdj: 100, Owner: Runtime}}}
	of := ProcessOperations(want, processes, v1alpha1.NodeModeRepair, DiffOptions{Fresh: func(d Drift) bool { return d.Have == "0" }})
	if len(of.Operations) != 1 || of.Operations[0].PID != 2 || len(of.Drift) != 2 || of.Drift[0].Why != WhyFresh || of.Drift[1].Why != "" {
		t.Errorf("operations %v, drift %v", of.Operations, of.Drift)
	}
}
