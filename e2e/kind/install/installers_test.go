package install

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The certificate modes, by the names of the overlays.
const (
	selfManaged = "selfmanaged"
	certManager = "certmanager"
)

// installer is a way to install Podgrace in a certificate mode.
type installer struct {
	name   string
	apply  func(ctx context.Context, w *world, mode, version string) error // installs or upgrades
	remove func(ctx context.Context, w *world, mode, version string) error // does not wait: waitRemoved does
}

var (
	kustomize = installer{
		name: "kustomize",
		apply: func(ctx context.Context, w *world, mode, version string) error {
			folder, err := w.overlay(mode, version)
			if err != nil {
				return err
			}
			if _, err := w.Kubectl(ctx, "apply", "--server-side", "--kustomize="+folder); err != nil {
				return err
			}
			// As the changelog says: a version before had it here, and kubectl deletes nothing.
			if w.hasEnforcerApart(version) {
				_, err = w.Kubectl(ctx, "delete", "--ignore-not-found", "--namespace="+namespace, "daemonset,serviceaccount", "podgrace-nodeenforcer")
			}
			return err
		},
		remove: func(ctx context.Context, w *world, mode, version string) error {
			folder, err := w.overlay(mode, version)
			if err != nil {
				return err
			}
			_, err = w.Kubectl(ctx, "delete", "--wait=false", "--kustomize="+folder)
			return err
		},
	}
	helm = helmWith()
)

// helmWith installs by the chart with more values. The images are on the node by the names that Docker gives to what has no registry.
func helmWith(values ...string) installer {
	return installer{
		name: "Helm",
		apply: func(ctx context.Context, w *world, mode, version string) error {
			modes := map[string]string{selfManaged: "self-managed", certManager: "cert-manager"}
			args := []string{"upgrade", "--install", "podgrace", filepath.Join(w.lab.Dir, version, "deploy", "chart", "podgrace"),
				"--namespace=" + namespace, "--create-namespace", "--set=images.registry=docker.io/", "--set=images.tag=" + version, "--set=certificates.mode=" + modes[mode], "--set=nodeEnforcer.enabled=true", "--wait", "--timeout=4m"}
			if w.enforcerComponent(version) == enforcingComponent {
				args = append(args, "--set=nodeEnforcer.mode=Enforce")
			}
			if version == current {
				args = append(args, "--set=fencer.enabled=true")
			}
			for _, v := range values {
				args = append(args, "--set="+v)
			}
			_, err := w.Helm(ctx, args...)
			return err
		},
		remove: func(ctx context.Context, w *world, _, version string) error {
			if _, err := w.Helm(ctx, "uninstall", "podgrace", "--namespace="+namespace, "--timeout=3m"); err != nil {
				return err
			}
			if _, err := w.Kubectl(ctx, "delete", "namespace", namespace, "--wait=false"); err != nil {
				return err
			}
			// Helm keeps them. The next installation is of a cluster that has none, and kubectl's server-side apply of another version's would be in conflict with Helm.
			_, err := w.Kubectl(ctx, append([]string{"delete", "--ignore-not-found", "--wait=false"}, definitions...)...)
			return err
		},
	}
}

// waitRemoved returns when everything that remove deletes is gone. The webhook's replicas serve for half a minute after their deletion.
func (w *world) waitRemoved(ctx context.Context) error {
	_, namespaceErr := w.Kubectl(ctx, "delete", "--ignore-not-found", "--timeout=3m", "namespace", namespace, nodeNamespace)
	_, definitionsErr := w.Kubectl(ctx, append([]string{"delete", "--ignore-not-found", "--timeout=3m"}, definitions...)...)
	return errors.Join(namespaceErr, definitionsErr)
}

// definitions are the CustomResourceDefinitions of all programs, as kubectl takes them.
var definitions = []string{
	"customresourcedefinitions", "podpolicies.podgrace.dev", "nodepolicies.podgrace.dev", "policyexceptions.podgrace.dev", "fencereceipts.podgrace.dev",
	"fencepolicies.podgrace.dev", "fenceagents.podgrace.dev", "fences.podgrace.dev", "volumelocks.podgrace.dev",
}

// overlay is what a user writes: deploy's overlay with the images of a version and the node enforcer, and in the current one the fencer: an upgrade brings it.
func (w *world) overlay(mode, version string) (string, error) {
	folder := filepath.Join(w.lab.Dir, "overlay-"+mode+"-"+version)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", fmt.Errorf("writing an overlay: %w", err)
	}
	text := fmt.Sprintf(`apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources: [../%[1]s/deploy/overlays/%[2]s]
images:
- {name: registry.invalid/podgrace/webhook, newName: podgrace/webhook, newTag: %[1]s}
- {name: registry.invalid/podgrace/nodeenforcer, newName: podgrace/nodeenforcer, newTag: %[1]s}
- {name: registry.invalid/podgrace/fencer, newName: podgrace/fencer, newTag: %[1]s}
# As an earlier version calls them.
- {name: podgrace/webhook, newTag: %[1]s}
- {name: podgrace/nodeenforcer, newTag: %[1]s}
- {name: podgrace/fencer, newTag: %[1]s}
`, version, mode)
	var components []string
	if w.hasEnforcerApart(version) {
		components = append(components, "../"+version+"/deploy/components/"+w.enforcerComponent(version))
	}
	if version == current {
		components = append(components, "../"+version+"/deploy/components/fencer")
	}
	if len(components) > 0 {
		text += "components: [" + strings.Join(components, ", ") + "]\n"
	}
	if err := os.WriteFile(filepath.Join(folder, "kustomization.yaml"), []byte(text), 0o600); err != nil {
		return "", fmt.Errorf("writing an overlay: %w", err)
	}
	return folder, nil
}

// install installs or upgrades, and returns when all of it is ready and the API server trusts the webhook.
func (w *world) install(t *testing.T, i installer, mode, version string) {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() { // the next installation is not to meet this one
			_ = i.remove(context.Background(), w, mode, version)
			_ = w.waitRemoved(context.Background())
		}
	})
	if err := i.apply(t.Context(), w, mode, version); err != nil {
		t.Fatalf("installing the %s version: %v\n%s", version, err, w.state())
	}
	w.waitReady(t, version)
	if version == current {
		w.waitRolledOut(t, namespace, "deployment/podgrace-fencer")
	}
	w.lab.Logf("%s: %s with %s is ready", t.Name(), version, i.name)
}
