package plan

import (
	"math"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgroupfile"
)

// The bounds of cpu.shares (kernel/sched/sched.h).
const (
	minShares = int64(2)
	maxShares = int64(262144)
)

// sharesOf converts milli-CPUs to cpu.shares (pkg/kubelet/cm/helpers_linux.go MilliCPUToShares, 1.36.3).
func sharesOf(milli int64) int64 {
	if milli == 0 {
		return minShares
	}
	return min(max(milli*1024/1000, minShares), maxShares)
}

// weightOf converts cpu.shares to cpu.weight, by the kubelet's linear formula (pkg/kubelet/cm/cgroup_manager_linux.go getCPUWeight,
// 1.36.3). It holds down to the pod; container runtimes have another.
func weightOf(shares int64) int64 {
	if shares >= maxShares {
		return 10000
	}
	return 1 + (max(shares, minShares)-2)*9999/262142
}

// curveOf converts cpu.shares to cpu.weight as container runtimes do (opencontainers/cgroups v0.0.6 utils.go
// ConvertCPUSharesToCgroupV2Value: runc from 1.3.2, crun from 1.23): through the least, the default and the greatest of both.
func curveOf(shares int64) int64 {
	switch {
	case shares <= minShares:
		return 1
	case shares >= maxShares:
		return 10000
	}
	l := math.Log2(float64(shares))
	return int64(math.Ceil(math.Pow(10, (l*l+125*l)/612.0-7.0/34.0)))
}

// sharesOfWeight is the way back (cgroup_v2_manager_linux.go cpuWeightToCPUShares, 1.36.3).
func sharesOfWeight(weight int64) int64 {
	return (weight-1)*262142/9999 + 2
}

// cpuShare is the file that holds a share of the CPU.
func (b *builder) cpuShare(shares int64, why Condition) value {
	if b.node.Version == cgroupfile.V1 {
		return value{file: "cpu.shares", why: why, want: strconv.FormatInt(shares, 10)}
	}
	return value{file: "cpu.weight", why: why, want: strconv.FormatInt(weightOf(shares), 10)}
}

// qosCPU: all Burstable pods together have the sum of their requests, BestEffort ones the least there is. The kubelet takes the
// requests of the pods' specs, also where a resize is pending (qos_container_manager_linux.go setCPUCgroupConfig, 1.36.3).
func qosCPU(b *builder, class corev1.PodQOSClass) []value {
	milli := int64(0)
	for _, m := range b.members {
		if m.class == class && class == corev1.PodQOSBurstable {
			milli += m.specRequests.Cpu().MilliValue()
		}
	}
	return []value{b.cpuShare(sharesOf(milli), Always)}
}

// podCPU: a pod has its request (helpers_linux.go ResourceConfigForPod), unless the contract asks for another weight.
func podCPU(b *builder, m *member) []value {
	shares := minShares
	if m.class != corev1.PodQOSBestEffort {
		shares = sharesOf(m.requests.Cpu().MilliValue())
	}
	if c := m.contract; c != nil && c.CPU != nil {
		return []value{b.contractCPU(m, shares)}
	}
	return []value{b.cpuShare(shares, Always)}
}

// contractCPU is the contract's weight, bounded. Between the pods of one class it shifts what the class has; but Guaranteed pods are
// the siblings of the other classes, and only their quota keeps them within their request: where they have none the weight can't
// rise above that of the request.
func (b *builder) contractCPU(m *member, shares int64) value {
	weight := int64(m.contract.CPU.Weight)
	bound, by := int64(b.bounds.CPUWeight), "bounds.maxCPUWeight"
	if own := weightOf(shares); m.class == corev1.PodQOSGuaranteed && !b.hasQuota(m) && own < bound {
		bound, by = own, "the weight of its request, since no quota limits it"
	}
	if weight > bound {
		b.note(m, "cpu weight %d is lowered to %d: %s", weight, bound, by)
		weight = bound
	}
	if b.node.Version == cgroupfile.V1 {
		return value{file: "cpu.shares", why: ContractCPU, want: strconv.FormatInt(sharesOfWeight(weight), 10)}
	}
	return value{file: "cpu.weight", why: ContractCPU, want: strconv.FormatInt(weight, 10)}
}

