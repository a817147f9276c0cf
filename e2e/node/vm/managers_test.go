package vm

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/cli/nodeplan"
	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/e2e/vm"
)

// The cgroups of daemons: the one that they are in on this node, and one that is there on each node of e2e/vm.
const (
	systemCgroup = "/system.slice"
	kubeCgroup   = "/podgracequota.slice"
)

// withManagers is one more node for this test, whose kubelet gives CPUs and memory nodes away and keeps itself and the system to what it reserves for them: one of two
// CPUs stays for all, the other one can be had. There are two memory nodes, since a list that has one can't be emptied.
func withManagers(t *testing.T) *ground {
	t.Helper()
	return another(t, vm.Options{Name: "managers", CPUs: 2, NUMANodes: 2, KubeletConfig: func(c *kubeletv1beta1.KubeletConfiguration) {
		c.KubeReserved = map[string]string{"cpu": "200m", "memory": "64Mi", "pid": "500"}
		c.SystemReserved = map[string]string{"cpu": "400m", "memory": "700Mi", "pid": "3000"}
		c.KubeReservedCgroup, c.SystemReservedCgroup = kubeCgroup, systemCgroup
		c.EnforceNodeAllocatable = []string{"pods", "kube-reserved", "system-reserved"}
		c.CPUManagerPolicy, c.CPUManagerReconcilePeriod = "static", metav1.Duration{Duration: 5 * time.Second}
		c.MemoryManagerPolicy = kubeletv1beta1.StaticMemoryManagerPolicy
		// Both reservations and evictionHard, or the kubelet does not start.
		c.ReservedMemory = []kubeletv1beta1.MemoryReservation{{NumaNode: 0, Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("814Mi")}}}
	}})
}

// container is that of a pod in the plan.
func (g *ground) container(t *testing.T, p *corev1.Pod) nodeplan.Cgroup {
	t.Helper()
	for _, c := range g.Plan(t).Cgroups {
		if c.Pod == p.Namespace+"/"+p.Name && c.Container == "main" {
			return c
		}
	}
	t.Fatalf("the plan has no container of pod %s", p.Name)
	return nodeplan.Cgroup{}
}

// A kubelet that reserves, and that gives CPUs and memory nodes away: the plan is what it wrote. What somebody else writes is found, and in Repair restored until he turns out to be a
// rival. The kubelet is never fought, neither while it takes CPUs from some pods for others, nor over a resize that it refuses.
func TestManagers(t *testing.T) {
	g := withManagers(t)
	ns := g.Namespace(t)
	t.Run("Reservations", func(t *testing.T) { reservations(t, g) })

	g.NodePolicy(t, v1alpha1.NodePolicySpec{Mode: v1alpha1.NodeModeRepair, NodeSelector: v1alpha1.SetAsLabelSelector(map[string]string{corev1.LabelHostname: g.NodeName})})
	shared := g.Pod(ns, "shared", cluster.PauseImage, "100m/64Mi", "200m/64Mi", nil, g.there)
	g.Running(t, shared)
	own := g.Pod(ns, "own", cluster.PauseImage, "1/64Mi", "1/64Mi", nil, g.there)
	givenCPUs(t, g, shared, own)
	t.Run("Infeasible", func(t *testing.T) { g.Infeasible(t, g.Enforcer(t), own, "500m/64Mi", "500m/64Mi") })
	t.Run("Rivals", func(t *testing.T) { rivals(t, g, own) })
	g.Lives(t, shared, own)
}

