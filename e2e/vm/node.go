package vm

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"

	"github.com/podgrace/podgrace/e2e/cluster"
)

// Options describe a node.
type Options struct {
	// Name of the Node object; the default is "guest".
	Name   string
	Labels map[string]string
	Taints []corev1.Taint
	// MemoryMiB of the guest, 2048 by default, and CPUs, 1 by default: emulated ones wait for each other, and two cost half as much
	// again as one for the same work.
	MemoryMiB, CPUs int
	// NUMANodes are nodes of memory among which both are divided evenly. 0: the guest has none.
	NUMANodes int
	// ImageDiskMiB is the size of a disk of its own for what containerd has, images and the containers' writable layers: imagefs. 0: it is on the
	// guest's only disk, as nodefs is.
	ImageDiskMiB int
	// UUID is the machine's, which its firmware tells; empty: none of note.
	UUID string
	// RawDisk is a file on the host that is a disk without a file system in the guest, RawDiskDevice: what is written there is on the host at once, whatever becomes of the guest and its
	// network. Empty: there is none. Not with ImageDiskMiB.
	RawDisk string
	// Serves is a TCP port of the guest that the host reaches at the guest's address, besides the kubelet's. 0: there is none.
	Serves int
	// Reaches is where the guest finds at Peer what listens on the host, or what another guest serves: an address with its port. Empty: it reaches nothing but the API server.
	Reaches string
	// Watchdog of the machine; nil: it has none. It takes an image of its own. It does not end a machine that is paused for longer than its timeout, as hardware would: it waits for
	// half of it in vain, and then again for the other half, in which a machine that goes on can feed it (hw/watchdog/wdt_i6300esb.c in QEMU 7.2).
	Watchdog *Watchdog
	// KubeletConfig changes the kubelet's configuration.
	KubeletConfig func(*kubeletv1beta1.KubeletConfiguration)
	// Files by their absolute path in the guest. They are there before any program starts but init.
	Files map[string]File
	// Images are docker archives to import besides cluster.PauseImage and HogImage; see cluster.BuildImage. Each costs
	// about a second.
	Images []string
}

// Node is a running guest with its kubelet.
type Node struct {
	Name string
	// Address is the InternalIP. The host reaches the kubelet there, at port 10250, and nothing else.
	Address string
	// Console is the log of the guest's serial line: the kernel's and systemd's last words. It is in the cluster's
	// folder, which the environment variable KEEP=1 keeps.
	Console string

	cluster  *cluster.Cluster
	options  Options
	dir      string
	slot     *slot
	image    image
	machine  *machine
	bootID   string // of the Node object before this boot
	stopOnce sync.Once
	stopErr  error
}

// Start boots a guest, joins it to the cluster and returns when it is ready and its taints are the given ones. It makes
// the guest's image if need be: some minutes, once. NodeSupported reports whether this machine is fit. The context bounds
// the start only; the node ends with Stop, with the cluster's Stop, or with this process.
func Start(ctx context.Context, c *cluster.Cluster, options Options) (_ *Node, err error) {
	if err := NodeSupported(); err != nil {
		return nil, err
	}
	n := newNode(c, options)
	defer func() {
		if err != nil {
			err = fmt.Errorf("starting node %s: %w", n.Name, errors.Join(err, n.Stop()))
		}
	}()
	kubelet, err := c.Kubelet(ctx)
	if err != nil {
		return nil, err
	}
	builder, err := newBuilder(kubelet, kernelWith(options.Watchdog), c.Progress())
	if err != nil {
		return nil, err
	}
	if n.image, err = builder.image(ctx); err != nil {
		return nil, err
	}
	begin := time.Now()
	for _, step := range []func(context.Context) error{n.remember, n.boot, n.awaitReady} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	c.StopBefore(n)
	fmt.Fprintf(c.Progress(), "node %s, a virtual machine, ready after %.1fs\n", n.Name, time.Since(begin).Seconds())
	return n, nil
}

