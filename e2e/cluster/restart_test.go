package cluster

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"
)

// child starts a shell with a command.
func child(t *testing.T, command string) *process {
	p, err := startProcess("child", filepath.Join(t.TempDir(), "log"), "/bin/sh", "-c", command)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.stop() })
	return p
}

// A component that ends is started again, however often that fails, until the cluster is stopped.
func TestKeepTriesAgain(t *testing.T) {
	c := &Cluster{log: io.Discard, scheduler: child(t, "exit 1")}
	starts := 0
	c.keep(&c.scheduler, c.scheduler, func(context.Context) (err error) {
		switch starts++; starts {
		case 1: // as startScheduler leaves it
			c.scheduler, err = nil, errors.New("the API server is away")
		case 2: // as a start leaves it that fails before there is a process
			err = errors.New("the API server is away")
		case 3:
			c.scheduler = child(t, "exit 1")
		case 4:
			c.scheduler, c.stopping = child(t, "exit 1"), true
		}
		return err
	})
	if starts != 4 {
		t.Errorf("it was started %d times", starts)
	}
}

// Who keeps a component leaves it alone once another one is in its place.
func TestKeepLeavesAnother(t *testing.T) {
	c := &Cluster{log: io.Discard, scheduler: child(t, "exec sleep 600")}
	for name, was := range map[string]*process{"it had ended": child(t, "exit 1"), "it could not be started": nil} {
		c.keep(&c.scheduler, was, func(context.Context) error {
			t.Errorf("%s: another one is started", name)
			c.stopping = true
			return nil
		})
	}
}

// A component that is restarted may end, or fail, while it starts: it is there in the end, and another one than it was.
func TestRestart(t *testing.T) {
	c := &Cluster{log: io.Discard}
	restart := func(failing int) {
		t.Helper()
		was, next := c.scheduler, child(t, "exec sleep 600")
		if err := c.restart(t.Context(), "the scheduler", &c.scheduler, func(context.Context) error {
			if failing--; failing >= 0 {
				c.scheduler = nil
				return errors.New("the API server is away")
			}
			c.scheduler = next
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.scheduler != next || was.Exited() == nil || c.scheduler.Exited() != nil {
			t.Errorf("it is %v, and was %v", c.scheduler, was)
		}
	}
	c.scheduler = child(t, "exec sleep 600")
	restart(0)
	restart(2)
	c.scheduler = child(t, "exit 1") // it ended by itself, and nobody kept it running
	restart(1)
	t.Cleanup(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.stopping = true
	})
}

// One that could not be started so far is no process that could be killed.
func TestRestartOfNone(t *testing.T) {
	c := &Cluster{log: io.Discard}
	if err := c.RestartControllerManager(t.Context()); err == nil || !strings.Contains(err.Error(), "has none") {
		t.Errorf("a cluster without one: %v", err)
	}
	if was, err := c.kill(&c.scheduler); was != nil || err != nil {
		t.Errorf("%v, %v", was, err)
	}
}
