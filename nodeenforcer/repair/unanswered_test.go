package repair

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coreos/go-systemd/v22/dbus"
	"k8s.io/utils/clock"

	"github.com/podgrace/podgrace/nodeenforcer/cgroup"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgroupfile"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgrouptest"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup/ledger"
	"github.com/podgrace/podgrace/nodeenforcer/drift"
	"github.com/podgrace/podgrace/nodeenforcer/plan"
	"github.com/podgrace/podgrace/nodeenforcer/state/statetest"
)

// silent is a systemd that says nothing.
type silent struct{ calls int }

func (s *silent) SetUnitPropertiesContext(ctx context.Context, _ string, _ bool, _ ...dbus.Property) error {
	s.calls++
	<-ctx.Done()
	return ctx.Err()
}
func (*silent) Connected() bool { return true }
func (*silent) Close()          {}

// A systemd that does not answer is waited for once a round, however many units there are to write or to restore; oom_score_adj, which does
// not go through it, is written.
func TestUnansweredOnceARound(t *testing.T) {
	for _, undo := range []bool{false, true} {
		t.Run(fmt.Sprintf("restoring %t", undo), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBed(t, statetest.Pod("a", "cpu=100m"), statetest.Pod("b", "cpu=100m"), statetest.Pod("c", "cpu=100m"))
				b.Node.Driver = plan.Systemd
				b.make(func(g plan.Group, file string) string {
					if file == "cpu.weight" {
						return "7"
					}
					return statetest.AsPlanned(g, file)
				})
				b.Process(b.Path("a", "c"), 7, 0)
				systemd := &silent{}
				b.enforcer.Cgroups = cgroup.NewSystemd(b.Cgroups, cgroupfile.V2, func(context.Context) (cgroup.Bus, error) { return systemd, nil })
				b.enforcer.Clock = clock.RealClock{}
				b.enforcer.Undo = &ledger.Ledger{}
				if undo {
					for _, name := range []string{"a", "b"} {
						if err := b.enforcer.Undo.Put(ledger.Entry{Key: ledger.Key{Path: b.Path(name, ""), File: "cpu.weight"}, Was: "5", Wrote: "7"}); err != nil {
							t.Fatal(err)
						}
					}
				}
				began := time.Now()
				r, _, err := b.round(true)
				if systemd.calls != 1 || !errors.Is(err, cgroup.ErrUnanswered) {
					t.Errorf("called %d times in %s: %v", systemd.calls, time.Since(began), err)
				}
				if !slices.ContainsFunc(r.Written, func(op drift.Operation) bool { return op.File == plan.OOMScoreFile }) {
					t.Errorf("wrote %v", r.Written)
				}
				works := cgrouptest.Watch(b.Cgroups)
				b.enforcer.Cgroups = works
				if r, _ := b.mustRound(false); !r.Full || len(r.Written) == 0 {
					t.Errorf("when it answers again, full %t, wrote %v", r.Full, r.Written)
				}
			})
		})
	}
}
