package pressure

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/nodeenforcer/eviction"
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
	Value  Amount
	// Reclaim is the minimum reclaim: what is to be freed beyond Value.
	Reclaim Amount
	// Grace is how long a soft threshold must be met.
	Grace time.Duration
}

// Stall is a threshold on the time for which processes stalled on memory.
type Stall struct {
	// Kind: whether at least one process waited, or all of them at once.
	Kind          v1alpha1.StallKind
	Stall, Window time.Duration
}

// Amount is a number of bytes, inodes or processes, or a share of the capacity. The zero value is 0.
type Amount struct {
	Quantity int64
	// Percentage as a fraction, 0.1 for 10%, as the kubelet holds it; it counts where Quantity is 0.
	Percentage float32
}

// Of returns the amount for a capacity (pkg/kubelet/eviction/api/types.go GetThresholdQuantity, 1.36.3).
func (a Amount) Of(capacity int64) int64 {
	if a.Quantity != 0 {
		return a.Quantity
	}
	return int64(float64(capacity) * float64(a.Percentage))
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
			if t, ok := kind[s]; ok && !t.Value.never() {
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

// never says whether a threshold with this value can never be met, and is ignored.
func (a Amount) never() bool { return a.Quantity == 0 && (a.Percentage <= 0 || a.Percentage >= 1) }

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

func (c *compiler) amount(v v1alpha1.ThresholdValue, at *field.Path) Amount {
	a, err := parseAmount(string(v))
	if err != nil {
		c.errs = append(c.errs, field.Invalid(at, v, err.Error()))
	}
	return a
}

// maxLength of a value, as in the CRD.
const maxLength = 32

// hugeExponent is of three digits or more: ParseQuantity would write such a number out, and takes minutes for nine digits.
var hugeExponent = regexp.MustCompile(`[eE][+-]?[0-9]{3,}$`)

// parseAmount reads a quantity or a percentage.
func parseAmount(s string) (Amount, error) {
	if number, ok := strings.CutSuffix(s, "%"); ok {
		p, err := strconv.ParseFloat(number, 32)
		if err != nil || strings.Trim(number, "0123456789.") != "" || p > 100 {
			return Amount{}, fmt.Errorf("must be a percentage from 0%% to 100%%")
		}
		return Amount{Percentage: float32(p) / 100}, nil
	}
	if len(s) > maxLength || hugeExponent.MatchString(s) {
		return Amount{}, fmt.Errorf("is more than any node has, or less than anything")
	}
	q, err := resource.ParseQuantity(s)
	switch {
	case err != nil:
		return Amount{}, fmt.Errorf("must be a quantity such as 500Mi, or a percentage such as 10%%: %w", err)
	case q.Sign() < 0:
		return Amount{}, fmt.Errorf("must not be negative")
	case q.Cmp(*resource.NewQuantity(math.MaxInt64/4, resource.BinarySI)) > 0:
		return Amount{}, fmt.Errorf("is more than any node has")
	}
	return Amount{Quantity: q.Value()}, nil
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
