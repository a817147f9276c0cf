package evictor

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podgrace/podgrace/nodeenforcer/cgroup"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgrouptest"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup/ledger"
	"github.com/podgrace/podgrace/nodeenforcer/terminate"
)

// simulatedNode is a node of 8 GiB: a kernel, a kubelet and an API server, each of any mood, and pods that do what they like. Enforcers come and go on it. Time is that of the
// test's bubble.
type simulatedNode struct {
	mu     sync.Mutex
	kernel *cgrouptest.Fake
	pods   []*simulatedPod
	pids   int
	host   int64 // bytes of memory that no pod uses
	ledger *ledger.Ledger

	api struct {
		mood    string
		latency time.Duration
	}
	kubelet string // its mood
	// writes to cgroups and to the ledger: fine, slow, or refused.
	writes string
	// broken is what nobody may ever do, and was done.
	broken []string
	// troubled is when a write last failed, or could have, or an enforcer began.
	troubled time.Time
	// hungAt is when the kubelet last hung.
	hungAt time.Time
}

// The moods. With lost the request is done and the answer never comes; with hang neither.
var (
	apiMoods     = []string{"fine", "fine", "fine", "away", "hang", "lost", "forbidden", "unauthorized", "conflict", "busy", "budget"}
	kubeletMoods = []string{"fine", "fine", "hangs", "restarts"}
	writeMoods   = []string{"fine", "fine", "fine", "slow", "refused", "no freezer", "no notes"}
)

// simulatedPod has a sandbox and a container, whose cgroup is as the pod's own.
type simulatedPod struct {
	pod     *corev1.Pod
	path    string
	main    int // its process, and by its number the container: one that is restarted has another id
	usage   int64
	grew    time.Time // when it last did, or was started
	grows   int64     // bytes a second
	obeys   bool      // ends when it gets its stop signal
	running bool
	gone    bool      // its object is
	planned time.Time // from when on its cgroup is known
	// hook is how long its preStop hook takes; 0: it has none.
	hook time.Duration

	deleted           time.Time // by whomever
	grace             int64
	hookAt, signalled time.Time // by the kubelet, or by an enforcer
	pending           bool      // a signal is not handled yet
	killed            bool      // so is SIGKILL, which nothing holds up
	frozenAt          time.Time
	diedAt            time.Time
	// byEnforcer is what the present enforcer did and heard.
	byEnforcer struct {
		asked, signalled time.Time
		hard             bool
		verdict          *terminate.Verdict
		accepted         bool
	}
}

// container is the name of the container's cgroup.
func (p *simulatedPod) container() string { return fmt.Sprint("main", p.main, p.pod.UID) }

func (n *simulatedNode) now() time.Time { return time.Now() }

func (n *simulatedNode) breaks(format string, args ...any) {
	n.broken = append(n.broken, fmt.Sprintf(format, args...))
}

// start makes a pod.
func (n *simulatedNode) start(name string, priority int32, request, usage, grows int64, obeys bool, hook time.Duration) {
	p := &simulatedPod{pod: victim(name, priority), usage: usage, grew: n.now(), grows: grows, obeys: obeys, running: true, hook: hook}
	p.pod.UID = types.UID(fmt.Sprintf("%s-%d", name, n.pids))
	c := &p.pod.Spec.Containers[0]
	if request > 0 {
		c.Resources.Requests = corev1.ResourceList{corev1.ResourceMemory: *resource.NewQuantity(request, resource.BinarySI)}
	}
	if hook > 0 {
		c.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"drain"}}}}
	}
	p.path = "/kubepods/pod" + string(p.pod.UID)
	n.pids += 2
	p.main = n.pids
	p.pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", ContainerID: "containerd://" + p.container()}}
	n.kernel.Add(p.path, map[string]string{"memory.high": "max"})
	n.kernel.Add(p.path+"/sandbox"+string(p.pod.UID), nil, p.main-1)
	n.kernel.Add(p.path+"/"+p.container(), nil, p.main)
	n.kernel.SetUsage(p.path, usage, 0, 2)
	n.pods = append(n.pods, p)
}

func (n *simulatedNode) byUID(uid types.UID) *simulatedPod {
	for _, p := range n.pods {
		if p.pod.UID == uid && !p.gone {
			return p
		}
	}
	return nil
}

func (n *simulatedNode) byPath(at string) *simulatedPod {
	for _, p := range n.pods {
		if !p.gone && (at == p.path || strings.HasPrefix(at, p.path+"/")) {
			return p
		}
	}
	return nil
}

