package kind

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/podgrace/podgrace/e2e/cluster"
)

// clusterName is kind's name of the cluster, and part of its container's.
const clusterName = "podgrace"

// Node is the name of the cluster's one node, and of its container.
const Node = clusterName + "-control-plane"

// Cluster is a running kind cluster of one node.
type Cluster struct {
	// Kubeconfig is a file with the administrator's rights, Config what it says.
	Kubeconfig string
	Config     *rest.Config

	lab   *Lab
	image string
}

// Create creates the cluster. It returns when the node is Ready.
func (l *Lab) Create(ctx context.Context) (*Cluster, error) {
	image, err := strings.TrimPrefix(os.Getenv(imageVariable), "default"), error(nil)
	if !registryReached() {
		if image, err = l.nodeImage(ctx); err != nil {
			return nil, err
		}
	}
	l.Logf("node image is there")
	c := &Cluster{Kubeconfig: filepath.Join(l.Dir, "kubeconfig"), lab: l, image: image}
	config := filepath.Join(l.Dir, "kind.yaml")
	if err := os.WriteFile(config, []byte(clusterConfig(!registryReached())), 0o600); err != nil {
		return nil, fmt.Errorf("writing kind's configuration: %w", err)
	}
	args := []string{"create", "cluster", "--config=" + config, "--kubeconfig=" + c.Kubeconfig, "--wait=3m", "--retain"}
	if image != "" {
		args = append(args, "--image="+image)
	}
	if err := l.runKind(ctx, args...); err != nil {
		ctx := context.WithoutCancel(ctx)
		return nil, errors.Join(err, l.diagnose(ctx), c.Delete(ctx))
	}
	if c.Config, err = clientcmd.BuildConfigFromFlags("", c.Kubeconfig); err != nil {
		return nil, errors.Join(fmt.Errorf("reading the kubeconfig: %w", err), c.Delete(ctx))
	}
	c.Config.QPS, c.Config.Burst = -1, -1 // no limit of our own
	l.Logf("cluster is up")
	return c, nil
}

// clusterConfig is kind's configuration. There is one of each controller, so they elect no leader: one that could not renew its lease in
// time, on a machine that does other things besides, would end itself. And etcd does not wait for the disk, as envtest's does not either: nobody needs what is in it after a crash, and where many write to the disk
// it would give up on requests ("etcdserver: request timed out"). Our image has a network of its own and no CoreDNS, and a containerd that has to be told
// where registries are described, as kind's own looks there by itself.
func clusterConfig(ours bool) string {
	text := `kind: Cluster
apiVersion: kind.x-k8s.io/v1alpha4
nodes: [{role: control-plane}]
kubeadmConfigPatches:
- |
  kind: KubeletConfiguration
  failCgroupV1: false
- |
  kind: ClusterConfiguration
  controllerManager: {extraArgs: [{name: leader-elect, value: "false"}]}
  scheduler: {extraArgs: [{name: leader-elect, value: "false"}]}
  etcd: {local: {extraArgs: [{name: unsafe-no-fsync, value: "true"}]}}
`
	if ours {
		text += `- |
  kind: InitConfiguration
  skipPhases: [preflight, addon/coredns]
networking: {disableDefaultCNI: true}
containerdConfigPatches:
- |
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "/etc/containerd/certs.d"
`
	}
	return text
}

// Load copies images of the daemon to the node.
func (c *Cluster) Load(ctx context.Context, images ...string) error {
	return c.lab.runKind(ctx, append([]string{"load", "docker-image"}, images...)...)
}

// Kubectl runs kubectl and returns its output.
func (c *Cluster) Kubectl(ctx context.Context, args ...string) (string, error) {
	flags := []string{"--kubeconfig=" + c.Kubeconfig, "--cache-dir=" + filepath.Join(c.lab.Dir, "kubectl")}
	return cluster.Run(ctx, c.lab.programs+"/kubectl", append(flags, args...)...)
}

// Shell is the environment in which a user types: kubectl, helm and docker are on the PATH.
func (c *Cluster) Shell(dir string) ([]string, error) {
	for name, program := range map[string]string{"kubectl": c.lab.programs + "/kubectl", "helm": c.lab.helm} {
		if err := os.Symlink(program, filepath.Join(dir, name)); err != nil {
			return nil, fmt.Errorf("linking %s: %w", name, err)
		}
	}
	env := c.lab.Docker.Environment()
	for i, v := range env {
		if path, ok := strings.CutPrefix(v, "PATH="); ok {
			env[i] = "PATH=" + dir + string(filepath.ListSeparator) + path
		}
	}
	return append(env, "HOME="+dir), nil
}

// Helm runs helm and returns its output.
func (c *Cluster) Helm(ctx context.Context, args ...string) (string, error) {
	home := filepath.Join(c.lab.Dir, "helm")
	env := []string{"KUBECONFIG=" + c.Kubeconfig, "HELM_CACHE_HOME=" + home, "HELM_CONFIG_HOME=" + home, "HELM_DATA_HOME=" + home}
	return cluster.Command{Env: env}.Run(ctx, c.lab.helm, args...)
}

// Delete deletes the cluster.
func (c *Cluster) Delete(ctx context.Context) error {
	if err := c.lab.runKind(ctx, "delete", "cluster", "--kubeconfig="+c.Kubeconfig); err != nil {
		return err
	}
	if c.lab.Docker.daemon == nil {
		return nil
	}
	return c.lab.Docker.trim(ctx, c.image)
}

func (l *Lab) runKind(ctx context.Context, args ...string) error {
	env := append(l.Docker.Environment(), "KIND_CLUSTER_NAME="+clusterName)
	_, err := cluster.Command{Env: env}.Run(ctx, l.kind, args...)
	return err
}

// diagnose is an error with what the node of a cluster that did not start has to say.
func (l *Lab) diagnose(ctx context.Context) error {
	out, err := l.Docker.Run(ctx, "exec", Node, "sh", "-c", "systemctl --failed; journalctl --no-pager -u kubelet -u containerd | tail -40; crictl ps -a 2>/dev/null")
	if err != nil {
		out, _ = l.Docker.Run(ctx, "logs", Node)
	}
	return errors.New(strings.TrimSpace(out))
}
