package nodeenforcer

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/nodeenforcer/drift"
	"github.com/podgrace/podgrace/nodeenforcer/state/statetest"
	"github.com/podgrace/podgrace/nodeenforcer/status"
)

// The kubelet makes a pod's cgroup and writes its files later: what stands there in between is not drift that somebody made, and
// the kubelet is the one to write it. What stays is repaired soon, and not only at the next resync.
func TestAgentLetsTheKubeletWriteFirst(t *testing.T) {
	for name, test := range map[string]struct {
		kubelet time.Duration // after which it writes; 0: it does not
		writes  int
	}{
		"the kubelet writes":        {time.Second, 0},
		"the kubelet never does so": {0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBed(t, statetest.Pod("a", "cpu=500m")).make(statetest.AsPlanned)
				b.enforcer.Settling = drift.NewSettling(drift.SettleTime)
				source := statetest.NewSource()
				agent, _ := newAgent(b, source)
				agent.Status = status.NewNodeUpdater(nil, agent.Clock, agent.Log)
				registry := prometheus.NewRegistry()
				agent.Metrics = status.NewMetrics(registry)
				pod := b.Path("a", "")
				wanted, _ := b.Cgroups.Get(pod, "cpu.weight")
				b.Cgroups.Set(pod, "cpu.weight", "1")
				before := len(b.Cgroups.Writes())
				go func() { _ = agent.Run(t.Context()) }()
				source.Say(b.Live(v1alpha1.NodeModeRepair))
				time.Sleep(settle)
				synctest.Wait()
				if n := len(b.Cgroups.Writes()) - before; n != 0 || agent.Status.Status().Unenforced != "" {
					t.Errorf("%d writes at once, the Node says %q", n, agent.Status.Status().Unenforced)
				}
				time.Sleep(test.kubelet)
				if test.kubelet > 0 {
					b.Cgroups.Set(pod, "cpu.weight", wanted)
				}
				time.Sleep(drift.SettleTime)
				synctest.Wait()
				if n := len(b.Cgroups.Writes()) - before; n != test.writes {
					t.Errorf("%d writes after %v: %v", n, drift.SettleTime, b.Cgroups.Writes())
				}
				if is, _ := b.Cgroups.Get(pod, "cpu.weight"); is != wanted {
					t.Errorf("cpu.weight is %s, want %s", is, wanted)
				}
			})
		})
	}
}
