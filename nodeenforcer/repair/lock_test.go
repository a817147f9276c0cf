package repair

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"k8s.io/utils/clock"

	"github.com/podgrace/podgrace/nodeenforcer/state/statetest"
)

func TestLock(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "run")
	synctest.Test(t, func(t *testing.T) {
		log := &statetest.Log{}
		first, second := NewLock(folder, clock.RealClock{}, funcr.New(log.Write, funcr.Options{})), NewLock(folder, clock.RealClock{}, funcr.New(log.Write, funcr.Options{}))
		began := func(l *Lock) *bool {
			ran := new(bool)
			go func() { _ = l.Start(t.Context()) }()
			go func() { _ = l.Alone(func(context.Context) error { *ran = true; return nil })(t.Context()) }()
			synctest.Wait()
			return ran
		}
		one := began(first)
		two := began(second)
		if !*one || *two || first.Ready() != nil || second.Ready() == nil || log.Count(fmt.Sprintf(`"holder"="process %d"`, os.Getpid())) != 1 {
			t.Errorf("the first runs: %t, the second: %t; ready %v, %v; told %q", *one, *two, first.Ready(), second.Ready(), log.Lines())
		}
		time.Sleep(10 * lockRetry) // of the bubble's clock
		if *two || log.Count("another node enforcer") != 1 {
			t.Errorf("later the second runs: %t; told %q", *two, log.Lines())
		}
		first.Release()
		time.Sleep(2 * lockRetry)
		synctest.Wait()
		if !*two || second.Ready() != nil || log.Count("this one enforces now") != 1 {
			t.Errorf("the first has ended, and the second runs: %t, ready %v; told %q", *two, second.Ready(), log.Lines())
		}
		second.Release()
	})
}

// Where no file can be made the enforcer goes on: what it can't note it does not write.
func TestLockWithoutAFolder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		log := &statetest.Log{}
		l := NewLock(file, clock.RealClock{}, funcr.New(log.Write, funcr.Options{}))
		go func() { _ = l.Start(t.Context()) }()
		synctest.Wait()
		select {
		case <-l.held:
		default:
			t.Error("it waits")
		}
		if l.Ready() != nil || log.Count("failed to lock") != 1 {
			t.Errorf("ready %v, told %q", l.Ready(), log.Lines())
		}
	})
}
