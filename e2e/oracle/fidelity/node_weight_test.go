package fidelity

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	_ "unsafe"

	"github.com/opencontainers/cgroups"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/kubelet/cm"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgroupfile"
	"github.com/podgrace/podgrace/nodeenforcer/plan"
)

// getCPUWeight and cpuWeightToCPUShares are the kubelet's own conversions (pkg/kubelet/cm/cgroup_manager_linux.go and
// cgroup_v2_manager_linux.go, 1.36.3). They are not exported, and what calls them asks the host which cgroups it has.
//
// They are linear, and what the groups of pods and QoS classes get: libcontainer writes the weight that the kubelet made. Container
// runtimes convert a container's shares by themselves: runc up to 1.3.1 and crun up to 1.22 by the same line, later ones by
// libcontainer's ConvertCPUSharesToCgroupV2Value, which is a curve. Of containers the plan has both.
//
//go:linkname getCPUWeight k8s.io/kubernetes/pkg/kubelet/cm.getCPUWeight
func getCPUWeight(cpuShares *uint64) uint64

//go:linkname cpuWeightToCPUShares k8s.io/kubernetes/pkg/kubelet/cm.cpuWeightToCPUShares
func cpuWeightToCPUShares(cpuWeight uint64) uint64

// TestFidelityNodeWeight: cpu.weight of a pod is the kubelet's for each request there can be, and a weight that a contract asks for
// is, as shares, the kubelet's way back. Nothing is random: all weights are asked for, the first by the least and the greatest
// request that gets them, which no request between can escape while more never gets less.
func TestFidelityNodeWeight(t *testing.T) {
	t.Parallel()
	// Were the kubelet's formula the runtimes' newer one, what is said above and in nodeenforcer/plan would have to change.
	if shares := uint64(102); getCPUWeight(&shares) == cgroups.ConvertCPUSharesToCgroupV2Value(shares) {
		t.Error("the kubelet converts shares as container runtimes do")
	}
	kubelet := func(milli int64) uint64 {
		shares := cm.MilliCPUToShares(milli)
		return getCPUWeight(&shares)
	}
	pods, want := []*corev1.Pod{}, map[string]uint64{}
	ask := func(milli int64) {
		p := weighed(fmt.Sprintf("request-%dm", milli), *resource.NewMilliQuantity(milli, resource.DecimalSI))
		pods, want[p.Name] = append(pods, p), kubelet(milli)
	}
	for milli := range int64(256_100) { // a little above the request that has the most shares
		if milli > 0 && kubelet(milli-1) != kubelet(milli) {
			ask(milli - 1)
			ask(milli)
		}
	}
	ask(1_000_000)
	if len(want) < 19000 {
		t.Errorf("only %d requests are asked for: there are 10000 weights", len(want))
	}
	checkWeights(t, cgroupfile.V2, nil, "cpu.weight", pods, want)

	checkContainerWeights(t, pods)

	pods, want = nil, map[string]uint64{}
	for weight := range uint64(10000) {
		p := weighed(fmt.Sprintf("weight-%d", weight+1), resource.MustParse("1"))
		p.Annotations = map[string]string{v1alpha1.AnnotationEnforcement: fmt.Sprintf(`{"cpu":{"weight":%d}}`, weight+1)}
		pods, want[p.Name] = append(pods, p), cpuWeightToCPUShares(weight+1)
	}
	checkWeights(t, cgroupfile.V1, &v1alpha1.NodePolicySpec{}, "cpu.shares", pods, want)
}

// checkContainerWeights: a container's weight is the curve's, and the line's where that is another.
func checkContainerWeights(t *testing.T, pods []*corev1.Pod) {
	t.Helper()
	node, seen := (&nodeCase{Root: "/", PeriodMillis: 100}).node(cgroupfile.V2), 0
	requests := map[string]*resource.Quantity{}
	for _, p := range pods {
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", ContainerID: "containerd://" + p.Name, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
		requests[p.Name] = p.Spec.Containers[0].Resources.Requests.Cpu()
	}
	for some := range slices.Chunk(pods, 500) {
		for _, g := range plan.Build(node, nil, some).Groups {
			if g.Level != plan.LevelContainer {
				continue
			}
			seen++
			shares := cm.MilliCPUToShares(requests[g.Pod.Name].MilliValue())
			v, curve, line := g.Files["cpu.weight"], strconv.FormatUint(cgroups.ConvertCPUSharesToCgroupV2Value(shares), 10), strconv.FormatUint(getCPUWeight(&shares), 10)
			if v.Want != curve || curve != line && (v.Also != line || !v.PerRuntime) || curve == line && v.PerRuntime {
				t.Fatalf("the container of %s has %+v, the runtimes' are %s and %s", g.Pod.Name, v, curve, line)
			}
		}
	}
	if seen != len(pods) {
		t.Errorf("%d of %d containers are in the plan", seen, len(pods))
	}
}

// weighed is a Burstable pod.
func weighed(name string, request resource.Quantity) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(name)}, Spec: corev1.PodSpec{NodeName: nodeName, Containers: []corev1.Container{{Name: "c"}}}}
	p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: request}
	p.Status.Phase = corev1.PodRunning
	return p
}

func checkWeights(t *testing.T, v cgroupfile.Version, policy *v1alpha1.NodePolicySpec, file string, pods []*corev1.Pod, want map[string]uint64) {
	t.Helper()
	node, seen := (&nodeCase{Root: "/", PeriodMillis: 100}).node(v), 0
	for some := range slices.Chunk(pods, 500) {
		for _, g := range plan.Build(node, policy, some).Groups {
			if g.Level != plan.LevelPod {
				continue
			}
			seen++
			if got := g.Files[file].Want; got != strconv.FormatUint(want[g.Pod.Name], 10) {
				t.Fatalf("%s has %s %s, the kubelet's %d", g.Pod.Name, file, got, want[g.Pod.Name])
			}
		}
	}
	if seen != len(pods) {
		t.Errorf("%d of %d pods are in the plan", seen, len(pods))
	}
}
