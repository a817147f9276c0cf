package terminate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podgrace/podgrace/nodeenforcer/cgroup"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup/ledger"
	"github.com/podgrace/podgrace/nodeenforcer/eviction"
)

// ErrStopped means that the Terminator has stopped and accepts no more requests.
var ErrStopped = errors.New("the terminator has stopped")

// Config is what a Terminator works with. All fields are required.
type Config struct {
	API       API
	Cgroups   Cgroups
	Processes Processes
	Ledger    Ledger
	Recorder  Recorder
	Clock     clock.WithDelayedExecution
	Limits    Limits
}

// Terminator terminates pods, each independently of the others. It is safe for concurrent use.
type Terminator struct {
	api       API
	cgroups   Cgroups
	processes Processes
	ledger    Ledger
	recorder  Recorder
	clock     clock.WithDelayedExecution
	limits    Limits
	// start is where the monotonic time of the states begins.
	start time.Time
	// requests is the context of requests to the API server; stop cancels it.
	requests context.Context
	stop     context.CancelFunc

	mu      sync.Mutex
	victims map[types.UID]*victim
	stopped bool
	// running are the actions in flight.
	running sync.WaitGroup
}

// New returns a Terminator.
func New(c Config) *Terminator {
	t := &Terminator{
		api: c.API, cgroups: c.Cgroups, processes: c.Processes, ledger: c.Ledger, recorder: c.Recorder,
		clock: c.Clock, limits: c.Limits, start: c.Clock.Now(), victims: map[types.UID]*victim{},
	}
	t.requests, t.stop = context.WithCancel(context.Background())
	return t
}

// Run waits until the context has ended and all actions are done; memory.high of pods that live on is restored then, and nothing stays frozen that can be thawed.
func (t *Terminator) Run(ctx context.Context) error {
	<-ctx.Done()
	t.mu.Lock()
	t.stopped = true
	victims := slices.Collect(maps.Values(t.victims))
	t.mu.Unlock()
	t.stop()
	for _, v := range victims {
		v.step(Stopped{})
	}
	t.running.Wait()
	entries, _ := t.ledger.All()
	for _, e := range entries {
		if e.File == fileFreeze {
			_ = t.undo(context.WithoutCancel(ctx), e) // the ledger has it: the next enforcer begins with it
		}
	}
	return nil
}

// Ask begins to terminate a pod, or tightens the request that it has. The same request again changes nothing. It does not wait.
func (t *Terminator) Ask(r Request) error {
	if err := r.validate(); err != nil {
		return err
	}
	for {
		v, err := t.victim(&r)
		if err != nil {
			return err
		}
		v.meet(&r)
		if v.step(r.asked()) {
			return nil
		}
		// It finished in between: begin again.
	}
}

func (t *Terminator) victim(r *Request) (*victim, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopped {
		return nil, ErrStopped
	}
	v, ok := t.victims[r.Pod.UID]
	if !ok {
		v = &victim{t: t, ref: refOf(r.Pod), path: r.Path, state: NewState(t.limits)}
		t.victims[r.Pod.UID] = v
	}
	return v, nil
}

// Removed tells that a pod's object is gone from the API server. Unknown pods are ignored.
func (t *Terminator) Removed(uid types.UID) { t.tell(uid, Removed{}) }

// Release withdraws a request, because the pressure is over: if the API server has not accepted the deletion, the pod is left alone and its
// memory.high restored, once a request that is on its way has its result. A deletion that was accepted goes on.
func (t *Terminator) Release(uid types.UID) { t.tell(uid, Released{}) }

func (t *Terminator) tell(uid types.UID, e Event) {
	t.mu.Lock()
	v, ok := t.victims[uid]
	t.mu.Unlock()
	if ok {
		v.step(e)
	}
}

// VictimStatus is how far the eviction of one victim has come.
type VictimStatus struct {
	Pod Ref
	// Kind is Soft also of a hard eviction that is withdrawn and waits for the result of a request: if it is to be hard it is asked for again.
	Kind eviction.Kind
	// Path of the pod's cgroup. Contained: its memory.high is lowered at present, and must not be repaired.
	Path      string
	Contained bool
	// Dying: the API server accepted the deletion, or there is none and its containers are being stopped.
	Dying bool
	// Ended: its termination has begun, and none of its containers has a process any more. The sandbox may have one for longer.
	Ended bool
	// Stopping: the local sequence is stopping its containers, and they may still end in time: it is worth waiting for their memory.
	Stopping bool
	// Refused by a disruption budget or the API server: nothing is done unless it is asked for again. RefusedFor is how long not to.
	Refused    bool
	RefusedFor time.Duration
}

