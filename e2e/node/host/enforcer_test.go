package host

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/podgrace/podgrace/cli/nodeplan"
	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/e2e/measure"
	"github.com/podgrace/podgrace/e2e/node/enforcer"
	"github.com/podgrace/podgrace/e2e/podgrace"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup"
)

func TestEnforcer(t *testing.T) { enforcer.Run(t, ground) }

var (
	onceEnforcer sync.Once
	program      string
	enforcerErr  error
)

// ground is the node, and an enforcer's program with its rights.
func ground(t *testing.T) *enforcer.Ground {
	t.Helper()
	s, n := start(t)
	onceEnforcer.Do(func() {
		ctx := context.Background()
		if enforcerErr = podgrace.AllowEnforcer(ctx, s.Cluster); enforcerErr == nil {
			program, enforcerErr = podgrace.BuildEnforcer(ctx, filepath.Join(s.Dir, "bin"))
		}
	})
	if enforcerErr != nil {
		t.Fatal(enforcerErr)
	}
	tree, err := cgroup.NewV1("/sys/fs/cgroup", "/proc")
	if err != nil {
		t.Fatal(err)
	}
	return &enforcer.Ground{
		Suite: s, Machine: machine{s.Cluster, n, tree}, NodeName: nodeName, Patience: 3 * time.Minute, LeastCPU: "1m", Shares: "cpu.shares", Weights: map[int]string{200: "5219", 321: "8391"},
		Tuned: []string{"memory.limit_in_bytes", "oom_score_adj"}, NoLowerOOM: true,
	}
}

// machine is this host.
type machine struct {
	cluster *cluster.Cluster
	node    *cluster.Node
	tree    cgroup.Tree
}

// kubeletAt is where this node's kubelet is, for the enforcer.
func (m machine) kubeletAt() []string {
	return []string{"--kubelet", fmt.Sprintf("%s:%d", m.node.Address, m.node.Port)}
}

func (m machine) Enforcer(t *testing.T) enforcer.Metrics { return m.start(t, "--resync=1s") }

// Repairer has a folder of its own, whose lock is not the other's: the two want the same.
func (m machine) Repairer(t *testing.T) enforcer.Metrics {
	return m.start(t, "--resync=1s", "--mode=Repair", "--runtime-dir=/run/podgrace/repairer")
}

// start starts an enforcer, which ends with the test.
func (m machine) start(t *testing.T, args ...string) enforcer.Metrics {
	t.Helper()
	e, err := podgrace.StartEnforcer(m.cluster, program, nodeName, append(m.kubeletAt(), args...)...)
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
	return func(ctx context.Context) (string, error) { return measure.Metrics(ctx, e.MetricsURL+"/metrics") }
}

func (m machine) Plan(t *testing.T, args ...string) nodeplan.NodePlan {
	t.Helper()
	kubeconfig, err := podgrace.EnforcerKubeconfig(m.cluster)
	if err != nil {
		t.Fatal(err)
	}
	args = append(append([]string{"plan", "-o", "json", "--kubeconfig", kubeconfig, "--node-name", nodeName}, m.kubeletAt()...), args...)
	var problems strings.Builder
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("nodeenforcer %s: %v: %s", strings.Join(args, " "), err, &problems)
	}
	var p nodeplan.NodePlan
	if err := json.Unmarshal(out, &p); err != nil {
		t.Fatalf("the plan can't be read: %v\n%s", err, out)
	}
	return p
}

func (m machine) File(t *testing.T, content string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "file.yaml")
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func (m machine) Get(t *testing.T, at, file string) string {
	t.Helper()
	files, err := m.tree.Read(at, file)
	if err != nil {
		t.Fatal(err)
	}
	return files[file]
}

func (m machine) Put(t *testing.T, at, file, value string) {
	t.Helper()
	if _, err := m.tree.Write(t.Context(), at, []cgroup.File{{Name: file, Value: value}}); err != nil {
		t.Fatal(err)
	}
}

func (m machine) OOMScoreAdj(t *testing.T, at string) string {
	t.Helper()
	pids, err := m.tree.Processes(at)
	if err != nil || len(pids) == 0 {
		t.Fatalf("processes of %s: %v, %v", at, pids, err)
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/oom_score_adj", pids[0]))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}
