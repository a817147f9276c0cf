package plan

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"

	"github.com/podgrace/podgrace/api/v1alpha1"
)

// resourcePID is the kubelet's own name for processes in its reservations (pkg/kubelet/stats/pidlimit).
const resourcePID = corev1.ResourceName("pid")

// The enforceNodeAllocatable of the kubelet (pkg/kubelet/types/constants.go, 1.36.3).
const (
	enforcePods               = "pods"
	enforceKube               = "kube-reserved"
	enforceSystem             = "system-reserved"
	enforceKubeCompressible   = "kube-reserved-compressible"
	enforceSystemCompressible = "system-reserved-compressible"
)

// reservation is what the kubelet enforces on a cgroup that is there already, of the daemons that it is for.
type reservation struct {
	key, field, cgroup string
	list               corev1.ResourceList
	compressible       bool // of its resources CPU alone
}

// setReserved computes what pods may have, and what the kubelet keeps from the QoS levels below.
func (s *settings) setReserved(n Node, policy *v1alpha1.NodePolicySpec) (notes []string) {
	kube, system, enforced := corev1.ResourceList{}, corev1.ResourceList{}, true
	if k := n.Kubelet; k != nil {
		var err error
		if kube, system, err = reservations(k); err != nil {
			notes = append(notes, fmt.Sprintf("the kubelet's reservations: %v", err))
		}
		enforced = k.EnforceNodeAllocatable == nil || slices.Contains(k.EnforceNodeAllocatable, enforcePods)
		if percent, ok := k.QOSReserved["memory"]; ok && n.enabled(gateQOSReserved) {
			if p, err := strconv.ParseInt(strings.TrimSuffix(percent, "%"), 10, 64); err == nil && p >= 0 && p <= 100 {
				s.qosReserved = &p
			} else {
				notes = append(notes, fmt.Sprintf("the kubelet's qosReserved %q is no percentage", percent))
			}
		}
	} else {
		notes = append(notes, "the kubelet's configuration is not known: its defaults are planned")
		if policy != nil && policy.Reservations != nil {
			kube, system = policy.Reservations.Kube, policy.Reservations.System
		}
	}
	s.setHeld(n.Kubelet, kube, system)
	capacity := maps.Clone(n.Capacity)
	if n.PIDs > 0 && capacity != nil {
		capacity[resourcePID] = *resource.NewQuantity(n.PIDs, resource.DecimalSI)
	}
	s.allocatable = allocatable(capacity, kube, system)
	s.limits = s.allocatable
	if !enforced {
		s.limits = capacity
	}
	return notes
}

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
func kubepodsFiles(b *builder) []value { return b.limitFiles(b.set.limits, false) }

// limitFiles are what the kubelet makes of a list (getCgroupConfigInternal, pkg/kubelet/cm/node_container_manager_linux.go, 1.36.3), but for huge pages.
func (b *builder) limitFiles(limits corev1.ResourceList, compressible bool) (files []value) {
	if cpu, ok := limits[corev1.ResourceCPU]; ok {
		files = append(files, b.cpuShare(sharesOf(cpu.MilliValue()), Always))
	}
	if compressible {
		return files
	}
	if memory, ok := limits[corev1.ResourceMemory]; ok {
		files = append(files, b.memoryLimit(memory.Value())...)
	}
	if pids, ok := limits[resourcePID]; ok {
		files = append(files, pidsMax(pids.Value()))
	}
	return files
}

// setHeld notes the cgroups of reservations that are enforced, in the order in which the kubelet writes them.
func (s *settings) setHeld(k *kubeletconfigv1beta1.KubeletConfiguration, kube, system corev1.ResourceList) {
	if k == nil {
		return
	}
	for _, r := range []reservation{
		{enforceSystem, "systemReservedCgroup", k.SystemReservedCgroup, system, false},
		{enforceKube, "kubeReservedCgroup", k.KubeReservedCgroup, kube, false},
		{enforceSystemCompressible, "systemReservedCgroup", k.SystemReservedCgroup, system, true},
		{enforceKubeCompressible, "kubeReservedCgroup", k.KubeReservedCgroup, kube, true},
	} {
		if slices.Contains(k.EnforceNodeAllocatable, r.key) {
			s.held = append(s.held, r)
		}
	}
}

// planReserved plans the cgroups that reservations are enforced on. Where both have one cgroup, the kubelet writes it twice, and what it writes last is there. One of the
// pods' own tree has two plans, and no one could say which holds: it has the other.
func (b *builder) planReserved() {
	groups := map[string]map[string]value{}
	for _, r := range b.set.held {
		at, err := reservedPath(b.node.Driver, r.cgroup)
		if pods := b.path(b.set.root); err == nil && (at == pods || strings.HasPrefix(at, pods+"/")) {
			err = fmt.Errorf("%s is of the pods", at)
		}
		if err != nil {
			b.unusableNode("%s is not planned: the kubelet's %s: %v", r.key, r.field, err)
			continue
		}
		if groups[at] == nil {
			groups[at] = map[string]value{}
		}
		for _, v := range reservedFiles(b, r) {
			groups[at][v.file] = v
		}
	}
	for at, files := range groups {
		b.add(Group{Path: at, Level: LevelReserved}, slices.Collect(maps.Values(files)))
	}
}

// reservedPath is the cgroup that a name of the kubelet's configuration stands for. With systemd the last component counts, a slice, in which each dash is a level
// (pkg/kubelet/cm/cgroup_manager_linux.go CgroupName, ParseSystemdToCgroupName, 1.36.3).
func reservedPath(d Driver, name string) (string, error) {
	if path.Clean("/"+name) == "/" {
		return "", fmt.Errorf("%q is the root", name)
	}
	components := strings.Split(strings.TrimPrefix(name, "/"), "/")
	if d == Systemd {
		components = strings.Split(strings.TrimSuffix(path.Base(name), sliceSuffix), "-")
	}
	return cgroupName(components).path(d)
}

// reservedFiles are the limits of a reservation: of CPU alone where only what can be throttled is enforced. Sizes of huge pages that are not reserved are limited to 0 in
// both cases (enforceExistingCgroup and getCgroupConfigInternal, pkg/kubelet/cm/node_container_manager_linux.go; maybeSetHugetlb, cgroup_manager_linux.go, 1.36.3).
func reservedFiles(b *builder, r reservation) []value {
	var pages corev1.ResourceList
	files := b.limitFiles(r.list, r.compressible)
	if !r.compressible {
		pages = r.list
		if memory, ok := r.list[corev1.ResourceMemory]; ok && b.set.memoryQoS && !b.set.newMemoryQoS { // what 1.37 makes of it was not read
			files = append(files, value{file: "memory.min", why: MemoryQoS, want: b.node.memoryBytes(memory.Value())})
		}
	}
	limits := hugeLimits(pages)
	return append(files, b.huge(b.set.hugePages, func(size int64) int64 { return limits[size] })...)
}
