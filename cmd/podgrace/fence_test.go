package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/fencing"
	"github.com/podgrace/podgrace/internal/console"
)

// Who asks for a fence sees first what it comes to, and what can't be is refused before anybody is asked.
func TestFencePage(t *testing.T) {
	node := fencing.Node{Name: "worker-3", UID: "u", BootID: "b", SystemUUID: "4c4c4544-0000-1000-8000-000000000001"}
	agent := v1alpha1.FenceAgent{ObjectMeta: metav1.ObjectMeta{Name: "rack-1"}, Spec: v1alpha1.FenceAgentSpec{
		Type: v1alpha1.AgentRedfish, Identity: v1alpha1.IdentityVerified, Machines: []v1alpha1.FenceMachine{{SystemUUID: node.SystemUUID, Address: "https://192.0.2.1"}},
	}}
	policy := v1alpha1.FencePolicy{ObjectMeta: metav1.ObjectMeta{Name: "workers"}, Spec: v1alpha1.FencePolicySpec{
		Agents: []v1alpha1.FencePolicyAgent{{Name: "rack-1", Attempts: 3, Timeout: metav1.Duration{Duration: time.Minute}}}, Budget: v1alpha1.FenceBudget{MaxConcurrent: 1}, Release: v1alpha1.ReleasePods,
	}}
	byPerson := *policy.DeepCopy()
	byPerson.Spec.Agents[0].Name = "oncall"
	oncall := v1alpha1.FenceAgent{ObjectMeta: metav1.ObjectMeta{Name: "oncall"}, Spec: v1alpha1.FenceAgentSpec{Type: v1alpha1.AgentManual}}
	other := v1alpha1.Fence{ObjectMeta: metav1.ObjectMeta{Name: "worker-1-a"}, Spec: v1alpha1.FenceSpec{Node: v1alpha1.BootReference{Name: "worker-1", UID: "other", BootID: "c"}}, Status: v1alpha1.FenceStatus{Phase: v1alpha1.FenceActing}}
	for _, tc := range []struct {
		name     string
		change   func(*fencing.Node)
		policies []v1alpha1.FencePolicy
		fences   []v1alpha1.Fence
		possible bool
		says     []string
	}{
		{"as it should be", func(*fencing.Node) {}, []v1alpha1.FencePolicy{policy}, nil, true, []string{"worker-3, boot b, not Ready", "Policy workers, Ready: fences of 4 nodes", "rack-1, 3 attempts of 1m0s", "its pods are released (Pods)"}},
		{"another one is being fenced", func(*fencing.Node) {}, []v1alpha1.FencePolicy{policy}, []v1alpha1.Fence{other}, true,
			[]string{"WAITS node worker-3 is not fenced yet: FencePolicy workers has at most 1 fenced at once: it waits for Fence worker-1-a"}},
		{"a node that is Ready", func(n *fencing.Node) { n.Ready = true }, []v1alpha1.FencePolicy{policy}, nil, true, []string{"Ready: its pods run, and end with its power, without a grace period"}},
		{"of the control plane", func(n *fencing.Node) { n.ControlPlane = true }, []v1alpha1.FencePolicy{policy}, nil, false, []string{"REFUSED", "these are never fenced"}},
		{"without a boot", func(n *fencing.Node) { n.BootID = "" }, []v1alpha1.FencePolicy{policy}, nil, false, []string{"REFUSED", "does not say which boot it is"}},
		{"a machine that no agent lists", func(n *fencing.Node) { n.SystemUUID = "4c4c4544-0000-1000-8000-000000000009" }, []v1alpha1.FencePolicy{policy}, nil, false, []string{"REFUSED", "does not list this machine"}},
		{"two nodes on one machine", func(n *fencing.Node) { n.ProviderID = "twin" }, []v1alpha1.FencePolicy{policy}, nil, false, []string{"REFUSED", "worker-9 says that it is the same machine"}},
		{"a person alone can say that it is off", func(*fencing.Node) {}, []v1alpha1.FencePolicy{byPerson}, nil, true, []string{"no agent of its policy powers it off: only once there is evidence there is a receipt"}},
		{"without a policy", func(*fencing.Node) {}, nil, nil, false, []string{"REFUSED", "no FencePolicy selects the node"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n := node
			tc.change(&n)
			f := fenceFacts{policies: fencing.CompilePolicies(tc.policies), ready: map[string]string{"workers": "Ready: fences of 4 nodes"}, facts: fencing.Facts{
				Known: fencing.Known{Nodes: true, Agents: true, Fences: true, Receipts: true}, Agents: []v1alpha1.FenceAgent{agent, oncall}, Fences: tc.fences,
				Nodes: []fencing.Node{n, {Name: "worker-1", UID: "other", BootID: "c"}, {Name: "worker-7", UID: "7", BootID: "7", Ready: true}, {Name: "worker-8", UID: "8", BootID: "8", Ready: true}, {Name: "worker-9", UID: "9", BootID: "9", Ready: true, ProviderID: "twin"}},
			}}
			f.node = &f.facts.Nodes[0]
			text, possible := fencePage(f, console.Style{})
			if possible != tc.possible {
				t.Errorf("possible: %v", possible)
			}
			for _, says := range tc.says {
				if !strings.Contains(strings.Join(strings.Fields(text), " "), says) {
					t.Errorf("it lacks %q:\n%s", says, text)
				}
			}
		})
	}
}

