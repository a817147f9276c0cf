package vm

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/e2e/node/enforcer"
	"github.com/podgrace/podgrace/e2e/vm"
	"github.com/podgrace/podgrace/policy/enforcement"
)

// threshold of memory.available that a hog crosses. Well above what the kernel takes itself, which the working set leaves out.
const threshold = "700Mi"

func evicting() v1alpha1.NodePolicySpec {
	return v1alpha1.NodePolicySpec{Mode: v1alpha1.NodeModeTune, Eviction: &v1alpha1.NodeEviction{
		Hard:                     []v1alpha1.EvictionThreshold{{Signal: v1alpha1.SignalMemoryAvailable, Value: threshold}},
		PressureTransitionPeriod: &metav1.Duration{Duration: 3 * time.Second},
	}}
}

// hog takes 1400 MiB, 200 a second, in the guest's 2 GiB.
func (g *ground) hog(namespace, name, requests, limits string, changes ...enforcer.ChangePod) *corev1.Pod {
	return g.Pod(namespace, name, vm.HogImage, requests, limits, []string{"eat", "1400", "200"}, changes...)
}

// calm returns when the node is not under pressure any more, so that a test begins as the one before did.
func (g *ground) calm(t *testing.T) {
	t.Helper()
	g.Eventually(t, "the end of the pressure", func(ctx context.Context) (bool, error) {
		var n corev1.Node
		err := g.Client.Get(ctx, client.ObjectKey{Name: g.NodeName}, &n)
		return len(n.Spec.Taints) == 0, err
	})
}

// tainted returns when the scheduler is kept away for what is short.
func (g *ground) tainted(t *testing.T, short string) {
	t.Helper()
	g.Eventually(t, "the taint", func(ctx context.Context) (bool, error) {
		var n corev1.Node
		err := g.Client.Get(ctx, client.ObjectKey{Name: g.NodeName}, &n)
		for _, taint := range n.Spec.Taints {
			if taint.Key == enforcement.TaintPressure && taint.Value == short && taint.Effect == corev1.TaintEffectNoSchedule {
				return true, err
			}
		}
		return false, err
	})
}

// A hog of low priority is contained and evicted, whatever its QoS class; its neighbours of higher priority, and those that use
// what they requested, live.
func TestHog(t *testing.T) {
	g := start(t)
	g.Class(t, "low", 10)
	g.Class(t, "high", 100000)
	for name, resources := range map[string][2]string{
		"besteffort": {"", ""},
		"burstable":  {"50m/64Mi", ""},
	} {
		t.Run(name, func(t *testing.T) {
			ns := g.Namespace(t)
			neighbours := []*corev1.Pod{
				g.Pod(ns, "guaranteed", cluster.PauseImage, "250m/64Mi", "250m/64Mi", nil, enforcer.Priority("low")),
				g.Pod(ns, "burstable", cluster.PauseImage, "50m/64Mi", "", nil, enforcer.Priority("high")),
				g.Pod(ns, "besteffort", vm.HogImage, "", "", []string{"eat", "20", "100"}, enforcer.Priority("high")),
			}
			g.Running(t, neighbours...)
			g.NodePolicy(t, evicting())
			h := g.hog(ns, "hog", resources[0], resources[1], enforcer.Priority("low"))
			g.Make(t, h)
			g.tainted(t, "memory")
			g.gone(t, h)
			g.Lives(t, neighbours...)
			g.evictedFor(t, h, "low on resource: memory", "number 1 of")
			for _, step := range []string{"Contained", "Accepted"} {
				if n, err := g.Enforcer(t).Sum(t.Context(), `podgrace_node_eviction_steps_total{kind="Hard",step="`+step+`"}`); err != nil || n < 1 {
					t.Errorf("%v pods were %s, %v", n, step, err)
				}
			}
			g.calm(t)
		})
	}
}

// A soft eviction leaves the pod its own grace: nothing is contained, and its preStop hook runs.
func TestSoftEviction(t *testing.T) {
	g := start(t)
	g.Class(t, "low", 10)
	ns := g.Namespace(t)
	neighbour := g.Pod(ns, "neighbour", cluster.PauseImage, "50m/64Mi", "", nil)
	g.Running(t, neighbour)
	spec := evicting()
	spec.Eviction.Hard[0].Value = "200Mi"
	spec.Eviction.Soft = []v1alpha1.SoftEvictionThreshold{{
		EvictionThreshold: v1alpha1.EvictionThreshold{Signal: v1alpha1.SignalMemoryAvailable, Value: "1200Mi"}, GracePeriod: metav1.Duration{Duration: time.Second},
	}}
	g.NodePolicy(t, spec)
	h := g.Pod(ns, "hog", vm.HogImage, "", "", []string{"eat", "900", "200"}, enforcer.Priority("low"), func(p *corev1.Pod) {
		p.Spec.TerminationGracePeriodSeconds = new(int64(25)) // an exec takes seconds under emulation
		p.Spec.Volumes = []corev1.Volume{{Name: "out", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/run"}}}}
		p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "out", MountPath: "/out"}}
		p.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{vm.HogProgram, "touch", "/out/" + ns}}}}
	})
	g.Make(t, h)
	g.gone(t, h)
	if got := g.script(t, "test -e /run/"+ns+" && echo ran || echo no"); got != "ran" {
		t.Error("the preStop hook did not run")
	}
	if logs := g.logs(t); strings.Contains(logs, ns+"/hog") && strings.Contains(logs, `pod="`+ns+`/hog (`+string(h.UID)+`)" step="Contained"`) {
		t.Error("a soft eviction contained the pod")
	}
	g.Lives(t, neighbour)
	g.calm(t)
}

