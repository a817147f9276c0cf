package plan

import (
	"fmt"
	"path"
	"strings"

	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgroupfile"
)

// Condition is what must hold for a rule, as a person reads it.
type Condition string

// The conditions. Of the rules for a file at a level, the one whose condition holds counts.
const (
	// Always: under the kubelet's configuration that makes it write the file at all.
	Always Condition = ""
	// MemoryQoS is the kubelet's own protection and throttling.
	MemoryQoS Condition = "the kubelet's feature gate MemoryQoS is on"
	// Asked is Podgrace's.
	Asked Condition = "NodePolicy memory or the contract asks, and the kubelet leaves it alone"
	// Unreserved: what the kubelet protected before it was told not to must not stay.
	Unreserved Condition = "the kubelet is 1.37 or newer and does not reserve memory"
	// KubeletReserved is the kubelet's qosReserved.
	KubeletReserved Condition = "the kubelet's feature gate QOSReserved is on and qosReserved set"
	// Reserved is the policy's.
	Reserved Condition = "NodePolicy qosReserved, and the kubelet has none"
	// ContractCPU and ContractIO: the pod's contract has a weight.
	ContractCPU Condition = "the contract has cpu.weight"
	ContractIO  Condition = "the contract has io.weight"
	// Ordered: processes of a class are ordered among themselves.
	Ordered Condition = "Burstable, and NodePolicy oom.order is Priority or the contract has oom.rank"
)

// When is at which times the owner writes a file.
type When string

// The times.
const (
	AtStart   When = "when the kubelet starts, until it succeeds once"
	AtKubelet When = "when the kubelet starts: it does not start where it can't write it"
	EachMin   When = "every minute, and when a pod starts or is resized"
	AtResize  When = "when the pod's cgroup is made, and at a resize"
	AtPod     When = "when the pod's cgroup is made"
	AtFirst   When = "when the container is made; a resize leaves it as it is"
	AtOnce    When = "when the container is made"
	AtMake    When = "when the container is made, and at a resize"
	AtMakeCPU When = "when the container is made; every 10 s where it changed, compared with memory and not with the file"
	Ours      When = "by Podgrace, when it differs"
)

// Rule says who writes a file.
type Rule struct {
	// File by the kernel's name; * is a part of it.
	File  string
	Level Level
	// Version and Driver: empty for both.
	Version   cgroupfile.Version
	Driver    Driver
	Condition Condition
	Owner     Owner
	When      When
	// Planned: Build gives it a value. Else the rule is there to say why not.
	Planned bool
	// Value is how it comes about, and what to know about it.
	Value string
	// Source is where it is written, in Kubernetes 1.36.3 where nothing else is said.
	Source string
}

const (
	sourceNode    = "pkg/kubelet/cm/node_container_manager_linux.go"
	sourceQOS     = "pkg/kubelet/cm/qos_container_manager_linux.go"
	sourcePod     = "pkg/kubelet/cm/helpers_linux.go ResourceConfigForPod"
	sourcePodMake = "pkg/kubelet/cm/pod_container_manager_linux.go EnsureExists"
	sourceRuntime = "pkg/kubelet/kuberuntime/kuberuntime_container_linux.go"
	sourceCPUs    = "pkg/kubelet/cm/cpumanager/cpu_manager.go"
	sourceOOM     = "pkg/kubelet/qos/policy.go"
	sourceOurs    = "NodePolicy, podgrace.dev/enforcement"
	sourceKernel  = "kernel; the kubelet knows no io controller"
)

// OOMScoreFile is the name of a process's value, which is in /proc and not in a cgroup.
const OOMScoreFile = "oom_score_adj"

