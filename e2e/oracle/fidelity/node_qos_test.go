package fidelity

import (
	"context"
	"strconv"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/cm"
	"pgregory.net/rapid"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgroupfile"
	"github.com/podgrace/podgrace/nodeenforcer/plan"
	"github.com/podgrace/podgrace/policy/policytest/draw"
)

// recorder is a CgroupManager that only remembers what the kubelet's QoS manager would write.
type recorder struct {
	cm.CgroupManager
	sync.Mutex
	pods    []*corev1.Pod
	updates map[string]cm.ResourceConfig
}

func (r *recorder) Validate(cm.CgroupName) error { return nil }
func (r *recorder) Exists(cm.CgroupName) bool    { return true }

func (r *recorder) Update(_ klog.Logger, c *cm.CgroupConfig) error {
	r.Lock()
	defer r.Unlock()
	r.updates[c.Name.ToCgroupfs()] = *c.ResourceParameters
	return nil
}

func (r *recorder) active() []*corev1.Pod {
	r.Lock()
	defer r.Unlock()
	return r.pods
}

func (r *recorder) set(pods []*corev1.Pod) {
	r.Lock()
	defer r.Unlock()
	r.pods = pods
}

func (r *recorder) get(path string) cm.ResourceConfig {
	r.Lock()
	defer r.Unlock()
	return r.updates[path]
}

// TestFidelityNodeQOS: the QoS levels have the shares (in v2 the weight that the kubelet makes of them) and, where it is reserved, the memory that the kubelet's own QoS manager writes.
// One manager serves all cases; its loop of a minute writes the same as the call.
func TestFidelityNodeQOS(t *testing.T) {
	t.Parallel()
	// Only the QoS manager looks at this gate.
	if err := utilfeature.DefaultMutableFeatureGate.Set("QOSReserved=true"); err != nil {
		t.Fatal(err)
	}
	const percent = 70
	r := &recorder{updates: map[string]cm.ResourceConfig{}}
	config := cm.NodeConfig{CgroupsPerQOS: true, QOSReserved: map[corev1.ResourceName]int64{corev1.ResourceMemory: percent}}
	manager, err := cm.NewQOSContainerManager(nil, cm.NewCgroupName(cm.RootCgroupName, "kubepods"), config, r)
	if err != nil {
		t.Fatal(err)
	}
	allocatable := corev1.ResourceList{corev1.ResourceMemory: *resource.NewQuantity(nodeMemory, resource.BinarySI)}
	if err := manager.Start(context.Background(), func() corev1.ResourceList { return allocatable }, r.active); err != nil {
		t.Fatal(err)
	}
	wanted := draw.Shares{"shares above the least": 30, "limited": 10, "not limited": 1}
	draw.Check(t, wanted, func(t *rapid.T, counts *draw.Tally) {
		c := nodeCases.Draw(t, "case")
		c.Root, c.Systemd, c.MemoryQoS, c.ReservedPercent = "/", false, false, 0
		r.set(c.Pods)
		if err := manager.UpdateCgroups(klog.Background()); err != nil {
			t.Fatal(err)
		}
		unified := map[string]string{}
		for _, g := range plan.Build(c.node(cgroupfile.V2), nil, c.Pods).Groups {
			unified[g.Path] = g.Files["cpu.weight"].Want
		}
		tree := plan.Build(c.node(cgroupfile.V1), &v1alpha1.NodePolicySpec{QOSReserved: &v1alpha1.QOSReserved{MemoryPercent: percent}}, c.Pods)
		for _, g := range tree.Groups {
			if g.Level != plan.LevelQOS {
				continue
			}
			want := r.get(g.Path)
			if got := g.Files["cpu.shares"].Want; got != strconv.FormatUint(*want.CPUShares, 10) {
				t.Fatalf("%s has shares %s, the kubelet's %d\n%s", g.Path, got, *want.CPUShares, draw.Show(c))
			}
			if weight, got := strconv.FormatUint(getCPUWeight(want.CPUShares), 10), unified[g.Path]; got != weight {
				t.Fatalf("%s has weight %s, the kubelet's %s\n%s", g.Path, got, weight, draw.Show(c))
			}
			if *want.CPUShares > 2 {
				counts.Add("shares above the least")
			}
			// What is not positive the kernel refuses, or libcontainer does not write.
			limit := ""
			if *want.Memory >= nodePage {
				limit = wholePages(*want.Memory)
				counts.Add("limited")
			} else {
				counts.Add("not limited")
			}
			if got := g.Files["memory.limit_in_bytes"].Want; got != limit {
				t.Fatalf("%s has a limit of %q, the kubelet's %q\n%s", g.Path, got, limit, draw.Show(c))
			}
		}
	})
}
