package fencing

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/e2e/podgrace"
	"github.com/podgrace/podgrace/e2e/suite"
	core "github.com/podgrace/podgrace/fencing"
	"github.com/podgrace/podgrace/fencing/agents/agentstest"
)

var shared = &suite.Shared{Options: cluster.Options{ControllerManager: true, Scheduler: true, NodeGrace: nodeGrace}}

func TestMain(m *testing.M) { suite.Main(m, shared) }

// soon is how long what takes a quarter of a minute may take on a busy machine: silence, the node lifecycle controller's grace, and the budget's one after the other.
const soon = 5 * time.Minute

// lab is a cluster of twelve nodes with a fencer.
type lab struct {
	*suite.Suite
	clock  *fastClock
	fencer *fencer
}

// nodes are made once, for all tests.
var nodes sync.Once

// startAlone is the lab with a fencer that runs, in a cluster of its own: for a test that leaves nodes fenced, receipts, or no webhook.
func startAlone(t *testing.T) *lab {
	t.Helper()
	own := &suite.Shared{Options: shared.Options}
	t.Cleanup(func() {
		if err := own.Stop(); err != nil {
			t.Error(err)
		}
	})
	l := prepareIn(t, own, &sync.Once{})
	l.startFencer(t)
	return l
}

// prepare is the lab without a fencer.
func prepare(t *testing.T) *lab {
	t.Helper()
	return prepareIn(t, shared, &nodes)
}

// prepareIn is prepare in a cluster, whose nodes are made once.
func prepareIn(t *testing.T, shared *suite.Shared, nodes *sync.Once) *lab {
	t.Helper()
	l := &lab{Suite: shared.Get(t), clock: newFastClock()}
	ctx := t.Context()
	nodes.Do(func() {
		if err := podgrace.AllowFencer(ctx, l.Cluster); err != nil {
			t.Fatal(err)
		}
		for i := range 12 {
			name := nodeName(i)
			if err := l.AddNode(ctx, name, map[string]string{"fence": name}); err != nil {
				t.Fatal(err)
			}
			patchStatus(t, l.Suite, name, fmt.Sprintf(`{"status":{"nodeInfo":{"systemUUID":%q}}}`, machineUUID(i)))
		}
	})
	return l
}

