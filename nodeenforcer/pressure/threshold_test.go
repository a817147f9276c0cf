package pressure_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/nodeenforcer/eviction"
	"github.com/podgrace/podgrace/nodeenforcer/pressure"
	"github.com/podgrace/podgrace/policy/enforcement"
)

const gi = int64(1) << 30

func hard(signal v1alpha1.EvictionSignal, value, reclaim v1alpha1.ThresholdValue) v1alpha1.EvictionThreshold {
	return v1alpha1.EvictionThreshold{Signal: signal, Value: value, MinimumReclaim: reclaim}
}

func soft(signal v1alpha1.EvictionSignal, value, reclaim v1alpha1.ThresholdValue, grace time.Duration) v1alpha1.SoftEvictionThreshold {
	return v1alpha1.SoftEvictionThreshold{EvictionThreshold: hard(signal, value, reclaim), GracePeriod: metav1.Duration{Duration: grace}}
}

func compile(t *testing.T, e *v1alpha1.NodeEviction) pressure.Thresholds {
	t.Helper()
	out, err := pressure.Compile(e)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestCompile(t *testing.T) {
	t.Parallel()
	got := compile(t, &v1alpha1.NodeEviction{
		Hard: []v1alpha1.EvictionThreshold{
			hard(v1alpha1.SignalNodeFsAvailable, "10%", "5%"),
			hard(v1alpha1.SignalImageFsAvailable, "0", ""),
			hard(v1alpha1.SignalNodeFsInodesFree, "100%", ""),
			hard(v1alpha1.SignalPIDAvailable, "1k", ""),
			hard(v1alpha1.SignalMemoryAvailable, "100Mi", "1Gi"),
		},
		Soft:                     []v1alpha1.SoftEvictionThreshold{soft(v1alpha1.SignalMemoryAvailable, "0.5Gi", "", time.Minute)},
		MemoryStall:              &v1alpha1.MemoryStall{Kind: v1alpha1.StallSome, Stall: metav1.Duration{Duration: 100 * time.Millisecond}, Window: metav1.Duration{Duration: time.Second}},
		PressureTransitionPeriod: &metav1.Duration{Duration: time.Minute},
	})
	want := pressure.Thresholds{
		List: []pressure.Threshold{
			{Signal: v1alpha1.SignalMemoryAvailable, Kind: eviction.Hard, Value: enforcement.Amount{Quantity: 100 << 20}, Reclaim: enforcement.Amount{Quantity: gi}},
			{Signal: v1alpha1.SignalPIDAvailable, Kind: eviction.Hard, Value: enforcement.Amount{Quantity: 1000}},
			{Signal: v1alpha1.SignalNodeFsAvailable, Kind: eviction.Hard, Value: enforcement.Amount{Percentage: .1}, Reclaim: enforcement.Amount{Percentage: .05}},
			{Signal: v1alpha1.SignalMemoryAvailable, Kind: eviction.Soft, Value: enforcement.Amount{Quantity: gi / 2}, Grace: time.Minute},
		},
		Stall:      &pressure.Stall{Kind: v1alpha1.StallSome, Stall: 100 * time.Millisecond, Window: time.Second},
		Transition: time.Minute, PerMinute: 10,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(pressure.Thresholds{Transition: 5 * time.Minute, PerMinute: 10}, compile(t, nil)); diff != "" {
		t.Errorf("no policy (-want +got):\n%s", diff)
	}
}

func TestCompileNamesTheField(t *testing.T) {
	t.Parallel()
	stall := func(kind v1alpha1.StallKind, stall, window time.Duration) *v1alpha1.NodeEviction {
		return &v1alpha1.NodeEviction{MemoryStall: &v1alpha1.MemoryStall{Kind: kind, Stall: metav1.Duration{Duration: stall}, Window: metav1.Duration{Duration: window}}}
	}
	value := func(v v1alpha1.ThresholdValue) *v1alpha1.NodeEviction {
		return &v1alpha1.NodeEviction{Hard: []v1alpha1.EvictionThreshold{hard(v1alpha1.SignalMemoryAvailable, v, "")}}
	}
	for _, tc := range []struct {
		in   *v1alpha1.NodeEviction
		want string
	}{
		{value("plenty"), "spec.eviction.hard[0].value"},
		{value(""), "spec.eviction.hard[0].value"},
		{value("-1"), "must not be negative"},
		{value("101%"), "percentage"},
		{value("-1%"), "percentage"},
		{value("NaN%"), "percentage"},
		{value("1e1%"), "percentage"},
		{value("%"), "percentage"},
		{value("1E6"), ""},
		{value("100Ei"), "is more than any node has"},
		{value("1e999999"), "is more than any node has"},
		{value("1e-999999999"), "less than anything"},
		{value(v1alpha1.ThresholdValue(strings.Repeat("9", 33))), "is more than any node has"},
		{&v1alpha1.NodeEviction{Hard: []v1alpha1.EvictionThreshold{hard("memory.free", "1", "")}}, "spec.eviction.hard[0].signal"},
		{&v1alpha1.NodeEviction{Hard: []v1alpha1.EvictionThreshold{hard(v1alpha1.SignalMemoryStall, "1", "")}}, "spec.eviction.hard[0].signal"},
		{&v1alpha1.NodeEviction{Hard: []v1alpha1.EvictionThreshold{hard(v1alpha1.SignalPIDAvailable, "1", ""), hard(v1alpha1.SignalPIDAvailable, "2", "")}}, "spec.eviction.hard[1].signal: Duplicate"},
		{&v1alpha1.NodeEviction{Hard: []v1alpha1.EvictionThreshold{hard(v1alpha1.SignalPIDAvailable, "1", "x")}}, "spec.eviction.hard[0].minimumReclaim"},
		{&v1alpha1.NodeEviction{Soft: []v1alpha1.SoftEvictionThreshold{soft(v1alpha1.SignalPIDAvailable, "1", "", -1)}}, "spec.eviction.soft[0].gracePeriod"},
		{&v1alpha1.NodeEviction{PressureTransitionPeriod: &metav1.Duration{Duration: -1}}, "spec.eviction.pressureTransitionPeriod"},
		{&v1alpha1.NodeEviction{MaxEvictionsPerMinute: new(int32(0))}, "spec.eviction.maxEvictionsPerMinute"},
		{&v1alpha1.NodeEviction{Mode: "Never"}, "spec.eviction.mode"},
		{stall("All", 1, time.Second), "spec.eviction.memoryStall.kind"},
		{stall("", time.Second, time.Second), "spec.eviction.memoryStall.stall"},
		{stall("", 0, time.Second), "spec.eviction.memoryStall.stall"},
		{stall("", 1, 499*time.Millisecond), "spec.eviction.memoryStall.window"},
		{stall("", 1, 11*time.Second), "spec.eviction.memoryStall.window"},
	} {
		_, err := pressure.Compile(tc.in)
		switch {
		case tc.want == "":
			if err != nil {
				t.Errorf("%+v: %v", tc.in, err)
			}
		case err == nil || !strings.Contains(err.Error(), tc.want):
			t.Errorf("%+v: got %v, want %s", tc.in, err, tc.want)
		}
	}
}

// Whatever stands in a policy is an answer.
func FuzzCompile(f *testing.F) {
	for _, s := range []string{"100Mi", "10%", "1e99999999999", "0.1m", "", "%", "1E-400", "-0"} {
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, value, reclaim string) {
		got, err := pressure.Compile(&v1alpha1.NodeEviction{Hard: []v1alpha1.EvictionThreshold{hard(v1alpha1.SignalMemoryAvailable, v1alpha1.ThresholdValue(value), v1alpha1.ThresholdValue(reclaim))}})
		if err != nil {
			return
		}
		for _, th := range got.List {
			if v, r := th.Value.Of(gi), th.Reclaim.Of(gi); v < 0 || r < 0 || v+r < 0 {
				t.Errorf("%q, %q: %+v", value, reclaim, th)
			}
		}
	})
}
