package deploy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
)

// parent is a chart that has this one as a dependency, in a folder of its own.
func parent(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "charts", "podgrace"), os.DirFS(chart)); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"Chart.yaml":  "apiVersion: v2\nname: platform\nversion: 1.0.0\ndependencies:\n- {name: podgrace, version: 0.1.0, condition: podgrace.enabled}\n",
		"values.yaml": "global: {imageRegistry: mirror.example, imagePullSecrets: [{name: credentials}], storageClass: fast, security: {allowInsecureImages: true}}\npodgrace: {enabled: true}\nother: {a: 1}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// As a dependency of another chart it can be switched by a condition, takes what is global there, and makes the same objects as by itself;
// what is misspelt is refused there too.
func TestSubchart(t *testing.T) {
	dir := parent(t)
	render := func(values ...string) (string, error) {
		return helm(t, append([]string{"template", "podgrace", dir, "--namespace", namespace, "--no-hooks"}, set(values)...)...)
	}
	out, err := render("podgrace."+observing, "podgrace.nodeEnforcer.seLinuxType=spc_t")
	if err != nil {
		t.Fatal(err)
	}
	want := comparable(t, variant{values: []string{observing, "images.registry=mirror.example/", "images.pullSecrets={credentials}", "nodeEnforcer.seLinuxType=spc_t"}}.templated(t, namespace))
	all := objects(t, []byte(out))
	if d := cmp.Diff(want, comparable(t, all)); d != "" {
		t.Errorf("by itself (-), as a dependency (+): %s", d)
	}
	if got := typed[appsv1.Deployment](t, find(t, all, "Deployment", "podgrace-webhook")).Spec.Template.Spec.Containers[0].Image; got != "mirror.example/podgrace/webhook:v0.1.0" {
		t.Errorf("image %s", got)
	}
	if out, err := render("podgrace.enabled=false"); err != nil || strings.TrimSpace(out) != "" {
		t.Errorf("switched off: %v: %s", err, out)
	}
	for _, typo := range []string{"podgrace.enable=true", "podgrace.enabled=maybe", "podgrace.webhook.replica=3", "podgrace.imageRegistry=a"} {
		if _, err := render(typo); err == nil || !strings.Contains(err.Error(), "values don't meet the specifications of the schema") {
			t.Errorf("%s: got %v", typo, err)
		}
	}
}

// Where no condition reads it, enabled: false would leave everything there in silence.
func TestDisabledByItself(t *testing.T) {
	if _, err := helm(t, "template", "podgrace", chart, "--namespace", namespace, "--set", noRegistry, "--set", "enabled=false"); err == nil || !strings.Contains(err.Error(), "it is for the condition of a parent chart's dependency") {
		t.Errorf("enabled=false: got %v", err)
	}
	if _, err := helm(t, "template", "podgrace", chart, "--namespace", namespace, "--set", noRegistry, "--set", "enabled=true"); err != nil {
		t.Error(err)
	}
}
