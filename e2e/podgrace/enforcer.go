package podgrace

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/webhook"
)

// EnforcerNamespace is the node enforcers' namespace.
const EnforcerNamespace = "podgrace-node"

// enforcerUser is the node enforcers' service account.
const enforcerUser = "system:serviceaccount:" + EnforcerNamespace + ":podgrace-nodeenforcer"

// BuildEnforcer compiles the node enforcer into a folder and returns the program's path.
func BuildEnforcer(ctx context.Context, dir string) (string, error) {
	return build(ctx, dir, "nodeenforcer")
}

// raceVariable is 1 if the programs are compiled with the race detector, as make race does.
const raceVariable = "PODGRACE_RACE"

// build compiles a program of cmd.
func build(ctx context.Context, dir, name string) (string, error) {
	program := filepath.Join(dir, name)
	if os.Getenv(raceVariable) == "1" {
		return program, cluster.GoBuildRace(ctx, program, "cmd/"+name)
	}
	return program, cluster.GoBuild(ctx, program, "cmd/"+name)
}

// AllowEnforcer makes the node enforcers' namespace and gives their service account its rights to write, and the policy that keeps each to its own node, as deploy has
// them, and what is in more files of deploy.
func AllowEnforcer(ctx context.Context, c *cluster.Cluster, more ...string) error {
	return AllowObserver(ctx, c, append([]string{"components/nodeenforcer-enforce/rbac.yaml"}, more...)...)
}

// AllowObserver is AllowEnforcer without the rights to write.
func AllowObserver(ctx context.Context, c *cluster.Cluster, more ...string) error {
	root, err := cluster.ModuleRoot()
	if err != nil {
		return err
	}
	kube, err := client.New(c.Config, client.Options{Scheme: webhook.NewScheme()})
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	for _, file := range append([]string{"nodeenforcer/namespace.yaml", "nodeenforcer/rbac.yaml", "nodeenforcer/policies.yaml"}, more...) {
		if err := apply(ctx, kube, filepath.Join(root, "deploy", file), nil); err != nil {
			return err
		}
	}
	return nil
}

// DeployEnforcer applies the node enforcers' DaemonSet as deploy has it, but for a change, with what is in more files of deploy.
func DeployEnforcer(ctx context.Context, c *cluster.Cluster, change func(*appsv1.DaemonSet), more ...string) error {
	if err := AllowEnforcer(ctx, c, more...); err != nil {
		return err
	}
	root, err := cluster.ModuleRoot()
	if err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(root, "deploy", "nodeenforcer", "daemonset.yaml"))
	if err != nil {
		return fmt.Errorf("deploy the node enforcer: %w", err)
	}
	var daemonSet appsv1.DaemonSet
	if err := yaml.UnmarshalStrict(text, &daemonSet); err != nil {
		return fmt.Errorf("deploy the node enforcer: %w", err)
	}
	change(&daemonSet)
	kube, err := client.New(c.Config, client.Options{})
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	if err := kube.Create(ctx, &daemonSet); err != nil {
		return fmt.Errorf("deploy the node enforcer: %w", err)
	}
	return nil
}

// enforcerGroups are what every service account of podgrace-node is in.
var enforcerGroups = []string{"system:serviceaccounts", "system:serviceaccounts:podgrace-node"}

// EnforcerKubeconfig is a kubeconfig with the node enforcers' rights, of no node: it may read.
func EnforcerKubeconfig(c *cluster.Cluster) (string, error) {
	return c.KubeconfigFor(enforcerUser, enforcerGroups...)
}

// EnforcerOf is the node enforcer of one node, to be impersonated.
func EnforcerOf(nodeName string) rest.ImpersonationConfig {
	return rest.ImpersonationConfig{UserName: enforcerUser, Groups: enforcerGroups, Extra: map[string][]string{"authentication.kubernetes.io/node-name": {nodeName}}}
}

// EnforcerKubeconfigOf is a kubeconfig of the node enforcer of one node. What a pod's token says of its node no client certificate
// can: the administrator impersonates it.
func EnforcerKubeconfigOf(c *cluster.Cluster, nodeName string) (string, error) {
	config, err := clientcmd.LoadFromFile(c.Kubeconfig)
	if err != nil {
		return "", fmt.Errorf("impersonate the node enforcer of %s: %w", nodeName, err)
	}
	as := EnforcerOf(nodeName)
	for _, user := range config.AuthInfos {
		user.Impersonate, user.ImpersonateGroups, user.ImpersonateUserExtra = as.UserName, as.Groups, as.Extra
	}
	path := filepath.Join(c.Dir, "nodeenforcer-"+nodeName+".kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return "", fmt.Errorf("impersonate the node enforcer of %s: %w", nodeName, err)
	}
	return path, nil
}

// StartEnforcer starts one node enforcer on this machine. It returns at once: WaitReady says when it knows its node, and has compared its cgroups once.
func StartEnforcer(c *cluster.Cluster, program, nodeName string, args ...string) (*Replica, error) {
	kubeconfig, err := EnforcerKubeconfigOf(c, nodeName)
	if err != nil {
		return nil, err
	}
	return LaunchEnforcer(c, program, kubeconfig, nodeName, args...)
}

// LaunchEnforcer is StartEnforcer with a kubeconfig of the caller's, such as one with another way to the API server.
func LaunchEnforcer(c *cluster.Cluster, program, kubeconfig, nodeName string, args ...string) (*Replica, error) {
	return launch(c, "nodeenforcer", program, kubeconfig, append([]string{"--node-name", nodeName}, args...)...)
}
