package vmenforcer

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/e2e/suite"
)

// The ports of the second enforcer.
const (
	repairHealth  = 20346
	repairMetrics = 20347
)

// repairer runs a second enforcer beside the deployed one, with the same rights, in Repair.
func (g *ground) repairer(t *testing.T) *corev1.Pod {
	t.Helper()
	var d appsv1.DaemonSet
	if err := g.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "podgrace-nodeenforcer"}, &d); err != nil {
		t.Fatal(err)
	}
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "repairer"}, Spec: d.Spec.Template.Spec}
	c := &p.Spec.Containers[0]
	c.Args = append(c.Args, "--mode=Repair", "--checkpoint=", "--runtime-dir=/run/podgrace/repairer", fmt.Sprintf("--health-port=%d", repairHealth), fmt.Sprintf("--metrics-port=%d", repairMetrics))
	for _, probe := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe} {
		probe.HTTPGet.Port = intstr.FromInt32(repairHealth)
	}
	g.running(t, p)
	suite.EventuallyWithin(t, patience, "the second enforcer", func(ctx context.Context) (bool, error) {
		rounds, err := g.series(ctx, repairMetrics, fullRounds)
		return sum(rounds) > 0, err
	})
	return p
}

const fullRounds = `podgrace_node_round_seconds_count{scope="full"}`

// updates is how often the kubelet has updated a cgroup, as its metrics tell: those of the QoS levels once a minute (pkg/kubelet/cm/qos_container_manager_linux.go, 1.36.3), and at no other time while no pod comes or goes.
func (g *ground) updates(ctx context.Context, kube kubernetes.Interface) (float64, error) {
	text, err := kube.CoreV1().RESTClient().Get().AbsPath("/api/v1/nodes/" + nodeName + "/proxy/metrics").DoRaw(ctx)
	if err != nil {
		return 0, err
	}
	of, err := seriesOf(string(text), `kubelet_cgroup_manager_duration_seconds_count{operation_type="update"}`)
	return sum(of), err
}

// loop returns when the kubelet has gone through its cgroups once more.
func (g *ground) loop(t *testing.T, kube kubernetes.Interface) {
	t.Helper()
	before, err := g.updates(t.Context(), kube)
	if err != nil {
		t.Fatal(err)
	}
	suite.EventuallyWithin(t, patience, "the kubelet's loop", func(ctx context.Context) (bool, error) {
		now, err := g.updates(ctx, kube)
		return now > before, err
	})
}