// What all pods may have is what the Node says, and both daemons' cgroups hold what is reserved for them.
func reservations(t *testing.T, g *ground) {
	var node corev1.Node
	if err := g.Client.Get(t.Context(), client.ObjectKey{Name: g.NodeName}, &node); err != nil {
		t.Fatal(err)
	}
	want := map[string]map[string]string{ // 204 and 409 shares, by the linear formula
		kubeCgroup:   {"cpu.weight": "8", "memory.max": fmt.Sprint(64 << 20), "pids.max": "500"},
		systemCgroup: {"cpu.weight": "16", "memory.max": fmt.Sprint(700 << 20), "pids.max": "3000"},
	}
	for name := range node.Status.Capacity {
		if size, ok := strings.CutPrefix(string(name), corev1.ResourceHugePagesPrefix); ok {
			for _, files := range want {
				file := "hugetlb." + strings.TrimSuffix(size, "i") + "B"
				files[file+".max"], files[file+".rsvd.max"] = "0", "0"
			}
		}
	}
	planned, held := map[string]map[string]string{}, map[string]map[string]string{}
	for _, c := range g.Plan(t).Cgroups {
		switch c.Level {
		case "kubepods": // the Node's allocatable is less by what the kubelet evicts for
			memory := fmt.Sprint(node.Status.Allocatable.Memory().Value() + 50<<20)
			if got := g.Get(t, c.Path, "memory.max"); got != memory || c.Files["memory.max"] != memory || len(c.Drift) > 0 {
				t.Errorf("memory.max of kubepods is %s, by the Node %s; planned is %v, which differs by %v", got, memory, c.Files, c.Drift)
			}
		case "reserved":
			planned[c.Path], held[c.Path] = c.Files, maps.Clone(want[c.Path])
			for file := range held[c.Path] {
				held[c.Path][file] = g.Get(t, c.Path, file)
			}
		}
	}
	if diff := gocmp.Diff(want, planned); diff != "" {
		t.Errorf("the plan (-want +planned):\n%s", diff)
	}
	if diff := gocmp.Diff(want, held); diff != "" {
		t.Errorf("the kubelet (-want +held):\n%s", diff)
	}
}

// One pod gets a CPU of its own, which the kubelet takes from the other one within its own loop: before and after that the files are as planned, and nobody but the kubelet
// wrote them.
func givenCPUs(t *testing.T, g *ground, shared, own *corev1.Pod) {
	e := g.Enforcer(t)
	const writes = `podgrace_node_writes_total{file="cpuset.`
	before := e.Of(t, writes)
	asPlanned := func(p *corev1.Pod, want map[string]string) {
		t.Helper()
		g.Eventually(t, "the CPUs of pod "+p.Name, func(context.Context) (bool, error) {
			at := g.container(t, p)
			for file, value := range want {
				if is := g.Get(t, at.Path, file); is != value || at.Files[file] != value {
					return false, fmt.Errorf("%s is %q and planned as %q, want %q", file, is, at.Files[file], value)
				}
			}
			return true, nil
		})
	}
	asPlanned(shared, map[string]string{"cpuset.cpus": "0-1"})
	g.Running(t, own)
	asPlanned(own, map[string]string{"cpuset.cpus": "1", "cpuset.mems": cmp.Or(g.container(t, own).Files["cpuset.mems"], "a node")})
	asPlanned(shared, map[string]string{"cpuset.cpus": "0"})
	if n := e.Of(t, writes) - before; n != 0 {
		t.Errorf("it wrote %v cpusets, beside the kubelet", n)
	}
}

// Somebody else writes the CPUs and memory nodes of a container: the kubelet lets him, Repair does not, and gives up once he goes on.
func rivals(t *testing.T, g *ground, own *corev1.Pod) {
	e := g.Enforcer(t)
	const givenUp = "podgrace_node_given_up_files_total"
	before, at := e.Of(t, givenUp), g.container(t, own)
	theirs := map[string]string{"cpuset.cpus": "0", "cpuset.mems": map[string]string{"0": "1", "1": "0"}[at.Files["cpuset.mems"]]}
	writes := map[string]int{}
	g.Eventually(t, "both files being given up", func(ctx context.Context) (bool, error) {
		for file, value := range theirs {
			if g.Get(t, at.Path, file) != value {
				g.Put(t, at.Path, file, value)
				writes[file]++
			}
		}
		n, err := e.Sum(ctx, givenUp)
		if err == nil && n != before+2 {
			err = fmt.Errorf("%v files are given up, after the writes %v", n-before, writes)
		}
		return err == nil, err
	})
	for file := range theirs {
		if writes[file] < 4 { // the first one reverts nothing
			t.Errorf("%s was given up after %d writes", file, writes[file])
		}
	}
	if diff := gocmp.Diff(theirs, g.container(t, own).Drift); diff != "" {
		t.Errorf("the plan's drift (-want +have):\n%s", diff)
	}
	g.Eventually(t, "the Events of it", func(ctx context.Context) (bool, error) {
		var events corev1.EventList
		err := g.Client.List(ctx, &events, client.MatchingFields{"reason": "CgroupFileContested"})
		told := 0
		for file := range theirs {
			for _, event := range events.Items {
				if strings.Contains(event.Message, file+" of container main of pod "+own.Namespace+"/"+own.Name) {
					told++
					break
				}
			}
		}
		return told == len(theirs), err
	})
}
