package pressure

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/nodeenforcer/eviction"
)

// MaxStep bounds how much the time between two steps counts: nothing was measured in between, or the clock was set. So a grace period ends
// only after its threshold was observed to be met for that long.
const MaxStep = 2 * time.Second

// State is kept from one step to the next. It is a value: a step does not change the old one. The zero value is the initial state.
type State struct {
	last  time.Time
	seen  map[v1alpha1.EvictionSignal]time.Time // the sample's time at the last step
	met   map[thresholdKey]progress
	quiet map[corev1.NodeConditionType]time.Duration // conditions that hold, and for how long no threshold has been met
}

type thresholdKey struct {
	signal v1alpha1.EvictionSignal
	kind   eviction.Kind
}

// progress of a threshold that is met.
type progress struct {
	since time.Duration // for which it was met without pause
	acted bool          // its grace period has passed: it stays met until the minimum reclaim is free
}

// Verdict is the result of a step.
type Verdict struct {
	// Due are the thresholds to act upon, hard ones first, memory before others. Only those that are Fresh have a new sample since the
	// last step, and are worth acting upon again.
	Due []Met
	// Waiting are soft thresholds that are met, in their grace period.
	Waiting []Met
	// Conditions of the node, all three of them.
	Conditions map[corev1.NodeConditionType]bool
	// Unknown are signals that have a threshold and no sample, or a stale one: nothing is evicted for them, and the node's condition stays
	// as they last had it.
	Unknown []v1alpha1.EvictionSignal
	// Next is when a step is due even if nothing new is measured: a grace or transition period ends, or MaxStep passes while one runs.
	// Zero: never.
	Next time.Time
}

// Met is a threshold that is met.
type Met struct {
	eviction.Need
	// For how long it has been met without pause.
	For time.Duration
	// Fresh: the sample is another than at the last step.
	Fresh bool
}

// Step advances to now with what was measured. stall says whether there is a stall that goes on
// (StallWatch); nil: unknown.
func (s State) Step(now time.Time, thresholds Thresholds, signals Signals, stall *bool) (State, Verdict) {
	st := &step{
		now: now, elapsed: elapsed(s.last, now), old: s,
		new:      State{last: now, seen: map[v1alpha1.EvictionSignal]time.Time{}, met: map[thresholdKey]progress{}, quiet: map[corev1.NodeConditionType]time.Duration{}},
		observed: map[corev1.NodeConditionType]bool{}, held: map[corev1.NodeConditionType]bool{},
		known: map[corev1.NodeConditionType]bool{}, unknown: map[corev1.NodeConditionType]bool{},
	}
	maps.Copy(st.new.seen, s.seen)
	for _, t := range thresholds.List {
		st.threshold(t, signals)
	}
	if thresholds.Stall != nil {
		st.stall(stall)
	}
	st.conditions(thresholds.Transition)
	return st.new, st.verdict
}

// elapsed is the time that counts between two steps. With the times of a real clock it is monotonic anyway (package time).
func elapsed(last, now time.Time) time.Duration {
	if last.IsZero() {
		return 0
	}
	return min(max(now.Sub(last), 0), MaxStep)
}

// step is the working state of one step.
type step struct {
	now      time.Time
	elapsed  time.Duration
	old, new State
	verdict  Verdict
	// By condition: a threshold is met; one that was met is not known now; there are signals that are known, or not.
	observed, held, known, unknown map[corev1.NodeConditionType]bool
}

func (st *step) threshold(t Threshold, signals Signals) {
	key, condition := thresholdKey{t.Signal, t.Kind}, Condition(t.Signal)
	before, met := st.old.met[key]
	sample, ok := signals.sample(t.Signal, st.now)
	if !ok || sample.Capacity <= 0 && (t.Value.Quantity == 0 || t.Reclaim.Percentage > 0) {
		st.notKnown(t.Signal, condition)
		if met {
			st.new.met[key], st.held[condition] = before, true
		}
		return
	}
	st.known[condition], st.new.seen[t.Signal] = true, sample.Time
	bound := t.Value.Of(sample.Capacity)
	need := bound + t.Reclaim.Of(sample.Capacity) - sample.Available
	if before.acted && need <= 0 || !before.acted && sample.Available >= bound {
		return
	}
	after := progress{}
	if met {
		after.since = before.since + st.elapsed
	}
	after.acted = before.acted || after.since >= t.Grace
	st.new.met[key], st.observed[condition] = after, true
	m := Met{
		Need: eviction.Need{Signal: t.Signal, Kind: t.Kind, Available: sample.Available, Threshold: bound, Amount: need},
		For:  after.since, Fresh: !sample.Time.Equal(st.old.seen[t.Signal]),
	}
	if after.acted {
		st.verdict.Due = append(st.verdict.Due, m)
		return
	}
	st.verdict.Waiting = append(st.verdict.Waiting, m)
	st.wake(t.Grace - after.since)
}

// stall comes after the hard thresholds on memory and before all others. It keeps no state: while processes stall, the next is found.
func (st *step) stall(stalled *bool) {
	if stalled == nil {
		st.notKnown(v1alpha1.SignalMemoryStall, corev1.NodeMemoryPressure)
		return
	}
	st.known[corev1.NodeMemoryPressure] = true
	if !*stalled {
		return
	}
	st.observed[corev1.NodeMemoryPressure] = true
	at := 0
	for at < len(st.verdict.Due) && st.verdict.Due[at].Kind == eviction.Hard && st.verdict.Due[at].Signal == v1alpha1.SignalMemoryAvailable {
		at++
	}
	m := Met{Need: eviction.Need{Signal: v1alpha1.SignalMemoryStall, Kind: eviction.Hard}, Fresh: true}
	st.verdict.Due = append(st.verdict.Due[:at:at], append([]Met{m}, st.verdict.Due[at:]...)...)
}

// conditions hold while a threshold is met, grace period or not, and for the transition period after it
// (nodeConditionsObservedSince, pkg/kubelet/eviction/helpers.go, 1.36.3). Unknown signals leave them unchanged.
func (st *step) conditions(transition time.Duration) {
	st.verdict.Conditions = map[corev1.NodeConditionType]bool{}
	for _, condition := range conditions() {
		quiet, held := st.old.quiet[condition]
		switch frozen := st.held[condition] || st.unknown[condition] && !st.known[condition]; {
		case st.observed[condition]:
			held, quiet = true, 0
		case held && !frozen:
			quiet += st.elapsed
			held = quiet < transition
			if held {
				st.wake(transition - quiet)
			}
		}
		st.verdict.Conditions[condition] = held
		if held {
			st.new.quiet[condition] = quiet
		}
	}
}

func (st *step) notKnown(signal v1alpha1.EvictionSignal, condition corev1.NodeConditionType) {
	st.unknown[condition] = true
	if !slices.Contains(st.verdict.Unknown, signal) {
		st.verdict.Unknown = append(st.verdict.Unknown, signal)
	}
}

// wake asks for a step in that time, or earlier.
func (st *step) wake(in time.Duration) {
	at := st.now.Add(min(in, MaxStep))
	if st.verdict.Next.IsZero() || at.Before(st.verdict.Next) {
		st.verdict.Next = at
	}
}
