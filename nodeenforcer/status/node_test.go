package status

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/nodeenforcer/drift"
	"github.com/podgrace/podgrace/nodeenforcer/plan"
	"github.com/podgrace/podgrace/nodeenforcer/repair"
	"github.com/podgrace/podgrace/nodeenforcer/state"
	"github.com/podgrace/podgrace/nodeenforcer/state/statetest"
	"github.com/podgrace/podgrace/policy/enforcement"
)

// nodesOf are the Nodes of a client.
type nodesOf struct{ client.Client }

func (n nodesOf) Get(ctx context.Context, name string) (*corev1.Node, error) {
	node := &corev1.Node{}
	return node, n.Client.Get(ctx, client.ObjectKey{Name: name}, node)
}

func (n nodesOf) Patch(ctx context.Context, name string, kind types.PatchType, patch []byte, subresources ...string) error {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if len(subresources) > 0 {
		return n.SubResource(subresources[0]).Patch(ctx, node, client.RawPatch(kind, patch))
	}
	return n.Client.Patch(ctx, node, client.RawPatch(kind, patch))
}

func TestNodeStatus(t *testing.T) {
	theirs := corev1.Taint{Key: "theirs", Effect: corev1.TaintEffectNoExecute}
	ready := corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue}
	writes := 0
	kube := fake.NewClientBuilder().WithScheme(state.Scheme()).WithStatusSubresource(&corev1.Node{}).WithObjects(&corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: corev1.NodeSpec{Taints: []corev1.Taint{theirs}},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{ready}},
	}).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			writes++
			return c.Patch(ctx, o, p, opts...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			writes++
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		},
	}).Build()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	w := &Writer{Nodes: nodesOf{kube}, Name: "n", Now: func() time.Time { now = now.Add(time.Minute); return now }}
	for _, step := range []struct {
		what     string
		status   NodeStatus
		writes   int
		taint    string // value; empty: none
		pressure corev1.ConditionStatus
		enforced corev1.ConditionStatus
	}{
		{"a calm node is told once", NodeStatus{}, 1, "", corev1.ConditionFalse, corev1.ConditionTrue},
		{"calm again", NodeStatus{}, 0, "", corev1.ConditionFalse, corev1.ConditionTrue},
		{"pressure", NodeStatus{Pressure: []string{"memory"}, Message: "memory is short"}, 2, "memory", corev1.ConditionTrue, corev1.ConditionTrue},
		{"the same pressure", NodeStatus{Pressure: []string{"memory"}, Message: "memory is short"}, 0, "memory", corev1.ConditionTrue, corev1.ConditionTrue},
		{"more pressure, drift", NodeStatus{Pressure: []string{"disk", "memory"}, Message: "both", Unenforced: "1 file"}, 2, "disk-memory", corev1.ConditionTrue, corev1.ConditionFalse},
		{"over", NodeStatus{}, 2, "", corev1.ConditionFalse, corev1.ConditionTrue},
	} {
		writes = 0
		if err := w.Write(t.Context(), step.status); err != nil {
			t.Fatalf("%s: %v", step.what, err)
		}
		if writes != step.writes {
			t.Errorf("%s: %d writes, want %d", step.what, writes, step.writes)
		}
		var node corev1.Node
		if err := kube.Get(t.Context(), client.ObjectKey{Name: "n"}, &node); err != nil {
			t.Fatal(err)
		}
		taint := ""
		for _, have := range node.Spec.Taints {
			if have.Key == enforcement.TaintPressure && have.Effect == corev1.TaintEffectNoSchedule {
				taint = have.Value
			}
		}
		if taint != step.taint || node.Spec.Taints[0] != theirs {
			t.Errorf("%s: taints %v", step.what, node.Spec.Taints)
		}
		got := map[corev1.NodeConditionType]corev1.ConditionStatus{}
		for _, c := range node.Status.Conditions {
			got[c.Type] = c.Status
		}
		if len(got) != 3 || got[corev1.NodeReady] != corev1.ConditionTrue || got[enforcement.NodeConditionPressure] != step.pressure || got[enforcement.NodeConditionEnforced] != step.enforced {
			t.Errorf("%s: conditions %v", step.what, got)
		}
	}
}

