package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgroupfile"
)

// hugeUnbounded is what the kubelet writes where huge pages are not bounded: 1<<62 bytes, a number that the kernel takes as it is.
const hugeUnbounded = int64(1) << 62

// hugePageSizes are the page sizes in bytes of a list's hugepages-* resources, ascending.
func hugePageSizes(lists ...corev1.ResourceList) []int64 {
	var sizes []int64
	for _, list := range lists {
		for name := range list {
			if size := hugePageSize(name); size > 0 && hugeUnit(size) != "" {
				sizes = append(sizes, size)
			}
		}
	}
	slices.Sort(sizes)
	return slices.Compact(sizes)
}

// hugePageSize is the page size in bytes of a resource; 0 where it is no huge page resource.
func hugePageSize(name corev1.ResourceName) int64 {
	text, ok := strings.CutPrefix(string(name), corev1.ResourceHugePagesPrefix)
	if !ok {
		return 0
	}
	size, err := resource.ParseQuantity(text)
	if err != nil {
		return 0
	}
	return max(size.Value(), 0)
}

// hugeUnit is a page size as in the names of the kernel's files: 2MB, 1GB. Empty where there can be no such file
// (pkg/apis/core/v1/helper/helpers.go HugePageUnitSizeFromByteSize, 1.36.3).
func hugeUnit(size int64) string {
	units := []string{"B", "KB", "MB", "GB", "TB", "PB"}
	i := 0
	for size%1024 == 0 && i < len(units)-1 {
		size /= 1024
		i++
	}
	if size > 1024 && i < len(units)-1 {
		return ""
	}
	return fmt.Sprintf("%d%s", size, units[i])
}

// hugeLimits are the limits in bytes by page size that a list makes; names of one size count together (helpers_linux.go
// HugePageLimits, 1.36.3).
func hugeLimits(list corev1.ResourceList) map[int64]int64 {
	limits := map[int64]int64{}
	for name, q := range list {
		if size := hugePageSize(name); size > 0 {
			limits[size] = plus(limits[size], q.Value())
		}
	}
	return limits
}

// huge are the files of all page sizes, of what pages are used and what are reserved; a size without a limit has 0
// (pkg/kubelet/cm/cgroup_manager_linux.go maybeSetHugetlb; github.com/opencontainers/cgroups fs2/hugetlb.go).
func (b *builder) huge(sizes []int64, limit func(size int64) int64) []value {
	var files []value
	suffix := ".max"
	if b.node.Version == cgroupfile.V1 {
		suffix = ".limit_in_bytes"
	}
	for _, size := range sizes {
		want := b.node.hugeBytes(limit(size), size)
		for _, kind := range []string{"", ".rsvd"} {
			files = append(files, value{file: "hugetlb." + hugeUnit(size) + kind + suffix, why: Always, want: want})
		}
	}
	return files
}

// unboundedHuge: the QoS levels are not bounded, and kubepods is not either: the kubelet bounds it by what is allocatable when it
// starts, and every minute treats it as the Guaranteed class's level (qos_container_manager_linux.go setHugePagesConfig, 1.36.3).
func (b *builder) unboundedHuge() []value {
	return b.huge(b.set.hugePages, func(int64) int64 { return hugeUnbounded })
}

// podHuge: a pod is limited to its requests.
func podHuge(b *builder, m *member) []value {
	limits := hugeLimits(m.requests)
	sizes := b.set.hugePages
	for size := range limits {
		if hugeUnit(size) != "" && !slices.Contains(sizes, size) {
			sizes = append(slices.Clone(sizes), size)
		}
	}
	slices.Sort(sizes)
	return b.huge(sizes, func(size int64) int64 { return limits[size] })
}

// containerHuge: a container is limited to its own limits, else the pod's, and a size without one to 0
// (pkg/kubelet/kuberuntime/kuberuntime_container_linux.go GetHugepageLimitsFromResources, 1.36.3). No limit at all is as good: a runtime does not
// write what the kubelet asks for where it is told so, as containerd is by default (disable_hugetlb_controller). Of sizes of which the node has no
// pages nobody can use any: they are not looked at.
func containerHuge(b *builder, _ *member, c *container) []value {
	limits := hugeLimits(c.podLimits)
	maps.Copy(limits, hugeLimits(c.spec.Resources.Limits))
	var sizes []int64
	for size, pages := range hugeLimits(b.node.Capacity) {
		if pages > 0 && slices.Contains(b.set.hugePages, size) {
			sizes = append(sizes, size)
		}
	}
	slices.Sort(sizes)
	files := b.huge(sizes, func(size int64) int64 { return limits[size] })
	for i := range files {
		files[i].also = "max"
	}
	return files
}

func qosHuge(b *builder, _ corev1.PodQOSClass) []value { return b.unboundedHuge() }
