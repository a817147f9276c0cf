package cluster

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestEarlyExitShowsTheLog(t *testing.T) {
	p, err := startProcess("child", filepath.Join(t.TempDir(), "log"), "/bin/sh", "-c", "echo no such flag; exit 3")
	if err != nil {
		t.Fatal(err)
	}
	never := func(context.Context) (bool, error) { return false, nil }
	err = Until(t.Context(), "a child", never, p)
	if err == nil || !strings.Contains(err.Error(), "no such flag") || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("got %v", err)
	}
}

func TestStop(t *testing.T) {
	p, err := startProcess("sleep", filepath.Join(t.TempDir(), "log"), "/bin/sleep", "600")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time there is nothing to do
		if err := p.stop(); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Kill(p.cmd.Process.Pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("the child is still there: %v", err)
	}
	if err := (*process)(nil).stop(); err != nil {
		t.Errorf("nothing to stop: %v", err)
	}
}
