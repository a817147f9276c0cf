package vmenforcer

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/e2e/cluster/clustertest"
	"github.com/podgrace/podgrace/e2e/podgrace"
	"github.com/podgrace/podgrace/e2e/suite"
	"github.com/podgrace/podgrace/e2e/vm"
)

const (
	nodeName      = "guest"
	enforcerImage = "localhost/podgrace/nodeenforcer:1"
	// kubeconfig in the guest, for the enforcer: no Service leads to the API server there.
	kubeconfig = "/etc/podgrace-nodeenforcer/kubeconfig"
	token      = "/var/run/secrets/kubernetes.io/serviceaccount/token"
	namespace  = "podgrace-system"
)

// patience is for what happens in the guest: its processor is emulated, and shares two cores with the API server.
const patience = 5 * time.Minute

var shared = &suite.Shared{Tier: "virtual machine", Options: cluster.Options{ControllerManager: true, Scheduler: true}}

func TestMain(m *testing.M) { suite.Main(m, shared) }

var (
	once    sync.Once
	theNode *vm.Node
	onceErr error
)

// ground is the node with the enforcer on it.
type ground struct {
	*suite.Suite
	node *vm.Node
}

func start(t *testing.T) *ground {
	t.Helper()
	clustertest.Require(t, "virtual machine", vm.NodeSupported())
	s := shared.Get(t)
	once.Do(func() { theNode, onceErr = deploy(context.Background(), s) })
	if onceErr != nil {
		t.Fatal(onceErr)
	}
	g := &ground{Suite: s, node: theNode}
	g.ready(t)
	return g
}

// deploy boots the node and puts the enforcer on it as deploy/nodeenforcer has it.
func deploy(ctx context.Context, s *suite.Suite) (*vm.Node, error) {
	archive := filepath.Join(s.Dir, "nodeenforcer.tar")
	if err := cluster.BuildImage(ctx, enforcerImage, "cmd/nodeenforcer", archive); err != nil {
		return nil, err
	}
	node, err := vm.Start(ctx, s.Cluster, vm.Options{
		Name: nodeName, Images: []string{archive},
		KubeletConfig: func(c *kubeletv1beta1.KubeletConfiguration) {
			// The kubelet must not be first: its own eviction is not what is tested.
			c.EvictionHard = map[string]string{"memory.available": "50Mi", "nodefs.available": "1%", "imagefs.available": "1%", "nodefs.inodesFree": "1%"}
			c.VolumeStatsAggPeriod = metav1.Duration{Duration: 10 * time.Second} // a minute is the default, and it takes up to twice that
		},
	})
	if err != nil {
		return nil, err
	}
	config, err := enforcerKubeconfig(node)
	if err != nil {
		return node, err
	}
	if _, err := node.Run(ctx, "mkdir -p "+filepath.Dir(kubeconfig)); err != nil {
		return node, err
	}
	if err := node.Write(ctx, kubeconfig, config, 0o600); err != nil {
		return node, err
	}
	return node, podgrace.DeployEnforcer(ctx, s.Cluster, change)
}

// enforcerKubeconfig is for the service account's own token, which names the node.
func enforcerKubeconfig(node *vm.Node) ([]byte, error) {
	text, err := node.Kubeconfig("nobody")
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.Load(text)
	if err != nil {
		return nil, err
	}
	for name := range config.AuthInfos {
		config.AuthInfos[name] = &clientcmdapi.AuthInfo{TokenFile: token}
	}
	return clientcmd.Write(*config)
}

// change makes the DaemonSet run here: another image, and the kubeconfig. Its rights stay as they are.
func change(d *appsv1.DaemonSet) {
	c := &d.Spec.Template.Spec.Containers[0]
	c.Image, c.ImagePullPolicy = enforcerImage, corev1.PullNever
	c.Args = append(c.Args, "--kubeconfig="+kubeconfig, "--resync=3s")
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "kubeconfig", MountPath: filepath.Dir(kubeconfig), ReadOnly: true})
	d.Spec.Template.Spec.Volumes = append(d.Spec.Template.Spec.Volumes, corev1.Volume{
		Name: "kubeconfig", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: filepath.Dir(kubeconfig)}},
	})
}

// ready returns when the enforcer's pod is.
func (g *ground) ready(t *testing.T) *corev1.Pod {
	t.Helper()
	var p *corev1.Pod
	suite.EventuallyWithin(t, patience, "the node enforcer's pod", func(ctx context.Context) (bool, error) {
		var pods corev1.PodList
		if err := g.Client.List(ctx, &pods, client.InNamespace(namespace), client.MatchingLabels{"app.kubernetes.io/name": "podgrace-nodeenforcer"}); err != nil {
			return false, err
		}
		for i := range pods.Items {
			for _, c := range pods.Items[i].Status.Conditions {
				if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue && pods.Items[i].DeletionTimestamp == nil {
					p = &pods.Items[i]
					return true, nil
				}
			}
		}
		return false, fmt.Errorf("no pod of it is ready: %d pods", len(pods.Items))
	})
	return p
}