// fencerConfig is a client's configuration with the fencer's own rights.
func (l *lab) fencerConfig(t *testing.T) *rest.Config {
	t.Helper()
	file, err := podgrace.FencerKubeconfig(l.Cluster)
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", file)
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// renew has a node that was fenced come back by another boot, and forgets its Fence: nodes that are silent, and receipts, count for the tests that come after.
func (l *lab) renew(t *testing.T, i int) {
	t.Helper()
	name := nodeName(i)
	fence := l.phase(t, name, v1alpha1.FenceReleased)
	patchStatus(t, l.Suite, name, fmt.Sprintf(`{"status":{"nodeInfo":{"bootID":"after-%s"}}}`, fence.Name))
	l.Revive(t, name)
	if err := l.StartHeartbeat(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	l.phase(t, name, v1alpha1.FenceOver)
	for _, o := range []client.Object{fence, &v1alpha1.FenceReceipt{ObjectMeta: metav1.ObjectMeta{Name: fence.Status.Receipt}}} {
		if err := l.Client.Delete(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
}

func nodeName(i int) string { return fmt.Sprintf("n%d", i) }

func machineUUID(i int) string { return fmt.Sprintf("4c4c4544-0000-1000-8000-%012d", i) }

func patchStatus(t *testing.T, s *suite.Suite, node, patch string) {
	t.Helper()
	if err := s.Client.Status().Patch(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		t.Fatal(err)
	}
}

// machine puts a BMC before the machine of a node, which tells a UUID, and makes the FenceAgent that powers it off.
func (l *lab) machine(t *testing.T, i int, tells string) *agentstest.Machine {
	t.Helper()
	m := agentstest.NewMachine(tells)
	l.behind(t, i, m.System("1"))
	return m
}

// behind puts a BMC before a system, and makes the FenceAgent that powers the machine of a node off by it.
func (l *lab) behind(t *testing.T, i int, system agentstest.System) {
	t.Helper()
	url, ca := agentstest.Serve(t, &agentstest.BMC{Username: "fencer", Password: "not-a-secret", Systems: []agentstest.System{system}})
	secret, agent := podgrace.BMC("bmc-"+nodeName(i), machineUUID(i), url, ca)
	l.Create(t, secret)
	l.Create(t, agent)
}

// policy is a FencePolicy for one node.
func (l *lab) policy(t *testing.T, i int, mode v1alpha1.FenceMode) {
	t.Helper()
	name := nodeName(i)
	p := policyOf(name, mode, 3, name)
	if mode == v1alpha1.FenceModeFence {
		p.Spec.Agents = []v1alpha1.FencePolicyAgent{{Name: "bmc-" + name, Timeout: metav1.Duration{Duration: 30 * time.Second}, Attempts: 3}}
	}
	l.Create(t, p)
}

// policyOf is a FencePolicy for some nodes, of which so many may be fenced at a time. It has no agents.
func policyOf(name string, mode v1alpha1.FenceMode, concurrent int32, nodes ...string) *v1alpha1.FencePolicy {
	return &v1alpha1.FencePolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.FencePolicySpec{
		NodeSelector: &v1alpha1.LabelSelector{MatchExpressions: []v1alpha1.LabelSelectorRequirement{{Key: "fence", Operator: metav1.LabelSelectorOpIn, Values: nodes}}},
		Mode:         mode, SilentFor: metav1.Duration{Duration: time.Minute},
		JustifiedBy: &v1alpha1.FenceJustification{Patience: &metav1.Duration{Duration: time.Minute}},
		Budget:      v1alpha1.FenceBudget{MaxConcurrent: concurrent, MaxUnhealthyInZone: intstr.FromString("50%"), MaxUnhealthy: intstr.FromString("50%"), Cooldown: metav1.Duration{Duration: time.Minute}},
		Release:     v1alpha1.ReleasePodsAndTaint,
	}}
}

// database is a StatefulSet of one, on that node at first, and on any other after that. It returns its pod, which runs as far as anybody knows.
func (l *lab) database(t *testing.T, namespace string, i int) *corev1.Pod {
	t.Helper()
	name := "db-" + nodeName(i)
	l.Create(t, &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: appsv1.StatefulSetSpec{
		Replicas: new(int32(1)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": name}}, Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "main", Image: "localhost/none:1"}},
			Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{
				Weight: 100, Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "fence", Operator: corev1.NodeSelectorOpIn, Values: []string{nodeName(i)}}}},
			}}}},
		}},
	}})
	pod := &corev1.Pod{}
	suite.Eventually(t, "pod "+name+"-0 to be bound", func(ctx context.Context) (bool, error) {
		err := l.Client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name + "-0"}, pod)
		return pod.Spec.NodeName == nodeName(i), client.IgnoreNotFound(err)
	})
	return pod
}

func (l *lab) fenceOf(ctx context.Context, node string) (*v1alpha1.Fence, error) {
	var all v1alpha1.FenceList
	if err := l.Client.List(ctx, &all); err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all.Items, func(f v1alpha1.Fence) bool { return f.Spec.Node.Name == node })
	if i < 0 {
		return nil, nil
	}
	return &all.Items[i], nil
}

// phase returns the Fence of a node once it is in that phase.
func (l *lab) phase(t *testing.T, node string, phase v1alpha1.FencePhase) *v1alpha1.Fence {
	t.Helper()
	var fence *v1alpha1.Fence
	suite.EventuallyWithin(t, soon, "the Fence of "+node+" to be "+string(phase), func(ctx context.Context) (bool, error) {
		var err error
		if fence, err = l.fenceOf(ctx, node); fence == nil || err != nil {
			return false, err
		}
		if fence.Status.Phase != phase {
			return false, fmt.Errorf("%s: %s", fence.Status.Phase, fence.Status.Message)
		}
		return true, nil
	})
	return fence
}

func (l *lab) condition(t *testing.T, node string) *corev1.NodeCondition {
	t.Helper()
	var n corev1.Node
	if err := l.Client.Get(t.Context(), types.NamespacedName{Name: node}, &n); err != nil {
		t.Fatal(err)
	}
	for i, c := range n.Status.Conditions {
		if c.Type == core.ConditionPartitioned {
			return &n.Status.Conditions[i]
		}
	}
	return nil
}

// notReady waits until the API server has a silent node as not ready, which takes the node lifecycle controller nodeGrace.
func (l *lab) notReady(t *testing.T, node string) {
	t.Helper()
	suite.Eventually(t, "node "+node+" to be not ready", func(ctx context.Context) (bool, error) {
		var n corev1.Node
		err := l.Client.Get(ctx, types.NamespacedName{Name: node}, &n)
		return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue
		}), err
	})
}

