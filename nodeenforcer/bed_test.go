package nodeenforcer

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgrouptest"
	"github.com/podgrace/podgrace/nodeenforcer/drift"
	"github.com/podgrace/podgrace/nodeenforcer/plan"
	"github.com/podgrace/podgrace/nodeenforcer/repair"
	"github.com/podgrace/podgrace/nodeenforcer/state/statetest"
)

// bed is a node in memory with an enforcer of its cgroups.
type bed struct {
	*statetest.Bed
	enforcer *repair.Enforcer
}

func newBed(t testing.TB, pods ...*corev1.Pod) *bed {
	b := &bed{Bed: statetest.NewBed(t, pods...)}
	b.enforcer = &repair.Enforcer{Cgroups: b.Cgroups, ProcRoot: b.ProcRoot, Clock: b.Clock, Rivals: drift.NewRivals(drift.RivalLimit, drift.RivalWindow)}
	return b
}

func (b *bed) make(holds func(g plan.Group, file string) string) *bed {
	b.T.Helper()
	b.Bed.Make(holds)
	return b
}

// watch has the enforcer use a tree that remembers what was read.
func (b *bed) watch() *cgrouptest.Watched {
	w := cgrouptest.Watch(b.Cgroups)
	b.enforcer.Cgroups = w
	return w
}
