package deploy

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Helm and kustomize install the same objects, but for the Namespace, which helm install --create-namespace makes.
func TestHelmAndKustomizeAreTheSame(t *testing.T) {
	for _, v := range variants {
		t.Run(v.name, func(t *testing.T) {
			want, got := comparable(t, v.kustomized(t)), comparable(t, v.templated(t, namespace))
			if want["v1 Namespace /"+namespace] == nil {
				t.Error("kustomize makes no namespace")
			}
			delete(want, "v1 Namespace /"+namespace)
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("kustomize (-), Helm (+):\n%s", d)
			}
			if len(got) < 20 {
				t.Errorf("only %d objects", len(got))
			}
		})
	}
}

// In another namespace Helm installs the same, there: nothing still names podgrace-system.
func TestAnotherNamespace(t *testing.T) {
	for _, v := range variants {
		want, err := json.Marshal(comparable(t, v.templated(t, namespace)))
		if err != nil {
			t.Fatal(err)
		}
		got, err := json.Marshal(comparable(t, v.templated(t, "elsewhere")))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(got), namespace) {
			t.Errorf("%s: something still names %s", v.name, namespace)
		}
		var inOther, inOwn map[string]any
		if err := json.Unmarshal([]byte(strings.ReplaceAll(string(want), namespace, "elsewhere")), &inOwn); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(got, &inOther); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(inOwn, inOther); d != "" {
			t.Errorf("%s: %s", v.name, d)
		}
	}
}

// find returns the one object of a kind and name.
func find(t testing.TB, all []*unstructured.Unstructured, kind, name string) *unstructured.Unstructured {
	t.Helper()
	for _, o := range all {
		if o.GetKind() == kind && o.GetName() == name {
			return o
		}
	}
	t.Fatalf("no %s %s", kind, name)
	return nil
}

// caBundle is in nothing that is rendered: a tool that applies it again must not empty it.
func TestNothingRenderedHasACABundle(t *testing.T) {
	for _, v := range variants {
		for _, o := range append(v.kustomized(t), v.templated(t, namespace)...) {
			if text, _ := o.MarshalJSON(); o.GetKind() != "CustomResourceDefinition" && strings.Contains(string(text), `"caBundle":`) {
				t.Errorf("%s: %s has a caBundle", v.name, key(o))
			}
		}
	}
}

// The CustomResourceDefinitions outlive the release, unless that is not wanted, or somebody else brings them.
func TestCRDsInTheChart(t *testing.T) {
	for values, want := range map[string]string{"crds.keep=true": "keep", "crds.keep=false": ""} {
		all := variant{values: []string{values}}.templated(t, namespace)
		for _, name := range []string{"podpolicies.podgrace.dev", "nodepolicies.podgrace.dev"} {
			if got := find(t, all, "CustomResourceDefinition", name).GetAnnotations()["helm.sh/resource-policy"]; got != want {
				t.Errorf("%s: %s: got policy %q", values, name, got)
			}
		}
	}
	for _, o := range (variant{values: []string{"crds.install=false"}}).templated(t, namespace) {
		if o.GetKind() == "CustomResourceDefinition" {
			t.Errorf("crds.install=false: %s is there", o.GetName())
		}
	}
}

// What a value says arrives where it is meant.
func TestValues(t *testing.T) {
	all := variant{values: []string{
		"images.registry=registry.example/", "images.tag=v9", "images.pullPolicy=Never", "images.pullSecrets={one,two}",
		"webhook.replicas=3", "webhook.verbosity=4", "webhook.nodeSelector.disk=fast", "webhook.podAnnotations.a=b",
		"webhook.tolerations[0].operator=Exists", "webhook.affinity.podAntiAffinity.x=y", "webhook.resources.requests.cpu=1",
		"nodeEnforcer.verbosity=2", "nodeEnforcer.resources.limits.memory=1Gi", "nodeEnforcer.nodeSelector.pool=a", "nodeEnforcer.podAnnotations.c=d",
		"firstPolicy.create=true",
	}}.templated(t, namespace)
	webhook, enforcer := find(t, all, "Deployment", "podgrace-webhook"), find(t, all, "DaemonSet", "podgrace-nodeenforcer")
	for _, tc := range []struct {
		object *unstructured.Unstructured
		path   string
		want   string
	}{
		{webhook, "spec replicas", `3`},
		{webhook, "spec template metadata annotations", `{"a":"b"}`},
		{webhook, "spec template spec imagePullSecrets", `[{"name":"one"},{"name":"two"}]`},
		{webhook, "spec template spec nodeSelector", `{"disk":"fast","kubernetes.io/os":"linux"}`},
		{webhook, "spec template spec affinity", `{"podAntiAffinity":{"x":"y"}}`},
		{enforcer, "spec template spec nodeSelector", `{"kubernetes.io/os":"linux","pool":"a"}`},
		{enforcer, "spec template metadata annotations", `{"c":"d"}`},
	} {
		got, _, _ := unstructured.NestedFieldNoCopy(tc.object.Object, strings.Fields(tc.path)...)
		if text, _ := json.Marshal(got); string(text) != tc.want {
			t.Errorf("%s: %s is %s, want %s", tc.object.GetName(), tc.path, text, tc.want)
		}
	}
	for object, want := range map[*unstructured.Unstructured][]string{
		webhook:  {`"image":"registry.example/podgrace/webhook:v9"`, `"imagePullPolicy":"Never"`, `"--v=4"`, `"resources":{"requests":{"cpu":1}}`, `{"operator":"Exists"}`},
		enforcer: {`"image":"registry.example/podgrace/nodeenforcer:v9"`, `"imagePullPolicy":"Never"`, `"--v=2"`, `"resources":{"limits":{"memory":"1Gi"}}`},
	} {
		text, _ := object.MarshalJSON()
		for _, part := range want {
			if !strings.Contains(string(text), part) {
				t.Errorf("%s has no %s:\n%s", object.GetName(), part, text)
			}
		}
	}
	find(t, all, "PodPolicy", "first")
	find(t, all, "NodePolicy", "first")
}

// A value that is misspelt or of the wrong kind is refused, and not passed over.
func TestBadValues(t *testing.T) {
	for _, value := range []string{
		"webhok.replicas=3", "webhook.replica=3", "webhook.replicas=0", "webhook.replicas=two", "certificates.mode=acme", "images.pullPolicy=Sometimes",
		"images.registry=registry.example", "nodeEnforcer.enabled=perhaps", "crds.keep=1", "monitoring.enable=true", "webhook.resources.cpu=1",
		"firstPolicy=true", "webhook.verbosity=11",
	} {
		if _, err := helm(t, "template", "podgrace", chart, "--set", value); err == nil || !strings.Contains(err.Error(), "values don't meet the specifications of the schema") {
			t.Errorf("%s: got %v", value, err)
		}
	}
}

func TestHelmLint(t *testing.T) {
	if out, err := helm(t, "lint", "--strict", chart); err != nil {
		t.Error(err, out)
	}
}