// remove deletes a pod's object as the API server does: the shorter grace period holds.
func (n *simulatedNode) remove(p *simulatedPod, grace int64) {
	ends := n.now().Add(time.Duration(grace) * time.Second)
	if p.deleted.IsZero() {
		p.deleted, p.grace = n.now(), grace
	}
	if at := p.pod.DeletionTimestamp; at == nil || ends.Before(at.Time) {
		p.pod.DeletionTimestamp, p.pod.DeletionGracePeriodSeconds, p.grace = new(metav1.NewTime(ends)), new(grace), min(p.grace, grace)
	}
}

// pass lets a moment pass: pods grow, the kubelet stops them, and they end.
func (n *simulatedNode) pass(moment time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.kubelet == "hangs" {
		n.hungAt = n.now()
	}
	if n.writes != "fine" {
		n.troubled = n.now()
	}
	for _, p := range n.pods {
		if p.gone {
			continue
		}
		frozen := n.kernel.Frozen(p.path)
		if !frozen {
			p.frozenAt = time.Time{}
		}
		if p.killed {
			n.die(p)
		}
		if p.running && !frozen {
			n.grow(p, moment)
			n.handle(p)
		}
		n.stop(p)
		if n.kubelet == "restarts" && !p.running && p.deleted.IsZero() {
			n.restart(p)
		}
	}
}

// grow is the tenant and the kernel: who is contained grows no further.
func (n *simulatedNode) grow(p *simulatedPod, moment time.Duration) {
	to := max(p.usage+int64(moment.Seconds()*float64(p.grows)), 4096)
	if high, _ := n.kernel.Get(p.path, "memory.high"); high != "max" {
		limit := int64(0)
		_, _ = fmt.Sscan(high, &limit)
		to = min(to, max(limit, p.usage))
	}
	if to > p.usage {
		p.grew = n.now()
	}
	p.usage = to
	n.kernel.SetUsage(p.path, p.usage, 0, 2)
}

// handle handles a signal.
func (n *simulatedNode) handle(p *simulatedPod) {
	if !p.pending {
		return
	}
	p.pending = false
	if p.obeys {
		n.die(p)
	}
}

func (n *simulatedNode) die(p *simulatedPod) {
	p.killed = false
	if !p.running {
		return
	}
	p.running, p.usage, p.diedAt, p.pending = false, 4096, n.now(), false // the sandbox's
	n.kernel.Remove(p.path + "/" + p.container())
	n.kernel.SetUsage(p.path, p.usage, 0, 1)
}

// restart is the kubelet's: the container runs again, at the size that it had.
func (n *simulatedNode) restart(p *simulatedPod) {
	n.pids++
	p.running, p.main, p.usage = true, n.pids, 64<<20
	p.signalled, p.byEnforcer.signalled = time.Time{}, time.Time{}
	p.pod.Status.ContainerStatuses[0].ContainerID = "containerd://" + p.container()
	n.kernel.Add(p.path+"/"+p.container(), nil, p.main)
	n.kernel.SetUsage(p.path, p.usage, 0, 2)
}

// stop is the kubelet's work on a pod that was deleted: the hook, the stop signal, SIGKILL, and then the object.
func (n *simulatedNode) stop(p *simulatedPod) {
	const latency = 100 * time.Millisecond
	now := n.now()
	if p.deleted.IsZero() || n.kubelet == "hangs" || now.Sub(p.deleted) < latency {
		return
	}
	if !p.running {
		if now.Sub(p.diedAt) >= latency {
			n.kernel.Remove(p.path)
			p.gone = true
		}
		return
	}
	if p.hookAt.IsZero() {
		p.hookAt = now
		if p.hook > 0 && n.kernel.Frozen(p.path) {
			n.breaks("%s is frozen, and its hook begins", p.pod.Name)
		}
	}
	hook := min(p.hook, time.Duration(p.grace)*time.Second)
	if p.signalled.IsZero() && now.Sub(p.hookAt) >= hook {
		p.signalled, p.pending = now, true
	}
	least := max(time.Duration(p.grace)*time.Second-hook, 2*time.Second)
	if !p.signalled.IsZero() && now.Sub(p.signalled) >= least {
		n.die(p)
	}
}

