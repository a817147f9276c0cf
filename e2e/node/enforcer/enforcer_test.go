package enforcer

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/e2e/cluster/clustertest"
	"github.com/podgrace/podgrace/e2e/podgrace"
	"github.com/podgrace/podgrace/e2e/suite"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup"
	"github.com/podgrace/podgrace/nodeenforcer/report"
)

const nodeName = "real"

var shared = &suite.Shared{Tier: "node", Options: cluster.Options{ControllerManager: true, Scheduler: true}}

func TestMain(m *testing.M) { suite.Main(m, shared) }

var (
	once    sync.Once
	node    *cluster.Node
	program string
	onceErr error
)

// ground is the node, and the enforcer's program.
type ground struct {
	*suite.Suite
	node    *cluster.Node
	program string
}

func start(t *testing.T) *ground {
	t.Helper()
	clustertest.Require(t, "node", cluster.NodeSupported())
	s := shared.Get(t)
	once.Do(func() {
		ctx := context.Background()
		if onceErr = podgrace.AllowEnforcer(ctx, s.Cluster); onceErr != nil {
			return
		}
		if program, onceErr = podgrace.BuildEnforcer(ctx, filepath.Join(s.Dir, "bin")); onceErr != nil {
			return
		}
		node, onceErr = s.StartKubelet(ctx, cluster.KubeletOptions{Name: nodeName})
	})
	if onceErr != nil {
		t.Fatal(onceErr)
	}
	return &ground{Suite: s, node: node, program: program}
}

// kubeletAt is where this node's kubelet is, for the enforcer.
func (g *ground) kubeletAt() []string {
	return []string{"--kubelet", fmt.Sprintf("%s:%d", g.node.Address, g.node.Port)}
}

// enforce starts an enforcer, which ends with the test.
func (g *ground) enforce(t *testing.T, args ...string) *podgrace.Enforcer {
	t.Helper()
	e, err := podgrace.StartEnforcer(g.Cluster, g.program, nodeName, append(g.kubeletAt(), args...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Stop(); err != nil {
			t.Error(err)
		}
	})
	if err := e.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	return e
}

// policy makes the node's NodePolicy, which goes with the test.
func (g *ground) policy(t *testing.T, spec v1alpha1.NodePolicySpec) {
	t.Helper()
	p := &v1alpha1.NodePolicy{ObjectMeta: metav1.ObjectMeta{Name: strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(t.Name()))}, Spec: spec}
	if err := g.Client.Create(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Client.Delete(context.Background(), p) })
}

// plan is what `nodeenforcer plan -o json` prints of the node.
func (g *ground) plan(t *testing.T, args ...string) report.NodePlan {
	t.Helper()
	kubeconfig, err := podgrace.EnforcerKubeconfig(g.Cluster)
	if err != nil {
		t.Fatal(err)
	}
	args = append(append([]string{"plan", "-o", "json", "--kubeconfig", kubeconfig, "--node-name", nodeName}, g.kubeletAt()...), args...)
	var problems strings.Builder
	cmd := exec.CommandContext(t.Context(), g.program, args...)
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("nodeenforcer %s: %v: %s", strings.Join(args, " "), err, &problems)
	}
	var p report.NodePlan
	if err := json.Unmarshal(out, &p); err != nil {
		t.Fatalf("the plan can't be read: %v\n%s", err, out)
	}
	return p
}

// pod runs on the node and does nothing.
func pod(namespace, name string, resources corev1.ResourceRequirements, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "main", Image: cluster.PauseImage, ImagePullPolicy: corev1.PullNever, Resources: resources,
		}}},
	}
	for _, c := range change {
		c(p)
	}
	return p
}

func needs(requests, limits string) corev1.ResourceRequirements {
	list := func(text string) corev1.ResourceList {
		if text == "" {
			return nil
		}
		cpu, memory, _ := strings.Cut(text, "/")
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
	}
	return corev1.ResourceRequirements{Requests: list(requests), Limits: list(limits)}
}

// run makes pods and returns when they run.
func (g *ground) run(t *testing.T, pods ...*corev1.Pod) {
	t.Helper()
	for _, p := range pods {
		g.Create(t, p)
		t.Cleanup(func() { _ = g.Client.Delete(context.Background(), p) })
	}
	for _, p := range pods {
		suite.Eventually(t, "pod "+p.Name+" running", func(ctx context.Context) (bool, error) {
			err := g.Client.Get(ctx, client.ObjectKeyFromObject(p), p)
			ready := p.Status.Phase == corev1.PodRunning
			for _, c := range append(p.Status.InitContainerStatuses, p.Status.ContainerStatuses...) {
				ready = ready && (c.State.Running != nil || c.State.Terminated != nil)
			}
			return ready, err
		})
	}
}

