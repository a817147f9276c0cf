package state

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podgrace/podgrace/nodeenforcer/cgroup"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgroupfile"
	"github.com/podgrace/podgrace/nodeenforcer/plan"
)

// Machine is the machine that the enforcer runs on, as far as the plan depends on it.
type Machine struct {
	// CgroupRoot is where the host's cgroups are mounted, ProcRoot its /proc; empty: the plan is of another
	// machine.
	CgroupRoot, ProcRoot string
	// KubeletRoot is the kubelet's folder, /var/lib/kubelet, for its managers' states. Empty: not read.
	KubeletRoot string
	Version     cgroupfile.Version
	// Driver is the kubelet's cgroup driver; empty: the one of its configuration, or detected from the tree.
	Driver plan.Driver
}

// DetectMachine detects the cgroup version from what is mounted.
func DetectMachine(cgroupRoot, procRoot, kubeletRoot string) (Machine, error) {
	version, err := cgroup.Detect(cgroupRoot)
	if err != nil {
		return Machine{}, err
	}
	return Machine{CgroupRoot: cgroupRoot, ProcRoot: procRoot, KubeletRoot: kubeletRoot, Version: version}, nil
}

// Node is the input of the plan.
func (m Machine) Node(s State) plan.Node {
	n := m.known(s)
	if m.ProcRoot != "" {
		n.PageSize = int64(os.Getpagesize())
		if pids, err := cgroup.MaxPIDs(m.ProcRoot); err == nil {
			n.PIDs = pids
		}
		n.Kernel = kernelParameters(m.ProcRoot)
	}
	if m.KubeletRoot != "" {
		n.CPUs = readState(m.KubeletRoot, "cpu_manager_state", plan.ParseCPUManagerState)
		n.Memory = readState(m.KubeletRoot, "memory_manager_state", plan.ParseMemoryManagerState)
	}
	return n
}

// kernelParameters are those that can be read: they are the machine's own, in a container too.
func kernelParameters(procRoot string) map[string]int64 {
	have := map[string]int64{}
	for _, p := range plan.KernelParameters() {
		text, err := os.ReadFile(filepath.Join(procRoot, "sys", strings.ReplaceAll(p.Name, ".", "/")))
		if n, unread := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && unread == nil {
			have[p.Name] = n
		}
	}
	return have
}

// known is what is read from no file that could be slow.
func (m Machine) known(s State) plan.Node {
	return plan.Node{
		Name: s.Node.Name, Version: m.Version, Driver: m.driver(s),
		Capacity: s.Node.Status.Capacity, Kubelet: s.Config, KubeletVersion: s.Node.Status.NodeInfo.KubeletVersion,
		Swap: plan.SwapOf(s.Node),
	}
}

// Paths are the cgroups of the node's pods, by UID.
func (m Machine) Paths(s State) map[types.UID]string { return plan.PodPaths(m.known(s), s.Pods) }

// driver is the kubelet's. If its configuration is unknown it is detected from the tree: only systemd names a cgroup kubepods.slice.
func (m Machine) driver(s State) plan.Driver {
	if m.Driver != "" {
		return m.Driver
	}
	if s.Config != nil {
		if driver := plan.Driver(s.Config.CgroupDriver); driver == plan.Systemd || driver == plan.Cgroupfs {
			return driver
		}
	}
	if m.CgroupRoot == "" {
		return plan.Cgroupfs // the kubelet's default
	}
	for _, below := range []string{"", "systemd", "memory"} {
		if _, err := os.Stat(filepath.Join(m.CgroupRoot, below, "kubepods.slice")); err == nil {
			return plan.Systemd
		}
	}
	return plan.Cgroupfs
}

// readState reads a checkpoint of one of the kubelet's managers; nil: it is not there, or can't be read. The plan says so where it matters.
func readState[T any](kubeletRoot, name string, parse func([]byte) (*T, error)) *T {
	text, err := os.ReadFile(filepath.Join(kubeletRoot, name))
	if err != nil {
		return nil
	}
	state, err := parse(text)
	if err != nil {
		return nil
	}
	return state
}

// LocalNode is this machine as a Node, for a plan without a Node object: its CPUs and its memory.
func LocalNode(name, procRoot string) (*corev1.Node, error) {
	memory, err := cgroup.MemTotal(procRoot)
	if err != nil {
		return nil, err
	}
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{Capacity: corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewQuantity(int64(runtime.NumCPU()), resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(memory, resource.BinarySI),
	}}}, nil
}

// Cgroups opens the machine's cgroups, for writes with this driver. bus is the socket of the host's D-Bus or of its systemd.
func (m Machine) Cgroups(driver plan.Driver, bus string) (cgroup.Tree, error) {
	var tree cgroup.Tree = cgroup.NewV2(m.CgroupRoot)
	if m.Version == cgroupfile.V1 {
		v1, err := cgroup.NewV1(m.CgroupRoot, m.ProcRoot)
		if err != nil {
			return nil, err
		}
		tree = v1
	}
	if driver == plan.Systemd {
		tree = cgroup.NewSystemd(tree, m.Version, cgroup.DialSystemd(bus))
	}
	return tree, nil
}