// frozenTooLong says which pods have been frozen for longer than anybody needs, or while they are being stopped.
func (n *simulatedNode) frozenTooLong() {
	n.mu.Lock()
	defer n.mu.Unlock()
	limits := terminate.DefaultLimits()
	const slack = 300 * time.Millisecond
	for _, p := range n.pods {
		if p.gone || p.frozenAt.IsZero() || !n.kernel.Frozen(p.path) || n.now().Sub(n.troubled) < recoverPause+2*time.Second {
			continue
		}
		if d := n.now().Sub(p.frozenAt); d > limits.Frozen+slack {
			n.breaks("%s has been frozen for %s", p.pod.Name, d)
		}
		if p.signalled.After(p.frozenAt) && p.running && n.now().Sub(p.signalled) > slack && n.now().Sub(p.frozenAt) > slack {
			n.breaks("%s is frozen, and was signalled %s ago", p.pod.Name, n.now().Sub(p.signalled))
		}
	}
}

// hands are what one enforcer has of the node. Once it is dead it can do no more.
type hands struct {
	*simulatedNode
	dead bool
}

var errDead = errors.New("the enforcer is dead")

// Evict is for terminate.API.
func (h *hands) Evict(ctx context.Context, ref terminate.Ref, grace int64) terminate.Answer {
	return h.answer(ctx, ref, grace, true)
}

// Delete is for terminate.API.
func (h *hands) Delete(ctx context.Context, ref terminate.Ref, grace int64) terminate.Answer {
	return h.answer(ctx, ref, grace, false)
}

// Mark is for terminate.API.
func (h *hands) Mark(context.Context, terminate.Ref, string) error { return nil }

