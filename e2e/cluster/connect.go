package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Connect returns a cluster that runs already, with all its controllers and its scheduler, such as kind's. The kubeconfig
// must be an administrator's: other users are impersonated. Of the options only Log and Dir count. Stop leaves the cluster,
// and removes the nodes that AddNode added, with their pods.
func Connect(ctx context.Context, kubeconfig string, options Options) (_ *Cluster, err error) {
	c := &Cluster{
		options: Options{ControllerManager: true, Scheduler: true, Log: options.Log, Dir: options.Dir},
		log:     options.Log, heartbeats: map[string]heartbeat{}, foreign: true,
	}
	if c.log == nil {
		c.log = io.Discard
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("connecting to the cluster of %s: %w", kubeconfig, errors.Join(err, c.Stop()))
		}
	}()
	if c.BinDir, err = Binaries(ctx, c.log, "kubectl"); err != nil {
		return nil, err
	}
	if err := c.makeDir(ctx); err != nil {
		return nil, err
	}
	loaded, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	if err := clientcmdapi.FlattenConfig(loaded); err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	c.Kubeconfig = filepath.Join(c.Dir, "admin.kubeconfig")
	if err := clientcmd.WriteToFile(*loaded, c.Kubeconfig); err != nil {
		return nil, fmt.Errorf("writing the kubeconfig: %w", err)
	}
	if c.Config, err = clientcmd.BuildConfigFromFlags("", c.Kubeconfig); err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	c.Config.QPS, c.Config.Burst = userQPS, userBurst
	if c.client, err = kubernetes.NewForConfig(c.Config); err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return c, c.waitReady(ctx)
}

// impersonated is the administrator's configuration in the name of somebody else.
func (c *Cluster) impersonated(name string, groups []string) *rest.Config {
	config := rest.CopyConfig(c.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: name, Groups: groups}
	return config
}

// impersonatedKubeconfig is the same for programs.
func (c *Cluster) impersonatedKubeconfig(name string, groups []string) ([]byte, error) {
	config, err := clientcmd.LoadFromFile(c.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	for _, user := range config.AuthInfos {
		user.Impersonate, user.ImpersonateGroups = name, groups
	}
	return clientcmd.Write(*config)
}

// removeNodes removes what AddNode added to a cluster that outlives the tests. No kubelet ends the pods there.
func (c *Cluster) removeNodes(ctx context.Context, names []string) error {
	var errs []error
	now := metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}
	for _, name := range names {
		if err := c.client.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, err)
			continue
		}
		if err := c.client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, err)
		}
		pods, err := c.client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("spec.nodeName", name).String()})
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for i := range pods.Items {
			pod := &pods.Items[i]
			if err := c.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, now); err != nil && !apierrors.IsNotFound(err) {
				errs = append(errs, err)
			}
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("removing the nodes of the tests: %w", err)
	}
	return nil
}
