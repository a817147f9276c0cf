package terminate

import (
	"context"
	"errors"
	"slices"
	"time"

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

// sight is what is known of the victim's processes.
type sight struct {
	inFlight bool
	// at is when the next look is due.
	at time.Duration
	// seen: at least one look succeeded. blind: the last one failed.
	seen, blind bool
	podGone     bool
	// full: a container was seen with a process since StepEmpty was reported.
	full bool
}

// look reads the victim's cgroups again and again. While a budget forbids the eviction they don't matter.
func (s *State) look(now time.Duration) []Action {
	switch {
	case s.phase != active || s.sight.inFlight:
		return nil
	case now < s.sight.at:
		s.wakeAt(s.sight.at)
		return nil
	}
	s.sight.inFlight = true
	return []Action{Look{}}
}

func (e Saw) learn(s *State, now time.Duration) (actions []Action) {
	v := &s.sight
	v.inFlight, s.holding.due = false, true
	v.at = now + s.limits.lookEvery(now-s.began)
	if e.Err != nil {
		if !v.blind {
			actions = append(actions, s.report(now, Record{Step: StepBlind, Err: e.Err}))
		}
		v.blind = true
		return actions
	}
	v.seen, v.blind, v.podGone = true, false, e.PodGone
	s.local.containers = slices.DeleteFunc(s.local.containers, func(c container) bool {
		return !slices.ContainsFunc(e.Containers, func(seen Seen) bool { return seen.ID == c.id })
	})
	for _, seen := range e.Containers {
		if !slices.ContainsFunc(s.local.containers, func(c container) bool { return c.id == seen.ID }) {
			actions = append(actions, s.appear(seen, now)...)
		}
	}
	return append(actions, s.emptied(now)...)
}

// emptied reports, once, that no container has a process any more.
func (s *State) emptied(now time.Duration) []Action {
	if len(s.local.containers) > 0 {
		s.sight.full = true
		return nil
	}
	if !s.sight.full || !s.dying && !s.local.begun {
		return nil
	}
	s.sight.full = false
	return []Action{s.report(now, Record{Step: StepEmpty})}
}
