package plan

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"
	"k8s.io/utils/cpuset"

	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgroupfile"
)

// policyStaticMemory is the memory manager's policy under which containers have memory nodes of their own.
const policyStaticMemory = kubeletconfigv1beta1.StaticMemoryManagerPolicy

// MemoryManagerState is the kubelet's checkpoint memory_manager_state: from which nodes of a machine's memory (NUMA) it gave to whom. It is read and not predicted.
type MemoryManagerState struct {
	PolicyName string                              `json:"policyName"`
	Entries    map[string]map[string][]MemoryBlock `json:"entries,omitempty"` // by pod UID and container name
}

// MemoryBlock is memory, or huge pages of one size, that a container has. Of no use here is how much.
type MemoryBlock struct {
	NUMAAffinity []int `json:"numaAffinity"`
}

// ParseMemoryManagerState reads the kubelet's memory_manager_state (pkg/kubelet/cm/memorymanager/state/checkpoint.go MemoryManagerCheckpointV1, 1.36.3). The form behind the alpha
// feature gate PodLevelResourceManagers, which gives memory to whole pods, is refused, as that of cpu_manager_state is. The checksum is not looked at: it is over the machine's
// state as well, in the kubelet's own types, and the file is replaced as a whole. The kubelet itself does not start by one that is damaged.
func ParseMemoryManagerState(data []byte) (*MemoryManagerState, error) {
	var c struct {
		MemoryManagerState
		PodEntries map[string]json.RawMessage `json:"podEntries"`
	}
	if err := json.Unmarshal(data, &c); err != nil {
		return nil, fmt.Errorf("read memory_manager_state: %w", err)
	}
	switch {
	case !slices.Contains([]string{"None", policyStaticMemory, "BestEffort"}, c.PolicyName):
		return nil, fmt.Errorf("read memory_manager_state: policy %q is not known", c.PolicyName)
	case len(c.PodEntries) > 0:
		return nil, fmt.Errorf("read memory_manager_state: it has the memory of %d whole pods, which is not known here", len(c.PodEntries))
	}
	for _, uid := range slices.Sorted(maps.Keys(c.Entries)) {
		for _, name := range slices.Sorted(maps.Keys(c.Entries[uid])) {
			for _, block := range c.Entries[uid][name] {
				if len(block.NUMAAffinity) > 0 && (slices.Min(block.NUMAAffinity) < 0 || slices.Max(block.NUMAAffinity) > cgroupfile.MaxCPU) {
					return nil, fmt.Errorf("read memory_manager_state: container %q of pod %q has the nodes %v", name, uid, block.NUMAAffinity)
				}
			}
		}
	}
	return &c.MemoryManagerState, nil
}

// setMemoryNodes reads the memory manager's state, if its policy is static; else no cpuset.mems is written.
func (s *settings) setMemoryNodes(n Node, k *kubeletconfigv1beta1.KubeletConfiguration) (note string) {
	if n.Memory != nil && n.Memory.PolicyName == policyStaticMemory {
		s.memoryNodes = n.Memory.Entries
		return ""
	}
	if n.Memory == nil && k.MemoryManagerPolicy == policyStaticMemory {
		return "the kubelet's memory manager is static and its state is not known: no cpuset.mems is planned"
	}
	return ""
}

// containerMemoryNodes are the nodes of the memory that the container has to itself, written when it is made and never compared (pkg/kubelet/cm/internal_container_lifecycle_linux.go
// PreCreateContainer, 1.36.3). Others have no list of their own: theirs is the parent's.
func containerMemoryNodes(b *builder, m *member, c *container) []value {
	var nodes []int
	for _, block := range b.set.memoryNodes[m.uid][c.spec.Name] {
		nodes = append(nodes, block.NUMAAffinity...)
	}
	if len(nodes) == 0 || c.ephemeral {
		return nil
	}
	return []value{{file: "cpuset.mems", why: Always, want: cpuset.New(nodes...).String()}}
}