// Of four nodes that fall silent at once, each goes the way that its policy, its machine and its agent give: one is powered off and its database runs elsewhere; of the
// second the BMC leads to another machine, and nothing is powered off; the third is only shown; the fourth comes back by itself. A fifth, which is only shown as well, is asked for, while no webhook answers.
func TestFence(t *testing.T) {
	l := startAlone(t)
	namespace := l.Namespace(t)
	l.Policy(t, namespace, v1alpha1.PodPolicySpec{Removal: &v1alpha1.RemovalSection{ForceDelete: v1alpha1.RemovalDeny}})
	const off, wrong, shown, back = 0, 1, 2, 3
	machine, another := l.machine(t, off, machineUUID(off)), l.machine(t, wrong, machineUUID(7))
	pods := map[int]*corev1.Pod{}
	for i, mode := range map[int]v1alpha1.FenceMode{off: v1alpha1.FenceModeFence, wrong: v1alpha1.FenceModeFence, shown: v1alpha1.FenceModeShow, back: v1alpha1.FenceModeShow} {
		l.policy(t, i, mode)
		pods[i] = l.database(t, namespace, i)
	}
	for i := range pods {
		l.StopHeartbeat(nodeName(i))
	}

	// What is known to be off is released: by a receipt of two readings, and nothing before it.
	fence := l.phase(t, nodeName(off), v1alpha1.FenceReleased)
	var receipt v1alpha1.FenceReceipt
	if err := l.Client.Get(t.Context(), types.NamespacedName{Name: fence.Status.Receipt}, &receipt); err != nil {
		t.Fatal(err)
	}
	if r := receipt.Spec; r.Class != v1alpha1.EvidencePoweredOff || len(r.ReadBacks) < 2 || r.Node.BootID != "boot-n0" || r.Identity != v1alpha1.IdentityVerified {
		t.Errorf("the receipt: %+v", r)
	} else if apart := r.ReadBacks[len(r.ReadBacks)-1].Time.Sub(r.ReadBacks[0].Time.Time); apart < 5*time.Second {
		t.Errorf("the receipt has readings that are %s apart: %+v", apart, r.ReadBacks)
	}
	if machine.State() != "Off" || machine.Offs() == 0 {
		t.Errorf("the machine is %s, told to be off %d times", machine.State(), machine.Offs())
	}
	suite.Eventually(t, "the database to be bound elsewhere", func(ctx context.Context) (bool, error) {
		var now corev1.Pod
		err := l.Client.Get(ctx, client.ObjectKeyFromObject(pods[off]), &now)
		return now.UID != pods[off].UID && now.Spec.NodeName != "" && now.Spec.NodeName != nodeName(off), client.IgnoreNotFound(err)
	})
	if c := l.condition(t, nodeName(off)); c == nil || c.Reason != core.PartitionedFenced {
		t.Errorf("the condition of what is off: %+v", c)
	}

	// Nobody else is powered off or released, and each says why.
	waits := l.phase(t, nodeName(wrong), v1alpha1.FenceActing)
	if another.Offs() > 0 {
		t.Error("the wrong machine was powered off")
	}
	t.Logf("the wrong machine: %s", waits.Status.Message)
	for _, i := range []int{wrong, shown, back} {
		var now corev1.Pod
		if err := l.Client.Get(t.Context(), client.ObjectKeyFromObject(pods[i]), &now); err != nil || now.UID != pods[i].UID {
			t.Errorf("the pod of node %s: %v", nodeName(i), err)
		}
		if err := l.Client.Delete(t.Context(), &now, client.GracePeriodSeconds(0)); !apierrors.IsForbidden(err) {
			t.Errorf("a force delete on node %s: %v", nodeName(i), err)
		}
		var c *corev1.NodeCondition
		suite.EventuallyWithin(t, soon, "the condition of node "+nodeName(i), func(context.Context) (bool, error) { // its last renewal may be 10 s later than that of the node that is off
			c = l.condition(t, nodeName(i))
			return c != nil && c.Status != corev1.ConditionFalse, nil
		})
		if c.Status != corev1.ConditionTrue || c.Reason != core.PartitionedSilent {
			t.Errorf("the condition of node %s: %+v", nodeName(i), c)
		}
		suite.Eventually(t, "the condition of its pod", func(ctx context.Context) (bool, error) {
			err := l.Client.Get(ctx, client.ObjectKeyFromObject(pods[i]), &now)
			return slices.ContainsFunc(now.Status.Conditions, func(c corev1.PodCondition) bool {
				return c.Type == core.ConditionPartitioned && c.Status == corev1.ConditionTrue
			}), err
		})
	}
	if fence, err := l.fenceOf(t.Context(), nodeName(shown)); fence != nil || err != nil {
		t.Errorf("a Fence of a node that is only to be shown: %+v, %v", fence, err)
	}

	// One that is heard of again is not partitioned any more, and neither is its pod.
	l.Revive(t, nodeName(back))
	suite.Eventually(t, "the node that is back", func(ctx context.Context) (bool, error) {
		var now corev1.Pod
		err := l.Client.Get(ctx, client.ObjectKeyFromObject(pods[back]), &now)
		c := l.condition(t, nodeName(back))
		return c != nil && c.Status == corev1.ConditionFalse && slices.ContainsFunc(now.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == core.ConditionPartitioned && c.Status == corev1.ConditionFalse
		}), err
	})

	// What was off and is back by another boot has nothing left to be done about.
	patchStatus(t, l.Suite, nodeName(off), `{"status":{"nodeInfo":{"bootID":"boot-2"}}}`)
	l.Revive(t, nodeName(off))
	l.phase(t, nodeName(off), v1alpha1.FenceOver)
	l.askedFor(t, namespace, 4)
}

