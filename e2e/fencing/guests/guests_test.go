package guests

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/e2e/cluster/clustertest"
	"github.com/podgrace/podgrace/e2e/podgrace"
	"github.com/podgrace/podgrace/e2e/suite"
	"github.com/podgrace/podgrace/e2e/vm"
	core "github.com/podgrace/podgrace/fencing"
	"github.com/podgrace/podgrace/fencing/agents/agentstest"
)

const (
	witnessImage = "localhost/podgrace/witness:1"
	recordSize   = 512
	// diskSize is that of a witness: an hour of records.
	diskSize = 20 << 20
	// soon is how long what takes two or three minutes may take on a busy machine.
	soon = 10 * time.Minute
)

var shared = &suite.Shared{Options: cluster.Options{ControllerManager: true, Scheduler: true}}

func TestMain(m *testing.M) { suite.Main(m, shared) }

// machine is a node in QEMU, behind a BMC.
type machine struct {
	*vm.Node
	witness string // its disk's file
	uuid    string
	// ordered counts the orders to be off.
	ordered atomic.Int32
	// onOrder, if it is set, is called with each order, and reports whether to carry it out.
	onOrder atomic.Pointer[func() bool]
}

// answers orders to be off from now on: the count begins again.
func (m *machine) answers(order func() bool) {
	m.ordered.Store(0)
	m.onOrder.Store(&order)
}

// records are what pods have written to the machine's disk: who wrote, in their order.
func (m *machine) records(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(m.witness)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for at := 0; at+recordSize <= len(text) && text[at] != 0; at += recordSize {
		all = append(all, string(bytes.TrimRight(text[at:at+recordSize], "\n")))
	}
	return all
}

// writes waits until a pod writes more than it has.
func (m *machine) writes(t *testing.T, pod types.UID) {
	t.Helper()
	had := len(m.records(t))
	suite.EventuallyWithin(t, soon, "pod "+string(pod)+" to write on "+m.Name, func(context.Context) (bool, error) {
		all := m.records(t)
		return len(all) > had+5 && strings.HasPrefix(all[len(all)-1], string(pod)+" "), nil
	})
}

// off carries out an order of the BMC.
func (m *machine) off() error {
	m.ordered.Add(1)
	if carriesOut := m.onOrder.Load(); carriesOut != nil && !(*carriesOut)() {
		return nil
	}
	return m.PowerOff()
}

func (m *machine) power() string {
	if m.Powered() {
		return "On"
	}
	return "Off"
}

// lab is a cluster of two machines and three nodes that run nothing, so that most of the nodes are heard of.
type lab struct {
	*suite.Suite
	archive   string // of the witness
	program   string // the fencer
	command   string // kubectl podgrace
	fencer    *podgrace.Fencer
	a, b      *machine
	namespace string
	pod       *corev1.Pod
	began     time.Time
}

func start(t *testing.T) *lab {
	t.Helper()
	l := empty(t)
	l.a, l.b = l.machine(t, 1, "machine-a", nil), l.machine(t, 2, "machine-b", nil)
	l.startFencer(t)
	return l
}

// empty is a lab without machines and without a fencer that runs.
func empty(t *testing.T) *lab {
	t.Helper()
	clustertest.Require(t, vm.NodeSupported())
	l := &lab{Suite: shared.Get(t)}
	ctx := t.Context()
	l.archive = filepath.Join(l.Dir, "witness.tar")
	if err := cluster.BuildImage(ctx, witnessImage, "e2e/fencing/guests/witness", l.archive); err != nil {
		t.Fatal(err)
	}
	if err := podgrace.AllowFencer(ctx, l.Cluster); err != nil {
		t.Fatal(err)
	}
	var err error
	if l.program, err = podgrace.BuildFencer(ctx, filepath.Join(l.Dir, "bin")); err != nil {
		t.Fatal(err)
	}
	l.command = filepath.Join(l.Dir, "bin", "podgrace")
	if err := cluster.GoBuild(ctx, l.command, "cmd/podgrace"); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if err := l.AddNode(ctx, fmt.Sprintf("quiet-%s-%d", strings.ToLower(t.Name()), i), nil, corev1.Taint{Key: "quiet", Effect: corev1.TaintEffectNoSchedule}); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if l.fencer == nil {
			return
		}
		log, err := os.ReadFile(l.fencer.LogPath)
		if stopErr := l.fencer.Stop(); stopErr != nil {
			t.Error(stopErr)
		}
		if t.Failed() && err == nil {
			t.Logf("the fencer's log:\n%s", log)
		}
	})
	return l
}