// classes are pods of every QoS class, and of what makes their cgroups differ.
func classes(namespace string) []*corev1.Pod {
	sidecar := func(p *corev1.Pod) {
		p.Spec.InitContainers = []corev1.Container{{
			Name: "sidecar", Image: cluster.PauseImage, ImagePullPolicy: corev1.PullNever, RestartPolicy: new(corev1.ContainerRestartPolicyAlways),
			Resources: needs("10m/16Mi", "20m/32Mi"),
		}}
	}
	return []*corev1.Pod{
		pod(namespace, "guaranteed", needs("250m/64Mi", "250m/64Mi")),
		pod(namespace, "guaranteed-sidecar", needs("100m/32Mi", "100m/32Mi"), sidecar),
		pod(namespace, "burstable", needs("100m/64Mi", "500m/256Mi")),
		pod(namespace, "burstable-unlimited", needs("100m/64Mi", "")),
		pod(namespace, "besteffort", corev1.ResourceRequirements{}),
		pod(namespace, "tiny", needs("1m/8Mi", "2m/16Mi")),
	}
}

// What the plan says without any policy is what the kubelet and the runtime wrote: nothing drifts.
func TestPlanIsWhatTheKubeletWrote(t *testing.T) {
	g := start(t)
	ns := g.Namespace(t)
	g.WaitServiceAccount(t, ns)
	pods := classes(ns)
	g.run(t, pods...)
	plan := g.plan(t)
	containers := 0
	for _, c := range plan.Cgroups {
		if len(c.Drift) > 0 {
			t.Errorf("%s (%s %s): want %v, drift %v", c.Path, c.Pod, c.Container, c.Files, c.Drift)
		}
		if c.Missing {
			t.Errorf("%s (%s %s) is planned and not there", c.Path, c.Pod, c.Container)
		}
		if c.Level == "container" && strings.HasPrefix(c.Pod, ns+"/") {
			containers++
		}
	}
	if containers != len(pods)+1 {
		t.Errorf("the plan has %d containers of this test, want %d", containers, len(pods)+1)
	}
	for _, p := range plan.Processes {
		// The runtime on this host may lack the right to go below its own value (restrict_oom_score_adj of its configuration).
		if p.Drift != "" && p.OOMScoreAdj >= 0 {
			t.Errorf("%s %s: oom_score_adj %d, is %s", p.Pod, p.Container, p.OOMScoreAdj, p.Drift)
		}
	}
}

// tree is the host's cgroups, to be changed by hand.
func tree(t *testing.T) cgroup.Tree {
	t.Helper()
	v1, err := cgroup.NewV1("/sys/fs/cgroup", "/proc")
	if err != nil {
		t.Fatal(err)
	}
	return v1
}

// drift is what the plan says of one file; empty: it is as planned.
func drift(p report.NodePlan, pod, container, file string) (path, have string) {
	for _, c := range p.Cgroups {
		if c.Pod == pod && c.Container == container {
			return c.Path, c.Drift[file]
		}
	}
	return "", ""
}

// Drift made by hand is found and shown in every mode, and repaired in Repair only. What nobody else owns is written by Tune.
func TestDrift(t *testing.T) {
	g := start(t)
	ns := g.Namespace(t)
	g.WaitServiceAccount(t, ns)
	p := pod(ns, "p", needs("100m/64Mi", "500m/256Mi"))
	g.run(t, p)
	name := ns + "/p"
	path, have := drift(g.plan(t), name, "", "cpu.shares")
	if path == "" || have != "" {
		t.Fatalf("the pod's cgroup is %q, with drift %q", path, have)
	}
	hand := func(value string) {
		if _, err := tree(t).Write(t.Context(), path, []cgroup.File{{Name: "cpu.shares", Value: value}}); err != nil {
			t.Fatal(err)
		}
	}
	value := func() string {
		files, err := tree(t).Read(path, "cpu.shares")
		if err != nil {
			t.Fatal(err)
		}
		return files["cpu.shares"]
	}
	hand("777")
	if _, have := drift(g.plan(t), name, "", "cpu.shares"); have != "777" {
		t.Errorf("plan shows drift %q, want 777", have)
	}
	for _, mode := range []v1alpha1.NodeMode{v1alpha1.NodeModeObserve, v1alpha1.NodeModeTune} {
		t.Run(string(mode), func(t *testing.T) {
			g.policy(t, v1alpha1.NodePolicySpec{Mode: mode})
			e := g.enforce(t, "--resync=1s")
			suite.Eventually(t, "the drift in the metrics", func(ctx context.Context) (bool, error) {
				n, err := metric(ctx, e, `podgrace_node_drift_files{owner="kubelet",reason=`)
				return n == 1, err
			})
			if got := value(); got != "777" {
				t.Errorf("mode %s wrote %s", mode, got)
			}
		})
	}
	t.Run("Repair", func(t *testing.T) {
		g.policy(t, v1alpha1.NodePolicySpec{Mode: v1alpha1.NodeModeRepair})
		e := g.enforce(t, "--resync=1s")
		suite.Eventually(t, "the repair", func(context.Context) (bool, error) { return value() == "102", nil })
		hand("778")
		suite.Eventually(t, "the second repair", func(context.Context) (bool, error) { return value() == "102", nil })
		var n float64
		suite.Eventually(t, "the count of it", func(ctx context.Context) (bool, error) { // of a round, once that has ended
			var err error
			n, err = metric(ctx, e, `podgrace_node_writes_total{file="cpu.shares"`)
			return n >= 2, err
		})
		if n != 2 {
			t.Errorf("it wrote %v times", n)
		}
	})
}