// user is who the tests are to the API server.
func (l *lab) user(t *testing.T) string {
	t.Helper()
	kube, err := kubernetes.NewForConfig(l.Config)
	if err != nil {
		t.Fatal(err)
	}
	self, err := kube.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return self.Status.UserInfo.Username
}

// askedFor has a person ask for a fence of a node whose policy only shows, while the webhook is away: what is proved is let go by the API server alone, and nothing else is.
func (l *lab) askedFor(t *testing.T, namespace string, i int) {
	t.Helper()
	m := l.machine(t, i, machineUUID(i))
	p := policyOf(nodeName(i), v1alpha1.FenceModeShow, 3, nodeName(i))
	p.Spec.Agents = []v1alpha1.FencePolicyAgent{{Name: "bmc-" + nodeName(i), Timeout: metav1.Duration{Duration: 30 * time.Second}, Attempts: 3}}
	l.Create(t, p)
	pod := l.database(t, namespace, i)
	if err := l.Webhook.Stop(); err != nil {
		t.Fatal(err)
	}
	var node corev1.Node
	if err := l.Client.Get(t.Context(), types.NamespacedName{Name: nodeName(i)}, &node); err != nil {
		t.Fatal(err)
	}
	request := &v1alpha1.Fence{ObjectMeta: metav1.ObjectMeta{Name: "asked-for"}, Spec: v1alpha1.FenceSpec{
		Node: v1alpha1.BootReference{Name: node.Name, UID: node.UID, BootID: node.Status.NodeInfo.BootID}, Reason: v1alpha1.FenceRequested, RequestedBy: "somebody-else",
	}}
	if err := l.Client.Create(t.Context(), request.DeepCopy()); err == nil || !strings.Contains(err.Error(), "whoever asks for a fence answers for it") {
		t.Errorf("a fence in somebody else's name: %v", err)
	}
	silent := request.DeepCopy()
	silent.Spec.Reason, silent.Spec.RequestedBy = v1alpha1.FenceSilent, ""
	if err := l.Client.Create(t.Context(), silent); err == nil || !strings.Contains(err.Error(), "only the fencer finds that a node is silent") {
		t.Errorf("a fence in the fencer's name: %v", err)
	}
	forged := &v1alpha1.FenceReceipt{ObjectMeta: metav1.ObjectMeta{Name: "forged"}, Spec: v1alpha1.FenceReceiptSpec{
		Node: &request.Spec.Node, Class: v1alpha1.EvidencePoweredOff, LastSign: string(node.UID) + "/" + node.Status.NodeInfo.BootID + "//",
		ReadBacks: []v1alpha1.PowerReadBack{{Time: metav1.NowMicro(), State: "Off"}, {Time: metav1.NowMicro(), State: "Off"}},
	}}
	if err := l.Client.Create(t.Context(), forged); err == nil || !strings.Contains(err.Error(), "only the fencer can say what was read of a machine") {
		t.Errorf("a forged receipt: %v", err)
	}
	request.Spec.RequestedBy = l.user(t)
	l.StopHeartbeat(nodeName(i))
	l.Create(t, request)
	l.phase(t, nodeName(i), v1alpha1.FenceReleased)
	if m.State() != "Off" {
		t.Errorf("the machine is %s", m.State())
	}
	suite.Eventually(t, "the database to be bound elsewhere", func(ctx context.Context) (bool, error) {
		var now corev1.Pod
		err := l.Client.Get(ctx, client.ObjectKeyFromObject(pod), &now)
		return now.UID != pod.UID && now.Spec.NodeName != "" && now.Spec.NodeName != nodeName(i), client.IgnoreNotFound(err)
	})
}