// Each silent node has what waits for it and what is done, and the one that has been silent for longest comes first in what is read.
func TestStatusPage(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	silent := partitioned{node: "worker-3", pods: []string{"shop/db-0"}, condition: corev1.NodeCondition{
		Type: fencing.ConditionPartitioned, Status: corev1.ConditionTrue, Reason: fencing.PartitionedSilent, Message: "its Lease was renewed last at 11:50", LastTransitionTime: metav1.NewTime(now.Add(-10 * time.Minute)),
	}, fence: &v1alpha1.Fence{ObjectMeta: metav1.ObjectMeta{Name: "worker-3-1"}, Status: v1alpha1.FenceStatus{Phase: v1alpha1.FenceActing, Message: "the BMC does not answer"}}}
	text := strings.Join(strings.Fields(statusPage([]partitioned{silent, {node: "worker-4"}}, console.Style{}, now)), " ")
	for _, says := range []string{"worker-3, LeaseSilent for 10m", "its Lease was renewed last at 11:50", "1 protected pod: shop/db-0", "worker-3-1, Acting: the BMC does not answer", "worker-4", "no protected pod"} {
		if !strings.Contains(text, says) {
			t.Errorf("it lacks %q: %s", says, text)
		}
	}
	dead := partitioned{node: "worker-5", unsaid: now.Add(-time.Hour)}
	unread := partitioned{node: "worker-6", unread: true, condition: silent.condition}
	text = strings.Join(strings.Fields(statusPage([]partitioned{dead, unread}, console.Style{}, now)), " ")
	for _, says := range []string{"worker-5, not ready for 60m", "or no fencer runs", "kubectl podgrace confirm node/worker-5", "Waiting unknown: you may not list pods"} {
		if !strings.Contains(text, says) {
			t.Errorf("it lacks %q: %s", says, text)
		}
	}
	if text := statusPage(nil, console.Style{}, now); !strings.Contains(text, "No node is partitioned") {
		t.Error(text)
	}
}

// Who may have nodes fenced, and no more (ClusterRole podgrace-fence), sees how far that is; and a cluster without a fencer does not look like one in which all is well.
func TestStatusOfWhatIsNotSaid(t *testing.T) {
	node := func(name string, conditions ...corev1.NodeCondition) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{Conditions: conditions}}
	}
	unknown := corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, LastTransitionTime: metav1.NewTime(time.Unix(1000, 0))}
	kube := fake.NewClientBuilder().WithScheme(fencingScheme()).WithObjects(
		node("well", corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue}), node("dead", unknown),
		node("silent", unknown, corev1.NodeCondition{Type: fencing.ConditionPartitioned, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(time.Unix(900, 0))}),
	).WithInterceptorFuncs(interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
		if _, ok := list.(*corev1.PodList); ok {
			return apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New("no"))
		}
		return c.List(ctx, list, opts...)
	}}).Build()
	all, err := readStatus(t.Context(), kube)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 2 || all[0].node != "silent" || !all[0].unread || all[1].node != "dead" || all[1].unsaid.IsZero() {
		t.Errorf("%+v", all)
	}
}

// What the fencer says of the policy is shown, and not what can be reckoned without its knowledge.
func TestWhatIsSaidOfThePolicy(t *testing.T) {
	p := v1alpha1.FencePolicy{ObjectMeta: metav1.ObjectMeta{Generation: 2}}
	for _, tc := range []struct {
		condition *metav1.Condition
		says      string
	}{
		{nil, "no fencer has said anything yet"},
		{&metav1.Condition{Type: fencing.ConditionReady, Status: metav1.ConditionTrue, ObservedGeneration: 1, Message: "fences of 1 node"}, "no fencer has said anything yet"},
		{&metav1.Condition{Type: fencing.ConditionReady, Status: metav1.ConditionTrue, ObservedGeneration: 2, Message: "fences of 1 node"}, "Ready: fences of 1 node"},
		{&metav1.Condition{Type: fencing.ConditionReady, Status: metav1.ConditionFalse, ObservedGeneration: 2, Message: "no agent"}, "not Ready: no agent"},
	} {
		p.Status.Conditions = nil
		if tc.condition != nil {
			p.Status.Conditions = []metav1.Condition{*tc.condition}
		}
		if got := readyOf(&p); !strings.Contains(got, tc.says) {
			t.Errorf("%q lacks %q", got, tc.says)
		}
	}
}
