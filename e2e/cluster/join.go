package cluster

import (
	"context"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What follows is for nodes that run elsewhere than StartKubelet's, such as those of e2e/vm.

// ServingCertificate issues the certificate that a kubelet at address serves with, PEM encoded, and returns the
// authority that it and its clients trust.
func (c *Cluster) ServingCertificate(name string, address net.IP) (authority, cert, key []byte, err error) {
	cert, key, err = c.authority.server(name, address)
	return encodeCert(c.authority.cert.Raw), cert, key, err
}

// StopBefore makes Stop stop a node first, before the control plane.
func (c *Cluster) StopBefore(node interface{ Stop() error }) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nodes = append(c.nodes, node)
}

// AwaitNode labels the node as soon as its kubelet has registered it, since a kubelet may not set all labels itself,
// and returns when pods can be bound to it. A Node object may be left from an earlier run of the same name: mine
// says which it is. It fails early when one of the children ends.
func (c *Cluster) AwaitNode(ctx context.Context, name string, labels map[string]string, taints []corev1.Taint, mine func(*corev1.Node) bool, children ...*Process) error {
	if err := c.labelNode(ctx, name, labels, children...); err != nil {
		return err
	}
	return Until(ctx, "node "+name+" to be ready", func(ctx context.Context) (bool, error) {
		node, err := c.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil || !isReady(node) || !mine(node) {
			return false, err
		}
		tainted := slices.ContainsFunc(node.Spec.Taints, isNotReady)
		if tainted && !c.options.ControllerManager {
			return false, c.setTaints(ctx, name, taints)
		}
		return !tainted, nil
	}, children...)
}

func (c *Cluster) labelNode(ctx context.Context, name string, labels map[string]string, children ...*process) error {
	fields := map[string]any{}
	if len(labels) > 0 { // a null would remove the kubelet's own
		fields["metadata"] = map[string]any{"labels": labels}
	}
	return Until(ctx, "node "+name+" to register", func(ctx context.Context) (bool, error) {
		err := c.patchNode(ctx, name, fields)
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil, err
	}, children...)
}

func isReady(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// LogPath is the log file of a child of this name in the cluster's folder.
func (c *Cluster) LogPath(name string) string { return c.logPath(name) }

// Progress is where progress lines go; never nil.
func (c *Cluster) Progress() io.Writer { return c.log }

// Kubelet returns the path of the cluster's kubelet, which it builds if need be. A folder of KUBEBUILDER_ASSETS may lack it.
func (c *Cluster) Kubelet(ctx context.Context) (string, error) {
	dir, err := Binaries(ctx, c.log, "kubelet")
	if err != nil {
		return "", fmt.Errorf("finding the kubelet: %w", err)
	}
	return filepath.Join(dir, "kubelet"), nil
}
