package vm

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/yaml"

	"github.com/podgrace/podgrace/e2e/cluster"
)

// guestDir has a guest's configuration.
const guestDir = "/etc/podgrace"

// KubeletConfigFile is the kubelet's configuration in the guest, read at its start.
const KubeletConfigFile = guestDir + "/kubelet.yaml"

// KubeletCA is the file in the guest of who signed the kubelet's serving certificate, which names the node.
const KubeletCA = guestDir + "/ca.crt"

// kubeletConfig is what differs from the kubelet's own defaults, but for what change does.
func kubeletConfig(taints []corev1.Taint, change func(*kubeletv1beta1.KubeletConfiguration)) ([]byte, error) {
	config := &kubeletv1beta1.KubeletConfiguration{
		TypeMeta: metav1.TypeMeta{APIVersion: kubeletv1beta1.SchemeGroupVersion.String(), Kind: "KubeletConfiguration"},
		Authentication: kubeletv1beta1.KubeletAuthentication{
			Anonymous: kubeletv1beta1.KubeletAnonymousAuthentication{Enabled: new(false)},
			Webhook:   kubeletv1beta1.KubeletWebhookAuthentication{Enabled: new(true)},
			X509:      kubeletv1beta1.KubeletX509Authentication{ClientCAFile: KubeletCA},
		},
		Authorization:     kubeletv1beta1.KubeletAuthorization{Mode: kubeletv1beta1.KubeletAuthorizationModeWebhook},
		TLSCertFile:       guestDir + "/kubelet.crt",
		TLSPrivateKeyFile: guestDir + "/kubelet.key",

		ContainerRuntimeEndpoint: "unix:///run/containerd/containerd.sock",
		CgroupDriver:             "systemd",
		StaticPodPath:            "/etc/kubernetes/manifests",
		MakeIPTablesUtilChains:   new(false), // nobody needs them, and each call costs a tenth of a second here
		ResolverConfig:           new(""),
		ClusterDomain:            "cluster.local",
		ClusterDNS:               []string{"10.96.0.10"}, // nobody is there; without one each pod gets a warning

		ImageGCHighThresholdPercent: new(int32(100)), // never: no registry has our images
		RegisterWithTaints:          taints,
	}
	if change != nil {
		change(config)
	}
	text, err := yaml.Marshal(config)
	if err != nil {
		return nil, fmt.Errorf("encoding the kubelet's configuration: %w", err)
	}
	return text, nil
}

// networkConfig puts pods on a bridge in the guest. They reach the API server with the guest's address, by a rule that is
// there from boot on (podgrace-network.service): a plugin that adds one for each pod takes seconds in a guest.
func networkConfig(subnet string) ([]byte, error) {
	return json.MarshalIndent(map[string]any{
		"cniVersion": "0.4.0",
		"name":       "podgrace",
		"plugins": []any{map[string]any{
			"type": "bridge", "bridge": "pods0", "isGateway": true, "ipMasq": false,
			"ipam": map[string]any{"type": "host-local", "subnet": subnet, "routes": []any{map[string]any{"dst": "0.0.0.0/0"}}},
		}},
	}, "", "  ")
}

// guestKubeconfig is a kubeconfig for a user that works inside a guest, with all it needs in it.
func guestKubeconfig(c *cluster.Cluster, user string, groups ...string) ([]byte, error) {
	path, err := c.KubeconfigFor(user, groups...)
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.LoadFromFile(path)
	if err != nil {
		return nil, fmt.Errorf("making a kubeconfig for the guest: %w", err)
	}
	for _, c := range config.Clusters {
		c.Server, c.TLSServerName = "https://"+guestAPIServer, "localhost"
	}
	text, err := clientcmd.Write(*config)
	if err != nil {
		return nil, fmt.Errorf("making a kubeconfig for the guest: %w", err)
	}
	return text, nil
}

// apiServerPort is the API server's on the host's loopback.
func apiServerPort(config *rest.Config) (string, error) {
	address, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return "", fmt.Errorf("finding the API server's port: %w", err)
	}
	return address.Port(), nil
}
