package cgrouptest

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/podgrace/podgrace/nodeenforcer/cgroup"
)

// counted is what is counted, by the typed statistics or by what decisions are made from. A part is nil where nothing is.
type counted struct {
	Memory                               *cgroup.Memory
	PIDs                                 *int64
	CPUPressure, MemPressure, IOPressure *cgroup.Pressure
}

// stat holds the two readings of the kernel's counters against each other, of a cgroup with processes where there are some.
func (s *suite) stat(t *testing.T) {
	at := s.child(t, "stat")
	if s.Processes != nil {
		s.Processes.Start(t, s.below(t, at, "deeper"), 2)
	}
	const tries = 1000 // what is read twice alike did not change while it was read in between
	for range tries {
		before := s.byHand(t, at)
		got, err := s.Tree.Stat(at)
		if err != nil {
			t.Fatal(err)
		}
		if after := s.byHand(t, at); !cmp.Equal(before, after) {
			continue
		}
		typed := counted{CPUPressure: got.CPUPressure, MemPressure: got.MemoryPressure, IOPressure: got.IOPressure}
		if m := got.Memory; m != nil {
			typed.Memory = &m.Memory
		}
		if p := got.PIDs; p != nil {
			typed.PIDs = &p.Current
		}
		if diff := cmp.Diff(before, typed); diff != "" {
			t.Errorf("-by hand +Stat:\n%s", diff)
		}
		if s.Stopped != nil && s.Processes != nil && (typed.PIDs != nil && *typed.PIDs < 2) {
			t.Errorf("it has %d processes", *typed.PIDs)
		}
		return
	}
	t.Errorf("the counters of %s never stood still", at)
}

func (s *suite) byHand(t *testing.T, at string) (c counted) {
	t.Helper()
	known := func(err error) bool {
		if err != nil && !errors.Is(err, cgroup.ErrNoFile) {
			t.Fatal(err)
		}
		return err == nil
	}
	if memory, err := cgroup.ReadMemory(s.Tree, at); known(err) {
		c.Memory = &memory
	}
	if pids, err := cgroup.ReadPIDs(s.Tree, at); known(err) {
		c.PIDs = &pids
	}
	for resource, into := range map[string]**cgroup.Pressure{"cpu": &c.CPUPressure, "memory": &c.MemPressure, "io": &c.IOPressure} {
		if p, err := cgroup.ReadPressure(s.Tree, at, resource); known(err) {
			*into = &p
		}
	}
	return c
}
