package vm

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/e2e/cluster/clustertest"
	"github.com/podgrace/podgrace/e2e/node/enforcer"
	"github.com/podgrace/podgrace/e2e/podgrace"
	"github.com/podgrace/podgrace/e2e/suite"
	"github.com/podgrace/podgrace/e2e/vm"
)

const (
	nodeName      = "guest"
	enforcerImage = "localhost/podgrace/nodeenforcer:1"
	// kubeconfig in the guest, for the enforcer: no Service leads to the API server there.
	kubeconfig = "/etc/podgrace-nodeenforcer/kubeconfig"
	// kubeletCA is beside it: who signs the kubelets' serving certificates, which name the nodes.
	kubeletCA = "/etc/podgrace-nodeenforcer/kubelet-ca.crt"
	// imageRoot is containerd's folder, on the node and where the enforcer looks for it.
	imageRoot = "/var/lib/containerd"
	namespace = "podgrace-node"
)

var shared = &suite.Shared{Options: cluster.Options{ControllerManager: true, Scheduler: true}}

func TestMain(m *testing.M) { suite.Main(m, shared) }

func TestEnforcer(t *testing.T) {
	enforcer.Run(t, func(t *testing.T) *enforcer.Ground { return start(t).Ground })
}

var (
	once    sync.Once
	theNode *vm.Node
	onceErr error
)

// ground is the node with the enforcer on it.
type ground struct {
	*enforcer.Ground
	node *vm.Node
}

func start(t *testing.T) *ground {
	t.Helper()
	clustertest.Require(t, vm.NodeSupported())
	s := shared.Get(t)
	once.Do(func() { theNode, onceErr = deploy(context.Background(), s) })
	if onceErr != nil {
		t.Fatal(onceErr)
	}
	return on(t, s, theNode)
}

// on is the ground of a node.
func on(t *testing.T, s *suite.Suite, node *vm.Node) *ground {
	t.Helper()
	g := &ground{node: node}
	g.Ground = &enforcer.Ground{
		Suite: s, Machine: g, NodeName: node.Name,
		Patience: 5 * time.Minute, // the processor is emulated, and shares two cores with the API server
		LeastCPU: "155m",          // with less a container takes minutes to start; of this systemd rounds the quota
		Shares:   "cpu.weight",
		Weights:  map[int]string{200: "200", 321: "321"},
		Memory:   &v1alpha1.NodeMemory{Protection: v1alpha1.NodeMemoryProtectionTiered, ThrottlePercent: new(int32(90))},
		Tuned:    []string{"memory.low", "memory.min", "memory.high", "memory.max", "oom_score_adj"},
	}
	g.ready(t)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the node enforcer's log:\n%s", g.logs(t))
		}
	})
	return g
}

// deploy boots the node and puts the enforcer on it as deploy/nodeenforcer has it.
func deploy(ctx context.Context, s *suite.Suite) (*vm.Node, error) {
	archive := filepath.Join(s.Dir, "nodeenforcer.tar")
	if err := cluster.BuildImage(ctx, enforcerImage, "cmd/nodeenforcer", archive); err != nil {
		return nil, err
	}
	node, err := boot(ctx, s, vm.Options{Name: nodeName, Images: []string{archive}})
	if err != nil {
		return node, err
	}
	return node, podgrace.DeployEnforcer(ctx, s.Cluster, change)
}

// another is one more node, for this test.
func another(t *testing.T, options vm.Options) *ground {
	t.Helper()
	s := start(t).Suite
	options.Images = []string{filepath.Join(s.Dir, "nodeenforcer.tar")}
	node, err := boot(t.Context(), s, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := node.Stop(); err != nil {
			t.Error(err)
		}
		if err := s.Client.Delete(context.Background(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name}}); err != nil {
			t.Error(err)
		}
	})
	return on(t, s, node)
}

