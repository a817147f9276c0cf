package fidelity

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	resourcehelper "k8s.io/component-helpers/resource"
	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"

	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgroupfile"
	"github.com/podgrace/podgrace/nodeenforcer/plan"
	"github.com/podgrace/podgrace/policy/policytest/draw"
)

const (
	nodeName   = "n1"
	nodePage   = 4096
	nodeMemory = int64(8) << 30
)

// nodeCase is a node and its pods.
type nodeCase struct {
	Root            string
	Systemd, Tiered bool
	MemoryQoS       bool
	Quota           bool
	PeriodMillis    int64
	PodPIDs         int64
	ReservedPercent int64
	Pods            []*corev1.Pod
}

func (c *nodeCase) GoString() string { return draw.Show(c) }

var nodeCases = draw.Of(func(s draw.Source) *nodeCase {
	c := &nodeCase{
		Root:            draw.Pick(s, "/", "", "/podgrace", "/a/b-c", "x-y_z"),
		Systemd:         s.Chance(8),
		Tiered:          s.Chance(8),
		MemoryQoS:       s.Chance(6),
		Quota:           !s.Chance(2),
		PeriodMillis:    draw.Pick[int64](s, 100, 100, 10, 5, 1000),
		PodPIDs:         draw.Pick[int64](s, -1, 0, 1024),
		ReservedPercent: int64(s.Below(101)),
	}
	for i := range 1 + s.Below(3) {
		c.Pods = append(c.Pods, drawNodePod(s, i))
	}
	return c
})

// node is the case's, as Build takes it.
func (c *nodeCase) node(v cgroupfile.Version) plan.Node {
	n := plan.Node{Name: nodeName, Version: v, Driver: plan.Cgroupfs, PageSize: nodePage,
		Capacity: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: *resource.NewQuantity(nodeMemory, resource.BinarySI)},
		Kubelet: &kubeletconfigv1beta1.KubeletConfiguration{CgroupRoot: c.Root, CPUCFSQuota: &c.Quota, PodPidsLimit: &c.PodPIDs,
			CPUCFSQuotaPeriod: &metav1.Duration{Duration: millis(c.PeriodMillis)}, FeatureGates: map[string]bool{"MemoryQoS": c.MemoryQoS},
			QOSReserved: map[string]string{"memory": fmt.Sprintf("%d%%", c.ReservedPercent)}}}
	if c.Systemd {
		n.Driver = plan.Systemd
	}
	if c.Tiered {
		n.Kubelet.MemoryReservationPolicy = kubeletconfigv1beta1.TieredReservationMemoryReservationPolicy
	}
	return n
}

// drawNodePod makes a pod as the API server lets through, whose containers all run.
func drawNodePod(s draw.Source, i int) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("pod-%d", i), UID: types.UID(fmt.Sprintf("11111111-1111-4111-8111-11111111111%d", i))},
		Spec:       corev1.PodSpec{NodeName: nodeName, PriorityClassName: draw.Pick(s, "", "", "system-node-critical", "high"), Priority: draw.Maybe[int32](s, 8, 0, 1000, 2000001000)},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning},
	}
	// Guaranteed pods would be rare by chance: requests and limits drawn once, for both.
	whole := s.Chance(5)
	for n := range 1 + s.Below(3) {
		p.Spec.Containers = append(p.Spec.Containers, drawResources(s, fmt.Sprintf("c%d", n), whole))
	}
	for n := range s.Below(3) * s.Bits(1) {
		c := drawResources(s, fmt.Sprintf("i%d", n), whole)
		if s.Chance(8) {
			c.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
		}
		p.Spec.InitContainers = append(p.Spec.InitContainers, c)
	}
	if s.Chance(4) {
		r := drawResources(s, "", s.Chance(5)).Resources
		p.Spec.Resources = &r
		// Less than its containers request together no pod may.
		claimed := resourcehelper.AggregateContainerRequests(p, resourcehelper.PodResourcesOptions{})
		if m, ok := r.Requests[corev1.ResourceMemory]; ok && m.Cmp(*claimed.Memory()) < 0 {
			r.Requests[corev1.ResourceMemory] = *claimed.Memory()
		}
	}
	if s.Chance(3) {
		p.Spec.Overhead = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("50m"), corev1.ResourceMemory: resource.MustParse("64Mi")}
	}
	if s.Chance(2) {
		p.Status.QOSClass = draw.Pick(s, corev1.PodQOSGuaranteed, corev1.PodQOSBurstable, corev1.PodQOSBestEffort)
	}
	addNodeStatus(p)
	return p
}

func addNodeStatus(p *corev1.Pod) {
	running := func(c *corev1.Container) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: c.Name, ContainerID: "containerd://" + p.Name + c.Name, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
	}
	for i := range p.Spec.Containers {
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, running(&p.Spec.Containers[i]))
	}
	for i := range p.Spec.InitContainers {
		p.Status.InitContainerStatuses = append(p.Status.InitContainerStatuses, running(&p.Spec.InitContainers[i]))
	}
}

func drawResources(s draw.Source, name string, whole bool) corev1.Container {
	c := corev1.Container{Name: name}
	if whole {
		list := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(draw.Pick(s, cpus...)), corev1.ResourceMemory: resource.MustParse(draw.Pick(s, memories...))}
		c.Resources = corev1.ResourceRequirements{Requests: list, Limits: list.DeepCopy()}
		return c
	}
	c.Resources.Requests, c.Resources.Limits = drawAmounts(s), drawAmounts(s)
	return c
}

var (
	cpus     = []string{"100m", "1m", "2m", "9m", "10m", "11m", "15m", "250m", "999m", "1", "1500m", "8", "256", "300", "0"}
	memories = []string{"64Mi", "1", "4095", "4097", "100M", "1Gi", "1500Mi", "3Gi", "8Gi", "12Gi", "0"}
)

func drawAmounts(s draw.Source) corev1.ResourceList {
	list := corev1.ResourceList{}
	if s.Chance(8) {
		list[corev1.ResourceCPU] = resource.MustParse(draw.Pick(s, cpus...))
	}
	if s.Chance(8) {
		list[corev1.ResourceMemory] = resource.MustParse(draw.Pick(s, memories...))
	}
	if s.Chance(2) {
		list[corev1.ResourceName(draw.Pick(s, "hugepages-2Mi", "hugepages-1Gi", "hugepages-2048Ki", "hugepages-64Ki"))] = resource.MustParse(draw.Pick(s, "2Gi", "4Mi", "0"))
	}
	if len(list) == 0 && s.Chance(8) {
		return nil
	}
	return list
}
