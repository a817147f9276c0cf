package plan

// containerOOMGroup lets the kernel kill all processes of a container together, unless singleProcessOOMKill says otherwise; then
// nothing is written (kuberuntime_container_linux.go calculateLinuxResources, 1.36.3).
func containerOOMGroup(b *builder, _ *member, _ *container) []value {
	if !b.set.oomGroup {
		return nil
	}
	return []value{{file: "memory.oom.group", why: Always, want: "1"}}
}
