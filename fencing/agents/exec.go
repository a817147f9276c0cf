package agents

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/fencing"
)

// What a fence agent's exit code says of the action status (ClusterLabs' FenceAgentAPI.md, fence-agents 4.17).
const (
	statusOn  = 0
	statusOff = 2
)

const (
	// maxOutput is how much of what a program writes is kept.
	maxOutput = 16 << 10
	// outputGrace is how long its output is waited for once it has ended and its process group was killed: something may have left the group and kept the pipe.
	outputGrace = time.Second
)

var (
	programPattern   = regexp.MustCompile(`^fence_[a-z0-9_]{1,64}$`)
	parameterPattern = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$`)
	programDirs      = []string{"/usr/sbin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin"}
)

// execAgent runs a fence agent of ClusterLabs. Its parameters go over standard input: a command line is everybody's to read in /proc.
type execAgent struct {
	spec        v1alpha1.ExecAgent
	credentials Credentials
	dirs        []string
}

func newExec(spec v1alpha1.ExecAgent, identity v1alpha1.FenceIdentity, options Options) (fencing.Agent, error) {
	if !programPattern.MatchString(spec.Program) { // as the CRD says: of what is in the fencer's image, only a fence agent is run
		return nil, fmt.Errorf("program %q is no fence agent", spec.Program)
	}
	if identity != v1alpha1.IdentityConfigured {
		return nil, errors.New("a fence agent of ClusterLabs can't tell which machine it speaks of: its identity must be Configured")
	}
	dirs := options.ProgramDirs
	if len(dirs) == 0 {
		dirs = programDirs
	}
	return &execAgent{spec: spec, credentials: options.Credentials, dirs: dirs}, nil
}

// Off runs the action off, which is to succeed once the machine is off.
func (e *execAgent) Off(ctx context.Context, m v1alpha1.FenceMachine) error {
	_, err := e.run(ctx, m, "off", 0)
	return err
}

// Power runs the action status. Its exit code for off, 2, is also how shells, interpreters and option parsers end on a mistake (and EC_BAD_ARGS in ClusterLabs' own
// fencing.py): so a status of off counts only if the same program with the same parameters can also end with 0, for the action monitor, which every fence agent has
// and which succeeds where the device answers. What remains is a program that fails in status alone, and by 2 (as one in Go that panics does): ClusterLabs' own are in
// Python, where that is 1, and nothing but the exit code is part of their API.
func (e *execAgent) Power(ctx context.Context, m v1alpha1.FenceMachine) (fencing.Reading, error) {
	code, err := e.run(ctx, m, "status", statusOn, statusOff)
	if err != nil {
		return fencing.Reading{}, err
	}
	if code == statusOn {
		return reading(fencing.PowerOn, "on", ""), nil
	}
	if _, err := e.run(ctx, m, "monitor", 0); err != nil {
		return reading(fencing.PowerUnknown, "status ended with 2, and monitor failed", ""), err
	}
	return reading(fencing.PowerOff, "off", ""), nil
}

// run runs the program for an action; with any other exit code than those it is an error.
func (e *execAgent) run(ctx context.Context, m v1alpha1.FenceMachine, action string, codes ...int) (int, error) {
	var scrub scrubber
	code, err := func() (int, error) {
		secret, err := e.credentials.read(ctx, e.spec.Secret)
		if err != nil {
			return 0, err
		}
		scrub = secret.scrubber()
		input, err := e.input(m, secret, action)
		if err != nil {
			return 0, err
		}
		program, err := e.program()
		if err != nil {
			return 0, err
		}
		state, output, err := e.execute(ctx, program, input)
		if err != nil {
			return 0, err
		}
		if state.Exited() && slices.Contains(codes, state.ExitCode()) {
			return state.ExitCode(), nil
		}
		// Scrubbed here, where it is known whether a secret may have been cut in two.
		text := scrub.text(string(output.kept), output.cutOff)
		return 0, fmt.Errorf("%s: %s", state, end(text, maxError/2))
	}()
	return code, scrub.wrap(err, "%s %s at %q", e.spec.Program, action, short(m.Address, 100))
}

// input is one parameter a line. The machine's own win over the agent's, and a Secret's over both.
func (e *execAgent) input(m v1alpha1.FenceMachine, secret secret, action string) (string, error) {
	parameters := map[string]string{}
	maps.Copy(parameters, e.spec.Parameters)
	maps.Copy(parameters, m.Parameters)
	if m.Address != "" {
		parameters["ip"] = m.Address
	}
	for key, value := range secret.values {
		parameters[key] = trimNewline(string(value))
	}
	var lines strings.Builder
	fmt.Fprintf(&lines, "action=%s\n", action)
	for _, key := range slices.Sorted(maps.Keys(parameters)) {
		if err := checkParameter(key, parameters[key]); err != nil {
			return "", err
		}
		fmt.Fprintf(&lines, "%s=%s\n", key, parameters[key])
	}
	return lines.String(), nil
}

// checkParameter refuses what would be another parameter than it says, or another value than is meant: fence agents cut blanks off, and quotes around it.
func checkParameter(key, value string) error {
	switch {
	case !parameterPattern.MatchString(key):
		return fmt.Errorf("%q is no parameter's name", key)
	case key == "action" || key == "option": // its older name
		return fmt.Errorf("parameter %s is not to be given: what is to be done is the fencer's to say", key)
	case strings.ContainsAny(value, "\r\n\x00\v\f\u0085\u2028\u2029"):
		return fmt.Errorf("the value of parameter %s has more than one line", key)
	case strings.TrimSpace(value) != value:
		return fmt.Errorf("the value of parameter %s begins or ends with a blank, which fence agents cut off", key)
	case len(value) > 1 && strings.HasPrefix(value, `"`) && strings.HasSuffix(value, `"`):
		return fmt.Errorf("the value of parameter %s is in quotes, which fence agents take away", key)
	}
	return nil
}

func (e *execAgent) program() (string, error) {
	for _, dir := range e.dirs {
		path := filepath.Join(dir, e.spec.Program)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0 {
			return path, nil
		}
	}
	return "", fmt.Errorf("there is no such program in %s: the fencer's image must have it", strings.Join(e.dirs, ", "))
}

// execute runs a program to its end or that of the context, and ends all of its process group either way.
func (e *execAgent) execute(ctx context.Context, program, input string) (*os.ProcessState, *bounded, error) {
	output := &bounded{}
	cmd := exec.CommandContext(ctx, program)
	cmd.Stdin = strings.NewReader(input)
	cmd.Stdout, cmd.Stderr = output, output
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=" + strings.Join(append(slices.Clone(e.dirs), "/usr/sbin", "/usr/bin", "/sbin", "/bin"), ":"), "LC_ALL=C.UTF-8"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	group := &processGroup{cmd: cmd}
	cmd.Cancel = group.kill
	cmd.WaitDelay = outputGrace
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	group.end()
	err := cmd.Wait()
	group.reap()
	if ctx.Err() != nil {
		return nil, nil, fmt.Errorf("it was killed before it came to an end: %w", ctx.Err())
	}
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay) {
		return nil, nil, err
	}
	return cmd.ProcessState, output, nil
}

// processGroup is a program with whatever it starts. Its number is killed only until the program has been waited for: then the kernel may give it to another.
type processGroup struct {
	cmd    *exec.Cmd
	mutex  sync.Mutex
	reaped bool
}

// kill ends all that is left of the group, and the program, should it have left it.
func (g *processGroup) kill() error {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	if g.reaped {
		return os.ErrProcessDone
	}
	_ = unix.Kill(-g.cmd.Process.Pid, unix.SIGKILL) // of which there may be none
	return g.cmd.Process.Kill()
}

// end waits until the program has ended, without taking its number from it, and then ends what it left behind.
func (g *processGroup) end() {
	for errors.Is(unix.Waitid(unix.P_PID, g.cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
	}
	_ = g.kill()
	g.mutex.Lock()
	defer g.mutex.Unlock()
	g.reaped = true
}

// reap waits for what the program left behind, and was killed with its group. In a container the fencer is the first process, to which all of that falls: what nobody waits for
// stays in the kernel's list, one for each attempt at a machine that hangs, until there is no room for another process. Elsewhere it is no child of the fencer's, and there is
// nothing to wait for.
func (g *processGroup) reap() {
	for end := time.Now().Add(outputGrace); time.Now().Before(end); {
		switch pid, err := unix.Wait4(-g.cmd.Process.Pid, nil, unix.WNOHANG, nil); {
		case err != nil && !errors.Is(err, unix.EINTR):
			return
		case pid == 0:
			time.Sleep(outputGrace / 100)
		}
	}
}

// bounded keeps the beginning of what is written to it, and takes the rest, so that the writer is not held up.
type bounded struct {
	kept   []byte
	cutOff bool
}

// Write keeps what there is room for.
func (b *bounded) Write(p []byte) (int, error) {
	room := min(maxOutput-len(b.kept), len(p))
	b.kept = append(b.kept, p[:room]...)
	b.cutOff = b.cutOff || room < len(p)
	return len(p), nil
}
