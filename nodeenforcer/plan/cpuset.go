package plan

import (
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"
	"k8s.io/utils/cpuset"
	"k8s.io/utils/dump"
	"sigs.k8s.io/json"

	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgroupfile"
)

// exclusivity says how to know which containers have CPUs of their own.
type exclusivity struct {
	matters  bool // the feature gate DisableCPUQuotaWithExclusiveCPUs: such a container has no quota
	unknown  bool // the policy is static and its state can't be read
	podLevel bool // the feature gate PodLevelResourceManagers
}

// setCPUs reads the CPU manager's state, if its policy is static; else no cpuset is written below kubepods.
func (s *settings) setCPUs(n Node, k *kubeletconfigv1beta1.KubeletConfiguration) (note string) {
	s.exclusive = exclusivity{
		matters:  n.enabled(gateNoQuotaWithExclusiveCPUs),
		unknown:  n.CPUs == nil && k.CPUManagerPolicy == policyStatic,
		podLevel: n.enabled(gatePodLevelResourceManagers),
	}
	if n.CPUs != nil && n.CPUs.PolicyName == policyStatic {
		var err error
		if s.cpus, err = newCPUs(n.CPUs); err != nil {
			s.exclusive.unknown = true
			return fmt.Sprintf("the kubelet's cpu_manager_state: %v; no cpuset, and no quota of a Guaranteed pod, is planned", err)
		}
	}
	if s.exclusive.unknown {
		return "the kubelet's CPU manager is static and its state is not known: no cpuset, and no quota of a Guaranteed pod, is planned"
	}
	return ""
}

// containerCPUs: the CPUs that the container has to itself, else those that all others share. The kubelet compares every 10 s, with
// what it remembers and not with the file (pkg/kubelet/cm/cpumanager/cpu_manager.go reconcileState, 1.36.3). It leaves out ephemeral
// containers.
func containerCPUs(b *builder, m *member, c *container) []value {
	if b.set.cpus == nil || c.ephemeral {
		return nil
	}
	list := b.set.cpus.exclusive[m.uid][c.spec.Name]
	if list == "" {
		list = b.set.cpus.shared
	}
	if list == "" {
		return nil
	}
	return []value{{file: "cpuset.cpus", why: Always, want: list}}
}

// containerExclusive reports whether a container has CPUs of its own, and whether that is known.
func (b *builder) containerExclusive(m *member, c *container) (exclusive, known bool) {
	if !b.set.exclusive.matters {
		return false, true
	}
	if b.set.exclusive.unknown {
		return false, m.class != corev1.PodQOSGuaranteed
	}
	return b.isolated(m, c.spec), true
}

// podExclusive reports whether a pod has containers with CPUs of their own (pkg/kubelet/cm/container_manager_linux.go
// PodHasExclusiveCPUs, 1.36.3): any, or, of a pod with resources of its own and behind PodLevelResourceManagers, all.
func (b *builder) podExclusive(m *member) (exclusive, known bool) {
	if !b.set.exclusive.matters {
		return false, true
	}
	if b.set.exclusive.unknown {
		return false, m.class != corev1.PodQOSGuaranteed
	}
	all := b.set.exclusive.podLevel && resourcehelper.IsPodLevelResourcesSet(m.pod)
	for _, containers := range [][]corev1.Container{m.pod.Spec.InitContainers, m.pod.Spec.Containers} {
		for i := range containers {
			if b.isolated(m, &containers[i]) != all {
				return !all, true
			}
		}
	}
	return all, true
}

func (b *builder) isolated(m *member, c *corev1.Container) bool {
	if b.set.cpus == nil || b.set.cpus.exclusive[m.uid][c.Name] == "" {
		return false
	}
	if b.set.exclusive.podLevel && resourcehelper.IsPodLevelResourcesSet(m.pod) {
		return wholeCPUs(c.Resources)
	}
	return true
}

// wholeCPUs is what a container needs for CPUs of its own (cpu_manager.go resourcesQualifyForExclusiveCPUs, 1.36.3).
func wholeCPUs(r corev1.ResourceRequirements) bool {
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		request, limit := r.Requests[name], r.Limits[name]
		if request.IsZero() || !request.Equal(limit) {
			return false
		}
	}
	cpu := r.Limits[corev1.ResourceCPU]
	return cpu.Value()*1000 == cpu.MilliValue()
}

// CPUManagerState is the kubelet's checkpoint cpu_manager_state: which CPUs it gave to whom. It is read and not predicted.
type CPUManagerState struct {
	PolicyName    string                       `json:"policyName"`
	DefaultCPUSet string                       `json:"defaultCpuSet"`
	Entries       map[string]map[string]string `json:"entries,omitempty"` // by pod UID and container name
}