// Beside the kubelet, in Tune and in Repair at once, through ten pod creations and three of its one-minute loops: what the kubelet, the
// runtime and systemd set stays, what the policy asks for besides stays as well, and nobody writes anything twice.
func TestCoexistence(t *testing.T) {
	g := start(t)
	g.explain(t)
	ns := g.workspace(t)
	kube, err := kubernetes.NewForConfig(g.Config)
	if err != nil {
		t.Fatal(err)
	}
	g.policy(t, v1alpha1.NodePolicySpec{
		Mode: v1alpha1.NodeModeTune, QOSReserved: &v1alpha1.QOSReserved{MemoryPercent: 100}, OOM: &v1alpha1.NodeOOM{Order: v1alpha1.OOMOrderPriority},
		Memory: &v1alpha1.NodeMemory{Protection: v1alpha1.NodeMemoryProtectionTiered, ThrottlePercent: new(int32(90))},
	})
	repairer := g.repairer(t)
	t.Cleanup(func() {
		if t.Failed() {
			out, _, _ := g.Kubectl(context.Background(), "logs", "--namespace="+namespace, "--tail=300", repairer.Name)
			t.Logf("the second enforcer's log:\n%s", out)
		}
	})
	ports := map[string]int{"Tune": metricsPort, "Repair": repairMetrics}
	writes := func(mode string) map[string]float64 {
		of, err := g.series(t.Context(), ports[mode], "podgrace_node_writes_total{")
		if err != nil {
			t.Fatal(err)
		}
		return of
	}
	g.noDrift(t) // another test's daemon-reload has reset memory.oom.group, which Repair restores
	before := map[string]map[string]float64{}
	for mode := range ports {
		before[mode] = writes(mode)
	}

	g.class(t, "low", 10)
	g.class(t, "high", 100000)
	var pods []*corev1.Pod
	for i := range 10 {
		resources := [][2]string{{"150m/64Mi", "150m/64Mi"}, {"50m/64Mi", "500m/256Mi"}, {"50m/32Mi", ""}, {"", ""}}[i%4]
		pods = append(pods, pod(ns, fmt.Sprintf("p-%d", i), cluster.PauseImage, resources[0], resources[1], nil, priority([]string{"low", "high"}[i/4%2])))
	}
	for two := range slices.Chunk(pods, 2) {
		g.running(t, two...)
	}
	g.loop(t, kube)
	after, rounds := map[string]map[string]float64{}, map[string]float64{}
	for mode, port := range ports {
		after[mode], rounds[mode] = writes(mode), g.rounds(t, port)
	}
	t.Logf("after a loop and ten pods: %v", after)
	g.loop(t, kube)
	g.loop(t, kube)
	for mode, port := range ports {
		if n := g.rounds(t, port) - rounds[mode]; n < 5 {
			t.Errorf("%s looked at everything %v times in two loops", mode, n)
		}
		now := writes(mode)
		if !maps.Equal(now, after[mode]) {
			t.Errorf("%s goes on writing on a calm node: %v, then %v", mode, after[mode], now)
		}
		for series, n := range now {
			if owner := ownerOf(series); owner != "nobody" && n != before[mode][series] {
				t.Errorf("%s wrote what is the %s's: %s %v, before %v", mode, owner, series, n, before[mode][series])
			}
		}
		if n, err := g.series(t.Context(), port, "podgrace_node_given_up_files_total"); err != nil || sum(n) != 0 {
			t.Errorf("%s gave up %v files, %v", mode, n, err)
		}
	}
	for _, file := range []string{"memory.low", "memory.min", "memory.high", "memory.max", "oom_score_adj"} {
		series := fmt.Sprintf(`podgrace_node_writes_total{file=%q,owner="nobody"}`, file)
		if after["Tune"][series]+after["Repair"][series] == before["Tune"][series]+before["Repair"][series] {
			t.Errorf("nobody wrote %s, which the policy asks for", file)
		}
	}
	g.nothingLost(t)
	g.lives(t, pods...)
}

// ownerOf is the label of a series.
func ownerOf(series string) string {
	_, owner, _ := strings.Cut(series, `owner="`)
	owner, _, _ = strings.Cut(owner, `"`)
	return owner
}

// rounds is how often an enforcer has looked at everything.
func (g *ground) rounds(t *testing.T, port int) float64 {
	t.Helper()
	n, err := g.series(t.Context(), port, fullRounds)
	if err != nil {
		t.Fatal(err)
	}
	return sum(n)
}

// nothingLost compares with a plan without a policy, which is what the kubelet, the runtime and systemd wrote, and then with the
// policy's.
func (g *ground) nothingLost(t *testing.T) {
	t.Helper()
	file := filepath.Join(filepath.Dir(kubeconfig), "none.yaml") // the enforcer's pod has the folder
	none := "apiVersion: podgrace.dev/v1alpha1\nkind: NodePolicy\nmetadata: {name: none}\nspec: {}\n"
	if err := g.node.Write(t.Context(), file, []byte(none), 0o600); err != nil {
		t.Fatal(err)
	}
	files := 0
	for _, c := range g.plan(t, "--policy="+file).Cgroups {
		files += len(c.Files)
		for name, have := range c.Drift {
			t.Errorf("%s of %s is %s: %s is lost", name, c.Path, have, c.Files[name])
		}
	}
	plan := g.plan(t)
	for _, c := range plan.Cgroups {
		for name, have := range c.Drift {
			t.Errorf("%s of %s is %s, the policy asks for %s", name, c.Path, have, c.Files[name])
		}
	}
	for _, p := range plan.Processes {
		if p.Drift != "" {
			t.Errorf("%s %s: oom_score_adj %d, is %s", p.Pod, p.Container, p.OOMScoreAdj, p.Drift)
		}
	}
	t.Logf("%d files are the kubelet's and the runtime's", files)
}