// Ownership is the one table of who writes which file: Build takes the owners from it, the modes follow from those, and
// docs/nodeenforcer-files.md is made of it.
var Ownership = []Rule{
	{"cpu.shares", LevelReserved, cgroupfile.V1, "", Always, Kubelet, AtKubelet, true, "kubeReserved or systemReserved cpu, where enforceNodeAllocatable has kube-reserved or system-reserved, or their -compressible", sourceNode},
	{"cpu.weight", LevelReserved, cgroupfile.V2, "", Always, Kubelet, AtKubelet, true, "the same, by the linear formula", sourceNode},
	{"memory.limit_in_bytes", LevelReserved, cgroupfile.V1, "", Always, Kubelet, AtKubelet, true, "the reserved memory, where enforceNodeAllocatable has kube-reserved or system-reserved", sourceNode},
	{"memory.max", LevelReserved, cgroupfile.V2, "", Always, Kubelet, AtKubelet, true, "the same", sourceNode},
	{"memory.min", LevelReserved, cgroupfile.V2, "", MemoryQoS, Kubelet, AtKubelet, true, "the same, before 1.37", sourceNode},
	{"pids.max", LevelReserved, 0, "", Always, Kubelet, AtKubelet, true, "the reserved pid, likewise", sourceNode},
	{"hugetlb.*.limit_in_bytes", LevelReserved, cgroupfile.V1, "", Always, Kubelet, AtKubelet, true, "the reserved pages, likewise; else 0", sourceNode},
	{"hugetlb.*.max", LevelReserved, cgroupfile.V2, "", Always, Kubelet, AtKubelet, true, "the same", sourceNode},
	{"cpuset.cpus", LevelReserved, 0, "", Always, Kubelet, AtKubelet, false, "all CPUs, where the CPU manager's policy is none", sourceNode},

	{"cpu.shares", LevelKubepods, cgroupfile.V1, "", Always, Kubelet, AtStart, true, "allocatable cpu, or the capacity where pods are not in enforceNodeAllocatable", sourceNode},
	{"cpu.weight", LevelKubepods, cgroupfile.V2, "", Always, Kubelet, AtStart, true, "the same, by the linear formula", sourceNode},
	{"memory.limit_in_bytes", LevelKubepods, cgroupfile.V1, "", Always, Kubelet, AtStart, true, "allocatable memory, or the capacity", sourceNode},
	{"memory.max", LevelKubepods, cgroupfile.V2, "", Always, Kubelet, AtStart, true, "allocatable memory, or the capacity", sourceNode},
	{"pids.max", LevelKubepods, 0, "", Always, Kubelet, AtStart, true, "the lower of pid_max and threads-max, without reserved pid", sourceNode},
	{"hugetlb.*.limit_in_bytes", LevelKubepods, cgroupfile.V1, "", Always, Kubelet, EachMin, true, "unbounded, 1<<62; allocatable only from the kubelet's start to the first minute", sourceQOS},
	{"hugetlb.*.max", LevelKubepods, cgroupfile.V2, "", Always, Kubelet, EachMin, true, "the same", sourceQOS},
	{"memory.min", LevelKubepods, cgroupfile.V2, "", MemoryQoS, Kubelet, EachMin, true, "the requests of Guaranteed and Burstable pods with TieredReservation, else 0; from 1.37 with TieredReservation only", sourceQOS},
	{"memory.low", LevelKubepods, cgroupfile.V2, "", MemoryQoS, Kubelet, EachMin, true, "from 1.37, with TieredReservation: the requests of Burstable pods", sourceQOS},
	{"memory.min", LevelKubepods, cgroupfile.V2, "", Unreserved, Kubelet, AtStart, false, "0; what Podgrace protects is written again in the next round", sourceQOS},
	{"memory.low", LevelKubepods, cgroupfile.V2, "", Unreserved, Kubelet, AtStart, false, "the same", sourceQOS},
	{"memory.min", LevelKubepods, cgroupfile.V2, "", Asked, Nobody, Ours, true, "the sum of the pods', at most bounds.maxProtectedMemoryPercent of allocatable with memory.low", sourceOurs},
	{"memory.low", LevelKubepods, cgroupfile.V2, "", Asked, Nobody, Ours, true, "the sum of the pods'", sourceOurs},
	{"cpuset.cpus", LevelKubepods, 0, "", Always, Kubelet, AtStart, false, "all CPUs, where the CPU manager's policy is none: so that systemd keeps the controller", sourceNode},

	{"cpu.shares", LevelQOS, cgroupfile.V1, "", Always, Kubelet, EachMin, true, "Burstable: the sum of requests; BestEffort: 2", sourceQOS},
	{"cpu.weight", LevelQOS, cgroupfile.V2, "", Always, Kubelet, EachMin, true, "the same, by the linear formula", sourceQOS},
	{"hugetlb.*.limit_in_bytes", LevelQOS, cgroupfile.V1, "", Always, Kubelet, EachMin, true, "unbounded, 1<<62", sourceQOS},
	{"hugetlb.*.max", LevelQOS, cgroupfile.V2, "", Always, Kubelet, EachMin, true, "unbounded, 1<<62", sourceQOS},
	{"memory.limit_in_bytes", LevelQOS, cgroupfile.V1, "", KubeletReserved, Kubelet, EachMin, true, "allocatable without the reserved part of the requests above; usage, where that is more", sourceQOS},
	{"memory.max", LevelQOS, cgroupfile.V2, "", KubeletReserved, Kubelet, EachMin, true, "the same", sourceQOS},
	{"memory.limit_in_bytes", LevelQOS, cgroupfile.V1, "", Reserved, Nobody, Ours, true, "allocatable without the reserved part of the requests above", sourceOurs},
	{"memory.max", LevelQOS, cgroupfile.V2, "", Reserved, Nobody, Ours, true, "the same", sourceOurs},
	{"memory.low", LevelQOS, cgroupfile.V2, "", MemoryQoS, Kubelet, EachMin, true, "Burstable only: the sum of requests with TieredReservation, else 0; from 1.37 with TieredReservation only", sourceQOS},
	{"memory.low", LevelQOS, cgroupfile.V2, "", Unreserved, Kubelet, AtStart, false, "Burstable only: 0; what Podgrace protects is written again in the next round", sourceQOS},
	{"memory.min", LevelQOS, cgroupfile.V2, "", Asked, Nobody, Ours, true, "Burstable only: the sum of its pods'", sourceOurs},
	{"memory.low", LevelQOS, cgroupfile.V2, "", Asked, Nobody, Ours, true, "Burstable only: the sum of its pods'", sourceOurs},

	{"cpu.shares", LevelPod, cgroupfile.V1, "", Always, Kubelet, AtResize, true, "the pod's request; BestEffort 2", sourcePod},
	{"cpu.weight", LevelPod, cgroupfile.V2, "", Always, Kubelet, AtResize, true, "the same, by the linear formula", sourcePod},
	{"cpu.shares", LevelPod, cgroupfile.V1, "", ContractCPU, Nobody, Ours, true, "the contract's weight, converted", sourceOurs},
	{"cpu.weight", LevelPod, cgroupfile.V2, "", ContractCPU, Nobody, Ours, true, "the contract's weight: here, since a container's is shared out within its pod only. It takes the place of the kubelet's, which that writes once and again at a resize, and never compares", sourceOurs},
	{"cpu.cfs_period_us", LevelPod, cgroupfile.V1, "", Always, Kubelet, AtResize, true, "cpuCFSQuotaPeriod, where there is a quota", sourcePod},
	{"cpu.cfs_quota_us", LevelPod, cgroupfile.V1, Cgroupfs, Always, Kubelet, AtResize, true, "Guaranteed, or all containers have a limit, or the pod has: the limit; -1 with exclusive CPUs or without cpuCFSQuota", sourcePod},
	{"cpu.cfs_quota_us", LevelPod, cgroupfile.V1, Systemd, Always, Kubelet, AtResize, true, "the same, rounded up to 10 ms a second", sourcePod},
	{"cpu.max", LevelPod, cgroupfile.V2, Cgroupfs, Always, Kubelet, AtResize, true, "the same as quota and period", sourcePod},
	{"cpu.max", LevelPod, cgroupfile.V2, Systemd, Always, Kubelet, AtResize, true, "the same, rounded up to 10 ms a second", sourcePod},
	{"memory.limit_in_bytes", LevelPod, cgroupfile.V1, "", Always, Kubelet, AtResize, true, "Guaranteed, or all containers have a limit, or the pod has: the limit", sourcePod},
	{"memory.max", LevelPod, cgroupfile.V2, "", Always, Kubelet, AtResize, true, "the same", sourcePod},
	{"hugetlb.*.limit_in_bytes", LevelPod, cgroupfile.V1, "", Always, Kubelet, AtPod, true, "the pod's request, else 0", sourcePod},
	{"hugetlb.*.max", LevelPod, cgroupfile.V2, "", Always, Kubelet, AtPod, true, "the pod's request, else 0", sourcePod},
	{"pids.max", LevelPod, 0, "", Always, Kubelet, AtPod, true, "podPidsLimit, if positive", sourcePodMake},
	{"memory.min", LevelPod, cgroupfile.V2, "", MemoryQoS, Kubelet, AtPod, true, "Guaranteed, with TieredReservation: the request", sourcePod},
	{"memory.low", LevelPod, cgroupfile.V2, "", MemoryQoS, Kubelet, AtPod, true, "Burstable, with TieredReservation: the request", sourcePod},
	{"memory.high", LevelPod, cgroupfile.V2, "", MemoryQoS, Kubelet, AtResize, true, "from 1.37, of a pod with resources of its own: memoryThrottlingFactor of the way from the request to the limit", sourcePod},
	{"memory.min", LevelPod, cgroupfile.V2, "", Asked, Nobody, Ours, true, "the request, where the protection is Min", sourceOurs},
	{"memory.low", LevelPod, cgroupfile.V2, "", Asked, Nobody, Ours, true, "the request, where the protection is Low", sourceOurs},
	{"io.weight", LevelPod, cgroupfile.V2, "", ContractIO, Nobody, Ours, true, "the contract's weight, where the io controller is enabled", sourceKernel},
	{"blkio.bfq.weight", LevelPod, cgroupfile.V1, "", ContractIO, Nobody, Ours, true, "the contract's weight on BFQ's scale", sourceKernel},
	{"blkio.weight", LevelPod, cgroupfile.V1, "", ContractIO, Nobody, Ours, true, "the contract's weight on CFQ's scale, kernels before 5.0", sourceKernel},

	{"cpu.shares", LevelContainer, cgroupfile.V1, "", Always, Runtime, AtMake, true, "the container's request, else its limit", sourceRuntime},
	{"cpu.weight", LevelContainer, cgroupfile.V2, "", Always, Runtime, AtMake, true, "the same, by the runtime's own formula: a curve, or the kubelet's line up to runc 1.3.1 and crun 1.22. Both count as right; what is neither is told and not restored, since the runtime's version is not known", "opencontainers/cgroups v0.0.6 utils.go"},
	{"cpu.cfs_period_us", LevelContainer, cgroupfile.V1, "", Always, Runtime, AtMake, true, "cpuCFSQuotaPeriod, if cpuCFSQuota", sourceRuntime},
	{"cpu.cfs_quota_us", LevelContainer, cgroupfile.V1, Cgroupfs, Always, Runtime, AtMake, true, "the limit of the container, else of the pod; -1 with exclusive CPUs; not written without a limit", sourceRuntime},
	{"cpu.cfs_quota_us", LevelContainer, cgroupfile.V1, Systemd, Always, Runtime, AtMake, true, "the same, rounded up to 10 ms a second", sourceRuntime},
	{"cpu.max", LevelContainer, cgroupfile.V2, Cgroupfs, Always, Runtime, AtMake, true, "the same as quota and period; max without a limit", sourceRuntime},
	{"cpu.max", LevelContainer, cgroupfile.V2, Systemd, Always, Runtime, AtMake, true, "the same, rounded up to 10 ms a second", sourceRuntime},
	{"memory.limit_in_bytes", LevelContainer, cgroupfile.V1, "", Always, Runtime, AtMake, true, "the limit of the container, else of the pod", sourceRuntime},
	{"memory.max", LevelContainer, cgroupfile.V2, "", Always, Runtime, AtMake, true, "the same", sourceRuntime},
	{"memory.min", LevelContainer, cgroupfile.V2, "", MemoryQoS, Runtime, AtMake, true, "Guaranteed, with TieredReservation: the request; without a reservation 0", sourceRuntime},
	{"memory.low", LevelContainer, cgroupfile.V2, "", MemoryQoS, Runtime, AtMake, true, "Burstable, with TieredReservation: the request; without a reservation 0", sourceRuntime},
	{"memory.high", LevelContainer, cgroupfile.V2, "", MemoryQoS, Runtime, AtMake, true, "memoryThrottlingFactor of the way from the request to the limit, else to allocatable; from 1.37 not where the pod alone has a limit", sourceRuntime},
	{"memory.min", LevelContainer, cgroupfile.V2, "", Asked, Nobody, Ours, true, "the container's request, of a pod protected with Min", sourceOurs},
	{"memory.low", LevelContainer, cgroupfile.V2, "", Asked, Nobody, Ours, true, "the container's request, of a pod protected with Low", sourceOurs},
	{"memory.high", LevelContainer, cgroupfile.V2, "", Asked, Nobody, Ours, true, "throttlePercent of the way from the request to the limit, else to allocatable", sourceOurs},
	{"memory.oom.group", LevelContainer, cgroupfile.V2, "", Always, Runtime, AtMake, true, "1, unless singleProcessOOMKill", sourceRuntime},
	{"cpuset.cpus", LevelContainer, 0, "", Always, Kubelet, AtMakeCPU, true, "with the CPU manager's static policy: the container's own CPUs, else those that are shared", sourceCPUs},
	{"memory.swap.max", LevelContainer, cgroupfile.V2, "", Always, Runtime, AtMake, true, "0; with LimitedSwap, of a Burstable pod's container whose request is not its limit, the request's part of the node's swap", sourceRuntime},
	{"memory.memsw.limit_in_bytes", LevelContainer, cgroupfile.V1, "", Always, Runtime, AtMake, false, "the limit of memory, where swap is accounted", sourceRuntime},
	{"hugetlb.*.limit_in_bytes", LevelContainer, cgroupfile.V1, "", Always, Runtime, AtMake, true, "of sizes that the node has pages of: the limit of the container, else of the pod, else 0; none is as good, since containerd writes none by default (disable_hugetlb_controller)", sourceRuntime},
	{"hugetlb.*.max", LevelContainer, cgroupfile.V2, "", Always, Runtime, AtMake, true, "the same", sourceRuntime},
	{"cpuset.mems", LevelContainer, 0, "", Always, Runtime, AtOnce, true, "with the memory manager's static policy: the nodes of the container's own memory; others have no list", "pkg/kubelet/cm/internal_container_lifecycle_linux.go"},
	{"pids.max", LevelContainer, 0, "", Always, Runtime, AtMake, false, "the runtime's or systemd's default (pids_limit, DefaultTasksMax): the CRI has no field for it", "CRI v1 LinuxContainerResources"},
	{OOMScoreFile, LevelContainer, 0, "", Always, Runtime, AtFirst, true, "Guaranteed and node-critical -997; BestEffort 1000; Burstable 3 to 999, by the request's part of the node's memory", sourceOOM},
	{OOMScoreFile, LevelContainer, 0, "", Ordered, Nobody, Ours, true, "3 to 999: a band for each priority, in it the kubelet's order, moved up by the rank", sourceOurs},
}

