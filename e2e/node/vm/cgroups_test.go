package vm

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/cli/nodeplan"
	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/e2e/vm"
)

// What nobody else owns is tuned, by systemd, so that it outlives daemon-reload and what the kubelet sets on the same unit.
func TestTuneLasts(t *testing.T) {
	g := start(t)
	ns := g.Namespace(t)
	p := g.Pod(ns, "p", cluster.PauseImage, "100m/64Mi", "500m/256Mi", nil)
	g.Running(t, p)
	g.NodePolicy(t, v1alpha1.NodePolicySpec{
		Mode: v1alpha1.NodeModeTune, Memory: g.Memory,
		OOM: &v1alpha1.NodeOOM{Order: v1alpha1.OOMOrderPriority}, QOSReserved: &v1alpha1.QOSReserved{MemoryPercent: 100},
	})
	read := func(dir, file string) string {
		values, err := g.node.Read(t.Context(), dir+"/"+file)
		if err != nil {
			t.Fatal(err)
		}
		return values[dir+"/"+file]
	}
	container := vm.ContainerCgroup(p, "main")
	g.Eventually(t, "the pod's protection and throttling", func(context.Context) (bool, error) {
		return read(container, "memory.low") == "67108864" && read(container, "memory.high") != "max", nil
	})
	want := map[string]string{
		vm.PodCgroup(p) + " memory.low": "67108864",
		container + " memory.low":       "67108864",
		container + " memory.high":      read(container, "memory.high"),
	}
	// What systemd resets along with a property (memory.oom.group) is the runtime's, so Tune would never write it again by itself.
	g.NoDrift(t)
	for what, script := range map[string]string{"daemon-reload": "systemctl daemon-reload", "another property of the same unit": "systemctl set-property --runtime $(basename " + vm.PodCgroup(p) + ") MemorySwapMax=infinity"} {
		g.keepingOOMGroups(t, func() { g.script(t, script) })
		for at, value := range want {
			dir, file, _ := strings.Cut(at, " ")
			if got := read(dir, file); got != value {
				t.Errorf("after %s %s of %s is %s, was %s", what, file, dir, got, value)
			}
		}
	}
}

// What somebody changes of a container's weight and swap is seen. Repair restores its swap; which weight is the runtime's it can't know, and says so.
func TestContainerValues(t *testing.T) {
	g := start(t)
	ns := g.Namespace(t)
	g.Running(t, g.Pod(ns, "p", cluster.PauseImage, "100m/64Mi", "500m/256Mi", nil))
	container := func() nodeplan.Cgroup {
		for _, c := range g.Plan(t).Cgroups {
			if c.Pod == ns+"/p" && c.Container == "main" {
				return c
			}
		}
		t.Fatal("the plan has no container")
		return nodeplan.Cgroup{}
	}
	at := container()
	if len(at.Drift) > 0 || at.Files["cpu.weight"] == "" || at.Files["memory.swap.max"] != "0" {
		t.Fatalf("the container is planned as %v, and differs by %v", at.Files, at.Drift)
	}
	g.Put(t, at.Path, "cpu.weight", "777")
	g.Put(t, at.Path, "memory.swap.max", "4096")
	if diff := cmp.Diff(map[string]string{"cpu.weight": "777", "memory.swap.max": "4096"}, container().Drift); diff != "" {
		t.Errorf("the plan's drift: %s", diff)
	}
	g.NodePolicy(t, v1alpha1.NodePolicySpec{Mode: v1alpha1.NodeModeRepair})
	e := g.Enforcer(t)
	g.Eventually(t, "the swap", func(context.Context) (bool, error) { return g.Get(t, at.Path, "memory.swap.max") == "0", nil })
	g.Eventually(t, "the weight that is told", func(ctx context.Context) (bool, error) {
		n, err := e.Sum(ctx, `podgrace_node_drift_files{owner="runtime",reason="Formula"}`)
		return n == 1, err
	})
	if got := g.Get(t, at.Path, "cpu.weight"); got != "777" {
		t.Errorf("the weight became %s", got)
	}
}

// The enforcer is not privileged, and has the capabilities that deploy lists and no other.
func TestLeastPrivilege(t *testing.T) {
	g := start(t)
	p := g.ready(t)
	c := p.Spec.Containers[0].SecurityContext
	if *c.Privileged || *c.AllowPrivilegeEscalation || !*c.ReadOnlyRootFilesystem || c.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
		t.Errorf("its security context is %+v", c)
	}
	status := g.script(t, "cat /proc/$(cat "+vm.ContainerCgroup(p, "nodeenforcer")+"/cgroup.procs)/status | grep -E '^(Cap(Eff|Prm|Bnd)|Seccomp):' | tr -d '\\t' ")
	// CAP_DAC_OVERRIDE is 1, CAP_KILL 5, CAP_SYS_RESOURCE 24 (include/uapi/linux/capability.h).
	want := "CapPrm:0000000001000022\nCapEff:0000000001000022\nCapBnd:0000000001000022\nSeccomp:2"
	if status != want {
		t.Errorf("the process has\n%s\nwant\n%s", status, want)
	}
}
