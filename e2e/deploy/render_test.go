package deploy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

const (
	manifests = "../../deploy"
	chart     = manifests + "/chart/podgrace"
	namespace = "podgrace-system"
	// noRegistry is the one that the manifests name: it is nobody's. The chart has none by default, and asks for one.
	noRegistry = "images.registry=registry.invalid/"
)

// variant is one way of installing Podgrace.
type variant struct {
	name    string
	overlay string
	// components are taken in as a person would: their lines in the overlay are there, commented out.
	components []string
	// patched adds the patch to the overlay that docs/install.md has for the component network-policy.
	patched bool
	// gating adds to the overlay the patches that docs/volume-lock.md has for the drivers.
	gating bool
	// excluding adds to the overlay what docs/install.md has for the component exclude-namespaces.
	excluding bool
	// waiting adds to the overlay what docs/install.md has for the component webhook-timeouts.
	waiting bool
	// values for the chart.
	values []string
}

// observing installs the node enforcer, in nodeNamespace, and enforcing one that writes.
const (
	observing     = "nodeEnforcer.enabled=true"
	enforcing     = observing + ",nodeEnforcer.mode=Enforce"
	nodeNamespace = "podgrace-node"
)

var variants = []variant{
	{name: "selfmanaged", overlay: "selfmanaged"},
	{name: "certmanager", overlay: "certmanager", values: []string{"certificates.mode=cert-manager"}},
	{name: "selfmanaged, node enforcer", overlay: "selfmanaged", components: []string{"nodeenforcer-enforce"}, values: []string{enforcing}},
	{name: "certmanager, node enforcer", overlay: "certmanager", components: []string{"nodeenforcer-enforce"}, values: []string{"certificates.mode=cert-manager", enforcing}},
	{name: "selfmanaged, node enforcer that observes", overlay: "selfmanaged", components: []string{"nodeenforcer"}, values: []string{observing}},
	{name: "fencer", overlay: "selfmanaged", components: []string{"fencer"}, values: []string{"fencer.enabled=true"}},
	{name: "fencer with NetworkFence", overlay: "selfmanaged", components: []string{"fencer", "fencer-networkfence"}, values: []string{"fencer.enabled=true", "fencer.networkFence=true"}},
	{name: "volume lock", overlay: "selfmanaged", components: []string{"volumelock"}, values: []string{"volumeLock.enabled=true"}},
	{name: "volume lock with drivers", overlay: "certmanager", components: []string{"volumelock", "monitoring"}, gating: true, values: append(slices.Clone(gatedOfDocs), "certificates.mode=cert-manager", "monitoring.enabled=true")},
	{name: "self-fence", overlay: "selfmanaged", components: []string{"nodeenforcer", "self-fence"}, values: []string{observing, "nodeEnforcer.selfFence.enabled=true"}},
	{name: "OpenShift", overlay: "selfmanaged", components: []string{"nodeenforcer-enforce", "openshift"}, values: []string{enforcing, "openshift.scc.create=true"}},
	{name: "monitoring, node enforcer", overlay: "selfmanaged", components: []string{"nodeenforcer", "monitoring"}, values: []string{"monitoring.enabled=true", observing}},
	{name: "monitoring", overlay: "selfmanaged", components: []string{"monitoring"}, values: []string{"monitoring.enabled=true"}},
	{name: "dashboard", overlay: "selfmanaged", components: []string{"dashboard"}, values: []string{"monitoring.dashboard.enabled=true"}},
	{name: "only the API server", overlay: "selfmanaged", components: []string{"client-ca", "network-policy"}, patched: true, values: append(slices.Clone(apiServersOfDocs), "webhook.clientCA.configMap=podgrace-client-ca")},
	{name: "excluded namespaces", overlay: "selfmanaged", components: []string{"fencer", "exclude-namespaces"}, excluding: true, values: append(slices.Clone(excludedOfDocs), "fencer.enabled=true")},
	{name: "certmanager, excluded namespaces, limits fail closed", overlay: "certmanager", components: []string{"limits-fail-closed", "exclude-namespaces"}, excluding: true, values: append(slices.Clone(excludedOfDocs), "certificates.mode=cert-manager", "limits.failurePolicy=Fail")},
	{name: "timeouts", overlay: "selfmanaged", components: []string{"webhook-timeouts"}, waiting: true, values: []string{"webhook.timeoutSeconds.mutating=10", "webhook.timeoutSeconds.validating=8"}},
	{name: "certmanager, only the API server", overlay: "certmanager", components: []string{"client-ca"}, values: []string{"certificates.mode=cert-manager", "webhook.clientCA.configMap=podgrace-client-ca"}},
}