func newNode(c *cluster.Cluster, options Options) *Node {
	n := &Node{Name: options.Name, cluster: c, options: options}
	if n.Name == "" {
		n.Name = "guest"
	}
	if n.options.MemoryMiB == 0 {
		n.options.MemoryMiB = 2048
	}
	if n.options.CPUs == 0 {
		n.options.CPUs = 1
	}
	n.Console, n.dir = c.LogPath("console-"+n.Name), filepath.Join(c.Dir, "guest-"+n.Name)
	return n
}

// Stop ends the guest as a power cut does. The Node object stays. A second call does nothing.
func (n *Node) Stop() error {
	n.stopOnce.Do(func() { n.stopErr = errors.Join(n.machine.stop(), n.slot.free(), os.RemoveAll(n.dir)) })
	return n.stopErr
}

// PowerOff ends the machine as a power cut does, also one that is paused, and returns once it is off.
func (n *Node) PowerOff() error { return n.machine.process.Kill() }

// Powered reports whether the machine has power: a paused one has.
func (n *Node) Powered() bool { return n.machine.process.Exited() == nil }

// AwaitWatchdog returns once the machine is off: nil where its watchdog ended it. It is stopped when ctx ends before.
func (n *Node) AwaitWatchdog(ctx context.Context) error { return n.machine.awaitWatchdog(ctx) }

// Pause stops the machine's processors, as a hypervisor does, until Continue: it does not know of the time in between.
func (n *Node) Pause() error { return n.machine.process.Signal(syscall.SIGSTOP) }

// Continue ends what Pause began.
func (n *Node) Continue() error { return n.machine.process.Signal(syscall.SIGCONT) }

// Kubeconfig returns a kubeconfig for a user that works inside the guest, also in its pods. It stands for itself: no
// other file is needed.
func (n *Node) Kubeconfig(user string, groups ...string) ([]byte, error) {
	return guestKubeconfig(n.cluster, user, groups...)
}

// TokenKubeconfig returns a kubeconfig for a pod of the guest that is its service account by its own token, which names the node. Where no Service leads to the API server a pod needs it.
func (n *Node) TokenKubeconfig() ([]byte, error) {
	text, err := n.Kubeconfig("nobody")
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.Load(text)
	if err != nil {
		return nil, fmt.Errorf("making a kubeconfig for the guest: %w", err)
	}
	for name := range config.AuthInfos {
		config.AuthInfos[name] = &clientcmdapi.AuthInfo{TokenFile: "/var/run/secrets/kubernetes.io/serviceaccount/token"}
	}
	return clientcmd.Write(*config)
}

// Disconnect drops what the guest and its pods send to the API server, and what comes from there, as a partition does, until Reconnect. Without the second a watch that is there
// goes on: the kubelet would still hear of the deletion of a pod. The filter asks for the way back, which is the hole.
func (n *Node) Disconnect(ctx context.Context) error {
	_, err := n.Run(ctx, "echo 1 >/proc/sys/net/ipv4/conf/all/rp_filter && ip route add blackhole "+guestAPIServerHost)
	return err
}

// Reconnect ends what Disconnect began.
func (n *Node) Reconnect(ctx context.Context) error {
	_, err := n.Run(ctx, "ip route delete blackhole "+guestAPIServerHost)
	return err
}

// RestartKubelet stops the kubelet, starts it again and returns when it is healthy. Containers run on.
func (n *Node) RestartKubelet(ctx context.Context) error {
	if _, err := n.Run(ctx, "systemctl restart kubelet"); err != nil {
		return err
	}
	return cluster.Until(ctx, "the kubelet of "+n.Name, func(ctx context.Context) (bool, error) {
		_, err := n.Run(ctx, "exec 3<>/dev/tcp/127.0.0.1/10248 && printf 'GET /healthz HTTP/1.0\\r\\n\\r\\n' >&3 && grep -q '^ok' <&3")
		return err == nil, nil
	}, n.machine.process)
}

// remember notes which boot a Node object that is left from before is about.
func (n *Node) remember(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(n.cluster.Config)
	if err != nil {
		return err
	}
	list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + n.Name})
	if err != nil {
		return fmt.Errorf("looking for an earlier node: %w", err)
	}
	for _, node := range list.Items {
		n.bootID = node.Status.NodeInfo.BootID
	}
	return nil
}

