package install

import (
	"testing"
)

// This version on a cluster that had none, as a new user has it: it works, also after all replicas were killed at once, and is
// removed without a trace.
func TestInstall(t *testing.T) {
	w := get(t)
	for _, mode := range []string{selfManaged, certManager} {
		t.Run(mode, func(t *testing.T) {
			w.certManager(t, mode)
			w.install(t, helm, mode, current)
			w.check(t)
			w.killReplicas(t)
			w.uninstall(t, helm, mode)
		})
	}
}

// By each installer, in both certificate modes: the previous version is installed and upgraded, while pods come and go, and no
// request fails. What came of it works and is removed without a trace; Helm's passes, besides, the tests that a cluster made for
// them passes.
func TestUpgrade(t *testing.T) {
	w := get(t)
	for _, i := range []installer{kustomize, helm} {
		for _, mode := range []string{selfManaged, certManager} {
			t.Run(i.name+"/"+mode, func(t *testing.T) {
				w.certManager(t, mode)
				w.install(t, i, mode, previous)
				w.upgradeUnderChurn(t, i, mode)
				w.check(t)
				if i.suites {
					w.runSuites(t)
				}
				w.uninstall(t, i, mode)
			})
		}
	}
}

// upgradeUnderChurn upgrades to the current version while pods come and go.
func (w *world) upgradeUnderChurn(t *testing.T, i installer, mode string) {
	t.Helper()
	w.applyPolicies(t)
	pods := w.startChurn(t)
	w.install(t, i, mode, current)
	w.waitReplaced(t, current)
	n, failed := pods.end()
	for _, err := range failed {
		t.Error(err)
	}
	w.lab.Logf("%s: upgrade under churn: %d pods made and force-deleted, %d failed requests", t.Name(), n, len(failed))
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