// withEnforcer is the variant of them that is selfmanaged with the node enforcer.
var withEnforcer = variants[2]

// apiServersOfDocs are the values by which the chart has the addresses that the patch of docs/install.md has.
var apiServersOfDocs = []string{
	"networkPolicy.enabled=true", "networkPolicy.apiServers[0].ipBlock.cidr=192.0.2.10/32", "networkPolicy.apiServers[1].ipBlock.cidr=192.0.2.11/32",
}

// gatedOfDocs are the values by which the chart gates the drivers that the patches of docs/volume-lock.md gate.
var gatedOfDocs = []string{"volumeLock.enabled=true", "volumeLock.drivers={nfs.csi.k8s.io,iscsi.csi.k8s.io}"}

// excludedOfDocs are the values by which the chart excludes the namespaces that the object of docs/install.md has.
var excludedOfDocs = []string{"excludedNamespaces={calico-system,tigera-operator,openshift-*}"}

// objectOfDocs is the one of this kind that docs/install.md has, for kustomize.
func objectOfDocs(t testing.TB, kind string) []byte {
	t.Helper()
	text, err := os.ReadFile("../../docs/install.md")
	if err != nil {
		t.Fatal(err)
	}
	object := regexp.MustCompile("(?s)```yaml\n(apiVersion: [^`]*?kind: " + kind + "\n.*?)```").FindSubmatch(text)
	if object == nil {
		t.Fatalf("docs/install.md has no object %s", kind)
	}
	return object[1]
}

// patchOfDocs is the patch of an object that a page has, as an overlay takes it.
func patchOfDocs(t testing.TB, page, target string) []byte {
	t.Helper()
	text, err := os.ReadFile("../../docs/" + page)
	if err != nil {
		t.Fatal(err)
	}
	patch := regexp.MustCompile("(?s)```yaml\n(patches:\n- target: {" + target + ".*?)```").FindSubmatch(text)
	if patch == nil {
		t.Fatalf("docs/%s has no patch of %s", page, target)
	}
	return patch[1]
}

// folder returns the overlay's folder, in a copy of deploy where the components are taken in.
func (v variant) folder(t testing.TB) string {
	t.Helper()
	root := t.TempDir()
	if err := os.CopyFS(root, os.DirFS(manifests)); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(root, "overlays", v.overlay)
	file := filepath.Join(dir, "kustomization.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, component := range v.components {
		line := regexp.MustCompile(`(?m)^# (- ../../components/` + component + `) `)
		if !line.Match(text) {
			t.Fatalf("%s has no line for %s", file, component)
		}
		text = line.ReplaceAll(text, []byte("$1 "))
	}
	if v.patched {
		text = append(text, patchOfDocs(t, "install.md", "kind: NetworkPolicy")...)
	}
	if v.gating {
		text = append(text, patchOfDocs(t, "volume-lock.md", "kind: Deployment, name: podgrace-volumelock")...)
	}
	for kind, wanted := range map[string]bool{"ExcludedNamespaces": v.excluding, "WebhookTimeouts": v.waiting} {
		if !wanted {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, kind+".yaml"), objectOfDocs(t, kind), 0o600); err != nil {
			t.Fatal(err)
		}
		text = bytes.Replace(text, []byte("resources: [../../base"), []byte("resources: [../../base, "+kind+".yaml"), 1)
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// kustomized returns the variant's objects as kubectl would apply them.
func (v variant) kustomized(t testing.TB) []*unstructured.Unstructured {
	t.Helper()
	return build(t, v.folder(t))
}

// build returns the objects of a kustomization.
func build(t testing.TB, dir string) []*unstructured.Unstructured {
	t.Helper()
	options := krusty.MakeDefaultOptions()
	options.Reorder = krusty.ReorderOptionUnspecified // as the overlay says
	built, err := krusty.MakeKustomizer(options).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		t.Fatal(err)
	}
	text, err := built.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	return objects(t, text)
}

// templated returns the variant's objects as Helm would install them into a namespace.
func (v variant) templated(t testing.TB, in string) []*unstructured.Unstructured {
	t.Helper()
	args := append([]string{"template", "podgrace", chart, "--no-hooks", "--namespace", in, "--set", noRegistry}, set(v.values)...)
	out, ok := rendered[strings.Join(args, " ")]
	if !ok {
		var err error
		if out, err = helm(t, args...); err != nil {
			t.Fatal(err)
		}
		rendered[strings.Join(args, " ")] = out
	}
	return objects(t, []byte(out))
}

