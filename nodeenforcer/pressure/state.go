package pressure

import (
	"cmp"
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

// TrialTime is how long a threshold that is met when it is applied must be met before it is acted upon. Until then the node has the condition and the taint. That leaves time to correct a
// mistyped threshold: a policy reaches all of its nodes at once.
const TrialTime = time.Minute

// State is kept from one step to the next. It is a value: a step does not change the old one. The zero value is the initial state.
type State struct {
	// proved are the highest bounds of thresholds at which they were once not met. A threshold with a higher one is on trial.
	proved map[thresholdKey]int64
	last   time.Time
	seen   map[v1alpha1.EvictionSignal]time.Time // the sample's time at the last step
	met    map[thresholdKey]progress
	quiet  map[corev1.NodeConditionType]time.Duration // conditions that hold, and for how long no threshold has been met
}

type thresholdKey struct {
	signal v1alpha1.EvictionSignal
	kind   eviction.Kind
}

// over reports whether a threshold is no longer met. need is what is missing with the minimum reclaim, above by how much its bound is passed.
func (p progress) over(need, above int64) bool {
	if p.acted {
		return need <= 0
	}
	return above >= 0
}

// Proof is that a threshold was once not met: more than its bound, in the signal's unit, was available.
type Proof struct {
	Signal v1alpha1.EvictionSignal `json:"signal"`
	Kind   eviction.Kind           `json:"kind"`
	Bound  int64                   `json:"bound"`
}

// Proofs are what a later process has to know so that thresholds are not on trial again, in the order of the signals.
func (s State) Proofs() (proofs []Proof) {
	for key, bound := range s.proved {
		proofs = append(proofs, Proof{key.signal, key.kind, bound})
	}
	slices.SortFunc(proofs, func(a, b Proof) int { return cmp.Or(cmp.Compare(a.Signal, b.Signal), cmp.Compare(a.Kind, b.Kind)) })
	return proofs
}

// Proved is the initial state of a process that an earlier one left proofs.
func Proved(proofs []Proof) State {
	s := State{proved: map[thresholdKey]int64{}}
	for _, p := range proofs {
		s.proved[thresholdKey{p.Signal, p.Kind}] = p.Bound
	}
	return s
}

// progress of a threshold that is met.
type progress struct {
	since time.Duration // for which it was met without pause
	acted bool          // its grace period has passed: it stays met until the minimum reclaim is free
	// unproved: it was met when it was applied, or when its bound grew; trial is for how long it is met since then.
	unproved bool
	trial    time.Duration
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
	// Unproved: it was met when it was applied, or when its bound grew, and has been since.
	Unproved bool
}

// Step advances to now with what was measured. stall reports whether there is a stall that goes on
// (StallWatch); nil: unknown.
func (s State) Step(now time.Time, thresholds Thresholds, signals Signals, stall *bool) (State, Verdict) {
	st := &step{
		now: now, elapsed: elapsed(s.last, now), old: s,
		new:      State{last: now, proved: map[thresholdKey]int64{}, seen: map[v1alpha1.EvictionSignal]time.Time{}, met: map[thresholdKey]progress{}, quiet: map[corev1.NodeConditionType]time.Duration{}},
		observed: map[corev1.NodeConditionType]bool{}, held: map[corev1.NodeConditionType]bool{},
		known: map[corev1.NodeConditionType]bool{}, unknown: map[corev1.NodeConditionType]bool{},
	}
	maps.Copy(st.new.seen, s.seen)
	for _, t := range thresholds.List {
		if proved, ok := s.proved[thresholdKey{t.Signal, t.Kind}]; ok {
			st.new.proved[thresholdKey{t.Signal, t.Kind}] = proved
		}
		st.threshold(t, signals, thresholds.Immediate)
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

func (st *step) threshold(t Threshold, signals Signals, immediate bool) {
	key, condition := thresholdKey{t.Signal, t.Kind}, Condition(t.Signal)
	before, met := st.old.met[key]
	sample, known := signals.sample(t.Signal, st.now)
	if !known || sample.Capacity <= 0 && (t.Value.Quantity == 0 || t.Reclaim.Percentage > 0) {
		st.notKnown(t.Signal, condition)
		if met {
			st.new.met[key], st.held[condition] = before, true
		}
		return
	}
	st.known[condition], st.new.seen[t.Signal] = true, sample.Time
	after := progress{}
	if met {
		after.since = before.since + st.elapsed
	}
	bound, wait := t.Value.Of(sample.Capacity), t.Grace
	if sample.Available >= bound {
		st.new.proved[key] = max(st.old.proved[key], bound)
	} else if st.try(key, bound, &after) {
		bound, wait = st.onTrial(key, bound, sample.Available, t.Grace, after, immediate)
	}
	need := bound + t.Reclaim.Of(sample.Capacity) - sample.Available
	if before.over(need, sample.Available-bound) {
		return
	}
	after.acted = after.since >= wait || before.acted && wait == t.Grace
	st.new.met[key], st.observed[condition] = after, true
	m := Met{
		Need: eviction.Need{Signal: t.Signal, Kind: t.Kind, Available: sample.Available, Threshold: bound, Amount: need},
		For:  after.since, Fresh: !sample.Time.Equal(st.old.seen[t.Signal]), Unproved: after.unproved && bound != st.old.proved[key],
	}
	if after.acted {
		st.verdict.Due = append(st.verdict.Due, m)
		return
	}
	st.verdict.Waiting = append(st.verdict.Waiting, m)
	st.wake(wait - after.since)
}

// try reports whether a threshold that is met was never unmet with such a high bound, and counts for how long it is met. A capacity that changes a little proves nothing less: that of
// some file systems (ZFS, btrfs) always does.
func (st *step) try(key thresholdKey, bound int64, after *progress) bool {
	proved, ok := st.old.proved[key]
	after.unproved = !ok || bound-bound/tolerance > proved
	if before := st.old.met[key]; after.unproved && before.unproved {
		after.trial = before.trial + st.elapsed
	}
	return after.unproved
}

// onTrial is the bound that counts, and for how long it must be met.
func (st *step) onTrial(key thresholdKey, bound, available int64, grace time.Duration, after progress, immediate bool) (counts int64, wait time.Duration) {
	proved, ok := st.old.proved[key]
	switch {
	case ok && available < proved: // the threshold as it was is met as well, and is acted upon
		return proved, grace
	case immediate || after.trial >= TrialTime:
		return bound, grace
	}
	return bound, max(grace, after.since+TrialTime-after.trial)
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
