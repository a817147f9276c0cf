package enforcer

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/e2e/cluster"
)

// FullRounds are the series of the rounds in which an enforcer looks at everything.
const FullRounds = `podgrace_node_round_seconds_count{scope="full"}`

// loop returns when the kubelet has gone through its cgroups once more.
func (g *Ground) loop(t *testing.T, kube kubernetes.Interface) {
	t.Helper()
	// How often the kubelet has updated a cgroup, by its metrics: those of the QoS levels once a minute
	// (pkg/kubelet/cm/qos_container_manager_linux.go, 1.36.3), and at no other time while no pod comes or goes.
	kubelet := Metrics(func(ctx context.Context) (string, error) {
		text, err := kube.CoreV1().RESTClient().Get().AbsPath("/api/v1/nodes/" + g.NodeName + "/proxy/metrics").DoRaw(ctx)
		return string(text), err
	})
	const updates = `kubelet_cgroup_manager_duration_seconds_count{operation_type="update"}`
	before := kubelet.Of(t, updates)
	g.Eventually(t, "the kubelet's loop", func(ctx context.Context) (bool, error) {
		now, err := kubelet.Sum(ctx, updates)
		return now > before, err
	})
}

// settled returns when enforcers have done what is to be done for all pods that run, and have counted it. They hear of pods by themselves, and the kubelet's next update of a cgroup may be sooner than that.
func (g *Ground) settled(t *testing.T, enforcers map[string]Metrics) {
	t.Helper()
	g.NoDrift(t)
	for _, e := range enforcers {
		g.rounds(t, e, 2) // what they have written is counted when its round has ended
	}
}

// Beside the kubelet, in Tune and in Repair at once, through ten pod creations and three of its one-minute loops: what the kubelet, the
// runtime and systemd set stays, what the policy asks for besides stays as well, and nobody writes anything twice. Both want the same, and
// so would find out each other's fights as well.
func coexistence(t *testing.T, g *Ground) {
	ns := g.Namespace(t)
	kube, err := kubernetes.NewForConfig(g.Config)
	if err != nil {
		t.Fatal(err)
	}
	g.NodePolicy(t, v1alpha1.NodePolicySpec{
		Mode: v1alpha1.NodeModeTune, QOSReserved: &v1alpha1.QOSReserved{MemoryPercent: 100}, OOM: &v1alpha1.NodeOOM{Order: v1alpha1.OOMOrderPriority},
		Memory: g.Memory,
	})
	enforcers := map[string]Metrics{"Tune": g.Enforcer(t), "Repair": g.Repairer(t)}
	g.NoDrift(t) // another test's daemon-reload has reset memory.oom.group, which Repair restores
	const writes, givenUp = "podgrace_node_writes_total{", "podgrace_node_given_up_files_total"
	before, given := map[string]map[string]float64{}, map[string]float64{}
	for mode, e := range enforcers {
		before[mode], given[mode] = e.Series(t, writes), e.Of(t, givenUp)
	}

	g.Class(t, "low", 10)
	g.Class(t, "high", 100000)
	var pods []*corev1.Pod
	for i := range 10 {
		resources := [][2]string{{"50m/64Mi", "50m/64Mi"}, {"50m/64Mi", "500m/256Mi"}, {"50m/32Mi", ""}, {"", ""}}[i%4]
		pods = append(pods, g.Pod(ns, fmt.Sprintf("p-%d", i), cluster.PauseImage, resources[0], resources[1], nil, Priority([]string{"low", "high"}[i/4%2])))
	}
	for two := range slices.Chunk(pods, 2) {
		g.Running(t, two...)
	}
	g.settled(t, enforcers)
	g.loop(t, kube)
	after, rounds := map[string]map[string]float64{}, map[string]float64{}
	for mode, e := range enforcers {
		after[mode], rounds[mode] = e.Series(t, writes), e.Of(t, FullRounds)
	}
	t.Logf("after a loop and ten pods: %v", after)
	g.loop(t, kube)
	g.loop(t, kube)
	for mode, e := range enforcers {
		if n := e.Of(t, FullRounds) - rounds[mode]; n < 5 {
			t.Errorf("%s looked at everything %v times in two loops", mode, n)
		}
		now := e.Series(t, writes)
		if !maps.Equal(now, after[mode]) {
			t.Errorf("%s goes on writing on a calm node: %v, then %v", mode, after[mode], now)
		}
		for series, n := range now {
			if owner := ownerOf(series); owner != "nobody" && n != before[mode][series] {
				t.Errorf("%s wrote what is the %s's: %s %v, before %v", mode, owner, series, n, before[mode][series])
			}
		}
		if n := e.Of(t, givenUp); n != given[mode] {
			t.Errorf("%s gave up %v files", mode, n-given[mode])
		}
	}
	for _, file := range g.Tuned {
		series := fmt.Sprintf(`podgrace_node_writes_total{file=%q,owner="nobody"}`, file)
		if after["Tune"][series]+after["Repair"][series] == before["Tune"][series]+before["Repair"][series] {
			t.Errorf("nobody wrote %s, which the policy asks for", file)
		}
	}
	g.nothingLost(t)
	g.Lives(t, pods...)
}

// ownerOf is the label of a series.
func ownerOf(series string) string {
	_, owner, _ := strings.Cut(series, `owner="`)
	owner, _, _ = strings.Cut(owner, `"`)
	return owner
}
