package terminate_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podgrace/podgrace/nodeenforcer/cgroup"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup/ledger"
	"github.com/podgrace/podgrace/nodeenforcer/eviction"
	"github.com/podgrace/podgrace/nodeenforcer/terminate"
)

// node is a fake of all that a Terminator touches: an API server, cgroups, processes. Its lock makes each call one step.
type node struct {
	mu    sync.Mutex
	start time.Time
	// groups are cgroups by path: their own processes. A pod's cgroup has none of its own.
	groups map[string][]int
	files  map[string]map[string]string
	adj    map[int]int
	// frozen pods, and signals that wait in them, by process.
	frozen  map[string]bool
	pending map[int]unix.Signal
	// freeze and thaw fail with these, and were done or not.
	noFreeze, noThaw error
	halfway          bool
	pids             int
	// stubborn: containers outlive their signal.
	stubborn bool
	// answer is the API server's; nil: it is away.
	answer func(what string, pod terminate.Ref) terminate.Answer
	// writes are refused with this; unwritten: and not done.
	refuse    error
	unwritten bool
	// pinned is called when a process was pinned, before it is asked whose it is.
	pinned func()
	// left is how many more changes reach the node and the ledger, for an agent that dies; negative: all.
	left int

	ledger map[ledger.Key]ledger.Entry
	log    []string
}

func newNode() *node {
	return &node{
		start: time.Now(), groups: map[string][]int{}, files: map[string]map[string]string{}, adj: map[int]int{},
		ledger: map[ledger.Key]ledger.Entry{}, left: -1, frozen: map[string]bool{}, pending: map[int]unix.Signal{},
	}
}

func (n *node) terminator() *terminate.Terminator {
	return terminate.New(terminate.Config{API: n, Cgroups: n, Processes: (*processes)(n), Ledger: (*notes)(n), Recorder: n, Clock: clock.RealClock{}, Limits: terminate.DefaultLimits()})
}

func (n *node) note(format string, args ...any) {
	n.log = append(n.log, fmt.Sprintf("%s %s", time.Since(n.start).Round(time.Millisecond), fmt.Sprintf(format, args...)))
}

// logged returns the lines so far, and forgets them.
func (n *node) logged() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	log := n.log
	n.log = nil
	return log
}

// pod makes a pod with a sandbox and a running container.
func (n *node) pod(uid string) terminate.Request {
	n.mu.Lock()
	defer n.mu.Unlock()
	dir := "/kubepods/burstable/pod" + uid
	n.groups[dir] = nil
	n.files[dir] = map[string]string{"memory.high": "max", "memory.current": "4096"}
	n.run(dir+"/sandbox"+uid, -998)
	n.run(dir+"/main"+uid, 900)
	return terminate.Request{
		Path: dir, Kind: eviction.Hard, GraceSeconds: 1, Contain: true, Message: "memory is short",
		Pod: &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pod-" + uid, UID: types.UID(uid)},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Lifecycle: &corev1.Lifecycle{StopSignal: new(corev1.SIGINT)}}}},
			Status:     corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "main", ContainerID: "containerd://main" + uid}}},
		},
	}
}

func (n *node) run(dir string, adj int) {
	n.pids++
	n.groups[dir], n.adj[n.pids] = []int{n.pids}, adj
}

// restart is the kubelet's: another container, with an id that no status has yet.
func (n *node) restart(r *terminate.Request, id string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.run(r.Path+"/"+id, 900)
}

// gone ends a pod as the kubelet does.
func (n *node) gone(dir string) {
	maps.DeleteFunc(n.groups, func(p string, _ []int) bool { return p == dir || strings.HasPrefix(p, dir+"/") })
	delete(n.files, dir)
}

func (n *node) high(r *terminate.Request) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.files[r.Path]["memory.high"]
}

// alive says that the agent has not died yet.
func (n *node) alive() bool {
	if n.left > 0 {
		n.left--
		return true
	}
	return n.left < 0
}

func (n *node) Evict(_ context.Context, pod terminate.Ref, grace int64) terminate.Answer {
	return n.ask("evict", pod, grace)
}

func (n *node) Delete(_ context.Context, pod terminate.Ref, grace int64) terminate.Answer {
	return n.ask("delete", pod, grace)
}

func (n *node) ask(what string, pod terminate.Ref, grace int64) terminate.Answer {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.answer == nil {
		return terminate.Offline{}.Delete(context.Background(), pod, grace)
	}
	n.note("%s %s %d", what, pod.UID, grace)
	return n.answer(what, pod)
}

