package deploy

import (
	"maps"
	"os"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
)

// notes is what a version of Helm prints after it has installed the chart with values.
func notes(t *testing.T, version string, values map[string]any) string {
	t.Helper()
	loaded, err := loader.Load(chart)
	if err != nil {
		t.Fatal(err)
	}
	capabilities := common.DefaultCapabilities.Copy()
	capabilities.HelmVersion.Version = version
	release := common.ReleaseOptions{Name: "podgrace", Namespace: namespace}
	given := map[string]any{"images": map[string]any{"registry": "registry.invalid/"}}
	maps.Copy(given, values)
	all, err := util.ToRenderValues(loaded, given, release, capabilities)
	if err != nil {
		t.Fatal(err)
	}
	files, err := engine.Render(loaded, all)
	if err != nil {
		t.Fatal(err)
	}
	return files["podgrace/templates/NOTES.txt"]
}

// The notes are 15 lines at most, whatever is on, and true: they have the sentence of the docs on what is refused in an outage, and name no path of a clone.
func TestNotesAreShortAndTrue(t *testing.T) {
	const refused = "unsafe removals of pods in namespaces that a policy which denies selects, and unsafe removals of Nodes and attached volumes"
	text, err := os.ReadFile("../../docs/operations.md")
	if err != nil || !strings.Contains(strings.Join(strings.Fields(string(text)), " "), refused) {
		t.Fatalf("docs/operations.md has another sentence (%v)", err)
	}
	all := map[string]any{
		"nodeEnforcer": map[string]any{"enabled": true}, "webhook": map[string]any{"hostNetwork": true}, "crds": map[string]any{"keep": true},
		"volumeLock": map[string]any{"enabled": true, "drivers": []any{"example.com"}},
	}
	for _, version := range []string{"v3.22.0", "v4.2.4"} {
		for name, values := range map[string]map[string]any{"default": nil, "everything": all} {
			got := notes(t, version, values)
			if lines := strings.Count(strings.TrimSpace(got), "\n") + 1; lines > 15 || !strings.Contains(got, refused) || !strings.Contains(got, "\nTo uninstall: helm uninstall podgrace -n podgrace-system\n") || strings.Contains(got, "deploy/") {
				t.Errorf("Helm %s, %s: %d lines:\n%s", version, name, lines, got)
			}
		}
	}
	if got := notes(t, "v4.2.4", all); !strings.Contains(got, "kubectl -n podgrace-node rollout status daemonset/podgrace-nodeenforcer") {
		t.Errorf("the node enforcer is somewhere else:\n%s", got)
	}
}