// What can't be used is told beside what holds, and where nothing can be planned it does not hold.
func TestUnusable(t *testing.T) {
	bad := func(pod string) plan.Note {
		return plan.Note{Pod: types.NamespacedName{Namespace: "shop", Name: pod}, Message: "its contract is ignored", Unusable: true}
	}
	nothing := plan.Note{Message: "nothing is planned: the kubelet's cgroupRoot", Unusable: true}
	group := []plan.Group{{Path: "/kubepods"}}
	for name, tc := range map[string]struct {
		tree plan.Tree
		want string
	}{
		"nothing":        {plan.Tree{Groups: group, Notes: []plan.Note{{Message: "bounded"}}}, "True every file that the mode covers holds what was planned"},
		"one":            {plan.Tree{Groups: group, Notes: []plan.Note{bad("a")}}, "True every file that the mode covers holds what was planned; not used: pod shop/a: its contract is ignored"},
		"three":          {plan.Tree{Groups: group, Notes: []plan.Note{bad("a"), bad("b"), bad("c")}}, "True every file that the mode covers holds what was planned; not used: pod shop/a: its contract is ignored (and 2 more)"},
		"no plan at all": {plan.Tree{Notes: []plan.Note{nothing}}, "False nothing is planned: the kubelet's cgroupRoot"},
	} {
		var node corev1.Node
		NodeStatus{PressureUnknown: true, Unenforced: Unenforced(repair.Round{Tree: &tc.tree}), Unusable: Unusable(&tc.tree)}.apply(&node, statetest.LongAgo)
		if c := node.Status.Conditions[0]; string(c.Status)+" "+c.Message != tc.want {
			t.Errorf("%s: got %s %s", name, c.Status, c.Message)
		}
	}
}

// Where a policy only observes, the Node has the condition and loses the taint.
func TestUntainted(t *testing.T) {
	var node corev1.Node
	under := NodeStatus{EnforcedUnknown: true, Pressure: []string{"memory"}}
	under.apply(&node, statetest.LongAgo)
	if len(node.Spec.Taints) != 1 {
		t.Fatalf("taints %v", node.Spec.Taints)
	}
	under.Untainted = true
	under.apply(&node, statetest.LongAgo)
	if c := node.Status.Conditions[0]; len(node.Spec.Taints) != 0 || c.Status != corev1.ConditionTrue {
		t.Errorf("taints %v, condition %v", node.Spec.Taints, c)
	}
}

// The condition names the kernel's parameters that are not as the kubelet sets them, whatever is written.
func TestKernelInTheCondition(t *testing.T) {
	tree := &plan.Tree{Notes: []plan.Note{{Message: "other"}, {Message: "vm.panic_on_oom is 1, not 0", Kernel: true}, {Message: "kernel.panic is 0, not 10", Kernel: true}}}
	for _, unwritten := range []Unwritten{{}, {Reason: "ObserveOnly", Why: "w"}} {
		var node corev1.Node
		NodeStatus{PressureUnknown: true, Kernel: Kernel(tree), Unwritten: unwritten}.apply(&node, statetest.LongAgo)
		if got := node.Status.Conditions[0].Message; !strings.HasSuffix(got, "; the kernel: vm.panic_on_oom is 1, not 0 (and 1 more)") {
			t.Errorf("%+v: %q", unwritten, got)
		}
	}
	if got := Kernel(&plan.Tree{Notes: tree.Notes[:1]}); got != "" {
		t.Errorf("%q", got)
	}
}

