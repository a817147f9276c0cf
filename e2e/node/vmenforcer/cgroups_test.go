package vmenforcer

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/e2e/suite"
	"github.com/podgrace/podgrace/e2e/vm"
	"github.com/podgrace/podgrace/nodeenforcer/report"
)

// plan is what the enforcer's own program prints, run in its pod and so with its rights.
func (g *ground) plan(t *testing.T, args ...string) report.NodePlan {
	t.Helper()
	p := g.ready(t)
	command := append([]string{
		"exec", "--namespace=" + namespace, p.Name, "--", "/program", "plan", "-o", "json", "--node-name=" + nodeName, "--kubeconfig=" + kubeconfig, "--cgroup-root=/host/cgroup",
	}, args...)
	out, problems, err := g.Kubectl(t.Context(), command...)
	if err != nil {
		t.Fatalf("plan: %v: %s", err, problems)
	}
	var plan report.NodePlan
	if err := json.Unmarshal([]byte(out), &plan); err != nil {
		t.Fatalf("the plan can't be read: %v\n%s", err, out)
	}
	return plan
}

// What the plan says without a policy is what the kubelet, the runtime and systemd wrote, oom_score_adj included.
func TestPlanIsWhatTheKubeletWrote(t *testing.T) {
	g := start(t)
	g.explain(t)
	ns := g.workspace(t)
	g.running(t,
		pod(ns, "guaranteed", cluster.PauseImage, "250m/64Mi", "250m/64Mi", nil),
		pod(ns, "burstable", cluster.PauseImage, "100m/64Mi", "500m/256Mi", nil),
		pod(ns, "unlimited", cluster.PauseImage, "15m/64Mi", "", nil),
		pod(ns, "odd", cluster.PauseImage, "3m/8Mi", "155m/64Mi", nil),
		pod(ns, "besteffort", cluster.PauseImage, "", "", nil),
	)
	plan := g.plan(t)
	for _, c := range plan.Cgroups {
		if len(c.Drift) > 0 || c.Missing {
			t.Errorf("%s (%s %s): want %v, drift %v, missing %v", c.Path, c.Pod, c.Container, c.Files, c.Drift, c.Missing)
		}
	}
	seen := 0
	for _, p := range plan.Processes {
		if p.Drift != "" {
			t.Errorf("%s %s: oom_score_adj %d, is %s", p.Pod, p.Container, p.OOMScoreAdj, p.Drift)
		}
		if strings.HasPrefix(p.Pod, ns+"/") {
			seen++
		}
	}
	if seen != 5 {
		t.Errorf("the plan has %d containers of this test", seen)
	}
}

// What nobody else owns is tuned, by systemd, so that it outlives daemon-reload and what the kubelet sets on the same unit.
func TestTuneLasts(t *testing.T) {
	g := start(t)
	g.explain(t)
	ns := g.workspace(t)
	p := pod(ns, "p", cluster.PauseImage, "100m/64Mi", "500m/256Mi", nil)
	g.running(t, p)
	g.policy(t, v1alpha1.NodePolicySpec{
		Mode:   v1alpha1.NodeModeTune,
		Memory: &v1alpha1.NodeMemory{Protection: v1alpha1.NodeMemoryProtectionTiered, ThrottlePercent: new(int32(90))},
		OOM:    &v1alpha1.NodeOOM{Order: v1alpha1.OOMOrderPriority}, QOSReserved: &v1alpha1.QOSReserved{MemoryPercent: 100},
	})
	read := func(dir, file string) string {
		values, err := g.node.Read(t.Context(), dir+"/"+file)
		if err != nil {
			t.Fatal(err)
		}
		return values[dir+"/"+file]
	}
	container := vm.ContainerCgroup(p, "main")
	suite.EventuallyWithin(t, patience, "the pod's protection and throttling", func(context.Context) (bool, error) {
		return read(container, "memory.low") == "67108864" && read(container, "memory.high") != "max", nil
	})
	want := map[string]string{
		vm.PodCgroup(p) + " memory.low": "67108864",
		container + " memory.low":       "67108864",
		container + " memory.high":      read(container, "memory.high"),
	}
	// What systemd resets along with a property (memory.oom.group) is the runtime's, so Tune would never write it again by itself.
	g.noDrift(t)
	for what, script := range map[string]string{"daemon-reload": "systemctl daemon-reload", "another property of the same unit": "systemctl set-property --runtime $(basename " + vm.PodCgroup(p) + ") MemorySwapMax=infinity"} {
		g.script(t, script)
		for at, value := range want {
			dir, file, _ := strings.Cut(at, " ")
			if got := read(dir, file); got != value {
				t.Errorf("after %s %s of %s is %s, was %s", what, file, dir, got, value)
			}
		}
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

// noDrift returns when every file is as it is planned.
func (g *ground) noDrift(t *testing.T) {
	t.Helper()
	suite.EventuallyWithin(t, patience, "no drift", func(context.Context) (bool, error) {
		for _, c := range g.plan(t).Cgroups {
			if len(c.Drift) > 0 {
				return false, fmt.Errorf("%s: want %v, drift %v", c.Path, c.Files, c.Drift)
			}
		}
		return true, nil
	})
}
