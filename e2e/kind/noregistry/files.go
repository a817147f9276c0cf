package noregistry

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// writeNodeFiles writes what a node has of its own, beside kind's files.
func writeNodeFiles(root, version string, images []string) error {
	config := filepath.Join(root, "etc/containerd/config.toml")
	text, err := os.ReadFile(config)
	if err != nil {
		return fmt.Errorf("reading containerd's configuration: %w", err)
	}
	pause := ""
	for _, image := range images {
		if strings.Contains(image, "/pause:") {
			pause = image
		}
	}
	for file, content := range map[string]string{
		config:                                                           containerdConfig(string(text), pause),
		filepath.Join(root, "kind/version"):                              version,
		filepath.Join(root, "etc/resolv.conf"):                           "",
		filepath.Join(root, "etc/machine-id"):                            "",
		filepath.Join(root, "etc/cni/net.d/10-kind.conflist"):            network,
		filepath.Join(root, "kind/manifests/default-storage.yaml"):       storage,
		filepath.Join(root, "etc/systemd/journald.conf.d/podgrace.conf"): "[Journal]\nReadKMsg=no\n",
	} {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return fmt.Errorf("writing a node's files: %w", err)
		}
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
			return fmt.Errorf("writing a node's files: %w", err)
		}
	}
	return nil
}

// containerdConfig is kind's, with kubeadm's pause image, and without what a machine that lacks CAP_SYS_RESOURCE can't do
// (a lower oom_score_adj) or this image has not (the hook that hides the machine's name, and what it takes).
func containerdConfig(text, pause string) string {
	text = regexp.MustCompile(`sandbox_image = .*`).ReplaceAllString(text, fmt.Sprintf("sandbox_image = %q", pause))
	text = strings.ReplaceAll(text, "restrict_oom_score_adj = false", "restrict_oom_score_adj = true")
	return regexp.MustCompile(`(?m)^\s*base_runtime_spec = .*\n`).ReplaceAllString(text, "")
}

// network of the one node: routed veth pairs, as kind's own; through a bridge a Service's replies would miss netfilter.
const network = `{"cniVersion": "0.3.1", "name": "kind", "plugins": [
  {"type": "ptp", "ipMasq": true, "mtu": 1500, "ipam": {"type": "host-local", "dataDir": "/run/cni-ipam-state",
   "ranges": [[{"subnet": "` + podSubnet + `"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
  {"type": "portmap", "capabilities": {"portMappings": true}}]}
`

// podSubnet is the node's part of kind's default.
const podSubnet = "10.244.0.0/24"

// storage is a class without a provisioner: kind applies the file, and nothing here takes volumes.
const storage = `apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: standard, annotations: {storageclass.kubernetes.io/is-default-class: "true"}}
provisioner: kubernetes.io/no-provisioner
`