// If nothing is written, both conditions are False and the reason says why.
func TestUnwritten(t *testing.T) {
	policy := func(mode v1alpha1.NodeMode) *v1alpha1.NodePolicy {
		return &v1alpha1.NodePolicy{ObjectMeta: metav1.ObjectMeta{Name: "workers"}, Spec: v1alpha1.NodePolicySpec{Mode: mode}}
	}
	evicts := policy(v1alpha1.NodeModeObserve)
	evicts.Spec.Eviction = &v1alpha1.NodeEviction{Mode: v1alpha1.EvictionModeEvict}
	observes := policy(v1alpha1.NodeModeObserve)
	observes.Spec.Eviction = &v1alpha1.NodeEviction{}
	const install = ", and the node enforcer is installed read-only (set nodeEnforcer.mode=Enforce with Helm, or add the component nodeenforcer-enforce with kustomize)"
	for name, tc := range map[string]struct {
		policy            *v1alpha1.NodePolicy
		mode              v1alpha1.NodeMode
		readOnly, guessed bool
		want              string
	}{
		"Tune":                      {policy(v1alpha1.NodeModeTune), v1alpha1.NodeModeTune, false, false, ""},
		"Repair":                    {policy(v1alpha1.NodeModeRepair), v1alpha1.NodeModeRepair, false, false, ""},
		"a lesser mode":             {policy(v1alpha1.NodeModeRepair), v1alpha1.NodeModeTune, false, false, ""},
		"Observe":                   {policy(v1alpha1.NodeModeObserve), v1alpha1.NodeModeObserve, false, false, "ObserveOnly: NodePolicy workers is in mode Observe"},
		"Observe, guessed":          {policy(v1alpha1.NodeModeObserve), v1alpha1.NodeModeObserve, false, true, "ObserveOnly: NodePolicy workers is in mode Observe"},
		"Observe, read-only":        {policy(v1alpha1.NodeModeObserve), v1alpha1.NodeModeObserve, true, false, "ObserveOnly: NodePolicy workers is in mode Observe"},
		"Observe and evict":         {evicts, v1alpha1.NodeModeObserve, false, false, "ObserveOnly: NodePolicy workers is in mode Observe"},
		"no policy":                 {nil, v1alpha1.NodeModeObserve, false, false, "ObserveOnly: no NodePolicy selects the node"},
		"no policy, read-only":      {nil, v1alpha1.NodeModeObserve, true, true, "ObserveOnly: no NodePolicy selects the node"},
		"set, without a policy":     {nil, v1alpha1.NodeModeTune, false, false, ""},
		"Tune, read-only":           {policy(v1alpha1.NodeModeTune), v1alpha1.NodeModeObserve, true, false, "ReadOnly: NodePolicy workers asks for mode Tune" + install},
		"Repair, read-only, guess":  {policy(v1alpha1.NodeModeRepair), v1alpha1.NodeModeObserve, true, true, "ReadOnly: NodePolicy workers asks for mode Repair" + install},
		"Observe evicts no pod":     {observes, v1alpha1.NodeModeObserve, true, false, "ObserveOnly: NodePolicy workers is in mode Observe"},
		"evict, read-only":          {evicts, v1alpha1.NodeModeObserve, true, false, "ReadOnly: NodePolicy workers asks for evictions" + install},
		"Tune, kubelet not known":   {policy(v1alpha1.NodeModeTune), v1alpha1.NodeModeObserve, false, true, "KubeletConfigUnknown: the kubelet has not told its configuration (nodes/configz), and what it does may not be its defaults"},
		"Tune, not permitted there": {policy(v1alpha1.NodeModeTune), v1alpha1.NodeModeObserve, false, false, "ObserveOnly: the node enforcer runs in mode Observe"},
	} {
		why := UnwrittenIn(tc.policy, tc.mode, tc.readOnly, tc.guessed)
		if got := strings.TrimPrefix(why.Reason+": "+why.Why, ": "); got != tc.want {
			t.Errorf("%s: got %q", name, got)
		}
		var node corev1.Node
		NodeStatus{PressureUnknown: true, Unwritten: why, MemoryProtector: enforcement.ProtectorPodgrace}.apply(&node, statetest.LongAgo)
		for _, c := range node.Status.Conditions {
			said := c.Status == corev1.ConditionFalse && c.Reason == why.Reason && (strings.HasSuffix(c.Message, "nothing that policies ask for is written: "+why.Why) || strings.HasSuffix(c.Message, "nothing that these ask for is written: "+why.Why))
			if said != (tc.want != "") || !said && c.Status != corev1.ConditionTrue {
				t.Errorf("%s: %s is %s: %s", name, c.Type, c.Status, c.Message)
			}
		}
	}
	var node corev1.Node
	NodeStatus{PressureUnknown: true, Unwritten: Unwritten{enforcement.ReasonObserveOnly, "no NodePolicy selects the node"}, Unenforced: "the cgroups can't be read"}.apply(&node, statetest.LongAgo)
	if c := node.Status.Conditions[0]; c.Status != corev1.ConditionFalse || c.Reason != "Drift" || c.Message != "the cgroups can't be read" {
		t.Errorf("an error is not told: %s %s %s", c.Status, c.Reason, c.Message)
	}
}

