package fidelity

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	_ "unsafe"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/sets"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"
	v1helper "k8s.io/kubernetes/pkg/apis/core/v1/helper"
	"k8s.io/kubernetes/pkg/kubelet/cadvisor"
	"k8s.io/kubernetes/pkg/kubelet/cm"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager"
	kubeleteviction "k8s.io/kubernetes/pkg/kubelet/eviction"
	evictionapi "k8s.io/kubernetes/pkg/kubelet/eviction/api"
	"k8s.io/mount-utils"
	"pgregory.net/rapid"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgroupfile"
	"github.com/podgrace/podgrace/nodeenforcer/plan"
	"github.com/podgrace/podgrace/nodeenforcer/pressure"
	"github.com/podgrace/podgrace/policy/policytest/draw"
)

// containerManager begins as the kubelet's containerManagerImpl does (pkg/kubelet/cm/container_manager_linux.go, 1.36.3), up to the last field that its work on what is allocatable reads. It
// can't be made without a kubelet: NewContainerManager looks at the host's cgroups and swap.
type containerManager struct {
	sync.RWMutex
	_ cadvisor.Interface
	_ mount.Interface
	cm.NodeConfig
	_                struct{ softRequirements error }
	_, _             []func()
	_                *cm.CgroupSubsystems
	nodeInfo         *corev1.Node
	cgroupManager    cm.CgroupManager
	capacity         corev1.ResourceList
	internalCapacity corev1.ResourceList
	cgroupRoot       cm.CgroupName
	recorder         record.EventRecorder
	_, _             any // with methods as the kubelet's, as large as any interface
	cpuManager       cpumanager.Manager
}

//go:linkname enforceNodeAllocatable k8s.io/kubernetes/pkg/kubelet/cm.(*containerManagerImpl).enforceNodeAllocatableCgroups
func enforceNodeAllocatable(*containerManager, klog.Logger) error

//go:linkname nodeAllocatableReservation k8s.io/kubernetes/pkg/kubelet/cm.(*containerManagerImpl).GetNodeAllocatableReservation
func nodeAllocatableReservation(*containerManager) corev1.ResourceList

//go:linkname hardEvictionReservation k8s.io/kubernetes/pkg/kubelet/cm.hardEvictionReservation
func hardEvictionReservation([]evictionapi.Threshold, corev1.ResourceList) corev1.ResourceList

// reservedCase is a node, and what its kubelet keeps from pods. Amounts are written as people write them: a kubelet that would not start is no case.
type reservedCase struct {
	Capacity              corev1.ResourceList
	PIDs                  int64
	Kube, System          map[string]string
	KubeGroup, SystemName string
	Enforced              []string
	Unset                 bool // enforceNodeAllocatable
	ReservedCPUs          string
	Hard                  map[string]string
	MemoryQoS, Systemd    bool
}

func (c *reservedCase) GoString() string { return draw.Show(c) }

var reservedCases = draw.Of(func(s draw.Source) *reservedCase {
	huge := []string{"hugepages-2Mi", "hugepages-1Gi"}
	amounts := func() map[string]string {
		m := map[string]string{}
		if s.Chance(10) {
			m["cpu"] = draw.Pick(s, append([]string{"4", "5"}, cpus...)...)
		}
		if s.Chance(10) {
			m["memory"] = draw.Pick(s, append([]string{"1.5Gi", "5e8", "123456789m"}, memories...)...)
		}
		if s.Chance(5) {
			m["pid"] = draw.Pick(s, "1000", "0", "1", "40000")
		}
		if s.Chance(4) {
			m["ephemeral-storage"] = draw.Pick(s, "1Gi", "200Gi")
		}
		for _, name := range draw.Some(s, 3, huge...) {
			m[name] = draw.Pick(s, "0", "2Mi", "1Gi", "3Gi")
		}
		return m
	}
	c := &reservedCase{
		Capacity: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse(draw.Pick(s, "8", "4", "300", "1")), corev1.ResourceMemory: resource.MustParse(draw.Pick(s, "8Gi", "8052312Ki", "16371233792", "512Mi")),
			corev1.ResourceEphemeralStorage: resource.MustParse("100Gi"),
		},
		PIDs: draw.Pick[int64](s, 32768, 0, 4194304), Kube: amounts(), System: amounts(), KubeGroup: draw.Pick(s, "/runtime", "/a/kube"), SystemName: draw.Pick(s, "/system", "/runtime"),
		Enforced: draw.Some(s, 6, "pods", "kube-reserved", "system-reserved", "kube-reserved-compressible", "system-reserved-compressible"),
		Unset:    s.Chance(2), Hard: map[string]string{}, MemoryQoS: s.Chance(4), Systemd: s.Chance(8),
	}
	if c.Systemd {
		c.KubeGroup, c.SystemName = draw.Pick(s, "/runtime.slice", "/a.slice/a-kube.slice"), draw.Pick(s, "/system.slice", "/runtime.slice")
	}
	for _, name := range draw.Some(s, 5, huge...) {
		c.Capacity[corev1.ResourceName(name)] = resource.MustParse(draw.Pick(s, "2Gi", "0"))
	}
	if s.Chance(3) {
		c.ReservedCPUs = draw.Pick(s, "0", "0-1", "0,2")
	}
	for _, signal := range draw.Some(s, 8, "memory.available", "nodefs.available") {
		c.Hard[signal] = draw.Pick(s, "100Mi", "5%", "0.3%", "99.9%", "7.77%", "0%", "100%", "1Gi", "4097", "20Gi")
	}
	return c
})

