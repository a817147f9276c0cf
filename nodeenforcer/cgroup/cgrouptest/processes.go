package cgrouptest

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// helperVariable makes a test binary run as one of the suite's processes.
const helperVariable = "PODGRACE_CGROUPTEST"

// RunHelper is to be called first in the TestMain of a package that uses a harness with processes: the processes are the test
// binary itself, since a bare guest has no other program.
func RunHelper() {
	switch os.Getenv(helperVariable) {
	case "wait":
		_, _ = io.Copy(io.Discard, os.Stdin) // until it is killed, or the test has ended
		os.Exit(0)
	case "fork":
		if _, err := os.Stdin.Read(make([]byte, 1)); err != nil { // the word to begin
			os.Exit(0)
		}
		fork(0)
		os.Exit(0)
	case "forked":
		generation, _ := strconv.Atoi(os.Getenv(generationVariable))
		fork(generation)
		os.Exit(0)
	}
}

const (
	generationVariable = "PODGRACE_CGROUPTEST_GENERATION"
	// waiters bounds how many processes a forking one leaves behind if nobody kills it.
	waiters = 100
)

// fork tells that it is there, starts a process that waits and one that does as we do, and ends: who lists processes to kill them
// finds many that have ended already. It goes on until it is killed, or the test has ended.
func fork(generation int) {
	if testEnded() {
		return
	}
	_, _ = os.Stdout.Write([]byte{'.'})
	if generation < waiters {
		_ = self("wait", os.Stdin, os.Stdout).Start() // at the limit of processes the next has room
	}
	next := self("forked", os.Stdin, os.Stdout)
	next.Env = append(next.Env, generationVariable+"="+strconv.Itoa(generation+1))
	_ = next.Start()
}

// testEnded tells whether nobody holds the other end of our input any more.
func testEnded() bool {
	fds := []unix.PollFd{{Fd: 0}}
	n, err := unix.Poll(fds, 0)
	return err == nil && n > 0 && fds[0].Revents&unix.POLLHUP != 0
}

// self is this program as a helper.
func self(mode string, stdin, stdout *os.File) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), helperVariable+"="+mode)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, os.Stderr
	return cmd
}

// start starts a helper and ends it with the test; place puts it into its cgroup, before or after it has started.
func start(t testing.TB, mode string, place func(cmd *exec.Cmd, start func() error) error) (pid int, begin *os.File, told *bufio.Reader) {
	t.Helper()
	in, begin, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, outEnd, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := self(mode, in, outEnd)
	err = place(cmd, cmd.Start)
	_, _ = in.Close(), outEnd.Close()
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // how it ends is the test's business
	}()
	t.Cleanup(func() {
		_, _ = begin.Close(), cmd.Process.Kill()
		<-ended
		_ = out.Close()
	})
	return cmd.Process.Pid, begin, bufio.NewReader(out)
}

// ended waits for the end of a helper, which its parent, the test, reaps.
func ended(t testing.TB, pid int) {
	t.Helper()
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	for deadline := time.Now().Add(time.Minute); alive(pid); <-poll.C {
		if time.Now().After(deadline) {
			t.Errorf("process %d is still alive", pid)
			return
		}
	}
}

func alive(pid int) bool { return !errors.Is(unix.Kill(pid, 0), unix.ESRCH) }

func (s *suite) processes(t *testing.T) {
	at := s.child(t, "processes")
	left, right := s.below(t, at, "left"), s.below(t, at, "right")
	pids := append(s.Processes.Start(t, left, 2), s.Processes.Start(t, right, 1)...)
	outside := s.Processes.Start(t, s.child(t, "outside"), 1)[0]
	slices.Sort(pids)
	got, err := s.Tree.Processes(at)
	if diff := cmp.Diff(pids, got); diff != "" || err != nil {
		t.Errorf("process %d is outside: %v (-want +got):\n%s", outside, err, diff)
	}
}

func (s *suite) kill(t *testing.T) {
	at := s.child(t, "kill")
	left, right := s.below(t, at, "left"), s.below(t, at, "right")
	pids := append(s.Processes.Start(t, left, 3), s.Processes.Start(t, s.below(t, right, "deeper"), 2)...)
	outside := s.Processes.Start(t, s.child(t, "neighbour"), 1)[0]
	if err := s.Tree.Kill(t.Context(), at); err != nil {
		t.Fatal(err)
	}
	for _, pid := range pids {
		s.Processes.Ended(t, pid)
	}
	if !s.Processes.Alive(outside) {
		t.Error("a neighbour was killed")
	}
	if err := s.Tree.Kill(t.Context(), at); err != nil {
		t.Errorf("a second time: %v", err)
	}
}

// killForking is a cgroup whose processes start others faster than one could list them.
func (s *suite) killForking(t *testing.T) {
	at := s.child(t, "forking")
	s.Processes.StartForking(t, at)
	if err := s.Tree.Kill(t.Context(), at); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for {
		pids, err := s.Tree.Processes(at)
		if err != nil {
			t.Fatal(err)
		}
		if len(pids) == 0 {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%d processes outlived the kill", len(pids))
		case <-poll.C:
		}
	}
}
