package vm

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/cli/nodeplan"
	"github.com/podgrace/podgrace/e2e/node/enforcer"
	"github.com/podgrace/podgrace/e2e/vm"
)

// The ports of the deployed enforcer's metrics, and of the second one.
const (
	metricsPort   = 10347
	repairHealth  = 20346
	repairMetrics = 20347
)

// metrics are of the enforcer with this port for them.
func (g *ground) metrics(port int) enforcer.Metrics {
	return func(ctx context.Context) (string, error) {
		return g.node.Run(ctx, fmt.Sprintf(`exec 3<>/dev/tcp/127.0.0.1/%d; printf 'GET /metrics HTTP/1.0\r\n\r\n' >&3; cat <&3`, port))
	}
}

func (g *ground) Enforcer(*testing.T) enforcer.Metrics { return g.metrics(metricsPort) }

// Repairer has the rights of the deployed one.
func (g *ground) Repairer(t *testing.T) enforcer.Metrics {
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
	g.Running(t, p)
	t.Cleanup(func() {
		if t.Failed() {
			out, _, _ := g.Kubectl(context.Background(), "logs", "--namespace="+namespace, "--tail=300", p.Name)
			t.Logf("the second enforcer's log:\n%s", out)
		}
	})
	e := g.metrics(repairMetrics)
	g.Eventually(t, "the second enforcer", func(ctx context.Context) (bool, error) {
		rounds, err := e.Sum(ctx, enforcer.FullRounds)
		return rounds > 0, err
	})
	return e
}

// Plan is what the enforcer's own program prints, run in its pod and so with its rights.
func (g *ground) Plan(t *testing.T, args ...string) nodeplan.NodePlan {
	t.Helper()
	p := g.ready(t)
	command := append([]string{
		"exec", "--namespace=" + namespace, p.Name, "--", "/program", "plan", "-o", "json", "--node-name=" + g.NodeName, "--kubeconfig=" + kubeconfig, "--kubelet-ca=" + kubeletCA, "--cgroup-root=/host/cgroup",
	}, args...)
	out, problems, err := g.Kubectl(t.Context(), command...)
	if err != nil {
		t.Fatalf("plan: %v: %s", err, problems)
	}
	var plan nodeplan.NodePlan
	if err := json.Unmarshal([]byte(out), &plan); err != nil {
		t.Fatalf("the plan can't be read: %v\n%s", err, out)
	}
	return plan
}

// File is in a folder that the enforcer's pod has.
func (g *ground) File(t *testing.T, content string) string {
	t.Helper()
	file := filepath.Join(filepath.Dir(kubeconfig), "file.yaml")
	if err := g.node.Write(t.Context(), file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func (g *ground) Get(t *testing.T, at, file string) string {
	t.Helper()
	file = path.Join(vm.CgroupRoot, at, file)
	values, err := g.node.Read(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	return values[file]
}

func (g *ground) Put(t *testing.T, at, file, value string) {
	t.Helper()
	g.script(t, "echo "+value+" > "+path.Join(vm.CgroupRoot, at, file))
}

// keepingOOMGroups does what has systemd reload, which resets memory.oom.group, and puts them back: the next test begins as this one did.
func (g *ground) keepingOOMGroups(t *testing.T, reload func()) {
	t.Helper()
	before := g.script(t, "find "+vm.Kubepods+" -name memory.oom.group | xargs grep --with-filename ''")
	reload()
	var restore strings.Builder
	for line := range strings.Lines(before) {
		file, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		fmt.Fprintf(&restore, "echo %s > %s\n", value, file)
	}
	g.script(t, restore.String())
}

func (g *ground) OOMScoreAdj(t *testing.T, at string) string {
	t.Helper()
	return g.script(t, "cat /proc/$(head --lines=1 "+path.Join(vm.CgroupRoot, at, "cgroup.procs")+")/oom_score_adj")
}
