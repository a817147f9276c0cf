package partition

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/e2e/podgrace"
	"github.com/podgrace/podgrace/fencing/agents/agentstest"
	"github.com/podgrace/podgrace/webhook"
)

const (
	// nodes are so many that three silent ones are within the 20 % that the example's budget allows.
	nodes = 16
	// driver of the volumes.
	driver = "bench.example.org"
	// soon is how long what takes two or three minutes may take on a busy machine.
	soon = 10 * time.Minute
)

// side is one StatefulSet of one, and when what happened to it, from when its node was cut off; 0: it did not.
type side struct {
	name, id, node string
	pod            *corev1.Pod
	cut            time.Time

	notReady, terminating, order, evidence, gone, runs time.Duration
	// watched is for how long it was seen that the pod runs nowhere else.
	watched time.Duration
}

func newTable(out io.Writer) *tabwriter.Writer {
	return tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
}

// lab is the cluster in which all sides are.
type lab struct {
	*cluster.Cluster
	kube     client.Client
	progress io.Writer
	kubelets *kubelets
	machine  *agentstest.Machine // that the fencer's side is on
	sides    int
	ends     []func() error // in the order in which they were begun
}

func newLab(ctx context.Context, progress io.Writer) (_ *lab, err error) {
	l := &lab{progress: progress}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.stop())
		}
	}()
	c, err := cluster.Start(ctx, cluster.Options{ControllerManager: true, Scheduler: true, Log: progress})
	if err != nil {
		return nil, err
	}
	l.Cluster, l.ends = c, append(l.ends, c.Stop)
	config := rest.CopyConfig(c.Config)
	config.WarningHandler = rest.NoWarnings{}
	if l.kube, err = client.New(config, client.Options{Scheme: webhook.NewScheme()}); err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	if err := l.kube.Create(ctx, &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: driver}, Spec: storagev1.CSIDriverSpec{AttachRequired: new(true)}}); err != nil {
		return nil, fmt.Errorf("make the CSIDriver: %w", err)
	}
	var group errgroup.Group
	for i := range nodes {
		group.Go(func() error { return l.join(ctx, i) })
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	l.kubelets = newKubelets(l.kube)
	working, end := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan error, 1)
	go func() { done <- l.kubelets.run(working) }()
	l.ends = append(l.ends, func() error {
		end()
		return <-done
	})
	return l, nil
}

// stop ends all that was begun, the last first.
func (l *lab) stop() error {
	var errs []error
	for i := range l.ends {
		errs = append(errs, l.ends[len(l.ends)-1-i]())
	}
	l.ends = nil
	return errors.Join(errs...)
}

func nodeName(i int) string { return fmt.Sprintf("node-%d", i) }

func machineUUID(i int) string { return fmt.Sprintf("4c4c4544-0000-1000-8000-%012d", i) }

// join adds a node as its kubelet would.
func (l *lab) join(ctx context.Context, i int) error {
	name := nodeName(i)
	if err := l.AddNode(ctx, name, nil); err != nil {
		return err
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	uuid := fmt.Appendf(nil, `{"status":{"nodeInfo":{"systemUUID":%q}}}`, machineUUID(i))
	if err := l.kube.Status().Patch(ctx, node, client.RawPatch(types.MergePatchType, uuid)); err != nil {
		return fmt.Errorf("say which machine %s is: %w", name, err)
	}
	return l.AttachByController(ctx, name)
}

// side makes the next StatefulSet, on a node of its own, and returns when its pod runs.
func (l *lab) side(ctx context.Context, name string) (*side, error) {
	s := &side{name: name, id: fmt.Sprintf("side-%d", l.sides), node: nodeName(l.sides), pod: &corev1.Pod{}}
	l.sides++
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	once := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	labels := map[string]string{"app": "db"}
	for _, o := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.id}},
		&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: s.id}, Spec: corev1.PersistentVolumeSpec{
			Capacity: size, AccessModes: once, ClaimRef: &corev1.ObjectReference{Namespace: s.id, Name: "data-db-0"}, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: s.id}},
		}},
		&appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: s.id, Name: "db"}, Spec: appsv1.StatefulSetSpec{
			Replicas: new(int32(1)), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				Containers: []corev1.Container{{Name: "main", Image: "localhost/none:1"}},
				Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{
					Weight: 100, Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{s.node}}}},
				}}}},
			}},
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data"}, Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: once, Resources: corev1.VolumeResourceRequirements{Requests: size}, StorageClassName: new(""),
			}}},
		}},
	} {
		if err := l.kube.Create(ctx, o); err != nil {
			return nil, fmt.Errorf("make %T %s: %w", o, o.GetName(), err)
		}
	}
	err := cluster.UntilWithin(ctx, soon, "the pod of "+name+" to run", func(ctx context.Context) (bool, error) {
		err := l.kube.Get(ctx, types.NamespacedName{Namespace: s.id, Name: "db-0"}, s.pod)
		return s.pod.Status.Phase == corev1.PodRunning && s.pod.Spec.NodeName == s.node, client.IgnoreNotFound(err)
	})
	return s, err
}

