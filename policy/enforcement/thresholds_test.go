package enforcement_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/policy/enforcement"
)

func TestThresholdRemarks(t *testing.T) {
	t.Parallel()
	const gib = int64(1) << 30
	on := func(signal v1alpha1.EvictionSignal, value v1alpha1.ThresholdValue) *v1alpha1.NodeEviction {
		return &v1alpha1.NodeEviction{Hard: []v1alpha1.EvictionThreshold{{Signal: signal, Value: value}}}
	}
	memory := func(value v1alpha1.ThresholdValue) *v1alpha1.NodeEviction {
		return on(v1alpha1.SignalMemoryAvailable, value)
	}
	soft := func(value v1alpha1.ThresholdValue) *v1alpha1.NodeEviction {
		return &v1alpha1.NodeEviction{Soft: []v1alpha1.SoftEvictionThreshold{{EvictionThreshold: v1alpha1.EvictionThreshold{Signal: v1alpha1.SignalNodeFsAvailable, Value: value}}}}
	}
	stall := func(stall, window time.Duration) *v1alpha1.NodeEviction {
		return &v1alpha1.NodeEviction{MemoryStall: &v1alpha1.MemoryStall{Stall: metav1.Duration{Duration: stall}, Window: metav1.Duration{Duration: window}}}
	}
	for name, tt := range map[string]struct {
		eviction *v1alpha1.NodeEviction
		memory   int64
		want     string
	}{
		"no eviction":                  {},
		"a tenth":                      {eviction: memory("10%")},
		"half":                         {eviction: memory("50%")},
		"more than half":               {eviction: memory("50.5%"), want: "eviction.hard memory.available of 50.5% is more than half of the capacity"},
		"90% of a disk":                {eviction: soft("90%"), want: "eviction.soft nodefs.available of 90%"},
		"100% is no threshold":         {eviction: memory("100%")},
		"a quantity, no node is known": {eviction: memory("10Gi")},
		"a quantity, more than half":   {eviction: memory("5Gi"), memory: 8 * gib, want: "is more than half of a node's memory, 8Gi"},
		"a quantity, less than half":   {eviction: memory("3Gi"), memory: 8 * gib},
		"a quantity of a disk":         {eviction: on(v1alpha1.SignalNodeFsAvailable, "100Gi"), memory: 8 * gib},
		"what can't be read":           {eviction: memory("much"), memory: 8 * gib},
		"an exponent":                  {eviction: memory("1e999999999"), memory: 8 * gib},
		"a stall of a tenth":           {eviction: stall(100*time.Millisecond, time.Second)},
		"a stall of a five-hundredth":  {eviction: stall(time.Millisecond, 500*time.Millisecond), want: "eviction.memoryStall of 1ms in 500ms is less than a fiftieth of the time: ordinary work waits as long, and pods are evicted for it. Usual is a tenth, such as 50ms"},
		"a stall that the CRD refuses": {eviction: stall(0, time.Second)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := strings.Join(enforcement.ThresholdRemarks(&v1alpha1.NodePolicySpec{Eviction: tt.eviction}, tt.memory), "\n")
			if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}
