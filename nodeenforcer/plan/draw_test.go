package plan_test

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"
	"pgregory.net/rapid"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgroupfile"
	"github.com/podgrace/podgrace/nodeenforcer/plan"
)

// Random nodes, policies and pods. Most are sound; some have what no API server lets through, since pods also come from files.

// planCase is an input of Build.
type planCase struct {
	node   plan.Node
	policy *v1alpha1.NodePolicySpec
	pods   []*corev1.Pod
}

func (c planCase) build() *plan.Tree { return plan.Build(c.node, c.policy, c.pods) }

func drawCase(t *rapid.T) planCase {
	c := planCase{node: drawNode(t)}
	if rapid.IntRange(0, 9).Draw(t, "policy") > 0 {
		c.policy = drawPolicy(t)
	}
	for i := range rapid.IntRange(0, 8).Draw(t, "pods") {
		c.pods = append(c.pods, drawPod(t, i))
	}
	return c
}

func drawNode(t *rapid.T) plan.Node {
	n := plan.Node{
		Name:           "n1",
		Version:        rapid.SampledFrom([]cgroupfile.Version{cgroupfile.V1, cgroupfile.V2, cgroupfile.V2, 0}).Draw(t, "version"),
		Driver:         rapid.SampledFrom([]plan.Driver{plan.Cgroupfs, plan.Systemd, ""}).Draw(t, "driver"),
		PageSize:       rapid.SampledFrom([]int64{4096, 65536, 0}).Draw(t, "page"),
		PIDs:           rapid.SampledFrom([]int64{0, 32768}).Draw(t, "pids"),
		KubeletVersion: rapid.SampledFrom([]string{"", "v1.36.3", "v1.30.0", "v1.37.0", "what"}).Draw(t, "kubelet version"),
		Capacity:       corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi")},
	}
	if rapid.Bool().Draw(t, "huge pages") {
		n.Capacity["hugepages-2Mi"] = resource.MustParse("64Mi")
	}
	if rapid.IntRange(0, 19).Draw(t, "no capacity") == 19 {
		n.Capacity = nil
	}
	if rapid.IntRange(0, 4).Draw(t, "kubelet") == 0 {
		return n
	}
	n.Kubelet = &kubeletconfigv1beta1.KubeletConfiguration{
		CgroupRoot:         rapid.SampledFrom([]string{"", "/", "/podgrace", "a/b-c", "//x", "../.."}).Draw(t, "root"),
		CPUCFSQuota:        new(rapid.IntRange(0, 4).Draw(t, "quota") > 0),
		PodPidsLimit:       new(rapid.SampledFrom([]int64{-1, 0, 100}).Draw(t, "pod pids")),
		KubeReserved:       map[string]string{"memory": rapid.SampledFrom([]string{"1Gi", "9Gi", "x", "-1"}).Draw(t, "reserved")},
		ReservedSystemCPUs: rapid.SampledFrom([]string{"", "0-1", "9-"}).Draw(t, "reserved cpus"),
		QOSReserved:        map[string]string{"memory": rapid.SampledFrom([]string{"50%", "x"}).Draw(t, "qos reserved")},
		FeatureGates: map[string]bool{
			"MemoryQoS": rapid.IntRange(0, 3).Draw(t, "memory qos") == 0, "QOSReserved": rapid.Bool().Draw(t, "gate"),
			"PodLevelResourceManagers": rapid.IntRange(0, 3).Draw(t, "managers") == 0, "AllBeta": rapid.IntRange(0, 9).Draw(t, "beta") > 0,
		},
		MemoryReservationPolicy: rapid.SampledFrom([]kubeletconfigv1beta1.MemoryReservationPolicy{"", kubeletconfigv1beta1.TieredReservationMemoryReservationPolicy}).Draw(t, "tiers"),
		EnforceNodeAllocatable: rapid.SampledFrom([][]string{
			nil, {"none"}, {"pods", "kube-reserved", "system-reserved"}, {"pods", "system-reserved-compressible", "kube-reserved"},
		}).Draw(t, "enforced"),
		KubeReservedCgroup:   rapid.SampledFrom([]string{"", "/", "/kube.slice", "/a/kube-daemons.slice", "/kubepods/burstable", "../x"}).Draw(t, "kube's cgroup"),
		SystemReservedCgroup: rapid.SampledFrom([]string{"/system.slice", "/kube.slice"}).Draw(t, "the system's cgroup"),
		CPUManagerPolicy:     rapid.SampledFrom([]string{"none", "static"}).Draw(t, "cpu manager"),
	}
	if rapid.Bool().Draw(t, "cpus") {
		n.CPUs = &plan.CPUManagerState{PolicyName: "static", DefaultCPUSet: rapid.SampledFrom([]string{"0-3", "", "x"}).Draw(t, "cpus"),
			Entries: map[string]map[string]string{"uid-0": {"c0": "1"}}}
	}
	return n
}

