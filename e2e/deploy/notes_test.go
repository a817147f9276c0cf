package deploy

import (
	"maps"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
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

// configurationsFirst is what people with Helm 3 are told to do before they uninstall: its releaseutil.UninstallOrder lacks the
// webhook configurations (v3.17 to v3.22), so that they go last. TestHelmRelease runs it.
var configurationsFirst = []string{"delete", "mutatingwebhookconfigurations,validatingwebhookconfigurations", "-l", "app.kubernetes.io/part-of=podgrace"}

// The notes say how to uninstall with the Helm that prints them.
func TestNotesOnUninstall(t *testing.T) {
	byHand, itself := "\n  kubectl "+strings.Join(configurationsFirst, " ")+"\n  helm uninstall podgrace -n podgrace-system\n", "helm uninstall removes the webhook configurations first."
	for version, has := range map[string]bool{"v3.17.0": true, "v3.22.0": true, "v3.22.0-rc.1": true, "v4.0.0-beta.1": false, "v4.0.0": false, "v4.2.4": false} {
		text := notes(t, version, nil)
		if strings.Contains(text, byHand) != has || strings.Contains(text, itself) == has || strings.Count(text, "uninstall") != 1+strings.Count(text, "To uninstall, ") {
			t.Errorf("Helm %s:\n%s", version, text)
		}
	}
}

// The notes name every path of removal that the API server refuses while the webhook is away.
func TestNotesNameWhatFailsClosed(t *testing.T) {
	_, told, _ := strings.Cut(notes(t, "v4.0.0", nil), "the API server refuses")
	told, _, _ = strings.Cut(strings.Join(strings.Fields(told), " "), ".")
	as := map[string]string{
		"delete": "force deletes of pods", "finalizer": "force deletes of pods", "eviction": "evictions with a grace period of 0", "status": "statuses that end a pod",
		"enforcer": "evictions by node enforcers", "node": "every DELETE of a Node", "out-of-service": "the out-of-service taint", "volume-attachment": "DELETEs of VolumeAttachments",
	}
	configuration := typed[admissionregistrationv1.ValidatingWebhookConfiguration](t, find(t, variants[0].templated(t, namespace), "ValidatingWebhookConfiguration", "podgrace"))
	for _, w := range configuration.Webhooks {
		if *w.FailurePolicy != admissionregistrationv1.Fail {
			continue
		}
		name := strings.TrimSuffix(w.Name, ".removal.podgrace.dev")
		if as[name] == "" || !strings.Contains(told, as[name]) {
			t.Errorf("%s: %q is not in %q", w.Name, as[name], told)
		}
		delete(as, name)
	}
	if len(as) > 0 {
		t.Errorf("no webhooks of these names: %v", as)
	}
}
