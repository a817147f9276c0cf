package cluster

import (
	"context"
	"errors"
	"path/filepath"
)

// Process is a child of ours.
type Process = process

// StartProcess starts a program whose output goes to the file logPath. It ends with this process at the latest.
func StartProcess(name, logPath, path string, args ...string) (*Process, error) {
	return startProcess(name, logPath, path, args...)
}

// PID returns the process's id.
func (p *process) PID() int { return p.cmd.Process.Pid }

// Stop ends the process: SIGTERM, then SIGKILL. It is no error if it has ended already.
func (p *process) Stop() error { return p.stop() }

// Exited returns nil while the process runs, and afterwards why it ended, with the end of its log.
func (p *process) Exited() error {
	select {
	case <-p.exited:
		return p.failure()
	default:
		return nil
	}
}

// ModuleRoot returns the repository's folder.
func ModuleRoot() (string, error) {
	module, err := kubernetesModule()
	if err != nil {
		return "", err
	}
	return filepath.Dir(filepath.Dir(module)), nil
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