// Victims lists them, by namespace and name.
func (t *Terminator) Victims() []VictimStatus {
	t.mu.Lock()
	victims := slices.Collect(maps.Values(t.victims))
	t.mu.Unlock()
	var list []VictimStatus
	for _, v := range victims {
		if s, ok := v.standing(); ok {
			list = append(list, s)
		}
	}
	slices.SortFunc(list, func(a, b VictimStatus) int { return strings.Compare(a.Pod.String(), b.Pod.String()) })
	return list
}

func (t *Terminator) now() time.Duration { return t.clock.Since(t.start) }

func (t *Terminator) forget(v *victim) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.victims[v.ref.UID] == v {
		delete(t.victims, v.ref.UID)
	}
}

// Cgroups is the part of cgroup.Tree that is needed here. Under the systemd driver it should write memory.high as a plain file,
// not by D-Bus: the kernel makes the writer reclaim what is above the new limit, and that must not be PID 1.
type Cgroups interface {
	Read(path string, files ...string) (map[string]string, error)
	Write(ctx context.Context, path string, files []cgroup.File) (written int, err error)
	Children(path string) ([]string, error)
	Processes(path string) ([]int, error)
	Kill(ctx context.Context, path string) error
	cgroup.Freezer
}

// Ledger keeps what memory.high was before it was written (ledger.Ledger).
type Ledger interface {
	Put(...ledger.Entry) error
	Drop(...ledger.Key) error
	All() ([]ledger.Entry, error)
}

// undo restores memory.high, unless somebody else has written it since, or thaws, and drops the entry.
func (t *Terminator) undo(ctx context.Context, e ledger.Entry) error {
	if e.File == fileFreeze {
		if err := t.thaw(ctx, e.Path); err != nil {
			return err // the note stays: it is what the next try goes by
		}
		return t.ledger.Drop(e.Key)
	}
	if _, err := e.Restore(ctx, t.cgroups, e.Was); err != nil && !errors.Is(err, cgroup.ErrGone) {
		return fmt.Errorf("restore %s of %s: %w", fileHigh, e.Path, err)
	}
	return t.ledger.Drop(e.Key)
}

// Recover restores memory.high of pods that were left contained: by an enforcer that was killed, or by this one where restoring failed. It is called
// again and again, by whoever calls Ask. A pod that is about to end keeps its limit until then, and a victim's is
// the victim's. Nothing that was left frozen stays so.
func (t *Terminator) Recover(ctx context.Context, ending func(types.UID) bool) error {
	entries, err := t.ledger.All()
	for _, e := range entries {
		if (e.File == fileFreeze || !ending(e.Pod)) && !t.has(e.Pod) {
			err = errors.Join(err, t.undo(ctx, e))
		}
	}
	return err
}

func (t *Terminator) has(uid types.UID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.victims[uid] != nil
}

// thawPatience bounds how long the kernel may take to have processes go on.
const thawPatience = time.Second

// thaw has a pod go on. One that is gone needs it no more.
func (t *Terminator) thaw(ctx context.Context, path string) error {
	ctx, cancel := context.WithTimeout(ctx, thawPatience)
	defer cancel()
	if err := t.cgroups.Thaw(ctx, path); err != nil && !errors.Is(err, cgroup.ErrGone) {
		return fmt.Errorf("thaw %s: %w", path, err)
	}
	return nil
}

// noted reports whether the ledger has an entry already.
func (t *Terminator) noted(entry ledger.Entry) bool {
	entries, _ := t.ledger.All() // what can't be read will be told by Put
	return slices.Contains(entries, entry)
}

// before is what memory.high was before it was lowered: not what it holds now where that is an earlier containment's, which could not be restored.
func (t *Terminator) before(key ledger.Key, high string) string {
	entries, _ := t.ledger.All() // what can't be read will be told by Put
	for _, e := range entries {
		if e.Key == key && e.Ours(high) {
			return e.Was
		}
	}
	return high
}
