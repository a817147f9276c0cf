package cluster

import (
	"encoding/json"
	"fmt"
	"net"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
)

// The names by which what a node leaves in the kernel is found again. There is one real node on a machine at a
// time: the kubelet's folder for device plugins is fixed, and so may be these.
const (
	nodeHome       = "/var/lib/podgrace"
	nodeDir        = nodeHome + "/node"
	nodeSocket     = nodeDir + "/containerd.sock"
	nodeCgroup     = "podgrace"
	nodeBridge     = "podgrace0"
	nodeSubnet     = "10.207.0.0/24"
	nodeNetmask    = "/24"
	networkPlugins = "/usr/lib/cni"
	podLogs        = nodeDir + "/logs"
)

// nodeAddress is the bridge's, because a kubelet refuses loopback. It is an address of this machine only.
var nodeAddress = net.IPv4(10, 207, 0, 1)

// containerdConfig is a containerd which shares nothing with one that the host may run. Sandboxes want a lower
// oom_score_adj than ours, which takes CAP_SYS_RESOURCE; restrict_oom_score_adj keeps ours where it is missing.
// One that is started again takes a container for dead, and ends it, if its shim does not answer in time: 5 s by default, which is short on a machine that is busy.
func containerdConfig(snapshotter string) string {
	return fmt.Sprintf(`version = 2
root = %q
state = %q
oom_score = 0
disabled_plugins = ["io.containerd.internal.v1.opt", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.devmapper"]
[grpc]
  address = %q
[timeouts]
  "io.containerd.timeout.shim.load" = "2m"
  "io.containerd.timeout.shim.cleanup" = "1m"
  "io.containerd.timeout.shim.shutdown" = "1m"
  "io.containerd.timeout.task.state" = "1m"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = %q
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  disable_apparmor = true
[plugins."io.containerd.grpc.v1.cri".containerd]
  snapshotter = %q
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
  SystemdCgroup = false
  Root = %q
[plugins."io.containerd.grpc.v1.cri".cni]
  bin_dir = %q
  conf_dir = %q
`, nodeDir+"/containerd", nodeDir+"/state", nodeSocket, PauseImage, snapshotter, nodeDir+"/runc", networkPlugins, nodeDir+"/cni")
}

// networkConfig puts pods on our bridge. They get no default route and no masquerading: the bridge's subnet, and
// with it the kubelet's probes, is all that they reach. isGateway would turn on forwarding for the whole host.
func networkConfig() ([]byte, error) {
	return json.MarshalIndent(map[string]any{
		"cniVersion": "0.4.0",
		"name":       nodeBridge,
		"plugins": []any{map[string]any{
			"type": "bridge", "bridge": nodeBridge, "isGateway": false, "ipMasq": false,
			"ipam": map[string]any{"type": "host-local", "subnet": nodeSubnet, "gateway": nodeAddress.String(), "dataDir": nodeDir + "/ipam"},
		}},
	}, "", "  ")
}

// kubeletPorts are the free ports that the kubelet listens on.
type kubeletPorts struct{ server, health int }

// kubeletConfig is the kubelet's configuration file. It leaves the host's swap, disk and iptables alone, and
// never evicts for the host's own state.
func kubeletConfig(pki string, ports kubeletPorts, taints []corev1.Taint) map[string]any {
	return map[string]any{
		"apiVersion": "kubelet.config.k8s.io/v1beta1",
		"kind":       "KubeletConfiguration",
		"authentication": map[string]any{
			"anonymous": map[string]any{"enabled": false},
			"webhook":   map[string]any{"enabled": true},
			"x509":      map[string]any{"clientCAFile": filepath.Join(pki, "ca.crt")},
		},
		"authorization":     map[string]any{"mode": "Webhook"},
		"tlsCertFile":       filepath.Join(pki, "kubelet-server.crt"),
		"tlsPrivateKeyFile": filepath.Join(pki, "kubelet-server.key"),
		"address":           nodeAddress.String(),
		"port":              ports.server,
		"readOnlyPort":      0,
		"healthzPort":       ports.health,

		"containerRuntimeEndpoint": "unix://" + nodeSocket,
		"cgroupDriver":             "cgroupfs",
		"cgroupRoot":               "/" + nodeCgroup,
		"failCgroupV1":             false,
		"failSwapOn":               false,
		"oomScoreAdj":              0, // a lower one takes CAP_SYS_RESOURCE
		"makeIPTablesUtilChains":   false,
		"protectKernelDefaults":    false, // hostState puts back what the kubelet sets

		"staticPodPath":   nodeDir + "/static",
		"podLogsDir":      podLogs,
		"volumePluginDir": nodeDir + "/volumeplugins",
		"resolvConf":      "",
		"clusterDomain":   "cluster.local",
		"clusterDNS":      []string{"10.96.0.10"}, // nobody is there; without one each pod gets a warning

		"evictionHard": map[string]string{
			"memory.available": "1Mi", "nodefs.available": "1Mi", "nodefs.inodesFree": "1", "imagefs.available": "1Mi", "imagefs.inodesFree": "1",
		},
		"imageGCHighThresholdPercent": 100, // never: no registry has our images
		"registerWithTaints":          taints,
	}
}