func (h *hands) answer(ctx context.Context, ref terminate.Ref, grace int64, soft bool) (a terminate.Answer) {
	h.mu.Lock()
	mood, latency := h.api.mood, h.api.latency
	h.mu.Unlock()
	select {
	case <-time.After(latency):
	case <-ctx.Done():
		return terminate.Answer{Verdict: terminate.Unknown, Err: ctx.Err()}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.dead {
		return terminate.Answer{Verdict: terminate.Unknown, Err: errDead}
	}
	p := h.byUID(ref.UID)
	said := func(v terminate.Verdict, again time.Duration) terminate.Answer {
		if p != nil {
			p.byEnforcer.verdict = &v
			p.byEnforcer.accepted = p.byEnforcer.accepted || v == terminate.Accepted
		}
		a := terminate.Answer{Verdict: v, RetryAfter: again, Online: v != terminate.Failed && v != terminate.Unknown}
		if v != terminate.Accepted {
			a.Err = errors.New(mood)
		}
		return a
	}
	switch {
	case mood == "away":
		return said(terminate.Failed, 0)
	case mood == "hang" || mood == "lost":
		if mood == "lost" && p != nil {
			h.remove(p, grace)
		}
		said(terminate.Unknown, 0)
		h.mu.Unlock()
		<-ctx.Done()
		h.mu.Lock()
		return terminate.Answer{Verdict: terminate.Unknown, Err: ctx.Err()}
	case p == nil:
		return said(terminate.Gone, 0)
	case mood == "forbidden" || mood == "unauthorized" || mood == "conflict":
		return said(terminate.Refused, 0)
	case mood == "busy":
		return said(terminate.Busy, time.Second)
	case mood == "budget" && soft:
		return said(terminate.Budget, 0)
	}
	h.remove(p, grace)
	return said(terminate.Accepted, 0)
}

// write is before each write: what the kernel's mood does to it.
func (h *hands) write(file string) error {
	h.mu.Lock()
	mood := h.writes
	h.mu.Unlock()
	switch {
	case mood == "slow":
		time.Sleep(700 * time.Millisecond)
	case mood == "refused", mood == "no freezer" && file == "cgroup.freeze":
		return unix.EBUSY
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.dead {
		return errDead
	}
	return nil
}

// Read is for terminate.Cgroups.
func (h *hands) Read(at string, files ...string) (map[string]string, error) {
	return h.kernel.Read(at, files...)
}

// Write is for terminate.Cgroups.
func (h *hands) Write(ctx context.Context, at string, files []cgroup.File) (int, error) {
	if err := h.write(files[0].Name); err != nil {
		return 0, err
	}
	return h.kernel.Write(ctx, at, files)
}

// Children is for terminate.Cgroups.
func (h *hands) Children(at string) ([]string, error) { return h.kernel.Children(at) }

// Processes is for terminate.Cgroups.
func (h *hands) Processes(at string) ([]int, error) { return h.kernel.Processes(at) }

// Freeze is for terminate.Cgroups.
func (h *hands) Freeze(ctx context.Context, at string) error {
	h.mu.Lock()
	sees := h.writes != "slow" && h.api.mood != "away" && h.api.mood != "hang" // else it can't know who is being stopped by then
	h.mu.Unlock()
	if err := h.write("cgroup.freeze"); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.byPath(at)
	if p == nil {
		return cgroup.ErrGone
	}
	if !p.hookAt.IsZero() && sees || p.hook > 0 {
		h.breaks("%s is frozen while it is being stopped, or has a hook of %s", p.pod.Name, p.hook)
	}
	if p.frozenAt.IsZero() {
		p.frozenAt = h.now()
	}
	return h.kernel.Freeze(context.WithoutCancel(ctx), at)
}

// Thaw is for terminate.Cgroups.
func (h *hands) Thaw(ctx context.Context, at string) error {
	if err := h.write("cgroup.freeze"); err != nil {
		return err
	}
	return h.kernel.Thaw(context.WithoutCancel(ctx), at)
}

// Kill is for terminate.Cgroups. What is promised is held against when the container was signalled, and against what was known when the write began: a slow one is not called back.
func (h *hands) Kill(_ context.Context, at string) error {
	h.mu.Lock()
	if p := h.byPath(at); p != nil && p.running && path.Base(at) == p.container() {
		h.touches(p, "kills")
	}
	h.mu.Unlock()
	if err := h.write("cgroup.kill"); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.byPath(at)
	if p == nil || !p.running || path.Base(at) != p.container() {
		return cgroup.ErrGone
	}
	if since := h.now().Sub(p.byEnforcer.signalled); p.byEnforcer.signalled.IsZero() || since < 2*time.Second {
		h.breaks("%s is killed %s after its signal", p.pod.Name, since)
	}
	p.killed = true
	return nil
}

// touches is what nobody may do by himself to a pod for a soft eviction, or when the API server forbids it.
func (h *hands) touches(p *simulatedPod, doing string) {
	by := &p.byEnforcer
	if !by.hard {
		h.breaks("the enforcer %s %s, which it never asked to end hard", doing, p.pod.Name)
	}
	if by.verdict != nil && *by.verdict == terminate.Refused && !by.accepted && p.deleted.IsZero() {
		h.breaks("the enforcer %s %s, which the API server forbade", doing, p.pod.Name)
	}
}

// Signal is for terminate.Processes.
func (h *hands) Signal(pid int, _ unix.Signal, member func() (bool, error)) error {
	if ok, err := member(); err != nil || !ok {
		return errors.Join(err, terminate.ErrNoProcess)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.dead {
		return errDead
	}
	for _, p := range h.pods {
		if p.main == pid && p.running {
			h.touches(p, "signals")
			p.pending, p.byEnforcer.signalled = true, h.now()
			return nil
		}
	}
	return terminate.ErrNoProcess
}

// Stat is for terminate.Processes.
func (h *hands) Stat(pid int) (terminate.Stat, error) {
	return terminate.Stat{Started: uint64(pid)}, nil
}

// OOMScoreAdj is for terminate.Processes.
func (h *hands) OOMScoreAdj(pid int) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range h.pods {
		if p.main == pid {
			return 900, nil
		}
	}
	return -998, nil
}

// Pending is for terminate.Processes.
func (h *hands) Pending(pid int) (uint64, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range h.pods {
		if p.main == pid && p.pending {
			return 1 << (unix.SIGTERM - 1), nil
		}
	}
	return 0, nil
}

// Put is for terminate.Ledger.
func (h *hands) Put(entries ...ledger.Entry) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.noNotes(); err != nil {
		return err
	}
	return h.ledger.Put(entries...)
}

// noNotes is why nothing can be noted, if so.
func (h *hands) noNotes() error {
	switch {
	case h.dead:
		return errDead
	case h.writes == "no notes":
		return unix.ENOSPC
	}
	return nil
}

// Drop is for terminate.Ledger.
func (h *hands) Drop(keys ...ledger.Key) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.noNotes(); err != nil {
		return err
	}
	return h.ledger.Drop(keys...)
}

// All is for terminate.Ledger.
func (h *hands) All() ([]ledger.Entry, error) { return h.ledger.All() }

// Record is for terminate.Recorder.
func (h *hands) Record(terminate.Ref, terminate.Record) {}
