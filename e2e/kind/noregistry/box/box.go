package box

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
)

// variable marks the process inside.
const variable = "PODGRACE_INSIDE_BOX"

// Inside reports whether this process is the one in the box.
func Inside() bool { return os.Getenv(variable) != "" }

// Run starts this very program again, with the same arguments, in a box and returns its exit code. The kernel kills all in
// the box when the program ends, or when we do.
func Run(ctx context.Context) (int, error) {
	self, err := os.Executable()
	if err != nil {
		return 0, fmt.Errorf("entering a box: %w", err)
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	// The parent-death signal comes when the thread ends that started the child.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.CommandContext(ctx, self, os.Args[1:]...)
	cmd.Env = append(os.Environ(), variable+"=1")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET,
		Pdeathsig:  syscall.SIGKILL,
		Setpgid:    true, // Ctrl-C is ours: the box has nothing to do on its way out
	}
	err = cmd.Run()
	if ctx.Err() != nil {
		return 0, fmt.Errorf("ending the box: %w", ctx.Err())
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.Exited() {
		return exit.ExitCode(), nil
	}
	if err != nil {
		return 0, fmt.Errorf("running in a box: %w", err)
	}
	return 0, nil
}

// Furnish gives the process inside its own /proc and loopback. Nothing that is mounted from here on is seen outside.
func Furnish(ctx context.Context) error {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making mounts private: %w", err)
	}
	if err := syscall.Mount("proc", "/proc", "proc", syscall.MS_NOSUID|syscall.MS_NODEV|syscall.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mounting /proc: %w", err)
	}
	if out, err := exec.CommandContext(ctx, "ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
		return fmt.Errorf("starting loopback: %w: %s", err, out)
	}
	return nil
}
