package evictor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/nodeenforcer/eviction"
	"github.com/podgrace/podgrace/nodeenforcer/pressure"
	"github.com/podgrace/podgrace/nodeenforcer/state"
	"github.com/podgrace/podgrace/nodeenforcer/status"
	"github.com/podgrace/podgrace/nodeenforcer/terminate"
	"github.com/podgrace/podgrace/policy/enforcement"
)

// Terminator terminates pods (terminate.Terminator).
type Terminator interface {
	Ask(terminate.Request) error
	Removed(uid types.UID)
	Release(uid types.UID)
	Victims() []terminate.VictimStatus
	Recover(ctx context.Context, ending func(types.UID) bool) error
}

// Evictor measures the node's resources and evicts pods when a threshold of the policy is met.
type Evictor struct {
	Source state.Source
	// Paths are the pods' cgroups, by UID: of all pods that are known, planned or not.
	Paths func(state.State) map[types.UID]string
	// Stepping is called when a step begins, and what it returns when that ends; nil: nothing is.
	Stepping func() (done func())
	Cgroups  Cgroups
	Sensor   *pressure.Sensor
	// Kubelet knows how much disk pods use; nil: unknown, and no pod is evicted for a disk.
	Kubelet    *state.Kubelet
	Terminator Terminator
	// KeptFile keeps for the next process which pods were evicted for a disk, when pods were evicted, and which thresholds were once not met; empty: that does not know.
	KeptFile string
	DryRun   bool
	// Untriggered: the kernel's trigger on memory stall is not armed, which takes a privilege. memoryStall is not known then.
	Untriggered bool
	Clock       clock.WithTicker
	Log         logr.Logger
	Metrics     *status.Metrics
	Events      *status.Events
	Status      *status.NodeUpdater

	policy     *v1alpha1.NodeEviction
	thresholds pressure.Thresholds
	unread     []v1alpha1.EvictionSignal // of a policy with invalid thresholds
	state      pressure.State
	trigger    pressure.StallTrigger
	disks      pressure.Aside[diskAnswer]
	asking     time.Time // when the kubelet was last asked which file systems it has
	unsure     int       // how often it was since, and what matters was still not known
	told       bool      // it has answered
	oneDisk    bool      // nodefs and imagefs are one file system, as it last answered
	stall      stall
	unarmed    string                               // why the trigger is not armed, as last logged
	unknown    string                               // why signals are unknown, as last logged
	said       string                               // about the thresholds that are met, as last reported
	short      string                               // the resources under pressure, as last reported
	heldBack   []heldSignal                         // and why no pod is evicted
	asked      map[types.UID]deadline               // of victims; dropped once the pod is removed
	episodes   map[v1alpha1.EvictionSignal]*episode // of resources for which pods were evicted
	peeks      map[v1alpha1.EvictionSignal]*peek
	evictions  map[types.UID]time.Time // in the last minute
	held       map[subject]hold        // why no pod is evicted though a threshold is met
	fruitless  map[subject]bool        // no pod was found the last time that one was looked for, and none was ending
	began      time.Time
	releasing  releasing             // of a disk
	unkept     string                // why that could not be written, as last logged
	kept       string                // what KeptFile holds
	would      map[types.UID]bool    // victims that a dry run has logged
	looked     map[subject]time.Time // when the pods' usage was last read
	recovered  time.Time             // when Recover was last called
	knew       bool                  // whether it was known then which pods there are
	lost       string                // why it failed, as last logged
}

// idle is the time between two steps while the policy has no thresholds, or there is no pod to evict.
const idle = time.Second

// firstList is how long an enforcer that has just started waits for the API server's list of the node's pods. By its checkpoint alone it would ask again for those that the one before it
// has evicted.
const firstList = 5 * time.Second

// deadline is when an eviction was asked for, and until when the pod should have ended.
type deadline struct{ at, until time.Time }

// overdue reports whether an eviction is late. A pod that is ending and fills a disk is waited for as long as the kubelet's statistics are old: whoever is evicted in its
// place may be so for what it still holds.
func (d deadline) overdue(now time.Time, disk, dying bool) bool {
	until := d.until
	if later := d.at.Add(diskStatsAge); disk && dying && later.After(until) {
		until = later
	}
	return now.After(until)
}

// Run measures and evicts until the context ends.
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
	e.began = e.Clock.Now()
	r, kept, err := readKept(e.KeptFile, e.began)
	if err != nil {
		e.Log.Error(err, "forgetting which pods were evicted before")
	}
	e.releasing, e.state, e.evictions = r, pressure.Proved(kept.Proofs), kept.Evictions
	if e.evictions == nil {
		e.evictions = map[types.UID]time.Time{}
	}
	e.asked, e.would, e.looked = map[types.UID]deadline{}, map[types.UID]bool{}, map[subject]time.Time{}
	e.episodes, e.peeks, e.held = map[v1alpha1.EvictionSignal]*episode{}, map[v1alpha1.EvictionSignal]*peek{}, map[subject]hold{}
	e.fruitless = map[subject]bool{}
	for _, w := range kept.Waits {
		e.episodes[w.Signal] = &episode{wait: w.Wait, until: w.Until, judged: true}
	}
}

