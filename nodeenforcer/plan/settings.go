package plan

import (
	"cmp"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"
	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgroupfile"
	"github.com/podgrace/podgrace/policy/enforcement"
)

const (
	// defaultPageSize in bytes, where the node does not say.
	defaultPageSize = 4096
	// defaultThrottlingFactor of memory.high (pkg/kubelet/apis/config/v1beta1/defaults.go, 1.36.3); from 1.37 there is none.
	defaultThrottlingFactor = 0.9
	policyStatic            = "static"
	limitedSwap             = "LimitedSwap" // pkg/kubelet/types/constants.go
	// swapMinor is from when on the kubelet always says which swap a container has: since NodeSwap is stable.
	swapMinor = 34
	// qosPeriod is how often the kubelet writes what is EachMin (pkg/kubelet/cm/qos_container_manager_linux.go periodicQOSCgroupUpdateInterval, 1.36.3).
	qosPeriod = time.Minute
	// defaultReconcileCPUs is its cpuManagerReconcilePeriod.
	defaultReconcileCPUs = 10 * time.Second
)

// settings are what the kubelet's configuration means, with its defaults (pkg/kubelet/apis/config/v1beta1/defaults.go, 1.36.3).
type settings struct {
	root cgroupName
	// quota reports whether cpu limits become quotas; period in microseconds.
	quota  bool
	period int64
	// allocatable is the capacity without reservations; limits is that or, where it is not enforced, the capacity.
	allocatable, limits corev1.ResourceList
	podPIDs             int64
	hugePages           []int64 // the node's page sizes in bytes, ascending
	podLevel            bool    // the feature gate PodLevelResources
	memoryQoS, tiered   bool    // the feature gate MemoryQoS, on v2; and its reservation policy
	newMemoryQoS        bool    // as 1.37 has it
	protector           enforcement.MemoryProtector
	throttle            float64 // the factor of memory.high; 0: the kubelet writes none
	qosReserved         *int64  // the percentage that the kubelet itself keeps
	oomGroup            bool
	limitedSwap         bool // the kubelet's memorySwap.swapBehavior
	cpus                *cpus
	reconcileCPUs       time.Duration                       // how often the CPU manager does
	memoryNodes         map[string]map[string][]MemoryBlock // by the kubelet's UID and the container's name
	exclusive           exclusivity
	held                []reservation // the cgroups that reservations are enforced on
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

		limitedSwap:   k.MemorySwap.SwapBehavior == limitedSwap,
		reconcileCPUs: cmp.Or(k.CPUManagerReconcilePeriod.Duration, defaultReconcileCPUs),
	}
	if p := k.CPUCFSQuotaPeriod; p != nil && p.Duration >= time.Microsecond && n.enabled(gateCFSQuotaPeriod) {
		s.period = p.Microseconds()
	}
	if k.PodPidsLimit != nil {
		s.podPIDs = *k.PodPidsLimit
	}
	s.newMemoryQoS = n.minor() >= newMemoryQoSMinor
	if s.memoryQoS {
		s.tiered = k.MemoryReservationPolicy == kubeletconfigv1beta1.TieredReservationMemoryReservationPolicy
		s.throttle = throttlingFactor(n, k)
	}
	s.protector = s.memoryProtector(n)
	notes := s.setReserved(n, policy)
	for _, note := range []string{s.setCPUs(n, k), s.setMemoryNodes(n, k)} {
		if note != "" {
			notes = append(notes, note)
		}
	}
	return s, notes
}

// every is how often the kubelet writes a file by itself that it writes then; 0: it does not.
func (s *settings) every(when When) time.Duration {
	switch when {
	case EachMin:
		return qosPeriod
	case AtMakeCPU:
		return s.reconcileCPUs
	default:
		return 0
	}
}

// newMemoryQoSMinor is the minor version from which the kubelet's memory QoS without a reservation resets protection when the kubelet starts, and no more each minute
// (pkg/kubelet/cm/qos_container_manager_linux.go Start and UpdateCgroups, 1.37.0).
const newMemoryQoSMinor = 37

