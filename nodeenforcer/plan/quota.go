package plan

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgroupfile"
)

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
	switch exclusive, known := b.podExclusive(m); {
	case !known:
		return nil
	case !b.set.quota || exclusive:
		return b.cpuQuota(unlimited)
	default:
		return b.cpuQuota(quotaOf(m.limits.Cpu().MilliValue(), b.set.period))
	}
}

// hasQuota says whether it is known that the pod's CPU time is limited.
func (b *builder) hasQuota(m *member) bool {
	exclusive, known := b.podExclusive(m)
	return known && b.set.quota && !exclusive && m.limits.Cpu().MilliValue() > 0
}

// containerQuota: nothing is written where limits are not enforced (kuberuntime_container_linux.go calculateLinuxResources).
func containerQuota(b *builder, m *member, c *container) []value {
	if !b.set.quota {
		return nil
	}
	exclusive, known := b.containerExclusive(m, c)
	if !known {
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