// step measures once, acts on it, and returns when to measure again.
func (e *Evictor) step(ctx context.Context) time.Duration {
	if e.Stepping != nil {
		defer e.Stepping()()
	}
	state, ok := e.Source.State()
	e.recover(ctx, state, ok)
	if !ok {
		return idle
	}
	if state.PolicyUnknown {
		return idle
	}
	e.forgetRemoved(state)
	if !e.applyPolicy(state) {
		e.Metrics.ObserveSignals(pressure.Thresholds{}, nil, pressure.Verdict{})
		return idle
	}
	e.arm()
	e.locate(ctx)
	signals, err := e.Sensor.Measure(e.thresholds)
	verdict, stallErr := e.judge(state, signals)
	e.reportUnmeasured(errors.Join(err, stallErr, e.trigger.Err()))
	told := verdict
	told.Unknown = slices.Concat(verdict.Unknown, e.unread)
	e.Metrics.ObserveSignals(e.thresholds, signals, told)
	e.forgetMet(verdict)
	if state.Live || e.Clock.Now().Sub(e.began).Abs() >= firstList {
		e.act(ctx, state, verdict.Due)
	}
	e.reportPressure(state, verdict)
	if e.observes(state) {
		e.release(pressure.Verdict{})
	}
	e.release(verdict)
	e.keep()
	wait := pressure.NextSample(signals, e.thresholds)
	if e.fruitless[subject{v1alpha1.SignalMemoryAvailable, eviction.Hard}] {
		wait = max(wait, idle) // no pod can be evicted for memory until a pod starts or grows
	}
	if !verdict.Next.IsZero() {
		wait = min(wait, max(verdict.Next.Sub(e.Clock.Now()), 0))
	}
	if e.stall.watch.Watches() {
		wait = min(wait, stallPause)
	}
	return max(wait, pressure.MinSample)
}

// recoverPause is the time between two attempts to restore limits that were left behind.
const recoverPause = 10 * time.Second

// recover restores the limits that were left behind, by an enforcer which was killed or because the kernel would not have them. As long as it is not known who is about to end
// only what was left frozen goes on.
func (e *Evictor) recover(ctx context.Context, state state.State, known bool) {
	now := e.Clock.Now()
	if e.DryRun || known == e.knew && !e.recovered.IsZero() && now.Sub(e.recovered).Abs() < recoverPause {
		return
	}
	e.recovered, e.knew = now, known
	err := e.Terminator.Recover(ctx, func(uid types.UID) bool {
		return !known || slices.ContainsFunc(state.Pods, func(p *corev1.Pod) bool { return p.UID == uid && e.leaving(p, eviction.Hard) })
	})
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != e.lost && err != nil {
		e.Log.Error(err, "failed to restore pods that were to be evicted, trying again")
	}
	e.lost = text
}

// applyPolicy compiles the policy's thresholds when they change. It is false if there are none, as with a kubelet that is too old.
func (e *Evictor) applyPolicy(state state.State) bool {
	var wanted *v1alpha1.NodeEviction
	if spec := state.Spec(); spec != nil && state.TooOld() == "" {
		wanted = spec.Eviction
	}
	if apiequality.Semantic.DeepEqual(wanted, e.policy) {
		if wanted == nil {
			e.Status.SetPressure(nil, "") // the Node may say otherwise from before a restart
		}
		return wanted != nil
	}
	e.policy = wanted.DeepCopy()
	thresholds, err := pressure.Compile(wanted)
	e.unread = nil
	if err != nil {
		e.Log.Error(err, "ignoring invalid eviction thresholds", "policy", state.Policy.Name)
		thresholds, e.unread = pressure.Thresholds{}, signalsOf(wanted)
	}
	if e.Untriggered && thresholds.Stall != nil {
		e.Log.Info("not watching memory stall, the node enforcer is read-only", "policy", state.Policy.Name)
	}
	e.thresholds, e.stall = thresholds, stall{}
	e.arm()
	if wanted == nil {
		e.state = pressure.State{}
		clear(e.held)
		clear(e.episodes)
		e.reportPressure(state, pressure.Verdict{})
		e.release(pressure.Verdict{})
	}
	return wanted != nil
}

// arm arms the trigger as the policy has it, and again where that failed. It is told once why.
func (e *Evictor) arm() {
	if e.Untriggered {
		return
	}
	err := e.trigger.Arm(e.Sensor.ProcRoot, e.thresholds.Stall, e.Clock.Now())
	if err != nil && err.Error() != e.unarmed {
		e.unarmed = err.Error()
		e.Log.Error(err, "failed to watch memory stall, trying again")
	}
	if e.trigger.Armed() {
		e.unarmed = ""
	}
}

// signalsOf are the signals that a policy has thresholds on.
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