func (c *reservedCase) enforced() []string {
	if c.Unset {
		return []string{"pods"} // pkg/kubelet/apis/config/v1beta1/defaults.go
	}
	return c.Enforced
}

func (c *reservedCase) node(v cgroupfile.Version) plan.Node {
	n := plan.Node{Name: nodeName, Version: v, Driver: plan.Cgroupfs, PageSize: nodePage, Capacity: c.Capacity, PIDs: c.PIDs, Kubelet: &kubeletconfigv1beta1.KubeletConfiguration{
		KubeReserved: c.Kube, SystemReserved: c.System, KubeReservedCgroup: c.KubeGroup, SystemReservedCgroup: c.SystemName, ReservedSystemCPUs: c.ReservedCPUs,
		EvictionHard: c.Hard, FeatureGates: map[string]bool{"MemoryQoS": c.MemoryQoS},
	}}
	if c.Systemd {
		n.Driver = plan.Systemd
	}
	if !c.Unset {
		n.Kubelet.EnforceNodeAllocatable = append([]string{}, c.Enforced...)
	}
	return n
}

// writer is a CgroupManager that remembers in order what the kubelet would write. What is of the pods comes from a goroutine of its own.
type writer struct {
	cm.CgroupManager
	systemd bool
	pods    chan *cm.ResourceConfig
	held    []*cm.CgroupConfig
}

func (w *writer) Validate(cm.CgroupName) error { return nil }

func (w *writer) CgroupName(name string) cm.CgroupName {
	if w.systemd {
		return cm.ParseSystemdToCgroupName(name)
	}
	return cm.ParseCgroupfsToCgroupName(name)
}

func (w *writer) Update(_ klog.Logger, c *cm.CgroupConfig) error {
	if c.Name.ToCgroupfs() == "/kubepods" {
		w.pods <- c.ResourceParameters
		return nil
	}
	w.held = append(w.held, c)
	return nil
}

// kubelet is the kubelet of the case (cmd/kubelet/app/server.go run, where it parses what is reserved, 1.36.3).
func (c *reservedCase) kubelet(t *rapid.T) (*containerManager, *writer) {
	list := func(m map[string]string) corev1.ResourceList {
		l := corev1.ResourceList{}
		for name, text := range m {
			l[corev1.ResourceName(name)] = resource.MustParse(text)
		}
		return l
	}
	w := &writer{systemd: c.Systemd, pods: make(chan *cm.ResourceConfig, 1)}
	m := &containerManager{nodeInfo: &corev1.Node{}, cgroupManager: w, cgroupRoot: cm.NewCgroupName(cm.RootCgroupName, "kubepods"), recorder: &record.FakeRecorder{},
		cpuManager: cpumanager.NewFakeManager(logr.Discard()), capacity: c.Capacity, internalCapacity: maps.Clone(c.Capacity)}
	if c.PIDs > 0 {
		m.internalCapacity["pid"] = *resource.NewQuantity(c.PIDs, resource.DecimalSI)
	}
	m.CgroupsPerQOS, m.EnforceNodeAllocatable = true, sets.New(c.enforced()...)
	m.KubeReserved, m.SystemReserved, m.KubeReservedCgroupName, m.SystemReservedCgroupName = list(c.Kube), list(c.System), c.KubeGroup, c.SystemName
	if c.ReservedCPUs != "" {
		delete(m.KubeReserved, corev1.ResourceCPU)
		m.SystemReserved[corev1.ResourceCPU] = resource.MustParse(map[string]string{"0": "1", "0-1": "2", "0,2": "2"}[c.ReservedCPUs])
	}
	var err error
	if m.HardEvictionThresholds, err = kubeleteviction.ParseThresholdConfig(nil, c.Hard, nil, nil, nil); err != nil {
		t.Fatal(err)
	}
	return m, w
}

