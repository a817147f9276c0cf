package enforcement_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	statsv1alpha1 "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/policy/enforcement"
)

func TestLeftOf(t *testing.T) {
	fs := &statsv1alpha1.FsStats{AvailableBytes: new(uint64(30)), CapacityBytes: new(uint64(100)), InodesFree: new(uint64(4)), Inodes: new(uint64(9))}
	for name, test := range map[string]struct {
		node     statsv1alpha1.NodeStats
		capacity corev1.ResourceList
		want     map[v1alpha1.EvictionSignal]enforcement.Left
	}{
		"huge pages are nobody else's": {
			node:     statsv1alpha1.NodeStats{Memory: &statsv1alpha1.MemoryStats{AvailableBytes: new(uint64(50 << 20)), WorkingSetBytes: new(uint64(50 << 20))}},
			capacity: corev1.ResourceList{"hugepages-2Mi": resource.MustParse("30Mi"), "hugepages-1Gi": resource.MustParse("0"), "memory": resource.MustParse("100Mi")},
			want:     map[v1alpha1.EvictionSignal]enforcement.Left{v1alpha1.SignalMemoryAvailable: {Available: 20 << 20, Capacity: 100 << 20}},
		},
		"all": {
			node: statsv1alpha1.NodeStats{
				Memory: &statsv1alpha1.MemoryStats{AvailableBytes: new(uint64(20)), WorkingSetBytes: new(uint64(60)), UsageBytes: new(uint64(70))},
				Rlimit: &statsv1alpha1.RlimitStats{MaxPID: new(int64(1000)), NumOfRunningProcesses: new(int64(300))},
				Fs:     fs, Runtime: &statsv1alpha1.RuntimeStats{ImageFs: &statsv1alpha1.FsStats{AvailableBytes: new(uint64(1)), CapacityBytes: new(uint64(2))}},
			},
			want: map[v1alpha1.EvictionSignal]enforcement.Left{
				v1alpha1.SignalMemoryAvailable: {Available: 20, Capacity: 80}, v1alpha1.SignalPIDAvailable: {Available: 700, Capacity: 1000},
				v1alpha1.SignalNodeFsAvailable: {Available: 30, Capacity: 100}, v1alpha1.SignalNodeFsInodesFree: {Available: 4, Capacity: 9},
				v1alpha1.SignalImageFsAvailable: {Available: 1, Capacity: 2},
			},
		},
		"a kubelet that has none yet": {want: map[v1alpha1.EvictionSignal]enforcement.Left{}},
		"half of each": {
			node: statsv1alpha1.NodeStats{
				Memory: &statsv1alpha1.MemoryStats{AvailableBytes: new(uint64(20))}, Rlimit: &statsv1alpha1.RlimitStats{MaxPID: new(int64(1))},
				Fs: &statsv1alpha1.FsStats{AvailableBytes: new(uint64(30)), InodesFree: new(uint64(1))}, Runtime: &statsv1alpha1.RuntimeStats{},
			},
			want: map[v1alpha1.EvictionSignal]enforcement.Left{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, enforcement.LeftOf(&statsv1alpha1.Summary{Node: test.node}, test.capacity)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestNewThresholds(t *testing.T) {
	policy := func(mode v1alpha1.NodeMode, eviction v1alpha1.EvictionMode, values ...v1alpha1.ThresholdValue) *v1alpha1.NodePolicy {
		p := &v1alpha1.NodePolicy{Spec: v1alpha1.NodePolicySpec{Mode: mode, Eviction: &v1alpha1.NodeEviction{Mode: eviction}}}
		for _, v := range values {
			p.Spec.Eviction.Hard = append(p.Spec.Eviction.Hard, v1alpha1.EvictionThreshold{Signal: v1alpha1.SignalMemoryAvailable, Value: v})
		}
		return p
	}
	soft := policy(v1alpha1.NodeModeTune, "", "5%")
	soft.Spec.Eviction.Soft = []v1alpha1.SoftEvictionThreshold{{EvictionThreshold: v1alpha1.EvictionThreshold{Signal: v1alpha1.SignalMemoryAvailable, Value: "90%"}}}
	for name, test := range map[string]struct {
		before, after *v1alpha1.NodePolicy
		want          string
	}{
		"none":                           {nil, nil, ""},
		"a new policy":                   {nil, policy(v1alpha1.NodeModeTune, "", "90%"), "hard memory.available of 90%"},
		"a policy that goes":             {policy(v1alpha1.NodeModeTune, "", "90%"), nil, ""},
		"the same":                       {policy(v1alpha1.NodeModeTune, "", "10%"), policy(v1alpha1.NodeModeRepair, "", "10%"), ""},
		"a value that is never met":      {policy(v1alpha1.NodeModeTune, "", "100%"), policy(v1alpha1.NodeModeTune, "", "90%"), "hard memory.available of 90%"},
		"and one after another":          {policy(v1alpha1.NodeModeTune, "", "90%"), policy(v1alpha1.NodeModeTune, "", "100%"), ""},
		"one that observes":              {nil, policy("", "", "90%"), ""},
		"one that does no longer":        {policy("", "", "90%"), policy("", v1alpha1.EvictionModeEvict, "90%"), "hard memory.available of 90%"},
		"one that observes pods only":    {nil, policy(v1alpha1.NodeModeTune, v1alpha1.EvictionModeObserve, "90%"), ""},
		"a higher value":                 {policy(v1alpha1.NodeModeTune, "", "10%"), policy(v1alpha1.NodeModeTune, "", "90%"), "hard memory.available of 90%"},
		"a lower value":                  {policy(v1alpha1.NodeModeTune, "", "10Gi"), policy(v1alpha1.NodeModeTune, "", "1Gi"), ""},
		"a quantity after a percentage":  {policy(v1alpha1.NodeModeTune, "", "10%"), policy(v1alpha1.NodeModeTune, "", "1Gi"), "hard memory.available of 1Gi"},
		"a soft one beside the same one": {policy(v1alpha1.NodeModeTune, "", "5%"), soft, "soft memory.available of 90%"},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			for _, threshold := range enforcement.NewThresholds(test.before, test.after) {
				got += threshold.String()
			}
			if got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}

func TestThresholdMet(t *testing.T) {
	left := map[v1alpha1.EvictionSignal]enforcement.Left{v1alpha1.SignalMemoryAvailable: {Available: 100, Capacity: 1000}}
	for value, want := range map[v1alpha1.ThresholdValue]string{
		"10%": "false true", "11%": "true true", "100": "false true", "101": "true true", "100%": "false true", "0": "false true", "nonsense": "false false",
	} {
		met, known := enforcement.Threshold{List: "hard", Signal: v1alpha1.SignalMemoryAvailable, Value: value}.Met(left)
		if got := fmt.Sprint(met, known); got != want {
			t.Errorf("%s: %s, want %s", value, got, want)
		}
	}
	if met, known := (enforcement.Threshold{Signal: v1alpha1.SignalPIDAvailable, Value: "1"}).Met(left); met || known {
		t.Error("a signal without statistics")
	}
}
