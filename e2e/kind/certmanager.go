package kind

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/envtest"

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
	module, err := cluster.Command{Dir: root}.Run(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/cert-manager/cert-manager")
	if err != nil {
		return nil, err
	}
	definitions, err := filepath.Glob(filepath.Join(module, "deploy", "crds", "cert-manager.io_*.yaml"))
	if err != nil || len(definitions) == 0 {
		return nil, fmt.Errorf("cert-manager's module %s has no CustomResourceDefinitions", module)
	}
	if _, err := envtest.InstallCRDs(c.Config, envtest.CRDInstallOptions{Paths: definitions, MaxTime: 2 * time.Minute}); err != nil {
		return nil, fmt.Errorf("installing cert-manager's CustomResourceDefinitions: %w", err)
	}
	return cluster.StartProcess("certmanager", filepath.Join(c.lab.Dir, "certmanager.log"), c.lab.certManager, "--kubeconfig="+c.Kubeconfig)
}
