package enforcer

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/e2e/podgrace"
	"github.com/podgrace/podgrace/e2e/suite"
)

// updates is how often the kubelet has updated a cgroup, as its metrics tell: those of the QoS levels once a minute (pkg/kubelet/cm/qos_container_manager_linux.go, 1.36.3), and at no other time while no pod comes or goes.
func (g *ground) updates(ctx context.Context, kube kubernetes.Interface) (float64, error) {
	text, err := kube.CoreV1().RESTClient().Get().AbsPath("/api/v1/nodes/" + nodeName + "/proxy/metrics").DoRaw(ctx)
	if err != nil {
		return 0, err
	}
	return sumOf(string(text), `kubelet_cgroup_manager_duration_seconds_count{operation_type="update"}`)
}

// Beside the kubelet, in Tune and in Repair, through ten pod creations and three of its one-minute loops: what the kubelet set
// stays, what the policy asks for besides stays as well, and nobody writes anything twice.
func TestCoexistence(t *testing.T) {
	g := start(t)
	ns := g.Namespace(t)
	g.WaitServiceAccount(t, ns)
	kube, err := kubernetes.NewForConfig(g.Config)
	if err != nil {
		t.Fatal(err)
	}
	g.policy(t, v1alpha1.NodePolicySpec{
		Mode: v1alpha1.NodeModeTune, QOSReserved: &v1alpha1.QOSReserved{MemoryPercent: 100}, OOM: &v1alpha1.NodeOOM{Order: v1alpha1.OOMOrderPriority},
	})
	// Both at once: they want the same, and so would find out each other's fights as well.
	enforcers := map[string]*podgrace.Enforcer{"Tune": g.enforce(t, "--resync=2s"), "Repair": g.enforce(t, "--resync=2s", "--mode=Repair")}

	var pods []*corev1.Pod
	for i := range 10 {
		resources := needs("100m/64Mi", "500m/256Mi")
		if i%3 == 0 {
			resources = needs("50m/32Mi", "50m/32Mi")
		}
		pods = append(pods, pod(ns, fmt.Sprintf("p-%d", i), resources))
	}
	for _, p := range pods {
		g.run(t, p)
	}
	for range 3 {
		before, err := g.updates(t.Context(), kube)
		if err != nil {
			t.Fatal(err)
		}
		suite.Eventually(t, "the kubelet's loop", func(ctx context.Context) (bool, error) {
			now, err := g.updates(ctx, kube)
			return now > before, err
		})
	}
	written := map[string]float64{}
	for mode, e := range enforcers {
		if written[mode], err = metric(t.Context(), e, "podgrace_node_writes_total"); err != nil {
			t.Fatal(err)
		}
		if n, err := metric(t.Context(), e, "podgrace_node_given_up_files_total"); err != nil || n != 0 {
			t.Errorf("%s gave up %v files, %v", mode, n, err)
		}
		for _, owner := range []string{"kubelet", "runtime"} {
			for _, file := range []string{"cpu.shares", "memory.limit_in_bytes", "cpu.cfs_quota_us", "pids.max"} {
				series := fmt.Sprintf("podgrace_node_writes_total{file=%q,owner=%q}", file, owner)
				if n, err := metric(t.Context(), e, series); err != nil || n != 0 {
					t.Errorf("%s wrote %s of the %s %v times, %v", mode, file, owner, n, err)
				}
			}
		}
	}
	t.Logf("after three loops and ten pods: %v writes", written)
	if written["Tune"]+written["Repair"] == 0 {
		t.Error("nobody wrote what the policy asks for")
	}
	g.nothingLost(t)

	rounds := map[string]float64{}
	for mode, e := range enforcers {
		if rounds[mode], err = metric(t.Context(), e, `podgrace_node_round_seconds_count{scope="full"}`); err != nil {
			t.Fatal(err)
		}
	}
	for mode, e := range enforcers {
		suite.Eventually(t, "five more rounds in "+mode, func(ctx context.Context) (bool, error) {
			n, err := metric(ctx, e, `podgrace_node_round_seconds_count{scope="full"}`)
			return n >= rounds[mode]+5, err
		})
		if n, err := metric(t.Context(), e, "podgrace_node_writes_total"); err != nil || n != written[mode] {
			t.Errorf("%s goes on writing on a calm node: %v, then %v, %v", mode, written[mode], n, err)
		}
	}
}

// nothingLost compares with a plan without a policy, which is what the kubelet and the runtime wrote.
func (g *ground) nothingLost(t *testing.T) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "none.yaml")
	none := "apiVersion: podgrace.dev/v1alpha1\nkind: NodePolicy\nmetadata: {name: none}\nspec: {}\n"
	if err := os.WriteFile(file, []byte(none), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range g.plan(t, "--policy", file).Cgroups {
		for name, have := range c.Drift {
			t.Errorf("%s of %s is %s: the kubelet's %s is lost", name, c.Path, have, c.Files[name])
		}
	}
	// And with the policy: what it asks for is there.
	for _, c := range g.plan(t).Cgroups {
		for name, have := range c.Drift {
			if !strings.HasPrefix(name, "oom") {
				t.Errorf("%s of %s is %s, the policy asks for %s", name, c.Path, have, c.Files[name])
			}
		}
	}
}