func (l *lab) startFencer(t *testing.T) {
	t.Helper()
	fencer, err := podgrace.StartFencer(context.Background(), l.Cluster, l.program)
	if err != nil {
		t.Fatal(err)
	}
	l.fencer = fencer
}

// machine boots one, and puts a BMC before it.
func (l *lab) machine(t *testing.T, i int, name string, watchdog *vm.Watchdog, images ...string) *machine {
	t.Helper()
	m := &machine{witness: filepath.Join(l.Dir, name+".witness"), uuid: fmt.Sprintf("4c4c4544-0000-1000-8000-00000000000%d", i)}
	if err := os.WriteFile(m.witness, make([]byte, diskSize), 0o600); err != nil {
		t.Fatal(err)
	}
	var err error
	m.Node, err = vm.Start(t.Context(), l.Cluster, vm.Options{Name: name, UUID: m.uuid, RawDisk: m.witness, Labels: map[string]string{"fence": name}, Watchdog: watchdog, Images: append(images, l.archive)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Stop(); err != nil {
			t.Error(err)
		}
	})
	url, ca := agentstest.Serve(t, &agentstest.BMC{Username: "fencer", Password: "not-a-secret", Systems: []agentstest.System{{ID: "1", UUID: m.uuid, Power: m.power, ForceOff: m.off}}})
	secret, agent := podgrace.BMC("bmc-"+name, m.uuid, url, ca)
	l.Create(t, secret)
	l.Create(t, agent)
	return m
}

// policy has both machines fenced after the shortest silence that a policy can ask for.
func (l *lab) policy(t *testing.T) {
	t.Helper()
	attempts := func(m *machine) v1alpha1.FencePolicyAgent {
		return v1alpha1.FencePolicyAgent{Name: "bmc-" + m.Name, Timeout: metav1.Duration{Duration: time.Minute}, Attempts: 3}
	}
	l.policyBy(t, attempts(l.a), attempts(l.b))
}

// policyBy has them fenced by these agents.
func (l *lab) policyBy(t *testing.T, agents ...v1alpha1.FencePolicyAgent) {
	t.Helper()
	l.Create(t, &v1alpha1.FencePolicy{ObjectMeta: metav1.ObjectMeta{Name: "machines"}, Spec: v1alpha1.FencePolicySpec{
		NodeSelector: &v1alpha1.LabelSelector{MatchExpressions: []v1alpha1.LabelSelectorRequirement{{Key: "fence", Operator: metav1.LabelSelectorOpExists}}},
		Mode:         v1alpha1.FenceModeFence, SilentFor: metav1.Duration{Duration: time.Minute},
		JustifiedBy: &v1alpha1.FenceJustification{Patience: &metav1.Duration{Duration: time.Minute}},
		Budget:      v1alpha1.FenceBudget{MaxConcurrent: 1, MaxUnhealthyInZone: intstr.FromString("50%"), MaxUnhealthy: intstr.FromString("50%"), Cooldown: metav1.Duration{Duration: time.Minute}},
		Release:     v1alpha1.ReleasePodsAndTaint,
		Agents:      agents,
	}})
}

