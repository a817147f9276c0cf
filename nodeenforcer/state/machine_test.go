package state_test

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"

	"github.com/podgrace/podgrace/nodeenforcer/cgroup"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgroupfile"
	"github.com/podgrace/podgrace/nodeenforcer/plan"
	"github.com/podgrace/podgrace/nodeenforcer/state"
	"github.com/podgrace/podgrace/nodeenforcer/state/statetest"
)

func TestMachineNode(t *testing.T) {
	proc := statetest.Folder(t, map[string]string{"sys/kernel/pid_max": "32768\n", "sys/kernel/threads-max": "9000\n", "sys/vm/overcommit_memory": "2\n", "sys/kernel/panic": "-1\n", "sys/kernel/panic_on_oops": "many"})
	kubelet := statetest.Folder(t, map[string]string{"cpu_manager_state": `{"policyName":"none","defaultCpuSet":"","checksum":0}`, "memory_manager_state": `{"policyName":"None","machineState":{}}`})
	known := state.State{Node: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: corev1.NodeStatus{Capacity: statetest.Capacity(), NodeInfo: corev1.NodeSystemInfo{KubeletVersion: "v1.35.1", Swap: &corev1.NodeSwapStatus{Capacity: new(int64(7))}}}}}
	n := state.Machine{ProcRoot: proc, KubeletRoot: kubelet, Version: cgroupfile.V1}.Node(known)
	if n.Name != "n" || n.PIDs != 9000 || n.CPUs == nil || n.CPUs.PolicyName != "none" || n.Memory == nil || n.Memory.PolicyName != "None" || n.KubeletVersion != "v1.35.1" || n.Swap != 7 || n.Version != cgroupfile.V1 || n.PageSize != int64(os.Getpagesize()) || n.Kubelet != nil {
		t.Errorf("got %+v", n)
	}
	if want := map[string]int64{"vm.overcommit_memory": 2, "kernel.panic": -1}; !maps.Equal(n.Kernel, want) {
		t.Errorf("the kernel's parameters are %v", n.Kernel)
	}
	// Of another machine nothing is read, and what can't be read is not known.
	for name, m := range map[string]state.Machine{
		"another machine":    {Version: cgroupfile.V2},
		"nothing is there":   {ProcRoot: t.TempDir(), KubeletRoot: t.TempDir()},
		"nothing of sense":   {ProcRoot: statetest.Folder(t, map[string]string{"sys/kernel/pid_max": "many", "sys/kernel/threads-max": "1"}), KubeletRoot: statetest.Folder(t, map[string]string{"cpu_manager_state": "{", "memory_manager_state": "["})},
		"half of the limits": {ProcRoot: statetest.Folder(t, map[string]string{"sys/kernel/pid_max": "7"})},
	} {
		if n := m.Node(known); n.PIDs != 0 || n.CPUs != nil || n.Memory != nil || m.ProcRoot == "" && n.PageSize != 0 {
			t.Errorf("%s: got %+v", name, n)
		}
	}
}

func TestMachineDriver(t *testing.T) {
	systemd := statetest.Folder(t, map[string]string{"kubepods.slice/": ""})
	v1 := statetest.Folder(t, map[string]string{"memory/kubepods.slice/": "", "cpu/": ""})
	said := func(driver string) state.State {
		return state.State{Node: &corev1.Node{}, Config: &kubeletconfigv1beta1.KubeletConfiguration{CgroupDriver: driver}}
	}
	for name, tc := range map[string]struct {
		machine state.Machine
		state   state.State
		want    plan.Driver
	}{
		"set":                        {state.Machine{Driver: plan.Systemd}, said("cgroupfs"), plan.Systemd},
		"as the kubelet says":        {state.Machine{CgroupRoot: systemd}, said("cgroupfs"), plan.Cgroupfs},
		"as the tree looks":          {state.Machine{CgroupRoot: systemd}, state.State{Node: &corev1.Node{}}, plan.Systemd},
		"as the tree of v1 looks":    {state.Machine{CgroupRoot: v1}, state.State{Node: &corev1.Node{}}, plan.Systemd},
		"it says nothing":            {state.Machine{CgroupRoot: systemd}, said(""), plan.Systemd},
		"it says nonsense":           {state.Machine{CgroupRoot: v1}, said("Systemd"), plan.Systemd},
		"no tree":                    {state.Machine{CgroupRoot: t.TempDir()}, state.State{Node: &corev1.Node{}}, plan.Cgroupfs},
		"another machine's":          {state.Machine{}, state.State{Node: &corev1.Node{}}, plan.Cgroupfs},
		"another machine's, it says": {state.Machine{}, said("systemd"), plan.Systemd},
	} {
		if got := tc.machine.Node(tc.state).Driver; got != tc.want {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
	// Another machine's plan does not depend on where it is made.
	t.Chdir(systemd)
	if got := (state.Machine{}).Node(state.State{Node: &corev1.Node{}}).Driver; got != plan.Cgroupfs {
		t.Errorf("here: %q", got)
	}
}

func TestDetectMachine(t *testing.T) {
	if m, err := state.DetectMachine("/sys/fs/cgroup", "/proc", "/k"); err == nil {
		if m.Version != cgroupfile.V1 && m.Version != cgroupfile.V2 || m.ProcRoot != "/proc" || m.KubeletRoot != "/k" || m.CgroupRoot != "/sys/fs/cgroup" {
			t.Errorf("got %+v", m)
		}
	}
	for _, root := range []string{"/proc", filepath.Join(t.TempDir(), "none")} {
		if m, err := state.DetectMachine(root, "/proc", ""); err == nil || !strings.Contains(err.Error(), root) {
			t.Errorf("%s: %+v, %v", root, m, err)
		}
	}
}

func TestMachineCgroups(t *testing.T) {
	v1 := state.Machine{Version: cgroupfile.V1, CgroupRoot: t.TempDir(), ProcRoot: t.TempDir()}
	if _, err := v1.Cgroups(plan.Cgroupfs, ""); err == nil {
		t.Error("v1 without a list of mounts was opened")
	}
	v2 := state.Machine{Version: cgroupfile.V2, CgroupRoot: t.TempDir(), ProcRoot: t.TempDir()}
	for driver, durable := range map[plan.Driver]bool{plan.Cgroupfs: false, plan.Systemd: true, "": false} {
		tree, err := v2.Cgroups(driver, "/run/none")
		if _, systemd := tree.(*cgroup.Systemd); err != nil || systemd != durable {
			t.Errorf("%q: %T, %v", driver, tree, err)
		}
	}
}

func TestLocalNode(t *testing.T) {
	n, err := state.LocalNode("n", statetest.Folder(t, map[string]string{"meminfo": "MemFree:  1 kB\nMemTotal:        2097152 kB\n"}))
	if err != nil || n.Name != "n" || n.Status.Capacity.Memory().String() != "2Gi" || n.Status.Capacity.Cpu().IsZero() {
		t.Errorf("got %+v, %v", n, err)
	}
	for text, want := range map[string]string{"": "it has no MemTotal", "MemTotal: much kB\n": "MemTotal", "MemTotal:\n": "MemTotal", "XMemTotal: 1 kB": "it has no MemTotal"} {
		if _, err := state.LocalNode("n", statetest.Folder(t, map[string]string{"meminfo": text})); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := state.LocalNode("n", t.TempDir()); err == nil {
		t.Error("there is no meminfo")
	}
}
