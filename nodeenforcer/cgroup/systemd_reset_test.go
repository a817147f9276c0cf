package cgroup_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"github.com/coreos/go-systemd/v22/dbus"

	"github.com/podgrace/podgrace/nodeenforcer/cgroup"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgroupfile"
)

// resetting is a systemd that sets memory.oom.group to 0 with every property, as v252 does.
type resetting struct {
	cgroup.Bus
	file string
	// gone: the cgroup is another one when it answers.
	gone bool
}

func (r resetting) SetUnitPropertiesContext(ctx context.Context, unit string, runtime bool, properties ...dbus.Property) error {
	err := r.Bus.SetUnitPropertiesContext(ctx, unit, runtime, properties...)
	if r.gone {
		return errors.Join(err, os.RemoveAll(r.file))
	}
	if len(properties) > 0 {
		return errors.Join(err, os.WriteFile(r.file, []byte("0"), 0o600))
	}
	return err
}

func (l lab) resetting(unit string, gone bool) *cgroup.Systemd {
	file := filepath.Join(l.root, unit, "memory.oom.group")
	return cgroup.NewSystemd(cgroup.NewV2(l.root), cgroupfile.V2, func(ctx context.Context) (cgroup.Bus, error) {
		bus, err := l.systemd.Dial(ctx)
		return resetting{bus, file, gone}, err
	})
}

// Two enforcers write to one cgroup: what systemd resets under one is not what the other puts back.
func TestSystemdTwoWriters(t *testing.T) {
	l := newLab(t, cgroupfile.V2, "a.scope", map[string]string{"memory.low": "0", "memory.high": "max", "memory.oom.group": "1"})
	trees := []*cgroup.Systemd{l.resetting("a.scope", false), l.resetting("a.scope", false)}
	for i := range 100 {
		var both sync.WaitGroup // begin together each time: nobody writes so often that the other would never have his turn
		for writer, tree := range trees {
			both.Go(func() {
				if _, err := tree.Write(t.Context(), "/a.scope", []cgroup.File{{Name: "memory.low", Value: strconv.Itoa(4096 * (1 + 2*i + writer))}}); err != nil {
					t.Error(err)
				}
			})
		}
		both.Wait()
		if got := l.get(t, "a.scope", "memory.oom.group"); got != "1" {
			t.Fatalf("memory.oom.group is %q", got)
		}
	}
	for _, tree := range trees {
		tree.Close()
	}
}

// A slice goes and comes again under a write: the new one has no file to put a value back into, and is not the one that was meant.
func TestSystemdWriteToOneThatCameAgain(t *testing.T) {
	l := newLab(t, cgroupfile.V2, "a.slice", map[string]string{"memory.low": "0", "memory.oom.group": "1"})
	_, err := l.resetting("a.slice", true).Write(t.Context(), "/a.slice", []cgroup.File{{Name: "memory.low", Value: "4096"}})
	if !errors.Is(err, cgroup.ErrGone) {
		t.Errorf("got %v", err)
	}
}