// database is a StatefulSet of one, on machine a as long as that is there. Its pod is the witness.
func (l *lab) database(t *testing.T) {
	t.Helper()
	l.namespace = l.Namespace(t)
	l.Policy(t, l.namespace, v1alpha1.PodPolicySpec{Removal: &v1alpha1.RemovalSection{ForceDelete: v1alpha1.RemovalDeny}})
	preferred := corev1.NodeSelectorRequirement{Key: "fence", Operator: corev1.NodeSelectorOpIn, Values: []string{l.a.Name}}
	device := corev1.HostPathBlockDev
	l.Create(t, &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: l.namespace, Name: "db"}, Spec: appsv1.StatefulSetSpec{
		Replicas: new(int32(1)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "db"}}, Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: new(int64(5)),
			Containers: []corev1.Container{{
				Name: "main", Image: witnessImage, Args: []string{"/witness", "$(POD_UID)"}, SecurityContext: &corev1.SecurityContext{Privileged: new(true)},
				Env:          []corev1.EnvVar{{Name: "POD_UID", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.uid"}}}},
				VolumeMounts: []corev1.VolumeMount{{Name: "witness", MountPath: "/witness"}},
			}},
			Volumes:  []corev1.Volume{{Name: "witness", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: vm.RawDiskDevice, Type: &device}}}},
			Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Weight: 100, Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{preferred}}}}}},
		}},
	}})
	l.pod = &corev1.Pod{}
	suite.EventuallyWithin(t, soon, "pod db-0 to run on "+l.a.Name, func(ctx context.Context) (bool, error) {
		err := l.Client.Get(ctx, types.NamespacedName{Namespace: l.namespace, Name: "db-0"}, l.pod)
		return l.pod.Spec.NodeName == l.a.Name && l.pod.Status.Phase == corev1.PodRunning, client.IgnoreNotFound(err)
	})
	l.a.writes(t, l.pod.UID)
}

// step logs how long after the silence began something was so.
func (l *lab) step(t *testing.T, what string) {
	t.Helper()
	t.Logf("%6.1f s: %s", time.Since(l.began).Seconds(), what)
}

// fence returns the last Fence of machine a, nil where there is none.
func (l *lab) fence(ctx context.Context) (*v1alpha1.Fence, error) {
	var all v1alpha1.FenceList
	if err := l.Client.List(ctx, &all); err != nil || len(all.Items) == 0 {
		return nil, err
	}
	last := slices.MaxFunc(all.Items, func(a, b v1alpha1.Fence) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	return &last, nil
}

// phase waits until the last Fence is in a phase.
func (l *lab) phase(t *testing.T, phase v1alpha1.FencePhase) *v1alpha1.Fence {
	t.Helper()
	var fence *v1alpha1.Fence
	suite.EventuallyWithin(t, soon, "the Fence to be "+string(phase), func(ctx context.Context) (bool, error) {
		var err error
		if fence, err = l.fence(ctx); err != nil {
			return false, err
		}
		if fence == nil {
			return false, errors.New("there is no Fence")
		}
		if fence.Status.Phase != phase {
			return false, fmt.Errorf("it is %s: %s", fence.Status.Phase, fence.Status.Message)
		}
		return true, nil
	})
	return fence
}

// shown waits until the node has the condition Partitioned.
func (l *lab) shown(t *testing.T, want corev1.ConditionStatus) {
	t.Helper()
	suite.EventuallyWithin(t, soon, l.a.Name+" to be Partitioned "+string(want), func(ctx context.Context) (bool, error) {
		var n corev1.Node
		err := l.Client.Get(ctx, types.NamespacedName{Name: l.a.Name}, &n)
		return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == core.ConditionPartitioned && c.Status == want }), err
	})
}

// TestMachines has three subtests on the same two machines. Each also runs alone, and finds the database's pod running.
func TestMachines(t *testing.T) {
	l := start(t)
	l.database(t)
	l.policy(t)
	if n, err := l.node(t.Context()); err != nil || n.Status.NodeInfo.SystemUUID != l.a.uuid {
		t.Fatalf("the kubelet tells the UUID %s, %v", n.Status.NodeInfo.SystemUUID, err)
	}
	for _, test := range []struct {
		name string
		run  func(*testing.T)
	}{{"paused", l.paused}, {"cutOff", l.cutOff}, {"askedFor", l.askedFor}} {
		if !t.Run(test.name, test.run) {
			return // the next one would find the machines in any state
		}
	}
}

