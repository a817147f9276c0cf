package repair

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgrouptest"
	"github.com/podgrace/podgrace/nodeenforcer/drift"
	"github.com/podgrace/podgrace/nodeenforcer/plan"
	"github.com/podgrace/podgrace/nodeenforcer/state/statetest"
)

// bed is a node in memory with an enforcer of its cgroups.
type bed struct {
	*statetest.Bed
	enforcer *Enforcer
}

func newBed(t testing.TB, pods ...*corev1.Pod) *bed {
	b := &bed{Bed: statetest.NewBed(t, pods...)}
	b.enforcer = &Enforcer{Cgroups: b.Cgroups, ProcRoot: b.ProcRoot, Clock: b.Clock, Rivals: drift.NewRivals(drift.RivalLimit, drift.RivalWindow)}
	return b
}

func (b *bed) make(holds func(g plan.Group, file string) string) *bed {
	b.T.Helper()
	b.Bed.Make(holds)
	return b
}

// round does one, and returns also what it wrote.
func (b *bed) round(full bool) (Round, []cgrouptest.Written, error) {
	b.T.Helper()
	before := len(b.Cgroups.Writes())
	r, err := b.enforcer.Round(b.T.Context(), b.Node, b.Policy, b.Mode, b.Pods, full)
	return r, b.Cgroups.Writes()[before:], err
}

// mustRound does one that must succeed.
func (b *bed) mustRound(full bool) (Round, []cgrouptest.Written) {
	b.T.Helper()
	r, writes, err := b.round(full)
	if err != nil {
		b.T.Fatal(err)
	}
	return r, writes
}

// watch has the enforcer use a tree that remembers what was read.
func (b *bed) watch() *cgrouptest.Watched {
	w := cgrouptest.Watch(b.Cgroups)
	b.enforcer.Cgroups = w
	return w
}
