package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// kubeletRoot is the kubelet's --root-dir.
const kubeletRoot = nodeDir + "/kubelet"

// cleanTimeout bounds the removal of what a node leaves.
const cleanTimeout = time.Minute

// KubeletOptions describe a real node.
type KubeletOptions struct {
	// Name of the Node object; the default is "node".
	Name   string
	Labels map[string]string
	Taints []corev1.Taint
	// Images are docker archives to import besides PauseImage; see BuildImage.
	Images []string
	// APIServer is the URL by which the kubelet reaches the API server; empty: the cluster's own.
	APIServer string
}

// Node is a running kubelet with its own containerd.
type Node struct {
	Name string
	// StaticPodDir is where the kubelet looks for manifests of static pods.
	StaticPodDir string
	// CgroupRoot is the kubelet's cgroupRoot, below which kubepods is; CgroupDriver is cgroupfs.
	CgroupRoot string
	// Address and Port are where the kubelet serves, Socket is containerd's.
	Address string
	Port    int
	Socket  string
	// KubeletLog and ContainerdLog are log files in the cluster's folder.
	KubeletLog, ContainerdLog string

	cluster             *Cluster
	options             KubeletOptions
	program             string // the kubelet
	ports               kubeletPorts
	kubelet, containerd *process
	unlock              func()
	stopOnce            sync.Once
	stopErr             error
}

// StartKubelet starts a real node and returns when it is ready and its taints are the given ones. There can be one
// on a machine at a time: it waits for another to stop. NodeSupported reports whether the machine is fit.
func (c *Cluster) StartKubelet(ctx context.Context, options KubeletOptions) (_ *Node, err error) {
	if err := NodeSupported(); err != nil {
		return nil, err
	}
	if options.Name == "" {
		options.Name = "node"
	}
	n := &Node{
		Name: options.Name, StaticPodDir: nodeDir + "/static", CgroupRoot: "/" + nodeCgroup, Address: nodeAddress.String(), Socket: nodeSocket,
		KubeletLog: c.logPath("kubelet-" + options.Name), ContainerdLog: c.logPath("containerd-" + options.Name),
		cluster: c, options: options,
	}
	if n.program, err = c.Kubelet(ctx); err != nil { // which may build it: others may have the host meanwhile
		return nil, err
	}
	begin := time.Now()
	for _, step := range []func(context.Context) error{
		n.takeHost, n.writeFiles, n.startContainerd, n.importImages, n.runKubelet, n.waitReady,
	} {
		if err := step(ctx); err != nil {
			return nil, fmt.Errorf("starting node %s: %w", n.Name, errors.Join(err, n.Stop()))
		}
	}
	c.StopBefore(n)
	fmt.Fprintf(c.log, "node %s ready after %.1fs\n", n.Name, time.Since(begin).Seconds())
	return n, nil
}

// Stop ends the node as a power cut does: kubelet, then containers, without their grace. The Node object stays.
// It leaves nothing on the host. A second call does nothing.
func (n *Node) Stop() error {
	n.stopOnce.Do(func() { n.stopErr = n.stop() })
	return n.stopErr
}

func (n *Node) stop() error {
	if n.unlock == nil {
		return nil // it never had the host
	}
	defer n.unlock()
	ctx, cancel := context.WithTimeout(context.Background(), waitTimeout)
	defer cancel()
	errs := []error{n.kubelet.stop()}
	if n.containerd != nil {
		n.killTasks(ctx)
	}
	errs = append(errs, n.containerd.stop(), cleanNode(ctx))
	return errors.Join(errs...)
}

// StopKubelet stops the kubelet only; its containers run on, as behind a crash or a partition.
func (n *Node) StopKubelet() error { return n.kubelet.stop() }

// RestartKubelet starts the kubelet again after StopKubelet, and waits until it is healthy.
func (n *Node) RestartKubelet(ctx context.Context) error {
	if err := n.kubelet.stop(); err != nil {
		return err
	}
	return n.runKubelet(ctx)
}

// KillKubelet ends the kubelet as the kernel's OOM killer would. RestartKubelet starts it again.
func (n *Node) KillKubelet() error { return n.kubelet.Kill() }

// KubeletPID is the kubelet's process.
func (n *Node) KubeletPID() int { return n.kubelet.PID() }

// KubeletExited returns nil while the kubelet runs, and afterwards why it ended.
func (n *Node) KubeletExited() error { return n.kubelet.Exited() }

// KillContainerd ends containerd as the kernel's OOM killer would. The containers run on: each has a shim of its own.
func (n *Node) KillContainerd() error { return n.containerd.Kill() }

// RestartContainerd starts containerd again after KillContainerd, and returns when it answers.
func (n *Node) RestartContainerd(ctx context.Context) error { return n.startContainerd(ctx) }

// ContainerdPID is containerd's process.
func (n *Node) ContainerdPID() int { return n.containerd.PID() }

// ContainerdExited returns nil while containerd runs, and afterwards why it ended.
func (n *Node) ContainerdExited() error { return n.containerd.Exited() }

// takeHost waits for the machine, removes what a killed node may have left, and makes network and cgroups.
func (n *Node) takeHost(ctx context.Context) (err error) {
	if err := os.MkdirAll(nodeHome, 0o700); err != nil {
		return fmt.Errorf("making the node's folder: %w", err)
	}
	if n.unlock, err = Lock(ctx, nodeHome+"/lock", n.cluster.log); err != nil {
		return err
	}
	if err := cleanNode(ctx); err != nil {
		return err
	}
	if err := rememberHost(); err != nil {
		return err
	}
	mountinfo, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return fmt.Errorf("reading the mounts: %w", err)
	}
	if err := makeCgroups(cgroupMounts(string(mountinfo))); err != nil {
		return err
	}
	return makeNetwork(ctx)
}

