package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
)

// Process is a child of ours.
type Process = process

// StartProcess starts a program whose output goes to the file logPath. It ends with this process at the latest.
func StartProcess(name, logPath, path string, args ...string) (*Process, error) {
	return startProcess(name, logPath, path, args...)
}

// StartAhead is StartProcess for a program that should not wait for others when all processors are busy: an emulated machine, which is
// late for everything as it is. Linux shares the processors among sessions first (sched(7), autogroup), so that a kind cluster's containers,
// a session each, would get most of them. Who may not set that starts the program all the same.
func StartAhead(name, logPath, path string, args ...string) (*Process, error) {
	p, err := startAs(&syscall.SysProcAttr{Setsid: true}, name, logPath, path, args...)
	if err == nil {
		_ = os.WriteFile(fmt.Sprintf("/proc/%d/autogroup", p.PID()), []byte("-10"), 0)
	}
	return p, err
}

// PID returns the process's id.
func (p *process) PID() int { return p.cmd.Process.Pid }

// Stop ends the process: SIGTERM, then SIGKILL. It is no error if it has ended already.
func (p *process) Stop() error { return p.stop() }

// Kill ends the process by SIGKILL, and returns once it has ended. It is no error if it has ended already.
func (p *process) Kill() error {
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("killing %s: %w", p.name, err)
	}
	<-p.exited
	return nil
}

// Signal sends the process a signal.
func (p *process) Signal(s os.Signal) error {
	if err := p.cmd.Process.Signal(s); err != nil {
		return fmt.Errorf("signalling %s: %w", p.name, err)
	}
	return nil
}

// Exited returns nil while the process runs, and afterwards why it ended, with the end of its log.
func (p *process) Exited() error {
	select {
	case <-p.exited:
		return p.failure()
	default:
		return nil
	}
}

// Wait returns when the process has ended by itself, with its error, or stops it when ctx ends.
func (p *process) Wait(ctx context.Context) error {
	select {
	case <-p.exited:
	case <-ctx.Done():
		return errors.Join(ctx.Err(), p.stop())
	}
	if p.err != nil {
		return p.failure()
	}
	return nil
}