func (n *node) Mark(_ context.Context, pod terminate.Ref, message string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.answer == nil {
		return errors.New("away")
	}
	n.note("mark %s: %s", pod.UID, message)
	return nil
}

func (n *node) Read(dir string, files ...string) (map[string]string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, ok := n.groups[dir]; !ok {
		return nil, cgroup.ErrGone
	}
	got := map[string]string{}
	for _, f := range files {
		if value, ok := n.files[dir][f]; ok {
			got[f] = value
		}
	}
	return got, nil
}

func (n *node) Write(_ context.Context, dir string, files []cgroup.File) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, ok := n.groups[dir]; !ok {
		return 0, cgroup.ErrGone
	}
	if !n.alive() {
		return 0, nil
	}
	if n.refuse != nil && n.unwritten {
		return 0, n.refuse
	}
	for _, f := range files {
		n.files[dir][f.Name] = f.Value
	}
	return len(files), n.refuse
}

func (n *node) Children(dir string) ([]string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, ok := n.groups[dir]; !ok {
		return nil, cgroup.ErrGone
	}
	var children []string
	for p := range n.groups {
		if path.Dir(p) == dir {
			children = append(children, path.Base(p))
		}
	}
	slices.Sort(children)
	return children, nil
}

func (n *node) Processes(dir string) (pids []int, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, ok := n.groups[dir]; !ok {
		return nil, cgroup.ErrGone
	}
	for p, own := range n.groups {
		if p == dir || strings.HasPrefix(p, dir+"/") {
			pids = append(pids, own...)
		}
	}
	return pids, nil
}

func (n *node) Kill(_ context.Context, dir string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, ok := n.groups[dir]; !ok {
		return cgroup.ErrGone
	}
	n.note("kill %s", path.Base(dir))
	delete(n.groups, dir)
	return nil
}

func (n *node) Freeze(_ context.Context, dir string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, ok := n.groups[dir]; !ok {
		return cgroup.ErrGone
	}
	if n.noFreeze != nil && !n.halfway {
		return n.noFreeze
	}
	if n.alive() {
		n.note("freeze")
		n.frozen[dir] = true
	}
	return n.noFreeze
}

func (n *node) Thaw(_ context.Context, dir string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, ok := n.groups[dir]; !ok {
		return cgroup.ErrGone
	}
	if n.noThaw != nil {
		return n.noThaw
	}
	if n.alive() {
		n.note("thaw")
		delete(n.frozen, dir)
	}
	return nil
}

func (n *node) Record(pod terminate.Ref, r terminate.Record) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.note("%s: %s", pod.UID, r.Step)
}

type processes node

func (p *processes) Signal(pid int, signal unix.Signal, member func() (bool, error)) error {
	p.mu.Lock()
	pinned := p.pinned
	p.mu.Unlock()
	if pinned != nil {
		pinned()
	}
	if ok, err := member(); err != nil || !ok {
		return errors.Join(err, terminate.ErrNoProcess)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	(*node)(p).note("%s to %d", unix.SignalName(signal), pid)
	if !p.stubborn {
		maps.DeleteFunc(p.groups, func(_ string, pids []int) bool { return slices.Contains(pids, pid) })
	}
	return nil
}

func (p *processes) Stat(pid int) (terminate.Stat, error) {
	return terminate.Stat{Started: uint64(pid)}, nil
}

func (p *processes) OOMScoreAdj(pid int) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.adj[pid], nil
}

func (p *processes) Pending(pid int) (uint64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.pending[pid]; s != 0 {
		return 1 << (s - 1), nil
	}
	return 0, nil
}

type notes node

func (l *notes) Put(entries ...ledger.Entry) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if (*node)(l).alive() {
		for _, e := range entries {
			l.ledger[e.Key] = e
		}
	}
	return nil
}

func (l *notes) Drop(keys ...ledger.Key) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if (*node)(l).alive() {
		for _, key := range keys {
			delete(l.ledger, key)
		}
	}
	return nil
}

func (l *notes) All() ([]ledger.Entry, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Values(l.ledger)), nil
}

// running runs a terminator until the test calls stop, which returns when all is over. A goroutine that is left then fails the
// bubble of the test.
func running(t *testing.T, n *node) (*terminate.Terminator, func()) {
	t.Helper()
	term := n.terminator()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- term.Run(ctx) }()
	return term, func() {
		t.Helper()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}
