package plan

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"
)

// allocatable is what all pods together may have: the capacity without both reservations, at least 0. Eviction thresholds count
// for the scheduler only (pkg/kubelet/cm/node_container_manager_linux.go getNodeAllocatableAbsoluteImpl, 1.36.3).
func allocatable(capacity, kube, system corev1.ResourceList) corev1.ResourceList {
	result := corev1.ResourceList{}
	for name, q := range capacity {
		left := q.DeepCopy()
		left.Sub(system[name])
		left.Sub(kube[name])
		if left.Sign() < 0 {
			left.Set(0)
		}
		result[name] = left
	}
	return result
}

// reservations are kubeReserved and systemReserved; reservedSystemCPUs stands for the cpu of both (cmd/kubelet/app/server.go,
// 1.36.3). The kubelet does not start with what is an error here; what could be read is returned all the same.
func reservations(k *kubeletconfigv1beta1.KubeletConfiguration) (kube, system corev1.ResourceList, err error) {
	kube, err = quantities(k.KubeReserved)
	system, systemErr := quantities(k.SystemReserved)
	if err == nil {
		err = systemErr
	}
	if k.ReservedSystemCPUs == "" {
		return kube, system, err
	}
	reserved, parseErr := parseCPUs(k.ReservedSystemCPUs)
	if parseErr != nil {
		return kube, system, fmt.Errorf("reservedSystemCPUs: %w", parseErr)
	}
	delete(kube, corev1.ResourceCPU)
	system[corev1.ResourceCPU] = resource.MustParse(strconv.Itoa(reserved.Size()))
	return kube, system, err
}

func quantities(m map[string]string) (corev1.ResourceList, error) {
	list := corev1.ResourceList{}
	var failed error
	for _, name := range slices.Sorted(maps.Keys(m)) {
		q, err := resource.ParseQuantity(m[name])
		switch {
		case err != nil:
			failed = fmt.Errorf("%s %q: %w", name, m[name], err)
		case q.Sign() < 0:
			failed = fmt.Errorf("%s %q is negative", name, m[name])
		default:
			list[corev1.ResourceName(name)] = q
		}
	}
	return list, failed
}

// kubepodsFiles are the limits of all pods together: written when the kubelet starts, tried again until they hold
// (createNodeAllocatableCgroups and enforceNodeAllocatableCgroups, pkg/kubelet/cm/node_container_manager_linux.go, 1.36.3).
func kubepodsFiles(b *builder) []value {
	var files []value
	limits := b.set.limits
	if cpu, ok := limits[corev1.ResourceCPU]; ok {
		files = append(files, b.cpuShare(sharesOf(cpu.MilliValue()), Always))
	}
	if memory, ok := limits[corev1.ResourceMemory]; ok {
		files = append(files, b.memoryLimit(memory.Value())...)
	}
	if pids, ok := limits[resourcePID]; ok {
		files = append(files, pidsMax(pids.Value()))
	}
	return files
}