// containerCPU: the runtime writes what the kubelet says, the request or, without one, the limit
// (pkg/kubelet/kuberuntime/kuberuntime_container_linux.go calculateLinuxResources, 1.36.3). In v2 it converts the shares by itself, along a
// curve, and up to runc 1.3.1 and crun 1.22 along the kubelet's line.
func containerCPU(b *builder, _ *member, c *container) []value {
	milli := c.limit(corev1.ResourceCPU)
	if request, ok := c.spec.Resources.Requests[corev1.ResourceCPU]; ok {
		milli = request
	}
	v := b.cpuShare(sharesOf(milli.MilliValue()), Always)
	if b.node.Version == cgroupfile.V2 {
		if curve := strconv.FormatInt(curveOf(sharesOf(milli.MilliValue())), 10); curve != v.want {
			v.want, v.also, v.per = curve, v.want, true
		}
	}
	return []value{v}
}

const (
	// quotaPeriod is the default period in microseconds (pkg/kubelet/cm/helpers_linux.go QuotaPeriod, 1.36.3).
	quotaPeriod = int64(100_000)
	// minQuota in microseconds is the kernel's (kernel/sched/core.c min_cfs_quota_period).
	minQuota = int64(1000)
	// unlimited is a quota for none.
	unlimited = int64(-1)
)

// quotaOf converts a limit in milli-CPUs to a quota of a period, both in microseconds (helpers_linux.go MilliCPUToQuota, 1.36.3).
// 0: no limit.
func quotaOf(milli, period int64) int64 {
	if milli == 0 {
		return 0
	}
	return max(milli*period/1000, minQuota)
}

// cpuQuota are the files of a quota: unlimited, or 0 for one that is not written, while the period is.
func (b *builder) cpuQuota(quota int64) []value {
	period := b.set.period
	if quota > 0 && b.node.Driver == Systemd {
		quota = cgroupfile.SystemdQuota(quota, period)
	}
	if b.node.Version == cgroupfile.V2 {
		text := "max"
		if quota > 0 {
			text = strconv.FormatInt(quota, 10)
		}
		return []value{{file: "cpu.max", why: Always, want: text + " " + strconv.FormatInt(period, 10)}}
	}
	files := []value{{file: cgroupfile.CFSPeriod, why: Always, want: strconv.FormatInt(period, 10)}}
	if quota != 0 {
		files = append(files, value{file: cgroupfile.CFSQuota, why: Always, want: strconv.FormatInt(quota, 10)})
	}
	return files
}

// podQuota: Guaranteed pods have one, Burstable ones where every container declares a limit or the pod itself does
// (helpers_linux.go ResourceConfigForPod). It is unlimited where limits are not enforced, or not for this pod.
func podQuota(b *builder, m *member) []value {
	if m.class == corev1.PodQOSBestEffort || m.class == corev1.PodQOSBurstable && !m.cpuLimited {
		return nil
	}
	switch exclusive, ok := b.podExclusive(m); {
	case !ok:
		return nil
	case !b.set.quota || exclusive:
		return b.cpuQuota(unlimited)
	default:
		return b.cpuQuota(quotaOf(m.limits.Cpu().MilliValue(), b.set.period))
	}
}

// hasQuota reports whether it is known that the pod's CPU time is limited.
func (b *builder) hasQuota(m *member) bool {
	exclusive, ok := b.podExclusive(m)
	return ok && b.set.quota && !exclusive && m.limits.Cpu().MilliValue() > 0
}

// containerQuota: nothing is written where limits are not enforced (kuberuntime_container_linux.go calculateLinuxResources).
func containerQuota(b *builder, m *member, c *container) []value {
	if !b.set.quota {
		return nil
	}
	exclusive, ok := b.containerExclusive(m, c)
	if !ok {
		return nil
	}
	if exclusive {
		return b.cpuQuota(unlimited)
	}
	limit := c.limit(corev1.ResourceCPU)
	quota := quotaOf(limit.MilliValue(), b.set.period)
	return orExact(b.cpuQuota(quota), quota, b.set.period)
}

// orExact takes the quota that was not rounded for as good: runc 1.1 tells systemd the rounded one and then writes the exact one to
// the file (seen with 1.1.5).
func orExact(files []value, quota, period int64) []value {
	exact := strconv.FormatInt(quota, 10)
	for i := range files {
		f := &files[i]
		switch {
		case quota <= 0:
		case f.file == cgroupfile.CFSQuota && f.want != exact:
			f.also = exact
		case f.file == "cpu.max" && f.want != exact+" "+strconv.FormatInt(period, 10):
			f.also = exact + " " + strconv.FormatInt(period, 10)
		}
	}
	return files
}
