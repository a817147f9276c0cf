package pressure

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/nodeenforcer/eviction"
	"github.com/podgrace/podgrace/policy/enforcement"
)

// DefaultTransitionPeriod is how long a condition lasts where the policy says nothing (the kubelet's
// evictionPressureTransitionPeriod, pkg/kubelet/apis/config/v1beta1/defaults.go, 1.36.3).
const DefaultTransitionPeriod = 5 * time.Minute

// Thresholds are a compiled NodeEviction.
type Thresholds struct {
	// List has the hard thresholds first, each kind in the order of signals().
	List []Threshold
	// Stall is nil where the policy has none.
	Stall *Stall
	// Transition is how long a condition lasts after the last threshold was met.
	Transition time.Duration
	// Immediate: a threshold that is met when it is applied is acted upon at once (State).
	Immediate bool
	// PerMinute is how many pods are evicted in a minute at most.
	PerMinute int
}

// Threshold is met while less than Value is left of a signal.
type Threshold struct {
	Signal v1alpha1.EvictionSignal
	Kind   eviction.Kind
	Value  enforcement.Amount
	// Reclaim is the minimum reclaim: what is to be freed beyond Value.
	Reclaim enforcement.Amount
	// Grace is how long a soft threshold must be met.
	Grace time.Duration
}

// Stall is a threshold on the time for which processes stalled on memory.
type Stall struct {
	// Kind: whether at least one process waited, or all of them at once.
	Kind          v1alpha1.StallKind
	Stall, Window time.Duration
}

// DefaultPerMinute is the CRD's default of maxEvictionsPerMinute, which a policy from a file may lack.
const DefaultPerMinute = 10

// signals are those that thresholds can be on, in the order in which they are acted upon: memory first, as the kubelet does
// (byEvictionPriority, pkg/kubelet/eviction/helpers.go, 1.36.3), then processes, without which nothing else can be done.
func signals() []v1alpha1.EvictionSignal {
	return []v1alpha1.EvictionSignal{
		v1alpha1.SignalMemoryAvailable,
		v1alpha1.SignalPIDAvailable,
		v1alpha1.SignalNodeFsAvailable,
		v1alpha1.SignalNodeFsInodesFree,
		v1alpha1.SignalImageFsAvailable,
		v1alpha1.SignalImageFsInodesFree,
	}
}

// Compile validates a NodeEviction and turns it into thresholds; nil has none. The error names all invalid fields. It repeats the CRD's
// rules, since a policy may come from a file. A threshold of 0, 0% or 100% is ignored, as by the kubelet (parseThresholdStatement,
// pkg/kubelet/eviction/helpers.go, 1.36.3), which however refuses 0.
func Compile(e *v1alpha1.NodeEviction) (Thresholds, error) {
	out := Thresholds{Transition: DefaultTransitionPeriod, PerMinute: DefaultPerMinute}
	if e == nil {
		return out, nil
	}
	c := compiler{}
	at := field.NewPath("spec", "eviction")
	out.Immediate = e.EvictImmediately
	if n := e.MaxEvictionsPerMinute; n != nil {
		if out.PerMinute = int(*n); out.PerMinute < 1 {
			c.errs = append(c.errs, field.Invalid(at.Child("maxEvictionsPerMinute"), *n, "must be at least 1"))
		}
	}
	if modes := []v1alpha1.EvictionMode{v1alpha1.EvictionModeEvict, v1alpha1.EvictionModeObserve}; e.Mode != "" && !slices.Contains(modes, e.Mode) {
		c.errs = append(c.errs, field.NotSupported(at.Child("mode"), e.Mode, modes))
	}
	hard, soft := map[v1alpha1.EvictionSignal]Threshold{}, map[v1alpha1.EvictionSignal]Threshold{}
	for i, t := range e.Hard {
		c.threshold(hard, t, Threshold{Kind: eviction.Hard}, at.Child("hard").Index(i))
	}
	for i, t := range e.Soft {
		c.notNegative(at.Child("soft").Index(i).Child("gracePeriod"), t.GracePeriod.Duration)
		c.threshold(soft, t.EvictionThreshold, Threshold{Kind: eviction.Soft, Grace: t.GracePeriod.Duration}, at.Child("soft").Index(i))
	}
	for _, kind := range []map[v1alpha1.EvictionSignal]Threshold{hard, soft} {
		for _, s := range signals() {
			if t, ok := kind[s]; ok && !t.Value.Never() {
				out.List = append(out.List, t)
			}
		}
	}
	out.Stall = c.stall(e.MemoryStall, at.Child("memoryStall"))
	if p := e.PressureTransitionPeriod; p != nil {
		c.notNegative(at.Child("pressureTransitionPeriod"), p.Duration)
		out.Transition = p.Duration
	}
	if err := c.errs.ToAggregate(); err != nil {
		return Thresholds{}, fmt.Errorf("compile eviction thresholds: %w", err)
	}
	return out, nil
}

// compiler collects errors.
type compiler struct{ errs field.ErrorList }

func (c *compiler) notNegative(at *field.Path, d time.Duration) {
	if d < 0 {
		c.errs = append(c.errs, field.Invalid(at, d.String(), "must not be negative"))
	}
}

func (c *compiler) threshold(into map[v1alpha1.EvictionSignal]Threshold, in v1alpha1.EvictionThreshold, out Threshold, at *field.Path) {
	if !sets.New(signals()...).Has(in.Signal) {
		c.errs = append(c.errs, field.NotSupported(at.Child("signal"), in.Signal, signals()))
	}
	if _, ok := into[in.Signal]; ok {
		c.errs = append(c.errs, field.Duplicate(at.Child("signal"), in.Signal))
	}
	out.Signal = in.Signal
	out.Value = c.amount(in.Value, at.Child("value"))
	if in.MinimumReclaim != "" {
		out.Reclaim = c.amount(in.MinimumReclaim, at.Child("minimumReclaim"))
	}
	into[in.Signal] = out
}

func (c *compiler) amount(v v1alpha1.ThresholdValue, at *field.Path) enforcement.Amount {
	a, err := enforcement.ParseAmount(v)
	if err != nil {
		c.errs = append(c.errs, field.Invalid(at, v, err.Error()))
	}
	return a
}

// The kernel's bounds of a trigger's window (kernel/sched/psi.c, WINDOW_MIN_US and WINDOW_MAX_US).
const (
	minWindow = 500 * time.Millisecond
	maxWindow = 10 * time.Second
)

// stall holds the kernel's rules for triggers (kernel/sched/psi.c psi_trigger_create).
func (c *compiler) stall(s *v1alpha1.MemoryStall, at *field.Path) *Stall {
	if s == nil {
		return nil
	}
	out := &Stall{Kind: cmp.Or(s.Kind, v1alpha1.StallFull), Stall: s.Stall.Duration, Window: s.Window.Duration}
	if out.Kind != v1alpha1.StallSome && out.Kind != v1alpha1.StallFull {
		c.errs = append(c.errs, field.NotSupported(at.Child("kind"), s.Kind, []v1alpha1.StallKind{v1alpha1.StallSome, v1alpha1.StallFull}))
	}
	if out.Window < minWindow || out.Window > maxWindow {
		c.errs = append(c.errs, field.Invalid(at.Child("window"), out.Window.String(), "must be from 500ms to 10s"))
	}
	if out.Stall <= 0 || out.Stall >= out.Window {
		c.errs = append(c.errs, field.Invalid(at.Child("stall"), out.Stall.String(), "must be longer than 0 and shorter than window"))
	}
	return out
}