// A read-only enforcer writes its conditions and leaves the taints alone, its own as well.
func TestConditionsOnly(t *testing.T) {
	for _, taints := range [][]corev1.Taint{nil, {{Key: enforcement.TaintPressure, Value: "memory", Effect: corev1.TaintEffectNoSchedule}}} {
		api := newNodeAPI(taints...)
		w := &Writer{Nodes: nodesOf{api}, Name: "n", ConditionsOnly: true, Now: time.Now}
		for _, short := range [][]string{{"pid"}, nil} {
			if err := w.Write(t.Context(), NodeStatus{Pressure: short}); err != nil {
				t.Fatal(err)
			}
			var node corev1.Node
			if err := api.Get(t.Context(), client.ObjectKey{Name: "n"}, &node); err != nil {
				t.Fatal(err)
			}
			if len(node.Spec.Taints) != len(taints) || len(taints) == 1 && node.Spec.Taints[0] != taints[0] || len(node.Status.Conditions) != 2 {
				t.Errorf("taints %v, conditions %v", node.Spec.Taints, node.Status.Conditions)
			}
		}
	}
}

// Removing takes the enforcer's own taint and conditions and nobody else's, also if the Node changes meanwhile, and can be repeated.
func TestRemove(t *testing.T) {
	theirs := corev1.Taint{Key: "theirs", Effect: corev1.TaintEffectNoSchedule}
	ready := corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue}
	ours := corev1.Taint{Key: enforcement.TaintPressure, Value: "memory", Effect: corev1.TaintEffectNoSchedule}
	full := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: corev1.NodeSpec{Taints: []corev1.Taint{theirs, ours}}}
	full.Status.Conditions = []corev1.NodeCondition{ready}
	for _, kind := range enforcement.NodeConditions {
		full.Status.Conditions = append(full.Status.Conditions, corev1.NodeCondition{Type: kind, Status: corev1.ConditionFalse})
	}
	conflicts := 2
	kube := fake.NewClientBuilder().WithScheme(state.Scheme()).WithStatusSubresource(&corev1.Node{}).WithObjects(full).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			if conflicts--; conflicts >= 0 {
				return apierrors.NewConflict(corev1.Resource("nodes"), "n", errors.New("changed"))
			}
			return c.Patch(ctx, o, p, opts...)
		},
	}).Build()
	w := &Writer{Nodes: nodesOf{kube}, Name: "n", Now: time.Now}
	for range 2 {
		if err := w.Remove(t.Context()); err != nil {
			t.Fatal(err)
		}
		var node corev1.Node
		if err := kube.Get(t.Context(), client.ObjectKey{Name: "n"}, &node); err != nil {
			t.Fatal(err)
		}
		if len(node.Spec.Taints) != 1 || node.Spec.Taints[0] != theirs || len(node.Status.Conditions) != 1 || node.Status.Conditions[0] != ready {
			t.Errorf("left: taints %v, conditions %v", node.Spec.Taints, node.Status.Conditions)
		}
	}
	w.Name = "deleted"
	if err := w.Remove(t.Context()); err != nil {
		t.Errorf("a Node that is gone: %v", err)
	}
	w.Nodes = forbidden{}
	if err := w.Remove(t.Context()); !apierrors.IsForbidden(err) {
		t.Errorf("without rights: %v", err)
	}
}

// forbidden are Nodes of an API server that refuses everything.
type forbidden struct{}

func (forbidden) Get(context.Context, string) (*corev1.Node, error) {
	return nil, apierrors.NewForbidden(corev1.Resource("nodes"), "n", errors.New("no right"))
}

func (f forbidden) Patch(ctx context.Context, name string, _ types.PatchType, _ []byte, _ ...string) error {
	_, err := f.Get(ctx, name)
	return err
}

