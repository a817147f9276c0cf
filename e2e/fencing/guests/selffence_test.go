package guests

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/e2e/podgrace"
	"github.com/podgrace/podgrace/e2e/suite"
	"github.com/podgrace/podgrace/e2e/vm"
)

const enforcerImage = "localhost/podgrace/nodeenforcer:1"

// selfFence is the container as the component has it, with the shortest times.
func selfFence(t *testing.T) corev1.Container {
	t.Helper()
	root, err := cluster.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "deploy", "components", "self-fence", "kustomization.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var component struct{ Patches []struct{ Patch string } }
	if err := yaml.Unmarshal(text, &component); err != nil {
		t.Fatal(err)
	}
	var operations []struct{ Value corev1.Container }
	if err := yaml.Unmarshal([]byte(component.Patches[0].Patch), &operations); err != nil {
		t.Fatal(err)
	}
	c := operations[0].Value
	c.Image = enforcerImage
	for flag, value := range map[string]string{"--patience=": "1m", "--timeout=": "15s"} {
		i := slices.IndexFunc(c.Args, func(arg string) bool { return strings.HasPrefix(arg, flag) })
		if i < 0 {
			t.Fatalf("the container has no %s: %q", flag, c.Args)
		}
		c.Args[i] = flag + value
	}
	return c
}

// TestSelfFence: a machine that is cut off is reset by its own watchdog, while its pod writes on. The fencer, which reaches no BMC, reckons when that must have been: no record is written
// after the receipt, and the pod is released by it.
func TestSelfFence(t *testing.T) {
	l := empty(t)
	ctx := t.Context()
	image := filepath.Join(l.Dir, "nodeenforcer.tar")
	if err := cluster.BuildImage(ctx, enforcerImage, "cmd/nodeenforcer", image); err != nil {
		t.Fatal(err)
	}
	l.a = l.machine(t, 3, "machine-w", &vm.Watchdog{}, image)
	container := selfFence(t)
	const kubeconfig = "/etc/self-fence/kubeconfig" // no Service leads to the API server there
	config, err := l.a.TokenKubeconfig()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.a.Run(ctx, "mkdir -p "+filepath.Dir(kubeconfig)); err != nil {
		t.Fatal(err)
	}
	if err := l.a.Write(ctx, kubeconfig, config, 0o600); err != nil {
		t.Fatal(err)
	}
	directory := corev1.HostPathDirectory
	container.Args = append(container.Args, "--kubeconfig="+kubeconfig)
	container.VolumeMounts = []corev1.VolumeMount{{Name: "kubeconfig", MountPath: filepath.Dir(kubeconfig), ReadOnly: true}}
	volume := corev1.Volume{Name: "kubeconfig", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: filepath.Dir(kubeconfig), Type: &directory}}}
	err = podgrace.DeployEnforcer(ctx, l.Cluster, func(d *appsv1.DaemonSet) {
		pod := &d.Spec.Template.Spec
		pod.NodeSelector, pod.Containers, pod.Volumes = map[string]string{"fence": l.a.Name}, []corev1.Container{container}, []corev1.Volume{volume}
	}, "components/self-fence/rbac.yaml")
	if err != nil {
		t.Fatal(err)
	}
	suite.EventuallyWithin(t, soon, "the watchdog to be armed", func(ctx context.Context) (bool, error) {
		n, err := l.node(ctx)
		if err != nil {
			return false, err
		}
		var says v1alpha1.SelfFence
		text := n.Annotations[v1alpha1.AnnotationSelfFence]
		if err := json.Unmarshal([]byte(text), &says); err != nil {
			return false, fmt.Errorf("its annotation: %q", text)
		}
		armed := says.Off == "" && says.BootID == n.Status.NodeInfo.BootID && says.Timeout.Duration == 15*time.Second && says.Watchdog != "" && says.Pausable
		return armed, nil
	})
	l.startFencer(t)
	l.database(t)
	l.Create(t, &v1alpha1.FenceAgent{ObjectMeta: metav1.ObjectMeta{Name: "watchdog"}, Spec: v1alpha1.FenceAgentSpec{
		Type: v1alpha1.AgentWatchdog, Identity: v1alpha1.IdentityVerified, Watchdog: &v1alpha1.WatchdogAgent{NeverPaused: true},
	}})
	l.policyBy(t, v1alpha1.FencePolicyAgent{Name: "watchdog", Timeout: metav1.Duration{Duration: time.Minute}, Attempts: 1, Evidence: []v1alpha1.EvidenceClass{v1alpha1.EvidenceWatchdogExpired}})

	if err := l.a.Disconnect(ctx); err != nil {
		t.Fatal(err)
	}
	l.began = time.Now()
	l.a.writes(t, l.pod.UID) // before it is shown: the last renewal that the machine knows of can be 15 s older than the last one, so that it may be reset first
	l.shown(t, corev1.ConditionTrue)
	l.step(t, "shown")
	within, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	if err := l.a.AwaitWatchdog(within); err != nil {
		t.Fatalf("the machine was not reset by its watchdog: %v", err)
	}
	l.step(t, "reset by its watchdog")
	var before v1alpha1.FenceReceiptList
	if err := l.Client.List(ctx, &before); err != nil || slices.ContainsFunc(before.Items, l.isOfMachine) {
		t.Fatalf("receipts when it was reset: %+v, %v", before.Items, err)
	}
	last := len(l.a.records(t))
	var receipts v1alpha1.FenceReceiptList
	suite.EventuallyWithin(t, soon, "the receipt", func(ctx context.Context) (bool, error) {
		err := l.Client.List(ctx, &receipts)
		return slices.ContainsFunc(receipts.Items, l.isOfMachine), err
	})
	l.step(t, "receipt")
	receipt := receipts.Items[slices.IndexFunc(receipts.Items, l.isOfMachine)]
	if receipt.Spec.Class != v1alpha1.EvidenceWatchdogExpired || len(receipt.Spec.ReadBacks) != 0 {
		t.Errorf("the receipt: %+v", receipt.Spec)
	}
	t.Log(receipt.Spec.Message)
	l.phase(t, v1alpha1.FenceReleased)
	l.step(t, "released")
	suite.EventuallyWithin(t, soon, "another pod", func(ctx context.Context) (bool, error) {
		var now corev1.Pod
		err := l.Client.Get(ctx, client.ObjectKeyFromObject(l.pod), &now)
		return err == nil && now.UID != l.pod.UID, client.IgnoreNotFound(err)
	})
	if got := len(l.a.records(t)); got != last {
		t.Errorf("%d records after the machine was reset", got-last)
	}
}

func (l *lab) isOfMachine(r v1alpha1.FenceReceipt) bool {
	return r.Spec.Node != nil && r.Spec.Node.Name == l.a.Name
}