// Somebody writes the same file again and again: it is left alone, with an Event and a metric.
func TestRival(t *testing.T) {
	g := start(t)
	ns := g.Namespace(t)
	g.WaitServiceAccount(t, ns)
	p := pod(ns, "p", needs("100m/64Mi", "500m/256Mi"))
	g.run(t, p)
	path, _ := drift(g.plan(t), ns+"/p", "", "cpu.shares")
	g.policy(t, v1alpha1.NodePolicySpec{Mode: v1alpha1.NodeModeRepair})
	e := g.enforce(t, "--resync=1s")
	hand := tree(t)
	reverts := 0
	suite.Eventually(t, "the file being given up", func(ctx context.Context) (bool, error) {
		written, err := hand.Write(ctx, path, []cgroup.File{{Name: "cpu.shares", Value: "900"}})
		if err != nil {
			return false, err
		}
		reverts += written
		n, err := metric(ctx, e, "podgrace_node_given_up_files_total")
		return n == 1, err
	})
	if reverts < 3 {
		t.Errorf("it was given up after %d reverts", reverts)
	}
	writes, err := metric(t.Context(), e, `podgrace_node_writes_total{file="cpu.shares"`)
	if err != nil {
		t.Fatal(err)
	}
	rounds, err := metric(t.Context(), e, `podgrace_node_round_seconds_count{scope="full"}`)
	if err != nil {
		t.Fatal(err)
	}
	suite.Eventually(t, "three more rounds", func(ctx context.Context) (bool, error) {
		n, err := metric(ctx, e, `podgrace_node_round_seconds_count{scope="full"}`)
		return n >= rounds+3, err
	})
	if now, err := metric(t.Context(), e, `podgrace_node_writes_total{file="cpu.shares"`); err != nil || now != writes {
		t.Errorf("it goes on fighting: %v writes, then %v, %v", writes, now, err)
	}
	suite.Eventually(t, "the Event of it", func(ctx context.Context) (bool, error) {
		var events corev1.EventList
		err := g.Client.List(ctx, &events, client.MatchingFields{"reason": "CgroupFileContested"})
		return len(events.Items) == 1 && strings.Contains(events.Items[0].Message, "cpu.shares of pod "+ns+"/p"), err
	})
	suite.Eventually(t, "the Node's condition", func(ctx context.Context) (bool, error) {
		var n corev1.Node
		err := g.Client.Get(ctx, client.ObjectKey{Name: nodeName}, &n)
		for _, c := range n.Status.Conditions {
			if c.Type == "PodgraceEnforced" {
				return c.Status == corev1.ConditionFalse && strings.Contains(c.Message, "cpu.shares"), err
			}
		}
		return false, err
	})
}

var line = regexp.MustCompile(`(?m)^([^#\s]+|[^#{]+\{[^}]*\}) (\S+)$`)

// metric adds up the series that begin so.
func metric(ctx context.Context, e *podgrace.Enforcer, prefix string) (float64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, e.MetricsURL+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err
	}
	return sumOf(string(text), prefix)
}

func sumOf(text, prefix string) (float64, error) {
	sum := 0.0
	for _, m := range line.FindAllStringSubmatch(text, -1) {
		if strings.HasPrefix(m[1], prefix) {
			n, err := strconv.ParseFloat(m[2], 64)
			if err != nil {
				return 0, err
			}
			sum += n
		}
	}
	return sum, nil
}
