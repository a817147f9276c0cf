package node

import (
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"syscall"
)

// holder starts processes that do nothing. They end with this process at the latest: the kernel sends the parent-death signal when the
// thread that forked ends, so they are all started by one thread, which lives until stop.
type holder struct {
	asks    chan chan started
	done    chan error
	running []*exec.Cmd // of the thread
}

type started struct {
	pid int
	err error
}

func newHolder() *holder {
	h := &holder{asks: make(chan chan started), done: make(chan error)}
	go h.run()
	return h
}

func (h *holder) run() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for ask := range h.asks {
		cmd := exec.Command("sleep", "infinity")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
		if err := cmd.Start(); err != nil {
			ask <- started{err: fmt.Errorf("start a process: %w", err)}
			continue
		}
		h.running = append(h.running, cmd)
		ask <- started{pid: cmd.Process.Pid}
	}
	var errs []error
	for _, cmd := range h.running {
		errs = append(errs, cmd.Process.Kill())
	}
	for _, cmd := range h.running {
		_ = cmd.Wait() // it says that it was killed
	}
	h.done <- errors.Join(errs...)
}

// start returns the id of a new process.
func (h *holder) start() (int, error) {
	ask := make(chan started)
	h.asks <- ask
	s := <-ask
	return s.pid, s.err
}

// stop ends them all.
func (h *holder) stop() error {
	close(h.asks)
	return <-h.done
}
