package terminate

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/clock"

	"github.com/podgrace/podgrace/nodeenforcer/cgroup"
	"github.com/podgrace/podgrace/nodeenforcer/eviction"
)

// victim performs the actions of one State.
type victim struct {
	t    *Terminator
	ref  Ref
	path string

	mu      sync.Mutex
	state   State
	members map[string]member
	// mains are the main processes of its containers, of a frozen pod.
	mains   []int
	message string
	timer   clock.Timer
}

// meet takes the pod's containers and the message from a request.
func (v *victim) meet(r *Request) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.members == nil {
		v.members = map[string]member{}
	}
	maps.Copy(v.members, members(r.Pod))
	v.message = r.Message
}

func (v *victim) known(id string) (member, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	m, ok := v.members[id]
	return m, ok
}

// step takes an event and begins the actions that follow. false: the victim had finished before.
func (v *victim) step(e Event) bool {
	v.mu.Lock()
	if v.state.Finished() {
		v.mu.Unlock()
		return false
	}
	if v.timer != nil {
		v.timer.Stop()
	}
	now := v.t.now()
	state, actions := Next(v.state, now, e)
	v.state = state
	for _, a := range actions {
		v.begin(a)
	}
	if at, ok := state.Wake(); ok && !state.Finished() {
		v.timer = v.t.clock.AfterFunc(max(at-now, 0), func() { v.step(Tick{}) })
	}
	v.mu.Unlock()
	if state.Finished() {
		v.t.forget(v)
	}
	return true
}

// begin performs an action concurrently with all others; reports are made in order.
func (v *victim) begin(a Action) {
	if r, ok := a.(Report); ok {
		v.t.recorder.Record(v.ref, r.Record)
		return
	}
	v.t.running.Go(func() {
		if e := v.run(a); e != nil {
			v.step(e)
		}
	})
}

// run performs an action and returns its result. Only requests to the API server are cancelled when the Terminator stops: the rest is quick,
// and its result must be known.
func (v *victim) run(a Action) Event {
	ctx := context.WithoutCancel(v.t.requests)
	switch a := a.(type) {
	case Evict:
		return v.evict(a)
	case Delete:
		return v.remove(a)
	case Contain:
		return v.containPod(ctx, a.Room)
	case Freeze:
		return v.freeze(ctx)
	case Peek:
		return v.peek()
	case Thaw:
		return Thawed{Err: v.thaw(ctx)}
	case Loosen:
		return v.loosen(ctx, a)
	case Restore:
		return Restored{Err: v.t.undo(ctx, v.entry(a.Was, a.Wrote, ""))}
	case Forget:
		// An entry too many does no harm: Recover finds no such cgroup, and drops it.
		_ = v.t.ledger.Drop(v.entry("", "", "").Key)
	case Look:
		return v.see()
	case Term:
		return v.term(a)
	case Kill:
		err := v.t.cgroups.Kill(ctx, v.path+"/"+a.ID)
		if errors.Is(err, cgroup.ErrGone) {
			return Killed{ID: a.ID, Gone: true}
		}
		return Killed{ID: a.ID, Err: err}
	}
	return nil
}

func (v *victim) term(a Term) Event {
	err := v.signal(a.ID)
	if errors.Is(err, ErrNoProcess) || errors.Is(err, cgroup.ErrGone) {
		return Termed{ID: a.ID, Gone: true}
	}
	return Termed{ID: a.ID, Err: err}
}

func (v *victim) evict(a Evict) Event {
	ctx, cancel := context.WithTimeout(v.t.requests, v.t.limits.SoftCall)
	defer cancel()
	return Answered{Call: a.Call, Answer: v.t.api.Evict(ctx, v.ref, a.GraceSeconds)}
}

func (v *victim) remove(a Delete) Event {
	ctx, cancel := context.WithTimeout(v.t.requests, v.t.limits.HardCall)
	defer cancel()
	var unmarked error
	if a.Mark {
		unmarked = v.mark(ctx)
	}
	return Answered{Call: a.Call, Answer: v.t.api.Delete(ctx, v.ref, a.GraceSeconds), Unmarked: unmarked}
}

// mark sets the condition DisruptionTarget, as best effort: without it a Job counts the pod as failed.
func (v *victim) mark(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, v.t.limits.Mark)
	defer cancel()
	v.mu.Lock()
	message := v.message
	v.mu.Unlock()
	return v.t.api.Mark(ctx, v.ref, message)
}

func (v *victim) standing() (VictimStatus, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	s := &v.state
	st := VictimStatus{Pod: v.ref, Kind: s.kind, Path: v.path, Dying: s.committed()}
	if s.awaits() {
		st.Kind = eviction.Soft
	}
	st.Ended = st.Dying && s.sight.seen && !s.sight.blind && len(s.local.containers) == 0
	st.Stopping = s.stopping(v.t.now())
	st.Contained = slices.Contains([]holdStage{containing, held, loosening, restoring}, s.holding.stage)
	if s.phase == refused {
		st.Refused, st.RefusedFor = true, max(s.refusal.until-v.t.now(), 0)
	}
	return st, s.phase != finished && s.phase != fresh
}

// sandboxOOMScoreAdj is what runtimes give a sandbox, and no container has (containerd internal/cri/server/podsandbox,
// defaultSandboxOOMAdj; CRI-O PodInfraOOMAdj). The kubelet's own values end at -997 (pkg/kubelet/qos/policy.go, 1.36.3).
const sandboxOOMScoreAdj = -998

// see observes which containers of the pod have processes.
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

// seeContainer observes one cgroup below the pod's. One that the pod's status does not name is the sandbox's, or that of a container which
// was started since.
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
	m, ok := v.known(id)
	if !ok && v.isSandbox(pids) {
		return Seen{}, false, nil
	}
	return Seen{ID: child, Order: m.order}, true, nil
}

// isSandbox judges by the main process. If that can't be read the cgroup counts as a sandbox's, until the next observation.
func (v *victim) isSandbox(pids []int) bool {
	pid, ok := v.mainProcess(pids)
	if !ok {
		return true
	}
	adj, err := v.t.processes.OOMScoreAdj(pid)
	return err != nil || adj == sandboxOOMScoreAdj
}

// mainProcess is the process that the runtime started as the container. Its parent is outside of the cgroup, as that of a process which somebody
// had the runtime start there later (exec); so it is the oldest of these. Start times alone do not tell it from its children: they are in
// ticks of 10 ms, and ids begin again from the lowest.
func (v *victim) mainProcess(pids []int) (pid int, ok bool) {
	var first Stat
	all := sets.New(pids...)
	inside := func(s Stat) bool { return all.Has(s.Parent) }
	for _, other := range slices.Sorted(slices.Values(pids)) {
		stat, err := v.t.processes.Stat(other)
		if err != nil {
			continue
		}
		if !ok || !inside(stat) && inside(first) || inside(stat) == inside(first) && stat.Started < first.Started {
			pid, first, ok = other, stat, true
		}
	}
	return pid, ok
}

// signal sends a container's stop signal to its main process.
func (v *victim) signal(child string) error {
	path := v.path + "/" + child
	pids, err := v.t.cgroups.Processes(path)
	if err != nil {
		return err
	}
	pid, ok := v.mainProcess(pids)
	if !ok {
		return ErrNoProcess
	}
	m, ok := v.known(containerID(child))
	if !ok {
		m.signal = unix.SIGTERM
	}
	return v.t.processes.Signal(pid, m.signal, func() (bool, error) {
		now, err := v.t.cgroups.Processes(path)
		return slices.Contains(now, pid), err
	})
}
