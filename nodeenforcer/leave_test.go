package nodeenforcer

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podgrace/podgrace/nodeenforcer/state"
	"github.com/podgrace/podgrace/nodeenforcer/state/statetest"
	"github.com/podgrace/podgrace/nodeenforcer/status"
	"github.com/podgrace/podgrace/policy/enforcement"
)

// leavingAPI is an API server with one Node and at most one DaemonSet.
type leavingAPI struct {
	set     *state.DaemonSet
	node    *corev1.Node
	err     error // of reading the DaemonSet
	writes  error
	hangs   bool
	patches []string
}

func (a *leavingAPI) DaemonSet(ctx context.Context, key types.NamespacedName) (*state.DaemonSet, error) {
	if a.hangs {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if a.set == nil && a.err == nil {
		return nil, apierrors.NewNotFound(schema.GroupResource{Group: "apps", Resource: "daemonsets"}, key.Name)
	}
	return a.set, a.err
}

func (a *leavingAPI) Get(_ context.Context, name string) (*corev1.Node, error) {
	if a.node == nil {
		return nil, apierrors.NewNotFound(corev1.Resource("nodes"), name)
	}
	return a.node.DeepCopy(), nil
}

func (a *leavingAPI) Patch(_ context.Context, _ string, _ types.PatchType, patch []byte, subresources ...string) error {
	a.patches = append(a.patches, strings.Join(subresources, "")+string(patch))
	return a.writes
}

// The conditions and the taint go with the DaemonSet, and stay for the next enforcer if one comes to the node.
func TestLeave(t *testing.T) {
	set := func(change func(*state.DaemonSet)) *state.DaemonSet {
		s := &state.DaemonSet{}
		s.Spec.Template.Spec.NodeSelector = map[string]string{corev1.LabelOSStable: "linux"}
		change(s)
		return s
	}
	same := func(*state.DaemonSet) {}
	affinity := func(pool string) func(*state.DaemonSet) {
		return func(s *state.DaemonSet) {
			s.Spec.Template.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "pool", Operator: corev1.NodeSelectorOpIn, Values: []string{pool}}}}},
			}}}
		}
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", ResourceVersion: "7", Labels: map[string]string{corev1.LabelOSStable: "linux", "pool": "web"}}}
	node.Spec.Taints = []corev1.Taint{{Key: enforcement.TaintPressure, Effect: corev1.TaintEffectNoSchedule}}
	forbidden := apierrors.NewForbidden(schema.GroupResource{Group: "apps", Resource: "daemonsets"}, "s", errors.New("no right"))
	for name, tc := range map[string]struct {
		api  *leavingAPI
		goes bool
		says string // in the log; empty: nothing is logged
	}{
		"a restart, or an update":           {&leavingAPI{set: set(same), node: node}, false, ""},
		"deleted":                           {&leavingAPI{node: node}, true, `"reason"="the DaemonSet is deleted"`},
		"being deleted, in the foreground":  {&leavingAPI{set: set(func(s *state.DaemonSet) { s.DeletionTimestamp = new(metav1.Now()) }), node: node}, true, "being deleted"},
		"another node selector":             {&leavingAPI{set: set(func(s *state.DaemonSet) { s.Spec.Template.Spec.NodeSelector["pool"] = "db" }), node: node}, true, "does not select the node"},
		"another affinity":                  {&leavingAPI{set: set(affinity("db")), node: node}, true, "does not select the node"},
		"an affinity to it":                 {&leavingAPI{set: set(affinity("web")), node: node}, false, ""},
		"an affinity that can't be read":    {&leavingAPI{set: set(affinity("not a value!")), node: node}, false, "cannot find out"},
		"the Node is deleted":               {&leavingAPI{set: set(same)}, false, ""},
		"both are deleted":                  {&leavingAPI{}, false, "removed"},
		"the rights were deleted before it": {&leavingAPI{err: forbidden, node: node}, false, "podgrace doctor finds them"},
		"the API server is away":            {&leavingAPI{err: errors.New("connection refused"), node: node}, false, "cannot find out"},
		"its rights go meanwhile":           {&leavingAPI{node: node, writes: forbidden}, true, "failed to remove"},
	} {
		t.Run(name, func(t *testing.T) {
			log := &statetest.Log{}
			ctx, cancel := context.WithCancel(t.Context())
			cancel() // by the stop signal
			l := &leaving{sets: tc.api, node: &status.Writer{Nodes: tc.api, Name: "n", Now: time.Now}, daemonSet: types.NamespacedName{Namespace: "podgrace-node", Name: "s"}, log: funcr.New(log.Write, funcr.Options{})}
			l.leave(ctx)
			if goes := len(tc.api.patches) == 2 && strings.Contains(tc.api.patches[0], `"taints":[]`) && strings.Contains(tc.api.patches[1], `"$patch":"delete"`); goes != tc.goes {
				t.Errorf("wrote %q", tc.api.patches)
			}
			if lines := log.Lines(); len(lines) > 1 || (len(lines) == 0) != (tc.says == "") || log.Count(tc.says) != len(lines) {
				t.Errorf("logged %q", lines)
			}
		})
	}
}

// A read-only enforcer has no right to the taint, and removes its conditions all the same.
func TestLeaveReadOnly(t *testing.T) {
	api := &leavingAPI{node: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}}
	l := &leaving{sets: api, node: &status.Writer{Nodes: api, Name: "n", ConditionsOnly: true, Now: time.Now}}
	l.leave(t.Context())
	if len(api.patches) != 1 || !strings.HasPrefix(api.patches[0], `status{"status":{"conditions":[`) {
		t.Errorf("wrote %q", api.patches)
	}
}
