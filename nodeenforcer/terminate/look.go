package terminate

import (
	"context"
	"errors"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/podgrace/podgrace/nodeenforcer/cgroup"
)

// Cgroups is the part of cgroup.Tree that is needed here. Under the systemd driver it should write memory.high as a plain file,
// not by D-Bus: the kernel makes the writer reclaim what is above the new limit, and that must not be PID 1.
type Cgroups interface {
	Read(path string, files ...string) (map[string]string, error)
	Write(ctx context.Context, path string, files []cgroup.File) (written int, err error)
	Children(path string) ([]string, error)
	Processes(path string) ([]int, error)
	Kill(ctx context.Context, path string) error
}

// sandboxOOMScoreAdj is what runtimes give a sandbox, and no container has (containerd internal/cri/server/podsandbox,
// defaultSandboxOOMAdj; CRI-O PodInfraOOMAdj). The kubelet's own values end at -997 (pkg/kubelet/qos/policy.go, 1.36.3).
const sandboxOOMScoreAdj = -998

// see reads which containers of the pod have processes.
func (v *victim) see() Saw {
	all, err := v.t.cgroups.Processes(v.path)
	if errors.Is(err, cgroup.ErrGone) || err == nil && len(all) == 0 {
		return Saw{PodGone: true}
	}
	if err != nil {
		return Saw{Err: err}
	}
	children, err := v.t.cgroups.Children(v.path)
	if errors.Is(err, cgroup.ErrGone) {
		return Saw{PodGone: true}
	}
	if err != nil {
		return Saw{Err: err}
	}
	var saw Saw
	for _, child := range children {
		seen, ok, err := v.seeContainer(child)
		if err != nil {
			return Saw{Err: err}
		}
		if ok {
			saw.Containers = append(saw.Containers, seen)
		}
	}
	return saw
}

// seeContainer looks at one cgroup below the pod's. What the pod's status does not name is a sandbox, or a container that was
// started since.
func (v *victim) seeContainer(child string) (seen Seen, ok bool, err error) {
	id := containerID(child)
	if id == "" {
		return Seen{}, false, nil
	}
	pids, err := v.t.cgroups.Processes(v.path + "/" + child)
	if errors.Is(err, cgroup.ErrGone) || err == nil && len(pids) == 0 {
		return Seen{}, false, nil
	}
	if err != nil {
		return Seen{}, false, err
	}
	m, known := v.known(id)
	if !known && v.isSandbox(pids) {
		return Seen{}, false, nil
	}
	return Seen{ID: child, Order: m.order}, true, nil
}

// isSandbox judges by the oldest process; what can't be read is taken for a sandbox, and looked at again.
func (v *victim) isSandbox(pids []int) bool {
	pid, ok := v.oldest(pids)
	if !ok {
		return true
	}
	adj, err := v.t.processes.OOMScoreAdj(pid)
	return err != nil || adj == sandboxOOMScoreAdj
}

// oldest is a container's main process: the runtime starts it before any other in its cgroup.
func (v *victim) oldest(pids []int) (oldest int, ok bool) {
	var first uint64
	for _, pid := range slices.Sorted(slices.Values(pids)) {
		started, err := v.t.processes.Started(pid)
		if err == nil && (!ok || started < first) {
			oldest, first, ok = pid, started, true
		}
	}
	return oldest, ok
}

// signal sends a container's stop signal to its main process.
func (v *victim) signal(child string) error {
	path := v.path + "/" + child
	pids, err := v.t.cgroups.Processes(path)
	if err != nil {
		return err
	}
	pid, ok := v.oldest(pids)
	if !ok {
		return ErrNoProcess
	}
	m, known := v.known(containerID(child))
	if !known {
		m.signal = unix.SIGTERM
	}
	return v.t.processes.Signal(pid, m.signal, func() (bool, error) {
		now, err := v.t.cgroups.Processes(path)
		return slices.Contains(now, pid), err
	})
}