// files are those that libcontainer makes of the kubelet's configuration of a cgroup, as the kernel prints them: memory of 0 is not written, and no process is one (fs2/memory.go and fs2/pids.go,
// github.com/opencontainers/cgroups 0.0.6). Sizes of huge pages that the configuration omits have 0 (maybeSetHugetlb, pkg/kubelet/cm/cgroup_manager_linux.go, 1.36.3).
func (c *reservedCase) files(v cgroupfile.Version, r *cm.ResourceConfig) map[string]string {
	files := map[string]string{}
	limit, suffix := "memory.max", ".max"
	if v == cgroupfile.V1 {
		limit, suffix = "memory.limit_in_bytes", ".limit_in_bytes"
	}
	if r.CPUShares != nil && v == cgroupfile.V1 {
		files["cpu.shares"] = strconv.FormatUint(*r.CPUShares, 10)
	} else if r.CPUShares != nil {
		files["cpu.weight"] = strconv.FormatUint(getCPUWeight(r.CPUShares), 10)
	}
	if r.Memory != nil && *r.Memory != 0 {
		files[limit] = wholePages(*r.Memory)
	}
	if r.PidsLimit != nil {
		files["pids.max"] = strconv.FormatInt(max(*r.PidsLimit, 1), 10)
	}
	for file, value := range r.Unified {
		n, _ := strconv.ParseInt(value, 10, 64)
		if v == cgroupfile.V2 {
			files[file] = wholePages(n)
		}
	}
	for name := range c.Capacity {
		if !v1helper.IsHugePageResourceName(name) {
			continue
		}
		size, _ := v1helper.HugePageSizeFromResourceName(name)
		unit, _ := v1helper.HugePageUnitSizeFromByteSize(size.Value())
		for _, kind := range []string{"", ".rsvd"} {
			files["hugetlb."+unit+kind+suffix] = strconv.FormatInt(r.HugePageLimit[size.Value()]/size.Value()*size.Value(), 10)
		}
	}
	return files
}