// await returns how long after its node was cut off something was so of the side.
func (l *lab) await(ctx context.Context, s *side, what string, is func(context.Context) (bool, error)) (time.Duration, error) {
	if err := cluster.UntilWithin(ctx, soon, what+" ("+s.name+")", is); err != nil {
		return 0, err
	}
	took := time.Since(s.cut)
	fmt.Fprintf(l.progress, "%6.1f s: %s: %s\n", took.Seconds(), s.name, what)
	return took, nil
}

// cutOff cuts the node of a side off, and returns when Kubernetes has it as not ready, and is done with saying so.
func (l *lab) cutOff(ctx context.Context, s *side) (err error) {
	l.kubelets.silence(s.node)
	l.StopHeartbeat(s.node)
	s.cut = time.Now()
	s.notReady, err = l.await(ctx, s, "its node is not ready", func(ctx context.Context) (bool, error) {
		var n corev1.Node
		err := l.kube.Get(ctx, types.NamespacedName{Name: s.node}, &n)
		return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool {
			return t.Key == corev1.TaintNodeUnreachable && t.Effect == corev1.TaintEffectNoExecute
		}), err
	})
	return err
}

// stays returns once so much time has passed since its node was cut off, if its pod is there all the while, and no other.
func (l *lab) stays(ctx context.Context, s *side, until time.Duration) error {
	return cluster.UntilWithin(ctx, until+soon, "the time in which nothing happens", func(ctx context.Context) (bool, error) {
		var pods corev1.PodList
		if err := l.kube.List(ctx, &pods, client.InNamespace(s.id)); err != nil {
			return false, err
		}
		if len(pods.Items) != 1 || pods.Items[0].UID != s.pod.UID || pods.Items[0].Spec.NodeName != s.node {
			return false, fmt.Errorf("%s: its pod was removed or is not alone: %d pods", s.name, len(pods.Items))
		}
		s.watched = time.Since(s.cut)
		if pods.Items[0].DeletionTimestamp != nil && s.terminating == 0 {
			s.terminating = s.watched
			fmt.Fprintf(l.progress, "%6.1f s: %s: its pod is Terminating\n", s.terminating.Seconds(), s.name)
		}
		return s.watched >= until, nil
	})
}

// install installs Podgrace, with a policy for all that are made from now on, and the fencer with the example's policy.
func (l *lab) install(ctx context.Context) error {
	w, err := podgrace.Install(ctx, l.Cluster, podgrace.Options{Log: l.progress})
	if err != nil {
		return err
	}
	l.ends = append(l.ends, w.Stop)
	guards := &v1alpha1.PodPolicy{ObjectMeta: metav1.ObjectMeta{Name: "stateful"}, Spec: v1alpha1.PodPolicySpec{
		Match: &v1alpha1.PodMatch{NamespaceSelector: &v1alpha1.LabelSelector{MatchExpressions: []v1alpha1.LabelSelectorRequirement{
			{Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpIn, Values: []string{"side-1", "side-2"}},
		}}},
		Removal: &v1alpha1.RemovalSection{ForceDelete: v1alpha1.RemovalDeny},
	}}
	if err := l.kube.Create(ctx, guards); err != nil {
		return fmt.Errorf("make the PodPolicy: %w", err)
	}
	if _, _, err := l.Kubectl(ctx, "wait", "podpolicies", "--all", "--for=condition=Ready", "--timeout=60s"); err != nil {
		return err
	}
	if err := cluster.GoBuild(ctx, l.command(), "cmd/podgrace"); err != nil {
		return err
	}
	return l.installFencer(ctx)
}

func (l *lab) command() string { return filepath.Join(l.Dir, "bin", "podgrace") }

// fencerNode is the node that the fencer's side is on, which is the third.
const fencerNode = 2