// CPUManagerCheckpoint is the file's form (pkg/kubelet/cm/cpumanager/state/checkpoint.go CPUManagerCheckpointV2, 1.36.3). Its name is
// part of what the kubelet makes the checksum of. Behind the alpha feature gate PodLevelResourceManagers the file has podEntries
// too, the CPUs of whole pods, and a third form: that one is refused.
type CPUManagerCheckpoint struct {
	PolicyName    string                       `json:"policyName"`
	DefaultCPUSet string                       `json:"defaultCpuSet"`
	Entries       map[string]map[string]string `json:"entries,omitempty"`
	Checksum      checkpointSum                `json:"checksum"`
}

type checkpointSum uint64

// ParseCPUManagerState reads the kubelet's cpu_manager_state of 1.18 and later. What the kubelet would not have written is an error:
// other fields or types, an unknown policy, CPUs out of order, or another checksum; 0 is none, as for the kubelet. Errors say
// what is wrong and nothing is returned with them.
func ParseCPUManagerState(data []byte) (*CPUManagerState, error) {
	var c CPUManagerCheckpoint
	strict, err := json.UnmarshalStrict(data, &c)
	if err == nil {
		err = errors.Join(strict...)
	}
	if err != nil {
		return nil, fmt.Errorf("read cpu_manager_state: %w", err)
	}
	if err := c.verify(); err != nil {
		return nil, fmt.Errorf("read cpu_manager_state: %w", err)
	}
	return &CPUManagerState{PolicyName: c.PolicyName, DefaultCPUSet: c.DefaultCPUSet, Entries: c.Entries}, nil
}

func (c CPUManagerCheckpoint) verify() error {
	if c.PolicyName != policyStatic && c.PolicyName != "none" {
		return fmt.Errorf("policy %q is not known", c.PolicyName)
	}
	if want := c.sum(); c.Checksum != 0 && c.Checksum != want {
		return fmt.Errorf("checksum %d should be %d", c.Checksum, want)
	}
	_, err := newCPUs(&CPUManagerState{DefaultCPUSet: c.DefaultCPUSet, Entries: c.Entries})
	return err
}

// sum is the kubelet's checksum: a hash of the struct with all names of its types (pkg/kubelet/checkpointmanager/checksum).
func (c CPUManagerCheckpoint) sum() checkpointSum {
	c.Checksum = 0
	if c.Entries == nil {
		c.Entries = map[string]map[string]string{} // as the kubelet makes it before it reads
	}
	text := dump.ForHash(&c)
	text = strings.Replace(text, "(*plan.", "(*state.", 1)
	const ours, theirs = "Checksum:(plan.checkpointSum)0}", "Checksum:(checksum.Checksum)0}"
	text = strings.TrimSuffix(text, ours) + theirs
	h := fnv.New32a()
	_, _ = h.Write([]byte(text)) // never fails
	return checkpointSum(h.Sum32())
}

// cpus are the CPUs of containers as the kernel prints them.
type cpus struct {
	shared    string
	exclusive map[string]map[string]string
}

func newCPUs(s *CPUManagerState) (*cpus, error) {
	if err := checkCPUs(s.DefaultCPUSet); err != nil {
		return nil, fmt.Errorf("default CPUs: %w", err)
	}
	for _, uid := range slices.Sorted(maps.Keys(s.Entries)) {
		for _, name := range slices.Sorted(maps.Keys(s.Entries[uid])) {
			if err := checkCPUs(s.Entries[uid][name]); err != nil {
				return nil, fmt.Errorf("CPUs of container %q of pod %q: %w", name, uid, err)
			}
		}
	}
	return &cpus{shared: s.DefaultCPUSet, exclusive: s.Entries}, nil
}

// checkCPUs says what is wrong with a list such as 0-3,5: each number above the one before, as the kubelet and the kernel write it.
func checkCPUs(list string) error {
	last := -1
	if list == "" {
		return nil
	}
	for part := range strings.SplitSeq(list, ",") {
		from, to, isRange := strings.Cut(part, "-")
		if !isRange {
			to = from
		}
		lo, loErr := strconv.Atoi(from)
		hi, hiErr := strconv.Atoi(to)
		switch {
		case loErr != nil || hiErr != nil || strconv.Itoa(lo) != from || strconv.Itoa(hi) != to:
			return fmt.Errorf("%q is no list of CPUs", list)
		case lo <= last+1 && last >= 0 || lo < 0 || hi < lo || isRange && hi == lo || hi >= cgroupfile.MaxCPU:
			return fmt.Errorf("%q is no ascending list of CPUs", list)
		}
		last = hi
	}
	return nil
}

// parseCPUs reads a list that a person wrote.
func parseCPUs(list string) (cpuset.CPUSet, error) {
	return cgroupfile.ReadSet(list)
}