func (e *Evictor) judge(state state.State, signals pressure.Signals) (verdict pressure.Verdict, err error) {
	stalled, err := e.stalls(state)
	if err != nil {
		stalled = nil
	}
	e.state, verdict = e.state.Step(e.Clock.Now(), e.thresholds, signals, stalled)
	return verdict, err
}

// forgetRemoved tells the terminator of victims whose pod is removed. Only the API server knows that.
func (e *Evictor) forgetRemoved(state state.State) {
	if len(e.asked)+len(e.releasing)+len(e.would) == 0 {
		return
	}
	now, standing := e.Clock.Now(), e.standing()
	e.releasing.forget(standing, now)
	present := map[types.UID]*corev1.Pod{}
	for _, p := range state.Pods {
		present[p.UID] = p
	}
	e.releasing.follow(present, state.Live, standing, now)
	if !state.Live {
		return
	}
	maps.DeleteFunc(e.would, func(uid types.UID, _ bool) bool { return present[uid] == nil })
	for uid := range e.asked {
		if present[uid] == nil {
			e.Terminator.Removed(uid)
			delete(e.asked, uid)
		}
	}
}

// subject is what a threshold is about.
type subject struct {
	signal v1alpha1.EvictionSignal
	kind   eviction.Kind
}

// forgetMet forgets what was so while thresholds were met that are not any more.
func (e *Evictor) forgetMet(verdict pressure.Verdict) {
	met, signals := map[subject]bool{}, map[v1alpha1.EvictionSignal]bool{}
	for _, m := range verdict.Due {
		met[subject{m.Signal, m.Kind}], signals[e.resource(m.Signal)] = true, true
	}
	maps.DeleteFunc(e.held, func(s subject, _ hold) bool { return !met[s] })
	maps.DeleteFunc(e.fruitless, func(s subject, _ bool) bool { return !met[s] })
	maps.DeleteFunc(e.peeks, func(signal v1alpha1.EvictionSignal, _ *peek) bool { return !met[subject{signal, eviction.Hard}] })
	e.forgetEpisodes(signals)
	if len(met) == 0 {
		clear(e.would)
	}
}

// observes reports whether the policy evicts no pod.
func (e *Evictor) observes(state state.State) bool {
	spec := state.Spec()
	return spec != nil && !enforcement.Evicts(spec)
}

// standing are the evictions in flight.
func (e *Evictor) standing() map[types.UID]terminate.VictimStatus {
	standing := map[types.UID]terminate.VictimStatus{}
	for _, s := range e.Terminator.Victims() {
		standing[s.Pod.UID] = s
	}
	return standing
}

// release withdraws the evictions that have not begun, once there is no pressure any more.
func (e *Evictor) release(verdict pressure.Verdict) {
	if len(verdict.Due)+len(verdict.Unknown) > 0 {
		return
	}
	for _, s := range e.Terminator.Victims() {
		if !s.Dying {
			e.Terminator.Release(s.Pod.UID)
		}
	}
}

func (e *Evictor) reportUnmeasured(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != e.unknown && err != nil {
		e.Log.Error(err, "failed to measure eviction signal, no pod is evicted for it")
	}
	e.unknown = text
}

// reportPressure reports the resources under pressure, and why no pod is evicted, when they change: Node, Event, log.
func (e *Evictor) reportPressure(state state.State, verdict pressure.Verdict) {
	var short []string
	for _, c := range slices.Sorted(maps.Keys(verdict.Conditions)) {
		if verdict.Conditions[c] {
			short = append(short, strings.ToLower(strings.TrimSuffix(string(c), "Pressure")))
		}
	}
	said, holds := strings.Join(short, ", "), e.holds(state, verdict)
	e.Status.SetUntainted(e.observes(state))
	if said == e.short && slices.Equal(holds, e.heldBack) {
		if said == "" {
			e.Status.SetPressure(nil, "") // as in applyPolicy
		}
		return
	}
	var reasons []string
	for _, met := range slices.Concat(verdict.Due, verdict.Waiting) {
		reasons = append(reasons, describe(met))
	}
	for _, h := range holds {
		reasons = append(reasons, h.String())
	}
	if len(reasons) > 0 || said == "" {
		e.said = strings.Join(reasons, "; ") // else the condition lasts for the transition period
	}
	message := e.said
	e.Log.Info("node pressure changed", "resources", said, "reason", message)
	e.Status.SetPressure(short, message)
	if said != e.short {
		e.Events.Pressure(state.Node, short, message)
	}
	for _, h := range holds {
		if h.hold != holdObserve && !slices.Contains(e.heldBack, h) {
			e.Events.Held(state.Node, h.reason(), h.String())
		}
	}
	e.short, e.heldBack = said, holds
}

// describe says which threshold is met.
func describe(met pressure.Met) string {
	if met.Signal == v1alpha1.SignalMemoryStall {
		return "processes wait for memory longer than the policy allows"
	}
	return fmt.Sprintf("%s threshold %s: %d left, %d wanted", met.Kind, met.Signal, met.Available, met.Threshold)
}
