package install

import (
	"fmt"
	"testing"

	"github.com/podgrace/podgrace/defaulting/limits"
	"github.com/podgrace/podgrace/e2e/kind"
	"github.com/podgrace/podgrace/e2e/suite"
)

// installation is a way in which Podgrace comes into a cluster, and what is seen of it there.
type installation struct {
	installer installer
	mode      string // of certificates
	from      string // the version before; empty: a cluster that had none
	suites    bool   // the tests run against it that a cluster made for them passes
}

func (i installation) String() string {
	name := i.installer.name + "/" + i.mode
	if i.from != "" {
		name += "/upgrade"
	}
	if i.suites {
		name += "/suites"
	}
	return name
}

// installations are two by default: each value of a property occurs once. PODGRACE_ALL=1 has five: each two values meet, and two installations run the suites. PODGRACE_ALL=combinations has
// every combination.
func installations() []installation {
	switch {
	case kind.Combinations():
		return product()
	case suite.All():
		return []installation{
			{helm, selfManaged, "", true},
			{kustomize, certManager, previous, true},
			{helm, certManager, "", false},
			{helm, selfManaged, previous, false},
			{kustomize, selfManaged, "", false},
		}
	}
	return []installation{
		{helm, selfManaged, previous, false},
		{kustomize, certManager, "", false},
	}
}

// product is every combination.
func product() []installation {
	var all []installation
	for _, i := range []installer{helm, kustomize} {
		for _, mode := range []string{selfManaged, certManager} {
			for _, from := range []string{"", previous} {
				for _, suites := range []bool{true, false} {
					all = append(all, installation{i, mode, from, suites})
				}
			}
		}
	}
	return all
}

// properties are an installation's, without the suites, which run by default in none.
func (i installation) properties() []string {
	return []string{i.installer.name, i.mode, "from " + i.from}
}

// pairs returns each two properties of an installation.
func (i installation) pairs() []string {
	var all []string
	properties := append(i.properties(), fmt.Sprint("suites ", i.suites))
	for n, a := range properties {
		for _, b := range properties[n+1:] {
			all = append(all, a+", "+b)
		}
	}
	return all
}

func TestInstallationsCoverEachProperty(t *testing.T) {
	for all, covered := range map[string]func(installation) []string{"": installation.properties, "1": installation.pairs, "combinations": installation.pairs} {
		t.Run("PODGRACE_ALL="+all, func(t *testing.T) {
			t.Setenv(suite.AllVariable, all)
			found := map[string]bool{}
			for _, i := range installations() {
				for _, p := range covered(i) {
					found[p] = true
				}
			}
			for _, i := range product() {
				for _, p := range covered(i) {
					if !found[p] {
						t.Errorf("no installation has %s", p)
					}
				}
			}
		})
	}
}

// This version on a cluster that had none, as a new user has it: it works, also after all replicas were killed at once. Or after the
// previous one, while pods come and go, and no request fails. What came of it works and is removed without a trace.
func TestInstallations(t *testing.T) {
	w := get(t)
	for _, i := range installations() {
		t.Run(i.String(), func(t *testing.T) {
			w.certManager(t, i.mode)
			if i.from == "" {
				w.install(t, i.installer, i.mode, current)
				w.check(t)
				w.killReplicas(t)
			} else {
				w.install(t, i.installer, i.mode, i.from)
				w.upgradeUnderChurn(t, i.installer, i.mode)
				w.check(t)
			}
			t.Run("smoke", w.smoke)
			if i.suites {
				w.runSuites(t)
			}
			w.uninstall(t, i.installer, i.mode)
		})
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
	if len(failed) > 0 {
		t.Logf("the replicas: %s", w.states(t))
		t.Log(w.state())
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
	// The leader has made these; they refuse nothing any more (docs/install.md).
	if _, err := w.Kubectl(t.Context(), "delete", "--ignore-not-found", "validatingadmissionpolicy,validatingadmissionpolicybinding", limits.Name); err != nil {
		t.Error(err)
	}
	w.checkNothingActs(t) // while the replicas end
	if err := w.waitRemoved(t.Context()); err != nil {
		t.Fatalf("%v\n%s", err, w.state())
	}
	w.checkGone(t)
	if i.name == helm.name { // which runs a Job for that
		w.checkNodesClean(t)
	}
	w.lab.Logf("%s: removed", t.Name())
}
