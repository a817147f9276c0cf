package terminate

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/podgrace/podgrace/internal/pod/graceperiod"
)

// ErrNoProcess means that a process is gone, or is not the one that was meant.
var ErrNoProcess = errors.New("no such process")

// Processes are those of the node, by their ids in the agent's own pid namespace.
type Processes interface {
	// Signal sends a signal to the process that has the id now, if member says so after the process was pinned: so an id that
	// is used again is never signalled. ErrNoProcess: there is none.
	Signal(pid int, signal unix.Signal, member func() (bool, error)) error
	// Stat is where a process comes from.
	Stat(pid int) (Stat, error)
	// OOMScoreAdj is the process's oom_score_adj.
	OOMScoreAdj(pid int) (int, error)
	// Pending are the signals that were sent to the process and that it has not handled yet: signal n is bit n-1.
	Pending(pid int) (uint64, error)
}

// Stat is where a process comes from.
type Stat struct {
	// Parent's id; 0: it has none that can be seen.
	Parent int
	// Started is when, since the machine's boot, in clock ticks.
	Started uint64
}

// Host are the processes below a /proc of the host's pid namespace, in which the agent must be, too. To signal a process of
// another user it needs CAP_KILL.
type Host struct{ Proc string }

// Signal pins the process with a pidfd.
func (Host) Signal(pid int, signal unix.Signal, member func() (bool, error)) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return fmt.Errorf("open process %d: %w", pid, noProcess(err))
	}
	defer unix.Close(fd) //nolint:errcheck // nothing was written
	ok, err := member()
	if err != nil {
		return err
	}
	if !ok {
		return fmt.Errorf("process %d left its cgroup: %w", pid, ErrNoProcess)
	}
	if err := unix.PidfdSendSignal(fd, signal, nil, 0); err != nil {
		return fmt.Errorf("send %s to process %d: %w", unix.SignalName(signal), pid, noProcess(err))
	}
	return nil
}

func noProcess(err error) error {
	if errors.Is(err, unix.ESRCH) {
		return ErrNoProcess
	}
	return err
}

// Stat reads fields 4 and 22 of /proc/pid/stat. The name in field 2 may hold anything, so fields are counted from its last parenthesis.
func (h Host) Stat(pid int) (Stat, error) {
	text, err := h.read(pid, "stat")
	if err != nil {
		return Stat{}, err
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	const parent, startTime = 4 - 3, 22 - 3 // what follows the parenthesis is field 3
	if len(fields) <= startTime {
		return Stat{}, fmt.Errorf("process %d: stat is cut short", pid)
	}
	var stat Stat
	if stat.Parent, err = strconv.Atoi(fields[parent]); err != nil {
		return Stat{}, fmt.Errorf("process %d: parent: %w", pid, err)
	}
	if stat.Started, err = strconv.ParseUint(fields[startTime], 10, 64); err != nil {
		return Stat{}, fmt.Errorf("process %d: start time: %w", pid, err)
	}
	return stat, nil
}

// OOMScoreAdj is /proc/pid/oom_score_adj.
func (h Host) OOMScoreAdj(pid int) (int, error) {
	text, err := h.read(pid, "oom_score_adj")
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0, fmt.Errorf("process %d: oom_score_adj: %w", pid, err)
	}
	return n, nil
}

// Pending is the line ShdPnd of /proc/pid/status: what was sent to the process, and not to one of its threads (fs/proc/array.c task_sig).
func (h Host) Pending(pid int) (uint64, error) {
	text, err := h.read(pid, "status")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		if name == "ShdPnd" {
			set, err := strconv.ParseUint(strings.TrimSpace(value), 16, 64)
			if err != nil {
				return 0, fmt.Errorf("process %d: pending signals: %w", pid, err)
			}
			return set, nil
		}
	}
	return 0, fmt.Errorf("process %d: status has no pending signals", pid)
}

func (h Host) read(pid int, file string) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(h.Proc, strconv.Itoa(pid), file))
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return nil, fmt.Errorf("process %d: %w", pid, ErrNoProcess)
	}
	return text, err
}

// signalNumber is the number of a signal by its Kubernetes name; SIGTERM where it is unknown. Real-time signals count from 34 up
// and from 64 down, as the runtimes do it.
func signalNumber(name corev1.Signal) unix.Signal {
	for prefix, number := range map[string]func(n int) int{
		"SIGRTMIN": func(n int) int { return 34 + n },
		"SIGRTMAX": func(n int) int { return 64 + n },
	} {
		rest, ok := strings.CutPrefix(string(name), prefix)
		if !ok {
			continue
		}
		if n, err := strconv.Atoi(rest); err == nil || rest == "" {
			return unix.Signal(number(n))
		}
	}
	if n := unix.SignalNum(string(name)); n != 0 {
		return n
	}
	return unix.SIGTERM
}

// member is what is known of one container of a pod.
type member struct {
	order  int
	signal unix.Signal
}

// members are the pod's containers by id, as its status has them: main, init and ephemeral ones.
func members(pod *corev1.Pod) map[string]member {
	known := map[string]member{}
	specs := map[string]member{}
	for i := range pod.Spec.Containers {
		specs[pod.Spec.Containers[i].Name] = member{signal: signalOf(&pod.Spec.Containers[i])}
	}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		m := member{signal: signalOf(c)}
		if graceperiod.IsSidecar(c) {
			m.order = len(pod.Spec.InitContainers) - i
		}
		specs[c.Name] = m
	}
	for _, list := range [][]corev1.ContainerStatus{pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses, pod.Status.EphemeralContainerStatuses} {
		for i := range list {
			m, ok := specs[list[i].Name]
			if !ok {
				m.signal = unix.SIGTERM
			}
			if list[i].StopSignal != nil {
				m.signal = signalNumber(*list[i].StopSignal)
			}
			if _, id, ok := strings.Cut(list[i].ContainerID, "://"); ok {
				known[id] = m
			}
		}
	}
	return known
}

func signalOf(c *corev1.Container) unix.Signal {
	if c.Lifecycle == nil || c.Lifecycle.StopSignal == nil {
		return unix.SIGTERM
	}
	return signalNumber(*c.Lifecycle.StopSignal)
}

// containerID is the id in the name of a container's cgroup (cri-containerd-ID.scope, crio-ID.scope, crio-ID, ID); empty for
// CRI-O's monitor of a container, which is none.
func containerID(cgroup string) string {
	name := strings.TrimSuffix(cgroup, ".scope")
	if strings.Contains(name, "conmon-") {
		return ""
	}
	return name[strings.LastIndexByte(name, '-')+1:]
}
