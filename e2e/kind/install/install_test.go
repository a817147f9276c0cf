package install

import (
	"testing"
)

// In both certificate modes: what kustomize installs works, and is removed without a trace.
func TestKustomize(t *testing.T) {
	w := get(t)
	for _, mode := range []string{selfManaged, certManager} {
		t.Run(mode, func(t *testing.T) {
			w.certManager(t, mode)
			w.install(t, installers[0], mode, current)
			w.check(t)
			w.uninstall(t, installers[0], mode)
		})
	}
}

// In both certificate modes: Helm installs the previous version and upgrades it, while pods come and go, and no request
// fails.
func TestHelmUpgrade(t *testing.T) {
	w := get(t)
	for _, mode := range []string{selfManaged, certManager} {
		t.Run(mode, func(t *testing.T) {
			w.certManager(t, mode)
			w.install(t, installers[1], mode, previous)
			w.applyPolicies(t)
			pods := w.startChurn(t)
			w.install(t, installers[1], mode, current)
			w.waitReplaced(t, current)
			n, failed := pods.end()
			for _, err := range failed {
				t.Error(err)
			}
			w.lab.Logf("%s: upgrade under churn: %d pods made and force-deleted, %d failed requests", t.Name(), n, len(failed))
			w.check(t)
			w.uninstall(t, installers[1], mode)
		})
	}
}

// certManager starts cert-manager for a test that needs it.
func (w *world) certManager(t *testing.T, mode string) {
	t.Helper()
	if mode != certManager {
		return
	}
	process, err := w.StartCertManager(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := process.Exited(); err != nil {
			t.Error(err)
		}
		if err := process.Stop(); err != nil {
			t.Error(err)
		}
	})
}

// uninstall removes it and sees what is left.
func (w *world) uninstall(t *testing.T, i installer, mode string) {
	t.Helper()
	if err := i.remove(t.Context(), w, mode, current); err != nil {
		t.Fatalf("%v\n%s", err, w.state())
	}
	w.checkGone(t)
	w.lab.Logf("%s: removed", t.Name())
}