func drawPolicy(t *rapid.T) *v1alpha1.NodePolicySpec {
	p := &v1alpha1.NodePolicySpec{}
	if rapid.Bool().Draw(t, "qosReserved") {
		p.QOSReserved = &v1alpha1.QOSReserved{MemoryPercent: rapid.Int32Range(0, 100).Draw(t, "percent")}
	}
	if rapid.Bool().Draw(t, "memory") {
		p.Memory = &v1alpha1.NodeMemory{Protection: rapid.SampledFrom([]v1alpha1.NodeMemoryProtection{"", "None", "Tiered", "Tiered"}).Draw(t, "protection")}
		if rapid.Bool().Draw(t, "throttle") {
			p.Memory.ThrottlePercent = new(rapid.Int32Range(1, 100).Draw(t, "percent"))
		}
	}
	if rapid.Bool().Draw(t, "oom") {
		p.OOM = &v1alpha1.NodeOOM{Order: rapid.SampledFrom([]v1alpha1.OOMOrder{"", "QOS", "Priority", "Priority"}).Draw(t, "order")}
	}
	if rapid.Bool().Draw(t, "bounds") {
		p.Bounds = &v1alpha1.EnforcementBounds{
			MaxProtection:             rapid.SampledFrom([]v1alpha1.MemoryProtection{"", "None", "Low", "Min"}).Draw(t, "max"),
			MaxProtectedMemoryPercent: new(rapid.Int32Range(0, 100).Draw(t, "percent")),
			MaxCPUWeight:              new(rapid.Int32Range(1, 10000).Draw(t, "cpu")),
			MaxIOWeight:               new(rapid.Int32Range(1, 10000).Draw(t, "io")),
		}
	}
	return p
}

var annotations = []string{
	"", "", "", "{}", "null", "no JSON", `{"oom":{"rank":100}}`, `{"oom":{"rank":0}}`, `{"oom":{"rank":50},"cpu":{"weight":10000},"io":{"weight":1}}`,
	`{"memory":{"protection":"Min"}}`, `{"memory":{"protection":"Low","throttlePercent":80}}`, `{"memory":{"protection":"None"}}`, `{"io":{"weight":10000}}`,
	`{"cpu":{"weight":0}}`, `{"cpu":{"weight":1},"eviction":{"order":7}}`, `{"OOM":{"rank":1}}`, `{"oom":{"rank":1,"rank":2}}`,
}

