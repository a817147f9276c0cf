package kind

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/podgrace/podgrace/e2e/cluster"
)

// buildCertManager compiles cert-manager's controllers (package certmanager) into dir.
func buildCertManager(ctx context.Context, dir string) (string, error) {
	program := filepath.Join(dir, "certmanager")
	return program, cluster.GoBuild(ctx, program, "e2e/kind/certmanager")
}

// StartCertManager installs cert-manager's CustomResourceDefinitions and starts its controllers, as a process beside the
// cluster.
func (c *Cluster) StartCertManager(ctx context.Context) (*cluster.Process, error) {
	root, err := cluster.ModuleRoot()
	if err != nil {
		return nil, err
	}
	module, err := command{dir: root}.run(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/cert-manager/cert-manager")
	if err != nil {
		return nil, err
	}
	definitions, err := filepath.Glob(filepath.Join(module, "deploy", "crds", "cert-manager.io_*.yaml"))
	if err != nil || len(definitions) == 0 {
		return nil, fmt.Errorf("cert-manager's module %s has no CustomResourceDefinitions", module)
	}
	for _, file := range definitions {
		if _, err := c.Kubectl(ctx, "apply", "--server-side", "--filename="+file); err != nil {
			return nil, err
		}
	}
	// Not kubectl wait: one that has no conditions at all yet is an error for it.
	err = cluster.Until(ctx, "cert-manager's CustomResourceDefinitions", func(ctx context.Context) (bool, error) {
		states, err := c.Kubectl(ctx, "get", "crd", "--output=jsonpath={.items[*].status.conditions[?(@.type=='Established')].status}",
			"certificates.cert-manager.io", "issuers.cert-manager.io", "certificaterequests.cert-manager.io", "clusterissuers.cert-manager.io")
		return states == "True True True True", err
	})
	if err != nil {
		return nil, err
	}
	return cluster.StartProcess("certmanager", filepath.Join(c.lab.Dir, "certmanager.log"), c.lab.certManager, "--kubeconfig="+c.Kubeconfig)
}