// podgrace runs the command as a person does, and returns what it prints and its exit code.
func (l *lab) podgrace(t *testing.T, args ...string) (out string, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), l.command, append(args, "--kubeconfig", l.Kubeconfig)...)
	text, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	t.Logf("$ kubectl podgrace %s\n%s", strings.Join(args, " "), text)
	return string(text), cmd.ProcessState.ExitCode()
}

func (l *lab) node(ctx context.Context) (*corev1.Node, error) {
	var n corev1.Node
	return &n, l.Client.Get(ctx, types.NamespacedName{Name: l.a.Name}, &n)
}

// paused stops a machine, and continues it before the BMC has powered it off: nothing is released, and its pod goes on.
func (l *lab) paused(t *testing.T) {
	l.a.answers(func() bool { return false })
	defer l.a.answers(func() bool { return true })
	if err := l.a.Pause(); err != nil {
		t.Fatal(err)
	}
	l.began = time.Now()
	l.shown(t, corev1.ConditionTrue)
	l.step(t, "paused: shown")
	suite.EventuallyWithin(t, soon, "the order to be off", func(context.Context) (bool, error) { return l.a.ordered.Load() > 0, nil })
	l.step(t, "paused: the power is ordered off, and stays on")
	if err := l.a.Continue(); err != nil {
		t.Fatal(err)
	}
	fence := l.phase(t, v1alpha1.FenceOver)
	l.step(t, "paused: "+fence.Status.Message)
	var receipts v1alpha1.FenceReceiptList
	if err := l.Client.List(t.Context(), &receipts); err != nil || len(receipts.Items) > 0 {
		t.Errorf("receipts of a machine that went on: %+v, %v", receipts.Items, err)
	}
	var now corev1.Pod
	if err := l.Client.Get(t.Context(), client.ObjectKeyFromObject(l.pod), &now); err != nil || now.UID != l.pod.UID || now.DeletionTimestamp != nil {
		t.Errorf("the pod of a machine that went on: %+v, %v", now.ObjectMeta, err)
	}
	l.a.writes(t, l.pod.UID)
	l.shown(t, corev1.ConditionFalse)
}