// RuleFor finds the rule of a file at a level under a condition.
func RuleFor(file string, level Level, v cgroupfile.Version, d Driver, why Condition) (Rule, bool) {
	for _, r := range Ownership {
		if r.Level != level || r.Condition != why || r.Version != 0 && r.Version != v || r.Driver != "" && r.Driver != d {
			continue
		}
		if match, err := path.Match(r.File, file); err == nil && match {
			return r, true
		}
	}
	return Rule{}, false
}

// rule is that of a file of this node. What is in none counts as the kubelet's: Tune leaves it alone.
func (n Node) rule(file string, level Level, why Condition) Rule {
	if r, ok := RuleFor(file, level, n.Version, n.Driver, why); ok {
		return r
	}
	return Rule{Owner: Kubelet}
}

// OwnershipMarkdown renders the table as the page docs/nodeenforcer-files.md.
func OwnershipMarkdown() string {
	var b strings.Builder
	b.WriteString(`# Who writes which file

This page is made from the table in ` + "`nodeenforcer/plan/ownership.go`" + ` (` + "`go test ./nodeenforcer/plan -run Markdown -update`" + ` writes it).

` + "`Observe`" + ` writes nothing. ` + "`Tune`" + ` writes what *nobody* else owns. ` + "`Repair`" + ` also restores what the kubelet or the container runtime
wrote and somebody changed. The contract is a pod's annotation ` + "`podgrace.dev/enforcement`" + `. A value that is not planned is listed so that you
know whose it is. Formulas are those of Kubernetes 1.36.
`)
	for _, level := range []struct {
		level Level
		title string
	}{
		{LevelReserved, "Daemons: kubeReservedCgroup, systemReservedCgroup"},
		{LevelKubepods, "All pods: kubepods"},
		{LevelQOS, "QoS classes: burstable, besteffort"},
		{LevelPod, "Pods"},
		{LevelContainer, "Containers, init containers and sidecars"},
	} {
		fmt.Fprintf(&b, "\n## %s\n\n| file | cgroup | owner | written | if | value | source |\n|---|---|---|---|---|---|---|\n", level.title)
		for _, r := range Ownership {
			if r.Level == level.level {
				b.WriteString(r.row())
			}
		}
	}
	return b.String()
}

func (r Rule) row() string {
	where := "v1, v2"
	if r.Version != 0 {
		where = fmt.Sprintf("v%d", r.Version)
	}
	if r.Driver != "" {
		where += " " + string(r.Driver)
	}
	value := r.Value
	if !r.Planned {
		value = "not planned: " + value
	}
	return fmt.Sprintf("| `%s` | %s | %s | %s | %s | %s | %s |\n", r.File, where, r.Owner, r.When, r.Condition, value, r.Source)
}
