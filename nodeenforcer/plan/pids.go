package plan

import "strconv"

// pidsMax is the file of a limit of processes. 0 becomes 1, since systemd can't express it (libcontainer does so with both drivers).
func pidsMax(limit int64) value {
	return value{file: "pids.max", why: Always, want: strconv.FormatInt(max(limit, 1), 10)}
}

// podPIDs is podPidsLimit, if positive (pkg/kubelet/cm/pod_container_manager_linux.go EnsureExists, 1.36.3). Containers have none: the
// CRI has no field for it.
func podPIDs(b *builder, _ *member) []value {
	if b.set.podPIDs <= 0 {
		return nil
	}
	return []value{pidsMax(b.set.podPIDs)}
}