func (l *lab) installFencer(ctx context.Context) error {
	if err := podgrace.AllowFencer(ctx, l.Cluster); err != nil {
		return err
	}
	l.machine = agentstest.NewMachine(machineUUID(fencerNode))
	server := httptest.NewTLSServer(&agentstest.BMC{Username: "fencer", Password: "not-a-secret", Systems: []agentstest.System{l.machine.System("1")}})
	l.ends = append(l.ends, func() error {
		server.Close()
		return nil
	})
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	secret, agent := podgrace.BMC("rack-1", machineUUID(fencerNode), server.URL, ca)
	policy, err := examplePolicy()
	if err != nil {
		return err
	}
	policy.Spec.Mode = v1alpha1.FenceModeFence
	policy.Spec.NodeSelector = v1alpha1.SetAsLabelSelector(map[string]string{corev1.LabelHostname: nodeName(fencerNode)})
	for _, o := range []client.Object{secret, agent, policy} {
		if err := l.kube.Create(ctx, o); err != nil {
			return fmt.Errorf("make %T %s: %w", o, o.GetName(), err)
		}
	}
	program, err := podgrace.BuildFencer(ctx, filepath.Join(l.Dir, "bin"))
	if err != nil {
		return err
	}
	f, err := podgrace.StartFencer(ctx, l.Cluster, program)
	if err != nil {
		return err
	}
	l.ends = append(l.ends, f.Stop)
	return nil
}

// examplePolicy is the FencePolicy that users begin with.
func examplePolicy() (*v1alpha1.FencePolicy, error) {
	root, err := cluster.ModuleRoot()
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(root, "examples", "fencing", "fencepolicy.yaml"))
	if err != nil {
		return nil, fmt.Errorf("read the example: %w", err)
	}
	var policy v1alpha1.FencePolicy
	if err := yaml.UnmarshalStrict(text, &policy); err != nil {
		return nil, fmt.Errorf("read the example: %w", err)
	}
	return &policy, nil
}

// runsElsewhere returns when the pod of a side is gone, and when another one runs on another node.
func (l *lab) runsElsewhere(ctx context.Context, s *side) (err error) {
	var now corev1.Pod
	look := func(is func() bool) func(context.Context) (bool, error) {
		return func(ctx context.Context) (bool, error) {
			now = corev1.Pod{}
			err := l.kube.Get(ctx, client.ObjectKeyFromObject(s.pod), &now)
			if now.UID == s.pod.UID && now.DeletionTimestamp != nil && s.terminating == 0 {
				s.terminating = time.Since(s.cut)
			}
			return is(), client.IgnoreNotFound(err)
		}
	}
	if s.gone, err = l.await(ctx, s, "the old pod is gone", look(func() bool { return now.UID != s.pod.UID })); err != nil {
		return err
	}
	s.runs, err = l.await(ctx, s, "its pod runs on another node", look(func() bool {
		return now.UID != s.pod.UID && now.Status.Phase == corev1.PodRunning && now.Spec.NodeName != s.node
	}))
	return err
}

// confirmed has a person confirm that the node is off, as soon as it is not ready, and type what that says comes next.
func (l *lab) confirmed(ctx context.Context, s *side) error {
	if err := l.cutOff(ctx, s); err != nil {
		return err
	}
	s.order = time.Since(s.cut)
	said, err := exec.CommandContext(ctx, l.command(), "confirm", "node/"+s.node, "--yes", "--kubeconfig", l.Kubeconfig).CombinedOutput()
	if err != nil {
		return fmt.Errorf("confirm that %s is off: %w: %s", s.node, err, said)
	}
	s.evidence = time.Since(s.cut)
	next := ""
	for line := range strings.Lines(string(said)) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "kubectl taint ") {
			next = strings.TrimPrefix(line, "kubectl ")
		}
	}
	if next == "" {
		return fmt.Errorf("it does not say to taint the node: %s", said)
	}
	if _, _, err := l.Kubectl(ctx, strings.Fields(next)...); err != nil {
		return err
	}
	return l.runsElsewhere(ctx, s)
}

// fenced waits for the fencer.
func (l *lab) fenced(ctx context.Context, s *side) (err error) {
	if err := l.cutOff(ctx, s); err != nil {
		return err
	}
	s.order, err = l.await(ctx, s, "its power is ordered off", func(context.Context) (bool, error) { return l.machine.Offs() > 0, nil })
	if err != nil {
		return err
	}
	s.evidence, err = l.await(ctx, s, "there is a FenceReceipt", func(ctx context.Context) (bool, error) {
		var all v1alpha1.FenceReceiptList
		err := l.kube.List(ctx, &all)
		return slices.ContainsFunc(all.Items, func(r v1alpha1.FenceReceipt) bool { return r.Spec.Node.Name == s.node }), err
	})
	if err != nil {
		return err
	}
	return l.runsElsewhere(ctx, s)
}
