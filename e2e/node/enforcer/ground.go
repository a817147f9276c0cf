package enforcer

import (
	"context"
	"strings"
	"testing"
	"time"

	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/cli/nodeplan"
	"github.com/podgrace/podgrace/e2e/suite"
)

// Ground is a node, and what a test needs of it.
type Ground struct {
	*suite.Suite
	Machine
	NodeName string
	// Patience is for what happens on the node.
	Patience time.Duration
	// LeastCPU is the lowest limit on CPU of a container that starts in time.
	LeastCPU string
	// Shares is the file with a cgroup's part of the CPUs.
	Shares string
	// Weights are what that file holds for weights that a test asks for.
	Weights map[int]string
	// Memory of a policy; nil where the node's cgroups know no protection.
	Memory *v1alpha1.NodeMemory
	// Tuned are the files that the policy of Coexistence has somebody write.
	Tuned []string
	// NoLowerOOM says that the runtime here may lack the right to set an oom_score_adj below its own (restrict_oom_score_adj of its
	// configuration).
	NoLowerOOM bool
}

// Machine is how a ground is reached.
type Machine interface {
	// Enforcer is the one that does what the node's NodePolicy says. It ends with the test, unless it is deployed.
	Enforcer(t *testing.T) Metrics
	// Repairer is a second one beside it, in mode Repair. It ends with the test.
	Repairer(t *testing.T) Metrics
	// Plan is what `nodeenforcer plan -o json` prints of the node, with the enforcer's rights.
	Plan(t *testing.T, args ...string) nodeplan.NodePlan
	// File makes a file that plan can read, and returns its path.
	File(t *testing.T, content string) string
	// Get and Put are a file of a cgroup, past the enforcer.
	Get(t *testing.T, cgroup, file string) string
	Put(t *testing.T, cgroup, file, value string)
	// OOMScoreAdj is that of the first process in a cgroup, past the enforcer.
	OOMScoreAdj(t *testing.T, cgroup string) string
}

// Run runs the suite.
func Run(t *testing.T, ground func(t *testing.T) *Ground) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, *Ground)
	}{
		{"PlanIsWhatTheKubeletWrote", planIsWhatTheKubeletWrote}, {"Drift", testDrift}, {"Rival", rival}, {"Coexistence", coexistence},
		{"FromPolicyToKernel", fromPolicyToKernel}, {"Resize", resize},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, ground(t)) })
	}
}

// Eventually is suite.Eventually with the ground's patience.
func (g *Ground) Eventually(t *testing.T, what string, condition func(context.Context) (bool, error)) {
	t.Helper()
	suite.EventuallyWithin(t, g.Patience, what, condition)
}

// rounds returns when an enforcer has looked at everything so many times more.
func (g *Ground) rounds(t *testing.T, e Metrics, n float64) {
	t.Helper()
	before := e.Of(t, FullRounds)
	g.Eventually(t, "rounds of the enforcer", func(ctx context.Context) (bool, error) {
		now, err := e.Sum(ctx, FullRounds)
		return now >= before+n, err
	})
}

// NodePolicy makes the node's policy, which goes with the test.
func (g *Ground) NodePolicy(t *testing.T, spec v1alpha1.NodePolicySpec) {
	t.Helper()
	p := &v1alpha1.NodePolicy{ObjectMeta: metav1.ObjectMeta{Name: strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(t.Name()))}, Spec: spec}
	if err := g.Client.Create(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Client.Delete(context.Background(), p); err != nil {
			t.Error(err)
		}
	})
}

// Class makes a PriorityClass.
func (g *Ground) Class(t *testing.T, name string, value int32) {
	t.Helper()
	c := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value}
	if err := client.IgnoreAlreadyExists(g.Client.Create(t.Context(), c)); err != nil {
		t.Fatal(err)
	}
}
