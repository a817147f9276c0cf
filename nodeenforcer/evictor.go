package nodeenforcer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup"
	"github.com/podgrace/podgrace/nodeenforcer/eviction"
	"github.com/podgrace/podgrace/nodeenforcer/pressure"
	"github.com/podgrace/podgrace/nodeenforcer/state"
	"github.com/podgrace/podgrace/nodeenforcer/terminate"
)

// Terminator ends pods (terminate.Terminator).
type Terminator interface {
	Ask(terminate.Request) error
	Removed(uid types.UID)
	Release(uid types.UID)
	Standing() []terminate.Standing
	Recover(ctx context.Context, terminating func(types.UID) bool) error
}

// Evictor watches what is left of the node's resources and, where the policy's thresholds say so, has pods ended.
type Evictor struct {
	Source state.Source
	// Paths are the pods' cgroups, by UID, as they are planned.
	Paths   func() map[types.UID]string
	Cgroups cgroup.Reader
	Sensor  *pressure.Sensor
	// Kubelet is asked how much disk pods use; nil: not known, then no pod is evicted for disks.
	Kubelet    *state.Kubelet
	Terminator Terminator
	DryRun     bool
	Clock      clock.WithTicker
	Log        logr.Logger
	Metrics    *Metrics
	Events     *Events
	Status     *StatusKeeper

	policy     *v1alpha1.NodeEviction
	thresholds pressure.Thresholds
	unread     []v1alpha1.EvictionSignal // of a policy whose thresholds are not understood
	state      pressure.State
	trigger    pressure.StallTrigger
	unknown    string                                // signals that are not known, as last told
	short      string                                // what is short, as last told
	asked      map[types.UID]time.Time               // until when they should be over; until the API server has them no more
	releasing  releasing                             // of a disk
	would      map[types.UID]bool                    // told by a dry run
	looked     map[v1alpha1.EvictionSignal]time.Time // when the pods were last looked at
	clean      bool                                  // nothing is left of an enforcer that was killed
}

// idle is how long nothing is measured where the policy has no thresholds.
const idle = time.Second

// Run watches until the context ends.
func (e *Evictor) Run(ctx context.Context) error {
	defer e.trigger.Close()
	e.begin()
	for {
		wait := e.step(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-e.trigger.Fired():
		case <-e.Clock.After(wait):
		}
	}
}

func (e *Evictor) begin() {
	e.releasing = releasing{}
	e.asked, e.would, e.looked = map[types.UID]time.Time{}, map[types.UID]bool{}, map[v1alpha1.EvictionSignal]time.Time{}
}

// step measures once, acts upon it, and says when to measure again.
func (e *Evictor) step(ctx context.Context) time.Duration {
	state, known := e.Source.State()
	if !known || state.PolicyUnknown || !e.recovered(ctx, state) {
		return idle
	}
	e.gone(state)
	if !e.follow(state) {
		e.Metrics.measured(pressure.Thresholds{}, nil, pressure.Verdict{})
		return idle
	}
	signals, err := e.Sensor.Measure(e.thresholds)
	e.tellUnknown(err)
	verdict := e.judge(signals)
	told := verdict
	told.Unknown = slices.Concat(verdict.Unknown, e.unread)
	e.Metrics.measured(e.thresholds, signals, told)
	e.tellPressure(state.Node, verdict)
	for _, met := range verdict.Due {
		if short := (shortage{met, disk(met.Signal)}); met.Fresh && e.due(short) {
			e.relieve(ctx, state, short)
		}
	}
	e.release(verdict)
	wait := pressure.NextSample(signals, e.thresholds)
	if !verdict.Next.IsZero() {
		wait = min(wait, max(verdict.Next.Sub(e.Clock.Now()), 0))
	}
	return max(wait, pressure.MinSample)
}

// recovered undoes once what an enforcer that was killed left behind. It is false while that can't be done yet.
func (e *Evictor) recovered(ctx context.Context, state state.State) bool {
	if e.clean || e.Paths() == nil {
		return e.clean
	}
	e.clean = true
	if e.DryRun {
		return true
	}
	terminating := func(uid types.UID) bool {
		return slices.ContainsFunc(state.Pods, func(p *corev1.Pod) bool { return p.UID == uid && p.DeletionTimestamp != nil })
	}
	if err := e.Terminator.Recover(ctx, terminating); err != nil {
		e.Log.Error(err, "what an enforcer that was killed left behind is not all undone")
	}
	return true
}

