package plan

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"

	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgroupfile"
	"github.com/podgrace/podgrace/policy/enforcement"
)

// Driver says who makes the kubelet's cgroups, and so how they are named.
type Driver string

// The cgroup drivers, by the kubelet's names (cgroupDriver).
const (
	Cgroupfs Driver = "cgroupfs"
	Systemd  Driver = "systemd"
)

// Level is a depth of the tree.
type Level string

// The levels, from the top; LevelReserved is beside kubepods: a cgroup of daemons, which the kubelet keeps to what is reserved for them.
const (
	LevelReserved  Level = "reserved"
	LevelKubepods  Level = "kubepods"
	LevelQOS       Level = "qos"
	LevelPod       Level = "pod"
	LevelContainer Level = "container"
)

// Node is what the plan needs to know of a machine and of its kubelet.
type Node struct {
	Name    string
	Version cgroupfile.Version
	Driver  Driver
	// PageSize in bytes: the kernel rounds memory.high down to it.
	PageSize int64
	// Capacity as in the Node's status: cpu, memory, hugepages-*, pods.
	Capacity corev1.ResourceList
	// PIDs is the number of processes that the kernel allows: the lower of pid_max and threads-max. 0: unknown.
	PIDs int64
	// Kernel is what the machine's KernelParameters are, by name; those that are missing are not known.
	Kernel map[string]int64
	// Kubelet is its configuration, as read from its /configz; nil: unknown, then its defaults and the policy's reservations
	// count.
	Kubelet *kubeletconfigv1beta1.KubeletConfiguration
	// KubeletVersion as in the Node's status.nodeInfo: the defaults of feature gates depend on it. Empty: 1.36.
	KubeletVersion string
	// Swap in bytes, as in the Node's status.nodeInfo.swap; 0: none.
	Swap int64
	// CPUs is the kubelet's cpu_manager_state; nil: none or unreadable, then no cpuset is planned.
	CPUs *CPUManagerState
	// Memory is its memory_manager_state; nil: none or unreadable, then no cpuset.mems is planned.
	Memory *MemoryManagerState
}

// Tree is the desired state of the node's cgroups.
type Tree struct {
	// Groups, parents before their children, siblings by path.
	Groups []Group
	// Processes of containers (not of sandboxes), in the order of their groups.
	Processes []Process
	// Daemons of the host, as the kubelet's configuration places them; none if that is not known.
	Daemons []Daemon
	// MemoryProtector says who protects memory here.
	MemoryProtector enforcement.MemoryProtector
	// Notes are for the reader: an annotation that could not be parsed, a value that was bounded, and of which pod.
	Notes []Note
}

// Group is one cgroup.
type Group struct {
	// Path below the root of the hierarchy, with a leading slash, as the driver names it: /kubepods/burstable/pod<uid>, or
	// /kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod<uid>.slice.
	Path  string
	Level Level
	QOS   corev1.PodQOSClass // of the levels below kubepods
	// Pod and UID are set at the pod's and container's level. UID is the API object's, which for a mirror pod is not the one in
	// Path.
	Pod types.NamespacedName
	UID types.UID
	// Container is the name of a container, an init container or an ephemeral one.
	Container string
	// Files that should hold a value, by the kernel's file name.
	Files map[string]Value
	// Kept are files for which no value can be planned at present, and in which the last one stays.
	Kept []string
}

// Value is what a file should hold.
type Value struct {
	// Want is the value as the kernel prints it when it is read back.
	Want string
	// Also is another value that is accepted, because other versions of the runtime write it; empty: none.
	Also string
	// PerRuntime: the runtime's version, which nobody tells, decides whether Want or Also is right. What differs from both is told and not written: a
	// container would have a weight by one formula among siblings with theirs by the other.
	PerRuntime bool
	// Owner says who else writes the file; it decides what the modes may do.
	Owner Owner
	// Every is how often the owner brings the file up to date by itself; 0: it does not.
	Every time.Duration
}

// Owner is who writes a file regularly.
type Owner string

// The owners.
const (
	// Nobody: neither the kubelet nor the runtime writes it. Tune and Repair write it.
	Nobody Owner = "nobody"
	// Kubelet: Repair restores it where the kubelet does not do it itself.
	Kubelet Owner = "kubelet"
	// Runtime: written once, when the container is made, from what the kubelet told the runtime. Repair restores it.
	Runtime Owner = "runtime"
)

// Process is the desired oom_score_adj of a container's processes.
type Process struct {
	// Path is the container's group.
	Path        string
	Pod         types.NamespacedName
	UID         types.UID
	Container   string
	OOMScoreAdj int
	// Started is what the runtime gives each process that it starts in the container, a probe's too.
	Started int
	// Owner is Runtime where the value is the kubelet's own, Nobody where the policy orders by priority or rank.
	Owner Owner
}

// Note is a remark for the reader of a plan, about one pod or, if Pod is empty, about the node.
type Note struct {
	Pod     types.NamespacedName
	Message string
	// Unusable: what somebody gave can't be used at all, as opposed to what is bounded or has no effect.
	Unusable bool
	// Kernel: about a parameter of the node's kernel.
	Kernel bool
	// Protection: about the node, and it holds for each of its pods whose memory is protected.
	Protection bool
}

// Unusable are the notes of what can't be used, those about the node first.
func (t *Tree) Unusable() []Note {
	var all []Note
	for _, n := range t.Notes {
		if n.Unusable {
			all = append(all, n)
		}
	}
	return all
}

// OfKernel are the notes about the kernel's parameters.
func (t *Tree) OfKernel() []Note {
	return slices.DeleteFunc(slices.Clone(t.Notes), func(n Note) bool { return !n.Kernel })
}

// String names the pod.
func (n Note) String() string {
	if n.Pod.Name == "" {
		return n.Message
	}
	return "pod " + n.Pod.String() + ": " + n.Message
}

// Count is the number of groups at a level.
func (t *Tree) Count(level Level) int {
	n := 0
	for i := range t.Groups {
		if t.Groups[i].Level == level {
			n++
		}
	}
	return n
}