// memoryProtector says who has the files of protection. Before 1.37 the kubelet's memory QoS writes those of kubepods and of the Burstable level each minute, with
// 0 where it reserves nothing; a group's protection is capped by that of every ancestor, so that nothing of ours could last.
func (s *settings) memoryProtector(n Node) enforcement.MemoryProtector {
	switch {
	case n.Version != cgroupfile.V2:
		return enforcement.ProtectorV1
	case s.memoryQoS && s.tiered:
		return enforcement.ProtectorKubelet
	case s.memoryQoS && !s.newMemoryQoS:
		return enforcement.ProtectorReset
	default:
		return enforcement.ProtectorPodgrace
	}
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

// The feature gates of the kubelet that decide who writes what.
const (
	gateMemoryQoS                = "MemoryQoS"
	gateQOSReserved              = "QOSReserved"
	gatePodLevelResources        = "PodLevelResources"
	gatePodLevelResourceManagers = "PodLevelResourceManagers"
	gateNoQuotaWithExclusiveCPUs = "DisableCPUQuotaWithExclusiveCPUs"
	gateCFSQuotaPeriod           = "CPUCFSQuotaPeriod"
)

// assumedMinor is the kubelet's minor version where nobody says it: that of the sources that this package follows.
const assumedMinor = 36

// gate is a feature gate's life, in minor versions; never: not yet.
type gate struct {
	name                 string
	beta, stable, fromOn uint
}

const never = 1 << 16

// gates: pkg/features/kube_features.go, 1.36.3; MemoryQoS as announced for 1.37. A gate of stage Deprecated counts as stable here:
// AllAlpha and AllBeta do not move it.
var gates = []gate{
	{gateMemoryQoS, 37, never, 37},
	{gateQOSReserved, never, never, never},
	{gatePodLevelResources, 34, never, 34},
	{gatePodLevelResourceManagers, never, never, never},
	{gateNoQuotaWithExclusiveCPUs, 33, 36, 33},
	{gateCFSQuotaPeriod, never, 36, 36},
}

// enabled reports whether a feature gate of the kubelet is on: as its configuration says, by name, then by stage, else by default.
func (n Node) enabled(name string) bool {
	var set map[string]bool
	if n.Kubelet != nil {
		set = n.Kubelet.FeatureGates
	}
	if on, ok := set[name]; ok {
		return on
	}
	minor := n.minor()
	for _, g := range gates {
		if g.name != name {
			continue
		}
		if all, ok := set[g.stage(minor)]; ok {
			return all
		}
		return minor >= g.fromOn
	}
	return false
}

// stage is the name of the switch for all gates of the gate's stage.
func (g gate) stage(minor uint) string {
	switch {
	case minor >= g.stable:
		return ""
	case minor >= g.beta:
		return "AllBeta"
	default:
		return "AllAlpha"
	}
}

func (n Node) minor() uint {
	v, err := version.ParseGeneric(n.KubeletVersion)
	if err != nil || v.Major() != 1 {
		return assumedMinor
	}
	return v.Minor()
}

// KernelParameter is one that the kubelet sets when it starts, or without which it does not start (protectKernelDefaults).
type KernelParameter struct {
	// Name as sysctl has it.
	Name string
	// Kubelets is the kubelet's value (setupKernelTunables in pkg/kubelet/cm/container_manager_linux.go, and k8s.io/component-helpers/node/util/sysctl, 1.36.3).
	Kubelets int64
	// otherwise is what another value does to pods.
	otherwise string
}

// KernelParameters are those that decide what the kernel does if memory runs out, or if it fails.
func KernelParameters() []KernelParameter {
	return []KernelParameter{
		{"vm.overcommit_memory", 1, "the kernel may refuse memory to a process within its limits"},
		{"vm.panic_on_oom", 0, "the node panics when memory runs out, where one process would have been killed"},
		{"kernel.panic", 10, "a node that panics restarts at another time, or stays down if it is 0"},
		{"kernel.panic_on_oops", 1, "a node goes on after a fault of its kernel, in an unknown state"},
	}
}

// noteKernel notes which of the kernel's parameters are not as the kubelet sets them. The kubelet looks at them only when it starts, so they were changed since.
func (b *builder) noteKernel() {
	for _, p := range KernelParameters() {
		is, known := b.node.Kernel[p.Name]
		if !known || is == p.Kubelets {
			continue
		}
		does := "the kubelet sets it when it starts"
		if k := b.node.Kubelet; k != nil && k.ProtectKernelDefaults {
			does = "the kubelet does not start again (protectKernelDefaults)"
		}
		b.notes = append(b.notes, Note{Kernel: true, Message: fmt.Sprintf("%s is %d, not %d: %s; %s", p.Name, is, p.Kubelets, p.otherwise, does)})
	}
}