// rendered is what helm template printed before, by its arguments.
var rendered = map[string]string{}

func set(values []string) []string {
	var args []string
	for _, value := range values {
		args = append(args, "--set", value)
	}
	return args
}

// objects reads YAML documents.
func objects(t testing.TB, text []byte) []*unstructured.Unstructured {
	t.Helper()
	var all []*unstructured.Unstructured
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		o := &unstructured.Unstructured{}
		if err := decoder.Decode(&o.Object); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		if len(o.Object) > 0 {
			all = append(all, o)
		}
	}
}

// key names an object among others.
func key(o *unstructured.Unstructured) string {
	return fmt.Sprintf("%s %s %s/%s", o.GetAPIVersion(), o.GetKind(), o.GetNamespace(), o.GetName())
}

// comparable are objects by key, as JSON has them, without what is Helm's own.
func comparable(t testing.TB, all []*unstructured.Unstructured) map[string]any {
	t.Helper()
	byKey := map[string]any{}
	for _, o := range all {
		o = o.DeepCopy()
		labels, annotations := o.GetLabels(), o.GetAnnotations()
		for _, helms := range []string{"app.kubernetes.io/managed-by", "app.kubernetes.io/instance", "app.kubernetes.io/version", "helm.sh/chart"} {
			delete(labels, helms)
		}
		delete(annotations, "helm.sh/resource-policy")
		o.SetLabels(orNil(labels))
		o.SetAnnotations(orNil(annotations))
		text, err := json.Marshal(o.Object)
		if err != nil {
			t.Fatal(err)
		}
		var plain any
		if err := json.Unmarshal(text, &plain); err != nil {
			t.Fatal(err)
		}
		if byKey[key(o)] != nil {
			t.Errorf("%s is there twice", key(o))
		}
		byKey[key(o)] = plain
	}
	return byKey
}

// orNil is nil in place of a map without entries, so that it is the same as none.
func orNil(m map[string]string) map[string]string {
	if len(m) == 0 {
		return nil
	}
	return m
}

// helmProgram builds Helm as this module pins it.
var helmProgram = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "podgrace-helm-")
	if err != nil {
		return "", err
	}
	helmDir = dir
	program := filepath.Join(dir, "helm")
	if out, err := exec.Command("go", "build", "-o", program, "helm.sh/helm/v4/cmd/helm").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build Helm: %w: %s", err, out)
	}
	return program, nil
})

// helmDir is what helmProgram made, if it was called.
var helmDir string

// helm3 is the version of Helm 3 that is tested.
const helm3 = "v3.20.2"

// helm3Program installs Helm 3 into the user's cache folder, once per version and with the modules that Helm 3 itself pins. It returns a
// link beside Helm 4, because helmOf keeps Helm's files there.
var helm3Program = sync.OnceValues(func() (string, error) {
	beside, err := helmProgram()
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "podgrace", "helm-"+helm3)
	installed := filepath.Join(dir, "helm")
	if _, err := os.Stat(installed); err != nil {
		if err := installHelm3(dir, installed); err != nil {
			return "", fmt.Errorf("install Helm %s: %w", helm3, err)
		}
	}
	program := filepath.Join(filepath.Dir(beside), "helm3")
	return program, os.Symlink(installed, program)
})

// installHelm3 installs into a temporary folder and renames, so that the cache never has half a program.
func installHelm3(dir, program string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	temp, err := os.MkdirTemp(dir, "install-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	install := exec.Command("go", "install", "helm.sh/helm/v3/cmd/helm@"+helm3)
	install.Env = append(os.Environ(), "CGO_ENABLED=0", "GOBIN="+temp)
	if out, err := install.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return os.Rename(filepath.Join(temp, "helm"), program)
}

// helm runs Helm, which keeps its files to itself. The error has what it wrote to standard error.
func helm(t testing.TB, args ...string) (string, error) {
	t.Helper()
	return helmOf(t, helmProgram, args...)
}

// helmOf is helm by one of its versions.
func helmOf(t testing.TB, version func() (string, error), args ...string) (string, error) {
	t.Helper()
	program, err := version()
	if err != nil {
		t.Fatal(err)
	}
	var out, problems bytes.Buffer
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), program, args...)
	home := filepath.Dir(program)
	cmd.Env = append(os.Environ(), "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("helm %s: %w: %s", strings.Join(args, " "), err, &problems)
	}
	return out.String(), nil
}