// cutOff disconnects a machine, while its pod writes on. The fencer is killed as it gives the order, which is lost with it; the next one reads the power, and gives it again. Once the
// machine is off there is a receipt, and the pod runs on the other machine: the old boot wrote no record after the receipt, and the new pod none before it.
func (l *lab) cutOff(t *testing.T) {
	first := l.fencer
	killed := make(chan error, 1)
	l.a.answers(func() bool { // the first order is lost, and with it who gave it
		if l.a.ordered.Load() > 1 {
			return true
		}
		killed <- first.Kill()
		return false
	})
	if err := l.a.Disconnect(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.began = time.Now()
	l.shown(t, corev1.ConditionTrue)
	l.step(t, "cut off: shown")
	suite.EventuallyWithin(t, soon, "the condition of its pod", func(ctx context.Context) (bool, error) { // which is written after the node's, and by which the status names the pod
		var now corev1.Pod
		err := l.Client.Get(ctx, client.ObjectKeyFromObject(l.pod), &now)
		return slices.ContainsFunc(now.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == core.ConditionPartitioned && c.Status == corev1.ConditionTrue
		}), err
	})
	if out, code := l.podgrace(t, "status"); code != 1 || !strings.Contains(out, l.a.Name) || !strings.Contains(out, l.namespace+"/db-0") {
		t.Errorf("the status has exit code %d", code)
	}
	l.a.writes(t, l.pod.UID)
	select {
	case err := <-killed:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(soon):
		t.Fatal("the power is not ordered off")
	}
	l.step(t, "cut off: the power is ordered off, the fencer is killed")
	if fence, err := l.fence(t.Context()); err != nil || fence.Status.Attempt == nil || fence.Status.Phase != v1alpha1.FenceActing {
		t.Errorf("the attempt was not written before the order: %+v, %v", fence, err)
	}
	l.a.writes(t, l.pod.UID)
	l.startFencer(t)

	suite.EventuallyWithin(t, soon, "the machine to be off", func(context.Context) (bool, error) { return !l.a.Powered(), nil })
	l.step(t, "cut off: the machine is off")
	if len(l.b.records(t)) > 0 {
		t.Error("the pod ran on the other machine before this one was off")
	}
	var receipts v1alpha1.FenceReceiptList
	suite.EventuallyWithin(t, soon, "the receipt", func(ctx context.Context) (bool, error) {
		err := l.Client.List(ctx, &receipts)
		return len(receipts.Items) > 0, err
	})
	atReceipt := len(l.a.records(t))
	l.step(t, "cut off: receipt")
	if r := receipts.Items[0].Spec; r.Class != v1alpha1.EvidencePoweredOff || len(r.ReadBacks) != 2 || r.Identity != v1alpha1.IdentityVerified {
		t.Errorf("the receipt: %+v", r)
	}
	l.phase(t, v1alpha1.FenceReleased)
	l.step(t, "cut off: released")
	var now corev1.Pod
	suite.EventuallyWithin(t, soon, "the pod to run on "+l.b.Name, func(ctx context.Context) (bool, error) {
		err := l.Client.Get(ctx, client.ObjectKeyFromObject(l.pod), &now)
		return now.UID != l.pod.UID && now.Spec.NodeName == l.b.Name && now.Status.Phase == corev1.PodRunning, client.IgnoreNotFound(err)
	})
	l.step(t, "cut off: the pod runs on "+l.b.Name)
	l.b.writes(t, now.UID)
	if got := len(l.a.records(t)); got != atReceipt {
		t.Errorf("%d records of the old boot after its receipt", got-atReceipt)
	}
	for _, r := range l.b.records(t) {
		if !strings.HasPrefix(r, string(now.UID)+" ") {
			t.Fatalf("on %s wrote %s", l.b.Name, r)
		}
	}
	t.Logf("records: %d on %s, %d on %s; the power was ordered off %d times", atReceipt, l.a.Name, len(l.b.records(t)), l.b.Name, l.a.ordered.Load())
}

// askedFor has a person ask for the machine with the pod, which is well: within the same budget, and on the same evidence. No other machine takes the pod.
func (l *lab) askedFor(t *testing.T) {
	var before corev1.Pod
	if err := l.Client.Get(t.Context(), client.ObjectKeyFromObject(l.pod), &before); err != nil {
		t.Fatal(err)
	}
	m, other := l.a, l.b
	if before.Spec.NodeName == l.b.Name {
		m, other = l.b, l.a
	}
	if err := l.Client.Patch(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: other.Name}}, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"unschedulable":true}}`))); err != nil {
		t.Fatal(err)
	}
	if out, code := l.podgrace(t, "fence", m.Name, "--dry-run"); code != 0 || !strings.Contains(out, "Nothing was written") || !strings.Contains(out, "its pods run, and end with its power") {
		t.Errorf("the dry run has exit code %d", code)
	}
	if !m.Powered() {
		t.Fatal("a dry run powers off")
	}
	l.began = time.Now()
	if _, code := l.podgrace(t, "fence", m.Name, "--yes"); code != 0 {
		t.Fatalf("it was not asked for: exit code %d", code)
	}
	fence := l.phase(t, v1alpha1.FenceReleased)
	l.step(t, "asked for: released")
	if m.Powered() || fence.Spec.Node.Name != m.Name || fence.Spec.Reason != v1alpha1.FenceRequested {
		t.Errorf("%s has power: %v; the Fence: %+v", m.Name, m.Powered(), fence.Spec)
	}
	records := len(m.records(t))
	suite.Eventually(t, "a pod that waits for a machine", func(ctx context.Context) (bool, error) {
		var now corev1.Pod
		err := l.Client.Get(ctx, client.ObjectKeyFromObject(l.pod), &now)
		return now.Name != "" && now.Spec.NodeName == "" && now.Status.Phase == corev1.PodPending, client.IgnoreNotFound(err)
	})
	if got := len(m.records(t)); got != records {
		t.Errorf("%d records of a machine that is off", got-records)
	}
}