// TestFidelityNodeReserved is not parallel: the gate MemoryQoS, which it sets, is one for the whole program. kubepods and the cgroups of reservations have what the kubelet writes, whichever of them it enforces; and hard eviction thresholds, which take from what the scheduler
// may give, take nothing from them. What a threshold comes to is the kubelet's number, too.
func TestFidelityNodeReserved(t *testing.T) {
	defer func() {
		if err := utilfeature.DefaultMutableFeatureGate.Set("MemoryQoS=false"); err != nil {
			t.Error(err)
		}
	}()
	wanted := draw.Shares{"a reservation is held": 40, "what can be throttled": 20, "both in one cgroup": 5, "protected": 5, "pods are not enforced": 20, "a threshold takes memory": 20, "a share": 10, "all is reserved": 3}
	draw.Check(t, wanted, func(t *rapid.T, counts *draw.Tally) {
		c := reservedCases.Draw(t, "case")
		v := rapid.SampledFrom([]cgroupfile.Version{cgroupfile.V1, cgroupfile.V2}).Draw(t, "version")
		setGate(t, c.MemoryQoS)
		m, w := c.kubelet(t)
		if err := enforceNodeAllocatable(m, klog.Background()); err != nil {
			t.Fatal(err)
		}
		want := map[string]map[string]string{}
		for _, g := range w.held {
			at := g.Name.ToCgroupfs()
			if c.Systemd {
				at = g.Name.ToSystemd()
			}
			if want[at] == nil {
				want[at] = map[string]string{}
			} else {
				counts.Add("both in one cgroup")
			}
			maps.Copy(want[at], c.files(v, g.ResourceParameters))
		}
		pods := c.files(v, <-w.pods)
		got := map[string]map[string]string{}
		for _, g := range plan.Build(c.node(v), nil, nil).Groups {
			files := map[string]string{}
			for file, value := range g.Files {
				files[file] = value.Want
			}
			switch g.Level {
			case plan.LevelReserved:
				got[g.Path] = files
			case plan.LevelKubepods:
				// Each minute the QoS manager writes another value there, which node qos has.
				for _, of := range []map[string]string{files, pods} {
					maps.DeleteFunc(of, func(file, _ string) bool {
						return strings.HasPrefix(file, "hugetlb") || c.MemoryQoS && (file == "memory.min" || file == "memory.low")
					})
				}
				if diff := cmp.Diff(pods, files); diff != "" {
					t.Fatalf("kubepods: -kubelet +plan:\n%s\n%s", diff, draw.Show(c))
				}
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("-kubelet +plan:\n%s\n%s", diff, draw.Show(c))
		}
		c.thresholds(t, m, counts)
		c.count(counts, m, w)
	})
}

// setGate sets the kubelet's gate MemoryQoS.
func setGate(t *rapid.T, on bool) {
	if err := utilfeature.DefaultMutableFeatureGate.Set(fmt.Sprintf("MemoryQoS=%t", on)); err != nil {
		t.Fatal(err)
	}
}

// thresholds compares what hard thresholds come to. The scheduler may give what is left without them and the reservations; kubepods may have the rest of the capacity without the reservations.
func (c *reservedCase) thresholds(t *rapid.T, m *containerManager, counts *draw.Tally) {
	for name, signal := range map[corev1.ResourceName]v1alpha1.EvictionSignal{corev1.ResourceMemory: v1alpha1.SignalMemoryAvailable, corev1.ResourceEphemeralStorage: v1alpha1.SignalNodeFsAvailable} {
		value, ok := c.Hard[string(signal)]
		if !ok {
			continue
		}
		compiled, err := pressure.Compile(&v1alpha1.NodeEviction{Hard: []v1alpha1.EvictionThreshold{{Signal: signal, Value: v1alpha1.ThresholdValue(value)}}})
		if err != nil {
			t.Fatal(err)
		}
		got, capacity, want := int64(0), c.Capacity[name], hardEvictionReservation(m.HardEvictionThresholds, c.Capacity)[name]
		for _, threshold := range compiled.List {
			got = threshold.Value.Of(capacity.Value())
		}
		if got != want.Value() {
			t.Fatalf("%s of %s is %d, the kubelet's %s", value, capacity.String(), got, want.String())
		}
		reserved := m.SystemReserved[name].DeepCopy()
		reserved.Add(m.KubeReserved[name])
		reserved.Add(want)
		if all := nodeAllocatableReservation(m)[name]; all.Cmp(reserved) != 0 {
			t.Fatalf("%s of %s are kept from the scheduler, not %s", all.String(), name, reserved.String())
		}
		if !want.IsZero() && name == corev1.ResourceMemory {
			counts.Add("a threshold takes memory")
			if strings.HasSuffix(value, "%") {
				counts.Add("a share")
			}
		}
	}
}

func (c *reservedCase) count(counts *draw.Tally, m *containerManager, w *writer) {
	kinds := map[string]bool{
		"a reservation is held": len(w.held) > 0, "what can be throttled": slices.ContainsFunc(c.enforced(), func(s string) bool { return strings.HasSuffix(s, "-compressible") }),
		"pods are not enforced": !slices.Contains(c.enforced(), "pods"),
	}
	for _, g := range w.held {
		kinds["protected"] = kinds["protected"] || len(g.ResourceParameters.Unified) > 0
	}
	left := c.Capacity.Memory().DeepCopy()
	left.Sub(*m.KubeReserved.Memory())
	left.Sub(*m.SystemReserved.Memory())
	kinds["all is reserved"] = left.Sign() <= 0
	for kind, is := range kinds {
		if is {
			counts.Add(kind)
		}
	}
}