// writeFiles writes the configuration of containerd, of the network and of the kubelet.
func (n *Node) writeFiles(context.Context) (err error) {
	for _, sub := range []string{"cni", "pki", "static", "kubelet", "logs"} {
		if err := os.MkdirAll(filepath.Join(nodeDir, sub), 0o755); err != nil {
			return fmt.Errorf("making the node's folder: %w", err)
		}
	}
	for _, port := range []struct {
		address string
		number  *int
	}{{n.Address, &n.ports.server}, {loopback, &n.ports.health}} {
		if *port.number, err = FreePort(port.address); err != nil {
			return err
		}
	}
	n.Port = n.ports.server
	if err := n.writePKI(nodeDir + "/pki"); err != nil {
		return err
	}
	network, err := networkConfig()
	if err != nil {
		return fmt.Errorf("encoding the network's configuration: %w", err)
	}
	config, err := yaml.Marshal(kubeletConfig(nodeDir+"/pki", n.ports, n.options.Taints))
	if err != nil {
		return fmt.Errorf("encoding the kubelet's configuration: %w", err)
	}
	for name, text := range map[string][]byte{
		"containerd.toml": []byte(containerdConfig(snapshotter(nodeDir))), "cni/10-bridge.conflist": network, "kubelet.yaml": config,
	} {
		if err := os.WriteFile(filepath.Join(nodeDir, name), text, 0o600); err != nil {
			return fmt.Errorf("configuring the node: %w", err)
		}
	}
	return nil
}

// writePKI issues the certificate that the kubelet serves with, and brings the authority that it trusts.
func (n *Node) writePKI(dir string) error {
	if err := n.cluster.authority.write(dir); err != nil {
		return err
	}
	certPEM, keyPEM, err := n.cluster.authority.server(n.Name, nodeAddress)
	if err != nil {
		return err
	}
	return writePair(dir, "kubelet-server", certPEM, keyPEM)
}

func (n *Node) startContainerd(ctx context.Context) (err error) {
	n.containerd, err = startProcess("containerd", n.ContainerdLog, "containerd", "--config", nodeDir+"/containerd.toml")
	if err != nil {
		return err
	}
	return Until(ctx, "containerd", func(ctx context.Context) (bool, error) {
		_, err := n.ctr(ctx, "version")
		return err == nil, nil
	}, n.containerd)
}

func (n *Node) importImages(ctx context.Context) error {
	pause := nodeDir + "/pause.tar"
	if err := BuildImage(ctx, PauseImage, "e2e/cluster/pause", pause); err != nil {
		return err
	}
	for _, archive := range append([]string{pause}, n.options.Images...) {
		if _, err := n.ctr(ctx, "images", "import", "--snapshotter", snapshotter(nodeDir), archive); err != nil {
			return err
		}
	}
	return nil
}

func (n *Node) runKubelet(ctx context.Context) error {
	kubeconfig, err := n.cluster.KubeconfigFor("system:node:"+n.Name, "system:nodes")
	if err != nil {
		return err
	}
	if n.options.APIServer != "" {
		if err := Redirect(kubeconfig, n.options.APIServer, kubeconfig); err != nil {
			return err
		}
	}
	n.kubelet, err = startProcess("kubelet", n.KubeletLog, n.program,
		"--config="+nodeDir+"/kubelet.yaml", "--kubeconfig="+kubeconfig, "--root-dir="+kubeletRoot, "--cert-dir="+nodeDir+"/pki",
		"--hostname-override="+n.Name, "--node-ip="+n.Address, "--v=2")
	if err != nil {
		return err
	}
	url := fmt.Sprintf("http://%s:%d/healthz", loopback, n.ports.health)
	return Until(ctx, "the kubelet", healthy(url), n.kubelet, n.containerd)
}

// waitReady returns when pods can be bound to the node. One of an earlier run of the same name had another port.
func (n *Node) waitReady(ctx context.Context) error {
	mine := func(node *corev1.Node) bool { return node.Status.DaemonEndpoints.KubeletEndpoint.Port == int32(n.Port) }
	return n.cluster.AwaitNode(ctx, n.Name, n.options.Labels, n.options.Taints, mine, n.kubelet, n.containerd)
}

// killTasks ends the containers through containerd, whose shims then end themselves. It does what it can: cleanNode
// kills what is left.
func (n *Node) killTasks(ctx context.Context) {
	ids, err := n.ctr(ctx, "tasks", "list", "--quiet")
	if err != nil {
		return
	}
	for id := range strings.FieldsSeq(ids) {
		_, _ = n.ctr(ctx, "tasks", "delete", "--force", id)
	}
}

// ctr runs containerd's client on the kubelet's namespace.
func (n *Node) ctr(ctx context.Context, args ...string) (string, error) {
	return Run(ctx, "ctr", append([]string{"--address", n.Socket, "--namespace", "k8s.io"}, args...)...)
}

// snapshotter chooses how layers are stacked: an overlay cannot stand on an overlay, which is what a container has.
func snapshotter(dir string) string {
	const overlayMagic = 0x794c7630
	var stat syscall.Statfs_t
	if err := syscall.Statfs(dir, &stat); err == nil && stat.Type == overlayMagic {
		return "native"
	}
	return "overlayfs"
}