func TestMemoryProtection(t *testing.T) {
	for p, want := range map[enforcement.MemoryProtector]string{
		"":                            "",
		enforcement.ProtectorPodgrace: "True Podgrace: memory is protected as policies ask, within their bounds",
		enforcement.ProtectorReset:    "False KubeletResets: nothing is done for memory.protection: the kubelet writes 0 each minute (MemoryQoS without a reservation, before 1.37); to have it, set memoryReservationPolicy TieredReservation or the feature gate MemoryQoS off, or use kubelet 1.37",
		enforcement.ProtectorKubelet:  "False KubeletReserves: nothing is done for memory.protection: the kubelet protects memory itself, by QoS class (MemoryQoS, memoryReservationPolicy TieredReservation); to have it, set memoryReservationPolicy None (from 1.37) or the feature gate MemoryQoS off",
		enforcement.ProtectorV1:       "False CgroupV1: nothing is done for memory.protection: cgroup v1 protects no memory; to have it, use cgroup v2",
	} {
		var node corev1.Node
		NodeStatus{MemoryProtector: p, EnforcedUnknown: true, PressureUnknown: true}.apply(&node, statetest.LongAgo)
		got := ""
		for _, c := range node.Status.Conditions {
			got += fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message)
		}
		if got != want {
			t.Errorf("%q: got %s", p, got)
		}
	}
}

// Somebody else taints the node between our reading and our writing: theirs must not be lost.
func TestNodeStatusConflict(t *testing.T) {
	kube := fake.NewClientBuilder().WithScheme(state.Scheme()).WithObjects(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			var node corev1.Node
			if err := c.Get(ctx, client.ObjectKeyFromObject(o), &node); err != nil {
				return err
			}
			node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: "theirs", Effect: corev1.TaintEffectNoSchedule})
			return errors.Join(c.Update(ctx, &node), c.Patch(ctx, o, p, opts...))
		},
	}).Build()
	w := &Writer{Nodes: nodesOf{kube}, Name: "n", Now: time.Now}
	if err := w.Write(t.Context(), NodeStatus{Pressure: []string{"memory"}}); err == nil {
		t.Error("the conflict went unnoticed")
	}
	var node corev1.Node
	if err := kube.Get(t.Context(), client.ObjectKey{Name: "n"}, &node); err != nil {
		t.Fatal(err)
	}
	if len(node.Spec.Taints) != 1 || node.Spec.Taints[0].Key != "theirs" {
		t.Errorf("taints %v", node.Spec.Taints)
	}
}

func TestUnenforced(t *testing.T) {
	left := func(why drift.Why) drift.Drift {
		return drift.Drift{Where: drift.Where{Path: "/kubepods"}, File: "memory.max", Have: "2", Want: "1", Owner: plan.Kubelet, Why: why, Detail: "4096 bytes"}
	}
	for name, tc := range map[string]struct {
		files, processes []drift.Drift
		want             string
	}{
		"nothing":           {nil, nil, ""},
		"written":           {[]drift.Drift{left("")}, nil, ""},
		"not the mode's":    {[]drift.Drift{left(drift.WhyObserve)}, []drift.Drift{left(drift.WhyOwned)}, ""},
		"usage":             {[]drift.Drift{left(""), left(drift.WhyUsage)}, nil, `memory.max of /kubepods is "2" and should be "1" (owner: kubelet); not written: the limit would fall under what is used now`},
		"rival and others":  {[]drift.Drift{left(drift.WhyRival), left(drift.WhyPromise)}, []drift.Drift{left(drift.WhyRival)}, `memory.max of /kubepods is "2" and should be "1" (owner: kubelet); not written: somebody else keeps reverting it (and 2 more)`},
		"a process's rival": {nil, []drift.Drift{left(drift.WhyRival)}, `memory.max of /kubepods is "2" and should be "1" (owner: kubelet); not written: somebody else keeps reverting it`},
	} {
		r := repair.Round{Diff: drift.Difference{Drift: tc.files}, Processes: drift.ProcessDifference{Drift: tc.processes}}
		if got := Unenforced(r); got != tc.want {
			t.Errorf("%s: got %s", name, got)
		}
	}
}
