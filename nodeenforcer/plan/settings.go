package plan

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgroupfile"
)

const (
	// defaultPageSize in bytes, where the node does not say.
	defaultPageSize = 4096
	// defaultThrottlingFactor of memory.high (pkg/kubelet/apis/config/v1beta1/defaults.go, 1.36.3); from 1.37 there is none.
	defaultThrottlingFactor = 0.9
	// resourcePID is the kubelet's own name for processes in its reservations (pkg/kubelet/stats/pidlimit).
	resourcePID  = corev1.ResourceName("pid")
	policyStatic = "static"
)

// settings are what the kubelet's configuration means, with its defaults (pkg/kubelet/apis/config/v1beta1/defaults.go, 1.36.3).
type settings struct {
	root cgroupName
	// quota says whether cpu limits become quotas; period in microseconds.
	quota  bool
	period int64
	// allocatable is the capacity without reservations; limits is that or, where it is not enforced, the capacity.
	allocatable, limits corev1.ResourceList
	podPIDs             int64
	hugePages           []int64 // the node's page sizes in bytes, ascending
	podLevel            bool    // the feature gate PodLevelResources
	memoryQoS, tiered   bool    // the feature gate MemoryQoS, on v2; and its reservation policy
	throttle            float64 // the factor of memory.high; 0: the kubelet writes none
	qosReserved         *int64  // the percentage that the kubelet itself keeps
	oomGroup            bool
	cpus                *cpus
	exclusive           exclusivity
}

// newSettings reads the kubelet's configuration. What it can't read it says as notes, and goes on with the default, as far as
// the kubelet itself would not have refused to start.
func newSettings(n Node, policy *v1alpha1.NodePolicySpec) (settings, []string) {
	k := n.Kubelet
	if k == nil {
		k = &kubeletconfigv1beta1.KubeletConfiguration{}
	}
	s := settings{
		root:      rootName(k.CgroupRoot),
		quota:     k.CPUCFSQuota == nil || *k.CPUCFSQuota,
		period:    quotaPeriod,
		hugePages: hugePageSizes(n.Capacity),
		podLevel:  n.enabled(gatePodLevelResources),
		memoryQoS: n.Version == cgroupfile.V2 && n.enabled(gateMemoryQoS),
		oomGroup:  n.Version == cgroupfile.V2 && (k.SingleProcessOOMKill == nil || !*k.SingleProcessOOMKill),
	}
	if p := k.CPUCFSQuotaPeriod; p != nil && p.Duration >= time.Microsecond && n.enabled(gateCFSQuotaPeriod) {
		s.period = p.Microseconds()
	}
	if k.PodPidsLimit != nil {
		s.podPIDs = *k.PodPidsLimit
	}
	if s.memoryQoS {
		s.tiered = k.MemoryReservationPolicy == kubeletconfigv1beta1.TieredReservationMemoryReservationPolicy
		s.throttle = throttlingFactor(n, k)
	}
	notes := s.setReserved(n, policy)
	if note := s.setCPUs(n, k); note != "" {
		notes = append(notes, note)
	}
	return s, notes
}

func throttlingFactor(n Node, k *kubeletconfigv1beta1.KubeletConfiguration) float64 {
	switch {
	case k.MemoryThrottlingFactor != nil:
		return *k.MemoryThrottlingFactor
	case n.minor() > assumedMinor:
		return 0
	default:
		return defaultThrottlingFactor
	}
}

// setReserved computes what pods may have, and what the kubelet keeps from the QoS levels below.
func (s *settings) setReserved(n Node, policy *v1alpha1.NodePolicySpec) (notes []string) {
	kube, system, enforced := corev1.ResourceList{}, corev1.ResourceList{}, true
	if k := n.Kubelet; k != nil {
		var err error
		if kube, system, err = reservations(k); err != nil {
			notes = append(notes, fmt.Sprintf("the kubelet's reservations: %v", err))
		}
		enforced = k.EnforceNodeAllocatable == nil || slices.Contains(k.EnforceNodeAllocatable, "pods")
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