func (n *Node) boot(ctx context.Context) (err error) {
	if err := os.MkdirAll(n.dir, 0o700); err != nil {
		return fmt.Errorf("making the guest's folder: %w", err)
	}
	if n.slot, err = takeSlot(ctx); err != nil {
		return err
	}
	n.Address = n.slot.address().String()
	seed, err := n.seed()
	if err != nil {
		return err
	}
	port, err := apiServerPort(n.cluster.Config)
	if err != nil {
		return err
	}
	forwards := []string{n.serve(kubeletPort), apiServerForward(port)}
	if n.options.Serves != 0 {
		forwards = append(forwards, n.serve(n.options.Serves))
	}
	if n.options.Reaches != "" {
		host, port, err := net.SplitHostPort(n.options.Reaches)
		if err != nil {
			return fmt.Errorf("what the guest reaches: %w", err)
		}
		forwards = append(forwards, forward(net.JoinHostPort(Peer, port), host, port))
	}
	n.machine, err = startMachine(ctx, machineOptions{
		name: n.Name, dir: n.dir, console: n.Console, image: n.image, seed: seed,
		uuid: n.options.UUID, rawDisk: n.options.RawDisk, watchdog: n.options.Watchdog, imageDiskMiB: n.options.ImageDiskMiB, memoryMiB: n.options.MemoryMiB, cpus: n.options.CPUs, numaNodes: n.options.NUMANodes, forwards: forwards,
	})
	return err
}

// serve has the host reach a port of the guest at its address.
func (n *Node) serve(port int) string {
	return fmt.Sprintf("hostfwd=tcp:%s:%d-%s:%d", n.Address, port, guestAddress, port)
}

// seed makes what this guest finds on its second disk.
func (n *Node) seed() (seed, error) {
	kubeconfig, err := guestKubeconfig(n.cluster, "system:node:"+n.Name, "system:nodes")
	if err != nil {
		return seed{}, err
	}
	authority, cert, key, err := n.cluster.ServingCertificate(n.Name, n.slot.address())
	if err != nil {
		return seed{}, err
	}
	kubelet, err := kubeletConfig(n.options.Taints, n.options.KubeletConfig)
	if err != nil {
		return seed{}, err
	}
	network, err := networkConfig(n.slot.podSubnet())
	if err != nil {
		return seed{}, err
	}
	files := map[string]File{
		guestDir + "/kubeconfig":              {Content: kubeconfig, Mode: 0o600},
		KubeletCA:                             {Content: authority},
		guestDir + "/kubelet.crt":             {Content: cert},
		guestDir + "/kubelet.key":             {Content: key, Mode: 0o600},
		KubeletConfigFile:                     {Content: kubelet},
		"/etc/cni/net.d/10-podgrace.conflist": {Content: network},
		"/etc/hostname":                       {Content: []byte(n.Name + "\n")},
		"/etc/hosts":                          {Content: []byte("127.0.0.1 localhost\n" + n.Address + " " + n.Name + "\n")},
	}
	maps.Copy(files, n.options.Files)
	return seed{environment: environment(n.Name, n.Address, n.slot.podSubnet()), files: files, images: n.options.Images}, nil
}

func (n *Node) awaitReady(ctx context.Context) error {
	mine := func(node *corev1.Node) bool { return node.Status.NodeInfo.BootID != n.bootID }
	err := n.cluster.AwaitNode(ctx, n.Name, n.options.Labels, n.options.Taints, mine, n.machine.process)
	if err != nil {
		return n.diagnose(err)
	}
	return n.machine.awaitShell(ctx)
}

// diagnose adds what the guest says itself, if it still does.
func (n *Node) diagnose(err error) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	text, _ := n.Run(ctx, "systemctl --no-pager --failed; journalctl --no-pager --priority=warning --lines=30")
	return fmt.Errorf("%w; what the guest says:\n%s", n.machine.explain(err), text)
}
