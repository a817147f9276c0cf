package terminate_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podgrace/podgrace/nodeenforcer/terminate"
)

func sleeper(t *testing.T) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sleep", "3600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd
}

func TestSignal(t *testing.T) {
	host := terminate.Host{Proc: "/proc"}
	cmd := sleeper(t)
	pid := cmd.Process.Pid
	yes := func() (bool, error) { return true, nil }
	no := func() (bool, error) { return false, nil }
	unsure := errors.New("unreadable")
	if err := host.Signal(pid, unix.SIGTERM, no); !errors.Is(err, terminate.ErrNoProcess) {
		t.Errorf("not a member: %v", err)
	}
	if err := host.Signal(pid, unix.SIGTERM, func() (bool, error) { return false, unsure }); !errors.Is(err, unsure) {
		t.Errorf("not known: %v", err)
	}
	// The process ends, and is reaped, after it was pinned: whoever has its id then is not signalled.
	other := sleeper(t)
	err := host.Signal(other.Process.Pid, unix.SIGTERM, func() (bool, error) {
		_ = other.Process.Kill()
		_ = other.Wait()
		return true, nil
	})
	if !errors.Is(err, terminate.ErrNoProcess) {
		t.Errorf("ended in between: %v", err)
	}
	if err := host.Signal(pid, unix.SIGUSR1, yes); err != nil {
		t.Fatal(err)
	}
	err = cmd.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGUSR1 {
		t.Errorf("it ended by %v", err)
	}
	if err := host.Signal(pid, unix.SIGTERM, yes); !errors.Is(err, terminate.ErrNoProcess) {
		t.Errorf("it ended before: %v", err)
	}
}

func TestHostReads(t *testing.T) {
	host := terminate.Host{Proc: "/proc"}
	self, err := host.Stat(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	child, err := host.Stat(sleeper(t).Process.Pid)
	if err != nil || child.Started < self.Started || child.Parent != os.Getpid() || self.Parent != os.Getppid() {
		t.Errorf("got %+v, %v; the parent %+v", child, err, self)
	}
	if _, err := host.OOMScoreAdj(os.Getpid()); err != nil {
		t.Error(err)
	}
}

// A process may be called anything.
func TestHostStat(t *testing.T) {
	for name, tc := range map[string]struct {
		stat string
		want terminate.Stat
		ok   bool
	}{
		"plain":        {"7 (sh) S 1 7 7 0 -1 4194560 1 0 0 0 1 2 0 0 20 0 1 0 4711 100 1 0", terminate.Stat{Parent: 1, Started: 4711}, true},
		"a hard name":  {"7 (a) S 1 (b) 9) R 6 7 7 0 -1 4194560 1 0 0 0 1 2 0 0 20 0 1 0 4711 100 1 0", terminate.Stat{Parent: 6, Started: 4711}, true},
		"cut short":    {"7 (sh) S 1 7", terminate.Stat{}, false},
		"not a number": {"7 (sh) S 1 7 7 0 -1 4194560 1 0 0 0 1 2 0 0 20 0 1 0 never 100 1 0", terminate.Stat{}, false},
		"no parent":    {"7 (sh) S one 7 7 0 -1 4194560 1 0 0 0 1 2 0 0 20 0 1 0 4711 100 1 0", terminate.Stat{}, false},
		"empty":        {"", terminate.Stat{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			host := terminate.Host{Proc: t.TempDir()}
			dir := filepath.Join(host.Proc, strconv.Itoa(7))
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			for file, text := range map[string]string{"stat": tc.stat, "oom_score_adj": "-998\n"} {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got, err := host.Stat(7)
			if err == nil && got != tc.want || (err == nil) != tc.ok {
				t.Errorf("got %+v, %v", got, err)
			}
			if adj, err := host.OOMScoreAdj(7); err != nil || adj != -998 {
				t.Errorf("oom_score_adj %d, %v", adj, err)
			}
			if _, err := host.Stat(8); !errors.Is(err, terminate.ErrNoProcess) {
				t.Errorf("a process that is not there: %v", err)
			}
		})
	}
}