// boot starts a node with what the enforcer needs there.
func boot(ctx context.Context, s *suite.Suite, options vm.Options) (*vm.Node, error) {
	more := options.KubeletConfig
	options.KubeletConfig = func(c *kubeletv1beta1.KubeletConfiguration) {
		// The kubelet must not be first: its own eviction is not what is tested.
		c.EvictionHard = map[string]string{"memory.available": "50Mi", "nodefs.available": "1%", "imagefs.available": "1%", "nodefs.inodesFree": "1%"}
		c.VolumeStatsAggPeriod = metav1.Duration{Duration: 10 * time.Second} // a minute is the default, and it takes up to twice that
		if more != nil {
			more(c)
		}
	}
	node, err := vm.Start(ctx, s.Cluster, options)
	if err != nil {
		return nil, err
	}
	config, err := node.TokenKubeconfig()
	if err != nil {
		return node, err
	}
	if _, err := node.Run(ctx, "mkdir -p "+filepath.Dir(kubeconfig)+" && cp "+vm.KubeletCA+" "+kubeletCA); err != nil {
		return node, err
	}
	return node, node.Write(ctx, kubeconfig, config, 0o600)
}

// change makes the DaemonSet run here: another image, and the kubeconfig. Its rights stay as they are.
func change(d *appsv1.DaemonSet) {
	c := &d.Spec.Template.Spec.Containers[0]
	c.Image, c.ImagePullPolicy = enforcerImage, corev1.PullNever
	c.Args = append(c.Args, "--kubeconfig="+kubeconfig, "--kubelet-ca="+kubeletCA, "--resync=3s")
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "kubeconfig", MountPath: filepath.Dir(kubeconfig), ReadOnly: true})
	// One of the nodes has a disk of its own for what containerd has (TestImageDisk).
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "images", MountPath: imageRoot, ReadOnly: true, MountPropagation: new(corev1.MountPropagationHostToContainer)})
	d.Spec.Template.Spec.Volumes = append(d.Spec.Template.Spec.Volumes, corev1.Volume{
		Name: "images", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: imageRoot, Type: new(corev1.HostPathDirectory)}},
	}, corev1.Volume{
		Name: "kubeconfig", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: filepath.Dir(kubeconfig)}},
	})
}

// ready returns when the enforcer's pod is.
func (g *ground) ready(t *testing.T) *corev1.Pod {
	t.Helper()
	var p *corev1.Pod
	g.Eventually(t, "the node enforcer's pod", func(ctx context.Context) (bool, error) {
		var pods corev1.PodList
		if err := g.Client.List(ctx, &pods, client.InNamespace(namespace), client.MatchingLabels{"app.kubernetes.io/name": "podgrace-nodeenforcer"}); err != nil {
			return false, err
		}
		for i := range pods.Items {
			for _, c := range pods.Items[i].Status.Conditions {
				if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue && pods.Items[i].DeletionTimestamp == nil && pods.Items[i].Spec.NodeName == g.NodeName {
					p = &pods.Items[i]
					return true, nil
				}
			}
		}
		return false, fmt.Errorf("no pod of it is ready: %d pods", len(pods.Items))
	})
	return p
}

// script runs in the guest.
func (g *ground) script(t *testing.T, text string) string {
	t.Helper()
	out, err := g.node.Run(t.Context(), text)
	if err != nil {
		t.Fatalf("%s: %v: %s", text, err, out)
	}
	return strings.TrimSpace(out)
}

// logs are the enforcer's.
func (g *ground) logs(t *testing.T) string {
	t.Helper()
	out, problems, err := g.Kubectl(context.Background(), "logs", "--namespace="+namespace, "--tail=300", "--selector=app.kubernetes.io/name=podgrace-nodeenforcer")
	if err != nil {
		return problems
	}
	return out
}

// gone returns when the very pod is no more, or has ended.
func (g *ground) gone(t *testing.T, p *corev1.Pod) {
	t.Helper()
	g.Eventually(t, "the end of pod "+p.Name, func(ctx context.Context) (bool, error) {
		var now corev1.Pod
		err := g.Client.Get(ctx, client.ObjectKeyFromObject(p), &now)
		return client.IgnoreNotFound(err) == nil && (err != nil || now.UID != p.UID), client.IgnoreNotFound(err)
	})
}
