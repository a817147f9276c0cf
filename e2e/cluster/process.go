package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// stopTimeout is how long a child has between SIGTERM and SIGKILL.
const stopTimeout = 15 * time.Second

// process is a child of ours with its log file.
type process struct {
	name    string
	logPath string
	cmd     *exec.Cmd
	exited  chan struct{} // closed once the child is reaped; err is set before
	err     error
}

// startProcess starts a program whose output goes to logPath.
func startProcess(name, logPath, path string, args ...string) (*process, error) {
	return startAs(&syscall.SysProcAttr{Setpgid: true}, name, logPath, path, args...)
}

func startAs(attributes *syscall.SysProcAttr, name, logPath, path string, args ...string) (*process, error) {
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o666) // behind what one of the name has logged before it was ended: that is looked up when something is wrong later
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	p := &process{name: name, logPath: logPath, cmd: exec.Command(path, args...), exited: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = attributes
	p.cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	started := make(chan error)
	go p.run(log, started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	return p, nil
}

// run starts the child and reaps it on one thread: the kernel sends the parent-death signal when the thread
// that forked ends, not when the process does, so that thread must outlive the child.
func (p *process) run(log *os.File, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer log.Close()
	err := p.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	p.err = p.cmd.Wait()
	close(p.exited)
}

// failure describes a child that ended on its own.
func (p *process) failure() error {
	text, _ := os.ReadFile(p.logPath)
	reason := p.err
	if reason == nil {
		reason = errors.New("exit status 0")
	}
	return fmt.Errorf("%s ended early: %w; the end of %s:\n%s", p.name, reason, p.logPath, Tail(text, 15))
}

// stop ends the child: SIGTERM, then SIGKILL, to this pid and no other.
func (p *process) stop() error {
	if p == nil {
		return nil
	}
	select {
	case <-p.exited:
		return nil
	default:
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stopping %s: %w", p.name, err)
	}
	select {
	case <-p.exited:
		return nil
	case <-time.After(stopTimeout):
	}
	return p.Kill()
}

// waitTimeout bounds each wait, also for callers whose context has no deadline. A loaded machine needs far more
// than the few seconds of an idle one.
const waitTimeout = 5 * time.Minute

// Pause is how long to wait before a condition is looked at again that took so long to look at: at least 20 ms, and four times as long as
// it took. So who waits leaves those that he waits for, and what runs beside, most of the processor: a look at the metrics of a kubelet
// whose processor is emulated takes half a second of it.
func Pause(took time.Duration) time.Duration {
	return min(max(4*took, 20*time.Millisecond), 3*time.Second)
}

// Until polls done until it is true. It fails with ctx, after two minutes, with done's error, or when one of the children ends.
func Until(ctx context.Context, what string, done func(context.Context) (bool, error), children ...*process) error {
	return UntilWithin(ctx, waitTimeout, what, done, children...)
}

// UntilWithin is Until for what is faster or slower than two minutes.
func UntilWithin(ctx context.Context, within time.Duration, what string, done func(context.Context) (bool, error), children ...*process) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for {
		begin := time.Now()
		ok, err := done(ctx)
		if err != nil {
			return fmt.Errorf("waiting for %s: %w", what, err)
		}
		if ok {
			return nil
		}
		for _, child := range children {
			select {
			case <-child.exited:
				return child.failure()
			default:
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, ctx.Err())
		case <-time.After(Pause(time.Since(begin))):
		}
	}
}

// longestCall is how long one call to a node or a program may take whose caller sets no limit: a drain waits for minutes.
const longestCall = 8 * time.Minute

// Answered bounds a call that may never be answered, as that to a machine that hangs, so that the test that waits for it fails by itself and says where. A deadline of
// the caller's holds instead.
func Answered(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, has := ctx.Deadline(); has {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, longestCall, fmt.Errorf("no answer within %s", longestCall))
}

// dyingWithUs writes a script that runs a program with the parent-death signal set, and with more environment variables ("NAME=value"). envtest starts etcd and
// the API server itself and does not set it, so both would outlive a test that panics or is killed. Without
// setpriv (util-linux) the program is not told of its parent's death.
func dyingWithUs(dir, path string, environment ...string) (string, error) {
	words := append([]string{"env"}, environment...)
	switch setpriv, err := exec.LookPath("setpriv"); {
	case err == nil:
		words = append(words, setpriv, "--pdeathsig", "KILL", "--")
	case len(environment) == 0:
		return path, nil
	}
	script := filepath.Join(dir, filepath.Base(path))
	text := fmt.Sprintf("#!/bin/sh\nexec '%s' '%s' \"$@\"\n", strings.Join(words, "' '"), path)
	if err := os.WriteFile(script, []byte(text), 0o755); err != nil {
		return "", fmt.Errorf("writing the wrapper of %s: %w", path, err)
	}
	return script, nil
}

// FreePort asks the kernel for a port that nobody listens on at a local address. Another process may take it before our child
// does; the child then ends with an error that says so.
func FreePort(address string) (int, error) {
	listener, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		return 0, fmt.Errorf("finding a free port on %s: %w", address, err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}

// FreePorts are so many of loopback, each another, as flags have them.
func FreePorts(n int) ([]string, error) {
	var ports []string
	for range n {
		listener, err := net.Listen("tcp", net.JoinHostPort(loopback, "0"))
		if err != nil {
			return nil, fmt.Errorf("finding a free port: %w", err)
		}
		defer listener.Close() // once all are found
		ports = append(ports, strconv.Itoa(listener.Addr().(*net.TCPAddr).Port))
	}
	return ports, nil
}

// Tail returns the last lines of a text.
func Tail(text []byte, lines int) []byte {
	text = bytes.TrimRight(text, "\n")
	for i, t := range slices.Backward(text) {
		if t == '\n' {
			if lines--; lines == 0 {
				return text[i+1:]
			}
		}
	}
	return text
}
