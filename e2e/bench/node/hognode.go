package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/e2e/podgrace"
	"github.com/podgrace/podgrace/e2e/vm"
	"github.com/podgrace/podgrace/webhook"
)

const (
	guestName         = "guest"
	enforcerImage     = "localhost/podgrace/nodeenforcer:1"
	enforcerNamespace = "podgrace-node"
	watcherPath       = "/opt/podgrace/watcher"
	// enforcerKubeconfig is in the guest, alone in its folder: no Service leads to the API server there.
	enforcerKubeconfig = "/etc/podgrace/enforcer/kubeconfig"
)

// bed is a node in a virtual machine with the enforcer on it as deploy has it.
type bed struct {
	*cluster.Cluster
	kube client.Client
	node *vm.Node
}

// startCluster starts a control plane with Podgrace. What is returned ends it.
func startCluster(ctx context.Context, o cluster.Options) (*cluster.Cluster, client.Client, func() error, error) {
	c, err := cluster.Start(ctx, o)
	if err != nil {
		return nil, nil, nil, err
	}
	w, err := podgrace.Install(ctx, c, podgrace.Options{Log: o.Log})
	if err != nil {
		return nil, nil, nil, errors.Join(err, c.Stop())
	}
	stop := func() error { return errors.Join(w.Stop(), c.Stop()) }
	kube, err := client.New(c.Config, client.Options{Scheme: webhook.NewScheme()})
	if err != nil {
		return nil, nil, nil, errors.Join(fmt.Errorf("make a client: %w", err), stop())
	}
	return c, kube, stop, nil
}

// startBed boots the node. What is returned ends all.
func startBed(ctx context.Context, progress io.Writer) (_ *bed, _ func() error, err error) {
	if err := vm.NodeSupported(); err != nil {
		return nil, nil, err
	}
	c, kube, stop, err := startCluster(ctx, cluster.Options{ControllerManager: true, Scheduler: true, Log: progress})
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, stop())
		}
	}()
	archive := filepath.Join(c.Dir, "nodeenforcer.tar")
	if err := cluster.BuildImage(ctx, enforcerImage, "cmd/nodeenforcer", archive); err != nil {
		return nil, nil, err
	}
	b := &bed{Cluster: c, kube: kube}
	if b.node, err = vm.Start(ctx, c, vm.Options{Name: guestName, CPUs: 2, Images: []string{archive}, KubeletConfig: quietKubelet}); err != nil {
		return nil, nil, err
	}
	for _, step := range []func(context.Context) error{b.copyWatcher, b.deploy, b.classes} {
		if err := step(ctx); err != nil {
			return nil, nil, err
		}
	}
	return b, stop, nil
}

// quietKubelet leaves memory to the enforcer, and does not remember a pressure that is over.
func quietKubelet(c *kubeletv1beta1.KubeletConfiguration) {
	c.EvictionHard = evictionHard("50Mi")
	c.EvictionPressureTransitionPeriod = metav1.Duration{Duration: pressureTransition}
}

// evictionHard replaces all the kubelet's own defaults.
func evictionHard(memory string) map[string]string {
	return map[string]string{"memory.available": memory, "nodefs.available": "1%", "imagefs.available": "1%", "nodefs.inodesFree": "1%"}
}

// copyWatcher builds the watcher, which must need nothing of the guest, and puts it there.
func (b *bed) copyWatcher(ctx context.Context) error {
	program := filepath.Join(b.Dir, "bin", "watcher")
	if err := cluster.GoBuild(ctx, program, "e2e/bench/node/watcher"); err != nil {
		return err
	}
	return b.node.Copy(ctx, program, watcherPath, 0o755)
}

// deploy puts the enforcer on the node.
func (b *bed) deploy(ctx context.Context) error {
	config, err := b.node.TokenKubeconfig()
	if err != nil {
		return err
	}
	if err := b.node.Write(ctx, enforcerKubeconfig, config, 0o600); err != nil {
		return err
	}
	if err := podgrace.DeployEnforcer(ctx, b.Cluster, localise); err != nil {
		return err
	}
	return cluster.Until(ctx, "the node enforcer's pod", func(ctx context.Context) (bool, error) {
		var d appsv1.DaemonSet
		err := b.kube.Get(ctx, client.ObjectKey{Namespace: enforcerNamespace, Name: "podgrace-nodeenforcer"}, &d)
		return d.Status.NumberReady == 1, err
	})
}

// localise makes the DaemonSet run in the guest: another image, and the kubeconfig. All else is as deployed.
func localise(d *appsv1.DaemonSet) {
	c := &d.Spec.Template.Spec.Containers[0]
	folder := filepath.Dir(enforcerKubeconfig)
	c.Image, c.ImagePullPolicy = enforcerImage, corev1.PullNever
	c.Args = append(c.Args, "--kubeconfig="+enforcerKubeconfig)
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "kubeconfig", MountPath: folder, ReadOnly: true})
	d.Spec.Template.Spec.Volumes = append(d.Spec.Template.Spec.Volumes, corev1.Volume{
		Name: "kubeconfig", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: folder}},
	})
}

func (b *bed) classes(ctx context.Context) error {
	for name, value := range map[string]int32{"low": 10, "high": 100000} {
		if err := b.kube.Create(ctx, &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value}); err != nil {
			return fmt.Errorf("make PriorityClass %s: %w", name, err)
		}
	}
	return cluster.Until(ctx, "the default service account", func(ctx context.Context) (bool, error) {
		err := b.kube.Get(ctx, client.ObjectKey{Namespace: "default", Name: "default"}, &corev1.ServiceAccount{})
		return err == nil, client.IgnoreNotFound(err)
	})
}

// configureKubelet gives the kubelet another threshold, and restarts it also where it has that one.
func (b *bed) configureKubelet(ctx context.Context, memory string) error {
	files, err := b.node.Read(ctx, vm.KubeletConfigFile)
	if err != nil {
		return err
	}
	var config kubeletv1beta1.KubeletConfiguration
	if err := yaml.Unmarshal([]byte(files[vm.KubeletConfigFile]), &config); err != nil {
		return fmt.Errorf("read the kubelet's configuration: %w", err)
	}
	config.EvictionHard = evictionHard(memory)
	text, err := yaml.Marshal(config)
	if err != nil {
		return fmt.Errorf("write the kubelet's configuration: %w", err)
	}
	if err := b.node.Write(ctx, vm.KubeletConfigFile, text, 0o644); err != nil {
		return err
	}
	return b.node.RestartKubelet(ctx)
}