// policy makes the node's NodePolicy, which goes with the test.
func (g *ground) policy(t *testing.T, spec v1alpha1.NodePolicySpec) *v1alpha1.NodePolicy {
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
	return p
}

func (g *ground) workspace(t *testing.T) string {
	t.Helper()
	ns := g.Namespace(t)
	g.WaitServiceAccount(t, ns)
	return ns
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

var line = regexp.MustCompile(`(?m)^([^#\s]+|[^#{]+\{[^}]*\}) (\S+)$`)

// metricsPort is the deployed enforcer's.
const metricsPort = 10347

// metric adds up the enforcer's series that begin so.
func (g *ground) metric(ctx context.Context, prefix string) (float64, error) {
	of, err := g.series(ctx, metricsPort, prefix)
	return sum(of), err
}

// series are those that begin so, of the enforcer with this port for metrics.
func (g *ground) series(ctx context.Context, port int, prefix string) (map[string]float64, error) {
	text, err := g.node.Run(ctx, fmt.Sprintf(`exec 3<>/dev/tcp/127.0.0.1/%d; printf 'GET /metrics HTTP/1.0\r\n\r\n' >&3; cat <&3`, port))
	if err != nil {
		return nil, err
	}
	return seriesOf(text, prefix)
}

func seriesOf(text, prefix string) (map[string]float64, error) {
	of := map[string]float64{}
	for _, m := range line.FindAllStringSubmatch(text, -1) {
		if strings.HasPrefix(m[1], prefix) {
			n, err := strconv.ParseFloat(strings.TrimSpace(m[2]), 64)
			if err != nil {
				return nil, err
			}
			of[m[1]] = n
		}
	}
	return of, nil
}

func sum(of map[string]float64) (all float64) {
	for _, n := range of {
		all += n
	}
	return all
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

func (g *ground) explain(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the node enforcer's log:\n%s", g.logs(t))
		}
	})
}

type changePod = func(*corev1.Pod)

// pod has a limit on CPU of no less than 150m: under emulation a container takes minutes to start with less.
func pod(namespace, name, image, requests, limits string, args []string, changes ...changePod) *corev1.Pod {
	list := func(text string) corev1.ResourceList {
		if text == "" {
			return nil
		}
		cpu, memory, _ := strings.Cut(text, "/")
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
	}
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: new(int64(5)), RestartPolicy: corev1.RestartPolicyNever,
			Containers: []corev1.Container{{
				Name: "main", Image: image, ImagePullPolicy: corev1.PullNever, Args: args,
				Resources: corev1.ResourceRequirements{Requests: list(requests), Limits: list(limits)},
			}},
		},
	}
	for _, c := range changes {
		c(p)
	}
	return p
}

func priority(class string) changePod {
	return func(p *corev1.Pod) { p.Spec.PriorityClassName = class }
}

// running makes pods and returns when they run.
func (g *ground) running(t *testing.T, pods ...*corev1.Pod) {
	t.Helper()
	for _, p := range pods {
		g.Create(t, p)
		t.Cleanup(func() { _ = g.Client.Delete(context.Background(), p, client.GracePeriodSeconds(1)) })
	}
	for _, p := range pods {
		suite.EventuallyWithin(t, patience, "pod "+p.Name+" running", func(ctx context.Context) (bool, error) {
			err := g.Client.Get(ctx, client.ObjectKeyFromObject(p), p)
			return p.Status.Phase == corev1.PodRunning && p.Status.ContainerStatuses[0].Started != nil, err
		})
	}
}

// gone returns when the very pod is no more, or has ended.
func (g *ground) gone(t *testing.T, p *corev1.Pod) {
	t.Helper()

	suite.EventuallyWithin(t, patience, "the end of pod "+p.Name, func(ctx context.Context) (bool, error) {
		var now corev1.Pod
		err := g.Client.Get(ctx, client.ObjectKeyFromObject(p), &now)
		return client.IgnoreNotFound(err) == nil && (err != nil || now.UID != p.UID), client.IgnoreNotFound(err)
	})

}

func (g *ground) lives(t *testing.T, pods ...*corev1.Pod) {
	t.Helper()
	for _, p := range pods {
		var now corev1.Pod
		if err := g.Client.Get(t.Context(), client.ObjectKeyFromObject(p), &now); err != nil {
			t.Errorf("pod %s: %v", p.Name, err)
			continue
		}
		if now.UID != p.UID || now.DeletionTimestamp != nil || now.Status.Phase != corev1.PodRunning || now.Status.ContainerStatuses[0].RestartCount != 0 {
			t.Errorf("pod %s did not live on: %s, deleted at %v", p.Name, now.Status.Phase, now.DeletionTimestamp)
		}
	}
}