func drawPod(t *rapid.T, i int) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprintf("pod-%d", i), UID: types.UID(fmt.Sprintf("uid-%d", i))},
		Spec:       corev1.PodSpec{NodeName: "n1", Priority: new(rapid.SampledFrom([]int32{0, 0, 10, -5, 1000, 2000001000}).Draw(t, "priority"))},
		Status:     corev1.PodStatus{Phase: rapid.SampledFrom([]corev1.PodPhase{"Running", "Running", "Running", "Pending", "Failed"}).Draw(t, "phase")},
	}
	if a := rapid.SampledFrom(annotations).Draw(t, "annotation"); a != "" {
		p.Annotations = map[string]string{v1alpha1.AnnotationEnforcement: a}
	}
	if *p.Spec.Priority > 1_000_000 {
		p.Spec.PriorityClassName = "system-node-critical"
	}
	if rapid.IntRange(0, 9).Draw(t, "odd uid") == 9 {
		p.UID = rapid.SampledFrom([]types.UID{"", "uid-0", "../..", "a_b", "a/b", types.UID(strings.Repeat("x", 300))}).Draw(t, "uid")
	}
	whole := rapid.IntRange(0, 3).Draw(t, "guaranteed") == 0
	for n := range rapid.IntRange(0, 3).Draw(t, "containers") {
		p.Spec.Containers = append(p.Spec.Containers, drawContainer(t, fmt.Sprintf("c%d", n), whole))
	}
	for n := range rapid.SampledFrom([]int{0, 0, 1, 2}).Draw(t, "init") {
		c := drawContainer(t, fmt.Sprintf("i%d", n), whole)
		if rapid.Bool().Draw(t, "sidecar") {
			c.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
		}
		p.Spec.InitContainers = append(p.Spec.InitContainers, c)
	}
	if rapid.IntRange(0, 4).Draw(t, "pod level") == 0 {
		r := drawContainer(t, "", false).Resources
		p.Spec.Resources = &r
	}
	if rapid.IntRange(0, 4).Draw(t, "overhead") == 0 {
		p.Spec.Overhead = drawList(t)
	}
	drawStatus(t, p, i)
	return p
}

func drawStatus(t *rapid.T, p *corev1.Pod, i int) {
	status := func(c corev1.Container, n int) corev1.ContainerStatus {
		s := corev1.ContainerStatus{Name: c.Name, ContainerID: fmt.Sprintf("containerd://%d-%d", i, n), State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
		if rapid.IntRange(0, 9).Draw(t, "odd id") == 9 {
			s.ContainerID = rapid.SampledFrom([]string{"", "x", "containerd://", "cri-o://..", "cri-o://a", "rkt://a", "containerd://a/b"}).Draw(t, "id")
		}
		if rapid.IntRange(0, 4).Draw(t, "resized") == 0 {
			s.AllocatedResources, s.Resources = drawList(t), &corev1.ResourceRequirements{Limits: drawList(t)}
		}
		return s
	}
	for n, c := range p.Spec.Containers {
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, status(c, n))
	}
	for n, c := range p.Spec.InitContainers {
		p.Status.InitContainerStatuses = append(p.Status.InitContainerStatuses, status(c, 10+n))
	}
	if rapid.IntRange(0, 4).Draw(t, "pending") == 0 {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodResizePending, Status: corev1.ConditionTrue}}
		p.Status.AllocatedResources, p.Status.Resources = drawList(t), &corev1.ResourceRequirements{Limits: drawList(t)}
	}
}

func drawContainer(t *rapid.T, name string, whole bool) corev1.Container {
	c := corev1.Container{Name: name, Resources: corev1.ResourceRequirements{Requests: drawList(t), Limits: drawList(t)}}
	if whole {
		list := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("100Mi")}
		c.Resources = corev1.ResourceRequirements{Requests: list, Limits: list.DeepCopy()}
	}
	return c
}

func drawList(t *rapid.T) corev1.ResourceList {
	list := corev1.ResourceList{}
	for _, r := range []struct {
		name   corev1.ResourceName
		values []string
	}{
		{corev1.ResourceCPU, []string{"", "1m", "15m", "100m", "1", "64", "0", "9E", "-1"}},
		{corev1.ResourceMemory, []string{"", "1", "100M", "1Gi", "3Gi", "7Gi", "0", "8191P", "-1Gi"}},
		{"hugepages-2Mi", []string{"", "", "", "4Mi", "3Mi"}},
	} {
		last := len(r.values) - 1
		if rapid.IntRange(0, 19).Draw(t, "odd") > 0 {
			last = 5
		}
		if v := r.values[rapid.IntRange(0, min(last, len(r.values)-1)).Draw(t, "value")]; v != "" {
			list[r.name] = resource.MustParse(v)
		}
	}
	return list
}