// The API server is out of reach when memory runs short: the hog gets its signal, its grace and its end from the enforcer itself,
// and nobody else does.
func TestHogWithoutAPIServer(t *testing.T) {
	g := start(t)
	g.Class(t, "low", 10)
	ns := g.Namespace(t)
	neighbour := g.Pod(ns, "neighbour", cluster.PauseImage, "250m/64Mi", "250m/64Mi", nil)
	g.Running(t, neighbour)
	g.NodePolicy(t, evicting())
	h := g.Pod(ns, "hog", vm.HogImage, "", "", []string{"eat", "-ignore-sigterm", "1400", "40"}, enforcer.Priority("low"))
	g.Running(t, h)
	if err := g.node.Disconnect(t.Context()); err != nil {
		t.Fatal(err)
	}
	connected := false
	t.Cleanup(func() {
		if !connected {
			_ = g.node.Reconnect(context.Background())
		}
	})
	scope := vm.ContainerCgroup(h, "main")
	g.Eventually(t, "the hog to be killed", func(ctx context.Context) (bool, error) {
		out, err := g.node.Run(ctx, "cat "+scope+"/cgroup.procs 2>/dev/null | wc -l")
		return strings.TrimSpace(out) == "0", err
	})
	if err := g.node.Reconnect(t.Context()); err != nil {
		t.Fatal(err)
	}
	connected = true
	logs := g.logs(t)
	for _, step := range []string{`step="Contained"`, `step="Local"`, `step="Signalled"`, `step="Killed"`} {
		if !strings.Contains(logs, step) {
			t.Errorf("the log lacks %s", step)
		}
	}
	g.Lives(t, neighbour)
	if err := g.Client.Delete(t.Context(), h); client.IgnoreNotFound(err) != nil {
		t.Error(err)
	}
	g.gone(t, h)
	g.calm(t)
}

// The enforcer is killed again and again while it writes: once it is let be, everything is as planned, and when the policy goes
// everything is as the kubelet had it.
func TestKilledWhileItWrites(t *testing.T) {
	g := start(t)
	ns := g.Namespace(t)
	var pods []*corev1.Pod
	for _, name := range []string{"a", "b", "c", "d"} {
		pods = append(pods, g.Pod(ns, name, cluster.PauseImage, "10m/16Mi", "", nil))
	}
	g.Running(t, pods...)
	low := func() string {
		return g.script(t, "cat "+vm.PodCgroup(pods[0])+"/memory.low "+vm.Kubepods+"/memory.low | tr '\\n' ' '")
	}
	before := low()
	t.Run("policy", func(t *testing.T) {
		g.NodePolicy(t, v1alpha1.NodePolicySpec{Mode: v1alpha1.NodeModeTune, Memory: &v1alpha1.NodeMemory{Protection: v1alpha1.NodeMemoryProtectionTiered}})
		for range 2 {
			p := g.ready(t)
			g.script(t, "cat "+vm.ContainerCgroup(p, "nodeenforcer")+"/cgroup.procs | xargs kill -9")
			g.Eventually(t, "its next start", func(ctx context.Context) (bool, error) {
				var now corev1.Pod
				err := g.Client.Get(ctx, client.ObjectKeyFromObject(p), &now)
				return len(now.Status.ContainerStatuses) == 1 && now.Status.ContainerStatuses[0].RestartCount > p.Status.ContainerStatuses[0].RestartCount, err
			})
		}
		g.ready(t)
		g.Eventually(t, "the plan", func(context.Context) (bool, error) { return strings.HasPrefix(low(), "16777216 "), nil })
	})
	g.Eventually(t, "what was before the policy", func(context.Context) (bool, error) { return low() == before, nil })
	g.Lives(t, pods...)
}

// A clock that jumps does not end a grace period; a kubelet that restarts finds its cgroups as it left them.
func TestClockJumpAndKubeletRestart(t *testing.T) {
	g := start(t)
	ns := g.Namespace(t)
	neighbour := g.Pod(ns, "neighbour", vm.HogImage, "", "", []string{"eat", "200", "200"})
	g.Running(t, neighbour)
	spec := evicting()
	// Met, but only after ten minutes.
	spec.Eviction.Soft = []v1alpha1.SoftEvictionThreshold{{EvictionThreshold: v1alpha1.EvictionThreshold{Signal: v1alpha1.SignalMemoryAvailable, Value: "100%"}, GracePeriod: metav1.Duration{Duration: 10 * time.Minute}}}
	spec.Eviction.Soft[0].Value = "1990Mi"
	g.NodePolicy(t, spec)
	g.tainted(t, "memory")
	container := strings.TrimPrefix(vm.ContainerCgroup(neighbour, "main"), vm.CgroupRoot)
	kubelet, processes := g.script(t, "systemctl show --property=MainPID --value kubelet"), g.Get(t, container, "cgroup.procs")
	if err := g.node.RestartKubelet(t.Context()); err != nil {
		t.Fatal(err)
	}
	if now := g.script(t, "systemctl show --property=MainPID --value kubelet"); now == kubelet {
		t.Error("the kubelet is the same process")
	}
	if now := g.Get(t, container, "cgroup.procs"); now != processes {
		t.Errorf("the container's process was %s, now %s", processes, now)
	}
	g.script(t, "date -s '+15 minutes'")
	rounds, err := g.Enforcer(t).Sum(t.Context(), `podgrace_node_round_seconds_count`)
	if err != nil {
		t.Fatal(err)
	}
	g.Eventually(t, "three more rounds", func(ctx context.Context) (bool, error) {
		n, err := g.Enforcer(t).Sum(ctx, `podgrace_node_round_seconds_count`)
		return n >= rounds+3, err
	})
	g.Lives(t, neighbour)
	g.script(t, "date -s '-15 minutes'")
}
