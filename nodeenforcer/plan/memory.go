package plan

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgroupfile"
)

// memoryLimit is the file of a limit in bytes; none where it is 0, since libcontainer then writes none.
func (b *builder) memoryLimit(bytes int64) []value {
	if bytes <= 0 {
		return nil
	}
	return []value{{file: b.memoryFile(), why: Always, want: b.node.memoryBytes(bytes)}}
}

func (b *builder) memoryFile() string {
	if b.node.Version == cgroupfile.V1 {
		return "memory.limit_in_bytes"
	}
	return "memory.max"
}

// podMemory: as a pod's quota, of memory.
func podMemory(b *builder, m *member) []value {
	if m.class == corev1.PodQOSBestEffort || m.class == corev1.PodQOSBurstable && !m.memoryLimited {
		return nil
	}
	return b.memoryLimit(m.limits.Memory().Value())
}

// containerMemory is the container's limit or, without one, the pod's own (kuberuntime_container_linux.go getMemoryLimit, 1.36.3).
func containerMemory(b *builder, _ *member, c *container) []value {
	limit := c.limit(corev1.ResourceMemory)
	return b.memoryLimit(limit.Value())
}