// follow understands the policy's thresholds when they change. It is false where there are none.
func (e *Evictor) follow(state state.State) bool {
	var wanted *v1alpha1.NodeEviction
	if spec := state.Spec(); spec != nil {
		wanted = spec.Eviction
	}
	if wanted == e.policy {
		if wanted == nil {
			e.Status.Pressure(nil, "") // the Node may say otherwise from before a restart
		}
		return wanted != nil
	}
	e.policy = wanted
	thresholds, err := pressure.Compile(wanted)
	e.unread = nil
	if err != nil {
		e.Log.Error(err, "the policy's thresholds are not in force", "policy", state.Policy.Name)
		thresholds, e.unread = pressure.Thresholds{}, signalsOf(wanted)
	}
	if err := e.trigger.Follow(e.Sensor.ProcRoot, thresholds.Stall); err != nil {
		e.Log.Error(err, "the node's stall on memory can't be watched")
	}
	e.thresholds = thresholds
	if wanted == nil {
		e.state = pressure.State{}
		e.tellPressure(state.Node, pressure.Verdict{})
		e.release(pressure.Verdict{})
	}
	return wanted != nil
}

// signalsOf are those that a policy names.
func signalsOf(eviction *v1alpha1.NodeEviction) []v1alpha1.EvictionSignal {
	var signals []v1alpha1.EvictionSignal
	for _, t := range eviction.Hard {
		signals = append(signals, t.Signal)
	}
	for _, t := range eviction.Soft {
		signals = append(signals, t.Signal)
	}
	if eviction.MemoryStall != nil {
		signals = append(signals, v1alpha1.SignalMemoryStall)
	}
	return signals
}

func (e *Evictor) judge(signals pressure.Signals) (verdict pressure.Verdict) {
	var stall *bool
	if e.thresholds.Stall != nil && e.trigger.Armed() {
		stall = new(e.trigger.Take())
	}
	e.state, verdict = e.state.Step(e.Clock.Now(), e.thresholds, signals, stall)
	return verdict
}

// gone tells the terminator of victims that are not among the node's pods any more. Only the API server knows that.
func (e *Evictor) gone(state state.State) {
	e.releasing.forget(e.Clock.Now())
	if !state.Live || len(e.asked) == 0 {
		return
	}
	present := map[types.UID]*corev1.Pod{}
	for _, p := range state.Pods {
		present[p.UID] = p
	}
	e.releasing.follow(present, e.standing(), e.Clock.Now())
	for uid := range e.asked {
		if present[uid] == nil {
			e.Terminator.Removed(uid)
			delete(e.asked, uid)
		}
	}
}

// standing are the evictions that are on their way.
func (e *Evictor) standing() map[types.UID]terminate.Standing {
	standing := map[types.UID]terminate.Standing{}
	for _, s := range e.Terminator.Standing() {
		standing[s.Pod.UID] = s
	}
	return standing
}

// release withdraws what was asked for but not begun, once nothing is short any more.
func (e *Evictor) release(verdict pressure.Verdict) {
	if len(verdict.Due)+len(verdict.Unknown) > 0 {
		return
	}
	for _, s := range e.Terminator.Standing() {
		if !s.Dying {
			e.Terminator.Release(s.Pod.UID)
		}
	}
}

// pause is the shortest time between two looks at what all pods use, for one signal: memory itself is measured more often, but
// those who were chosen take longer than that to go.
const pause = 250 * time.Millisecond

// due says whether to look at the pods again, and remembers that it was done.
func (e *Evictor) due(met shortage) bool {
	now, least := e.Clock.Now(), pause
	if met.disk {
		least = diskPause
	}
	if last, looked := e.looked[met.Signal]; looked && now.Sub(last).Abs() < least {
		return false
	}
	e.looked[met.Signal] = now
	return true
}

// shortage is a threshold to act upon.
type shortage struct {
	pressure.Met
	// disk: of a file system, whose use by pods only the kubelet knows.
	disk bool
}

// relieve has as many pods ended as it takes.
func (e *Evictor) relieve(ctx context.Context, state state.State, met shortage) {
	candidates, err := e.candidates(ctx, state, met)
	if err != nil {
		e.Log.Error(err, "not every pod's usage is known", "signal", met.Signal)
	}
	free, flying := e.sorted(met, candidates)
	choice := eviction.Choose(eviction.Need{Signal: met.Signal, Kind: met.Kind, Amount: met.Need}, free, flying)
	if outdated(met, choice, free, e.Clock.Now()) {
		e.Log.V(1).Info("waiting for the kubelet to measure who fills the disk", "signal", met.Signal, "short", choice.Short)
		choice.Victims = nil
	}
	victims := slices.Concat(choice.Hasten, choice.Victims)
	for _, v := range victims {
		e.end(state, met, v, leftFor(met.Met, len(victims)))
	}
	if len(victims) > 0 && choice.Short > 0 {
		e.Log.Info("evicting all that may be evicted will not be enough", "signal", met.Signal, "short", choice.Short)
	}
}

