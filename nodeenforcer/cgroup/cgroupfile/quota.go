package cgroupfile

import "math"

const (
	// second in microseconds.
	second = 1_000_000
	// percent is what systemd keeps of a quota in its drop-in file: whole hundredths of a CPU, in microseconds per second.
	percent = 10_000
)

// QuotaPerSecond is a quota of a period as systemd keeps it, in microseconds per second. It is rounded up to a whole percent of a CPU, as
// the kubelet's cgroup manager does (opencontainers/cgroups v0.0.6 systemd/common.go, addCPUQuota): a daemon-reload would round it
// otherwise, perhaps down, under the sum of the children.
func QuotaPerSecond(quota, period uint64) uint64 {
	perSecond := quota * second / period
	return (perSecond + percent - 1) / percent * percent
}

// SystemdQuota is the quota of a period that systemd's users write to the file: rounded up to QuotaPerSecond where that is more.
func SystemdQuota(quota, period int64) int64 {
	if quota > math.MaxInt64/second {
		return quota
	}
	rounded := int64(QuotaPerSecond(uint64(quota), uint64(period)))
	if rounded == quota*second/period {
		return quota
	}
	return rounded * period / second
}
