package plan_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"

	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgroupfile"
	"github.com/podgrace/podgrace/nodeenforcer/plan"
)

// reserving is a node whose kubelet reserves 100m and 64Mi for its own daemons, 200m and 1000 processes for the system's.
func reserving(d plan.Driver, kube, system string, enforced ...string) plan.Node {
	return plan.Node{Name: "n1", Version: cgroupfile.V2, Driver: d,
		Capacity: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi")},
		Kubelet: &kubeletconfigv1beta1.KubeletConfiguration{
			KubeReserved: map[string]string{"cpu": "100m", "memory": "64Mi"}, SystemReserved: map[string]string{"cpu": "200m", "pid": "1000"},
			KubeReservedCgroup: kube, SystemReservedCgroup: system, EnforceNodeAllocatable: enforced,
		}}
}

// reserved are the groups of that level, with what they should hold.
func reserved(tree *plan.Tree) map[string]map[string]string {
	groups := map[string]map[string]string{}
	for _, g := range tree.Groups {
		if g.Level != plan.LevelReserved {
			continue
		}
		groups[g.Path] = map[string]string{}
		for file, v := range g.Files {
			groups[g.Path][file] = v.Want
		}
	}
	return groups
}

// Which cgroups are kept to a reservation, under which names, and to which part of it.
func TestReservedCgroups(t *testing.T) {
	both := []string{"pods", "kube-reserved", "system-reserved"}
	kube, system := map[string]string{"cpu.weight": "4", "memory.max": "67108864"}, map[string]string{"cpu.weight": "8", "pids.max": "1000"}
	for name, tc := range map[string]struct {
		node plan.Node
		want map[string]map[string]string
		note string
	}{
		"slices":            {reserving(plan.Systemd, "/runtime.slice", "/system.slice", both...), map[string]map[string]string{"/runtime.slice": kube, "/system.slice": system}, ""},
		"a dash is a level": {reserving(plan.Systemd, "/runtime-kube.slice", "/system.slice", both...), map[string]map[string]string{"/runtime.slice/runtime-kube.slice": kube, "/system.slice": system}, ""},
		"only the last part of a slice's path counts": {
			reserving(plan.Systemd, "/a.slice/b.slice", "/system.slice", both...), map[string]map[string]string{"/b.slice": kube, "/system.slice": system}, "",
		},
		"folders":           {reserving(plan.Cgroupfs, "/daemons/kube-1", "system", both...), map[string]map[string]string{"/daemons/kube-1": kube, "/system": system}, ""},
		"none":              {reserving(plan.Systemd, "/runtime.slice", "/system.slice", "pods"), map[string]map[string]string{}, ""},
		"what is throttled": {reserving(plan.Systemd, "/runtime.slice", "/system.slice", "kube-reserved-compressible"), map[string]map[string]string{"/runtime.slice": {"cpu.weight": "4"}}, ""},
		"the kubelet's own is written last": {
			reserving(plan.Systemd, "/system.slice", "/system.slice", both...), map[string]map[string]string{"/system.slice": {"cpu.weight": "4", "memory.max": "67108864", "pids.max": "1000"}}, "",
		},
		"the pods' tree": {
			reserving(plan.Systemd, "/kubepods-burstable.slice", "/system.slice", both...), map[string]map[string]string{"/system.slice": system},
			"kube-reserved is not planned: the kubelet's kubeReservedCgroup: /kubepods.slice/kubepods-burstable.slice is of the pods",
		},
		"the root":  {reserving(plan.Systemd, "/", "/system.slice", both...), map[string]map[string]string{"/system.slice": system}, `kubeReservedCgroup: "/" is the root`},
		"a way out": {reserving(plan.Cgroupfs, "/../../etc", "/system", both...), map[string]map[string]string{"/system": system}, "is no name"},
	} {
		t.Run(name, func(t *testing.T) {
			tree := plan.Build(tc.node, nil, nil)
			if diff := cmp.Diff(tc.want, reserved(tree)); diff != "" {
				t.Error(diff)
			}
			var notes []string
			for _, n := range tree.Unusable() {
				notes = append(notes, n.Message)
			}
			if got := strings.Join(notes, "\n"); (tc.note == "") != (got == "") || !strings.Contains(got, tc.note) {
				t.Errorf("the notes are %q", got)
			}
		})
	}
}

// Memory QoS protects what is reserved, too; what 1.37 makes of it is not known, and not planned.
func TestReservedMemoryIsProtected(t *testing.T) {
	for version, want := range map[string]string{"v1.36.3": "67108864", "v1.37.0": ""} {
		n := reserving(plan.Systemd, "/runtime.slice", "", "kube-reserved")
		n.KubeletVersion, n.Kubelet.FeatureGates = version, map[string]bool{"MemoryQoS": true}
		if got := reserved(plan.Build(n, nil, nil))["/runtime.slice"]["memory.min"]; got != want {
			t.Errorf("%s: memory.min is planned as %q", version, got)
		}
	}
}