// sorted tells those who may be chosen from those who are on their way.
func (e *Evictor) sorted(met shortage, candidates []eviction.Candidate) (free []eviction.Candidate, flying []eviction.Flight) {
	standing := e.standing()
	for _, c := range candidates {
		s, flies := standing[c.Pod.UID]
		switch {
		case met.disk && e.releasing.has(c.Pod.UID): // below
		case !flies:
			free = append(free, c)
		case s.RefusedFor > 0 && met.Kind != eviction.Hard: // a budget forbids it for now
		default:
			if met.disk { // it goes on filling it until its end, and the measurement is older still
				c.Usage = nil
			}
			flying = append(flying, eviction.Flight{Candidate: c, Kind: s.Kind, Overdue: e.overdue(s)})
		}
	}
	if met.disk {
		flying = append(flying, e.releasing.flights()...)
	}
	return free, flying
}

// overdue says that a pod is waited for no longer: a budget forbids its end, or it should have ended and nothing goes on.
func (e *Evictor) overdue(s terminate.Standing) bool {
	return s.RefusedFor > 0 || e.Clock.Now().After(e.asked[s.Pod.UID]) && !s.Stopping
}

// end asks for the end of one pod; left is for its hooks.
func (e *Evictor) end(state state.State, met shortage, v eviction.Ranked, left int64) {
	grace := eviction.Grace(v.Pod, met.Kind, e.policy)
	cause := eviction.Cause{Node: state.Node.Name, Signal: met.Signal, Kind: met.Kind, Threshold: met.Bound, Available: met.Available, GraceSeconds: grace}
	reason := eviction.Reason(cause, v)
	if e.DryRun {
		if !e.would[v.Pod.UID] {
			e.would[v.Pod.UID] = true
			e.Log.Info("would evict", "pod", v.Pod.Namespace+"/"+v.Pod.Name, "because", reason)
		}
		return
	}
	request := terminate.Request{
		Pod: v.Pod, Path: e.Paths()[v.Pod.UID], Kind: met.Kind, GraceSeconds: grace, Message: reason, Left: left,
		Contain: met.Signal == v1alpha1.SignalMemoryAvailable || met.Signal == v1alpha1.SignalMemoryStall,
	}
	if err := e.Terminator.Ask(request); err != nil {
		e.Log.Error(err, "a pod can't be evicted", "pod", v.Pod.Namespace+"/"+v.Pod.Name)
		return
	}
	e.asked[v.Pod.UID] = e.Clock.Now().Add(terminate.Longest(v.Pod, grace))
	if met.disk {
		e.releasing[v.Pod.UID] = &released{pod: v.Pod}
	}
	e.Log.Info("evicting", "pod", v.Pod.Namespace+"/"+v.Pod.Name, "kind", met.Kind, "signal", met.Signal, "graceSeconds", grace, "because", reason)
	e.Events.evicting(v.Pod, reason)
}

// candidates are the node's pods with what they use right now.
func (e *Evictor) candidates(ctx context.Context, state state.State, met shortage) ([]eviction.Candidate, error) {
	var disks *diskUsage
	if met.disk {
		var err error
		if disks, err = e.disks(ctx); err != nil {
			return nil, err
		}
	}
	var errs []error
	var candidates []eviction.Candidate
	paths := e.Paths()
	for _, p := range state.Pods {
		path, planned := paths[p.UID]
		if !planned || eviction.Exempt(p) != "" {
			continue
		}
		c := eviction.Candidate{Pod: p, MeasuredAt: e.Clock.Now(), Usage: map[v1alpha1.EvictionSignal]int64{}}
		if disks != nil {
			used, at, known := disks.of(p, met.Signal)
			if c.MeasuredAt = at; known {
				c.Usage[met.Signal] = used
			}
		} else if used, err := usageOf(e.Cgroups, path, met.Signal); errors.Is(err, cgroup.ErrGone) {
			continue
		} else if err != nil {
			errs = append(errs, fmt.Errorf("pod %s/%s: %w", p.Namespace, p.Name, err))
		} else {
			c.Usage[measured(met.Signal)] = used
		}
		candidates = append(candidates, c)
	}
	return candidates, errors.Join(errs...)
}

// measured is the signal that a candidate's usage is kept under: stall has memory's.
func measured(signal v1alpha1.EvictionSignal) v1alpha1.EvictionSignal {
	if signal == v1alpha1.SignalMemoryStall {
		return v1alpha1.SignalMemoryAvailable
	}
	return signal
}
