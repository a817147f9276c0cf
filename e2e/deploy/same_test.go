package deploy

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
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

// Helm 3 installs the same as Helm 4. Its last release was in November 2026, and some still use it.
func TestHelm3(t *testing.T) {
	for _, v := range variants {
		t.Run(v.name, func(t *testing.T) {
			out, err := helmOf(t, helm3Program, append([]string{"template", "podgrace", chart, "--namespace", namespace, "--no-hooks", "--kube-version", "1.36.0", "--set", noRegistry}, set(v.values)...)...)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(comparable(t, v.templated(t, namespace)), comparable(t, objects(t, []byte(out)))); d != "" {
				t.Errorf("Helm 4 (-), Helm 3 (+):\n%s", d)
			}
		})
	}
}

// In another namespace Helm installs the same, there: nothing still names podgrace-system.
func TestAnotherNamespace(t *testing.T) {
	for _, v := range variants {
		sameIn(t, v, "elsewhere")
	}
	for _, other := range []string{"123", "1e3", "true", "on", "null"} { // no strings in YAML, but names in Kubernetes
		for _, v := range variants[:2] {
			v.values = append(slices.Clone(v.values), "monitoring.enabled=true")
			sameIn(t, v, other)
		}
	}
}

// sameIn fails where Helm does not install the same into another namespace.
func sameIn(t *testing.T, v variant, other string) {
	t.Helper()
	want, err := json.Marshal(comparable(t, v.templated(t, namespace)))
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(comparable(t, v.templated(t, other)))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(got), namespace) {
		t.Errorf("%s in %s: something still names %s", v.name, other, namespace)
	}
	var inOther, inOwn map[string]any
	if err := json.Unmarshal([]byte(strings.ReplaceAll(string(want), namespace, other)), &inOwn); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(got, &inOther); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(inOwn, inOther); d != "" {
		t.Errorf("%s in %s: %s", v.name, other, d)
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

// The CustomResourceDefinitions are those of what is installed. They outlive the release, unless that is not wanted, or somebody else brings them.
func TestCRDsInTheChart(t *testing.T) {
	for values, want := range map[string]string{"crds.keep=true": "keep", "crds.keep=false": ""} {
		all := variant{values: []string{values}}.templated(t, namespace)
		for _, name := range []string{"podpolicies.podgrace.dev", "nodepolicies.podgrace.dev", "policyexceptions.podgrace.dev"} {
			if got := find(t, all, "CustomResourceDefinition", name).GetAnnotations()["helm.sh/resource-policy"]; got != want {
				t.Errorf("%s: %s: got policy %q", values, name, got)
			}
		}
	}
	always := []string{"fencereceipts.podgrace.dev", "nodepolicies.podgrace.dev", "podpolicies.podgrace.dev", "policyexceptions.podgrace.dev"}
	for values, more := range map[string][]string{
		"crds.install=true": nil, enforcing: nil, "volumeLock.enabled=true": {"volumelocks.podgrace.dev"},
		"fencer.enabled=true": {"fenceagents.podgrace.dev", "fencepolicies.podgrace.dev", "fences.podgrace.dev"},
	} {
		var got []string
		for _, o := range (variant{values: []string{values}}).templated(t, namespace) {
			if o.GetKind() == "CustomResourceDefinition" {
				got = append(got, o.GetName())
			}
		}
		slices.Sort(got)
		if want := slices.Sorted(slices.Values(slices.Concat(always, more))); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", values, got, want)
		}
	}
	for _, o := range (variant{values: []string{"crds.install=false", "fencer.enabled=true", "volumeLock.enabled=true"}}).templated(t, namespace) {
		if o.GetKind() == "CustomResourceDefinition" {
			t.Errorf("crds.install=false: %s is there", o.GetName())
		}
	}
}

// The copies of CSIDrivers that are being recreated outlive the release: a volume of theirs is mounted only once they are there again.
func TestCopiesOutliveTheRelease(t *testing.T) {
	all := variant{values: []string{"volumeLock.enabled=true"}}.templated(t, namespace)
	if got := find(t, all, "ConfigMap", "podgrace-volumelock-csidrivers").GetAnnotations()["helm.sh/resource-policy"]; got != "keep" {
		t.Errorf("got policy %q", got)
	}
}

// helm install without a namespace would take default, and so exempt it from all policies. That is refused, and so is every namespace that others share, unless a value says that it is meant.
func TestSharedNamespaces(t *testing.T) {
	render := func(in, value string) error {
		_, err := helm(t, "template", "podgrace", chart, "--namespace", in, "--set", noRegistry, "--set", value)
		return err
	}
	if _, err := helm(t, "template", "podgrace", chart, "--set", noRegistry); err == nil || !strings.Contains(err.Error(), "the namespace of the release is default") {
		t.Errorf("without a namespace: got %v", err)
	}
	for _, in := range []string{"default", "kube-system", "kube-public", "kube-node-lease"} {
		if err := render(in, "allowSharedNamespace=false"); err == nil || !strings.Contains(err.Error(), "-n podgrace-system --create-namespace") {
			t.Errorf("%s: got %v", in, err)
		}
		if err := render(in, "allowSharedNamespace=true"); err != nil {
			t.Errorf("%s, meant: got %v", in, err)
		}
	}
	if err := render(nodeNamespace, "allowSharedNamespace=true"); err == nil || !strings.Contains(err.Error(), "which is the node enforcer's") {
		t.Errorf("%s: got %v", nodeNamespace, err)
	}
	for _, in := range []string{namespace, "default-2"} {
		if err := render(in, "allowSharedNamespace=false"); err != nil {
			t.Errorf("%s: got %v", in, err)
		}
	}
}

// Who brings the namespace of the node enforcer tells the chart.
func TestNamespaceOfTheNodeEnforcer(t *testing.T) {
	for value, want := range map[string]bool{"nodeEnforcer.createNamespace=true": true, "nodeEnforcer.createNamespace=false": false} {
		all := variant{values: []string{enforcing, value}}.templated(t, "elsewhere")
		got := slices.ContainsFunc(all, func(o *unstructured.Unstructured) bool {
			return o.GetKind() == "Namespace" && o.GetName() == nodeNamespace
		})
		if got != want || find(t, all, "DaemonSet", "podgrace-nodeenforcer").GetNamespace() != nodeNamespace {
			t.Errorf("%s: %v, %s", value, got, find(t, all, "DaemonSet", "podgrace-nodeenforcer").GetNamespace())
		}
	}
}

// What a value says arrives where it is meant.
func TestValues(t *testing.T) {
	all := variant{values: []string{
		enforcing, "images.registry=registry.example/", "images.tag=v9", "images.pullPolicy=Never", "images.pullSecrets={one,two}",
		"webhook.replicas=3", "webhook.verbosity=4", "webhook.nodeSelector.disk=fast", "webhook.podAnnotations.a=b",
		"webhook.tolerations[0].operator=Exists", "webhook.affinity.podAntiAffinity.x=y", "webhook.resources.requests.cpu=1",
		"nodeEnforcer.verbosity=2", "nodeEnforcer.resources.limits.memory=1Gi", "nodeEnforcer.nodeSelector.pool=a", "nodeEnforcer.podAnnotations.c=d",
		"volumeLock.enabled=true", "volumeLock.drivers={b.example,a.example}", "volumeLock.replicas=3", "volumeLock.nodeSelector.disk=fast", "volumeLock.digest=sha256:" + digits,
		"nodeEnforcer.seLinuxType=spc_t", "nodeEnforcer.kubeletCA=/ca.crt", "firstPolicy.create=true", "monitoring.enabled=true", "monitoring.labels.release=prometheus",
	}}.templated(t, namespace)
	webhook, enforcer := find(t, all, "Deployment", "podgrace-webhook"), find(t, all, "DaemonSet", "podgrace-nodeenforcer")
	lock := find(t, all, "Deployment", "podgrace-volumelock")
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
		{lock, "spec replicas", `3`},
		{lock, "spec template spec nodeSelector", `{"disk":"fast","kubernetes.io/os":"linux"}`},
		{find(t, all, "ValidatingAdmissionPolicy", "volume-attachments.podgrace.dev"), "spec matchConditions", `[{"expression":"object.spec.attacher in ['b.example', 'a.example']","name":"gated"},{"expression":"request.userInfo.username != 'system:serviceaccount:podgrace-system:podgrace-volumelock'","name":"not-by-the-volume-lock"}]`},
		{enforcer, "spec template spec nodeSelector", `{"kubernetes.io/os":"linux","pool":"a"}`},
		{enforcer, "spec template metadata annotations", `{"c":"d"}`},
		{find(t, all, "PodMonitor", "podgrace-webhook"), "metadata labels release", `"prometheus"`},
		{find(t, all, "PodMonitor", "podgrace-nodeenforcer"), "metadata labels release", `"prometheus"`},
		{find(t, all, "PrometheusRule", "podgrace"), "metadata labels release", `"prometheus"`},
		{find(t, all, "PrometheusRule", "podgrace"), "metadata labels app.kubernetes.io/part-of", `"podgrace"`},
	} {
		got, _, _ := unstructured.NestedFieldNoCopy(tc.object.Object, strings.Fields(tc.path)...)
		if text, _ := json.Marshal(got); string(text) != tc.want {
			t.Errorf("%s: %s is %s, want %s", tc.object.GetName(), tc.path, text, tc.want)
		}
	}
	for object, want := range map[*unstructured.Unstructured][]string{
		webhook:  {`"image":"registry.example/podgrace/webhook:v9"`, `"imagePullPolicy":"Never"`, `"--v=4"`, `"resources":{"limits":{"memory":"512Mi"},"requests":{"cpu":1,"memory":"128Mi"}}`, `{"operator":"Exists"}`},
		lock:     {`"image":"registry.example/podgrace/volumelock@sha256:` + digits + `"`, `"args":["--drivers=b.example,a.example"]`},
		enforcer: {`"image":"registry.example/podgrace/nodeenforcer:v9"`, `"imagePullPolicy":"Never"`, `"--v=2"`, `"resources":{"limits":{"memory":"1Gi"},"requests":{"cpu":"25m","memory":"64Mi"}}`, `"seLinuxOptions":{"type":"spc_t"}`, `"--kubelet-ca=/ca.crt"`},
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

// What a person or a platform adds to the pods of each workload arrives there, beside what they have: no selector loses its pods, and what an
// object is not told keeps the manifest's.
func TestPods(t *testing.T) {
	base := []string{enforcing, "fencer.enabled=true", "volumeLock.enabled=true", "volumeLock.drivers={nfs.csi.k8s.io}"}
	values := append(slices.Clone(base), "commonLabels.cost=ops", "commonLabels.app\\.kubernetes\\.io/name=mine")
	for _, section := range []string{"webhook", "nodeEnforcer", "fencer", "volumeLock"} {
		values = append(values, section+".podLabels.team=a", section+`.podLabels.app\.kubernetes\.io/part-of=mine`, section+".extraArgs={--logging-format=json,--v=3}", section+".verbosity=1",
			section+".env[0].name=GOGC", section+".env[0].value=off", section+".priorityClassName=mine", section+".tolerations[0].key=pool", section+".affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey=zone", section+".resources.limits.memory=1Gi")
	}
	before, after := variant{values: base}.templated(t, namespace), variant{values: values}.templated(t, namespace)
	for _, o := range after {
		if got := o.GetLabels()["cost"]; got != "ops" {
			t.Errorf("%s has no common label", key(o))
		}
		if want := find(t, before, o.GetKind(), o.GetName()).GetLabels()["app.kubernetes.io/name"]; want != "" && o.GetLabels()["app.kubernetes.io/name"] != want {
			t.Errorf("%s has lost its own label", key(o))
		}
	}
	for name, kind := range map[string]string{"podgrace-webhook": "Deployment", "podgrace-fencer": "Deployment", "podgrace-volumelock": "Deployment", "podgrace-nodeenforcer": "DaemonSet"} {
		was, is := typed[appsv1.DaemonSet](t, asDaemonSet(find(t, before, kind, name))).Spec.Template, typed[appsv1.DaemonSet](t, asDaemonSet(find(t, after, kind, name))).Spec.Template
		if d := cmp.Diff(map[string]string{"app.kubernetes.io/name": name, "app.kubernetes.io/part-of": "podgrace", "team": "a", "cost": "ops"}, is.Labels); d != "" {
			t.Errorf("%s: labels: %s", name, d)
		}
		from, to := was.Spec.Containers[0], is.Spec.Containers[0]
		if want := append(slices.Clone(from.Args), "--v=1", "--logging-format=json", "--v=3"); !slices.Equal(to.Args, want) {
			t.Errorf("%s: args %q, want %q", name, to.Args, want)
		}
		if d := cmp.Diff(append(slices.Clone(from.Env), corev1.EnvVar{Name: "GOGC", Value: "off"}), to.Env); d != "" {
			t.Errorf("%s: env: %s", name, d)
		}
		from.Resources.Limits[corev1.ResourceMemory] = resource.MustParse("1Gi")
		if d := cmp.Diff(from.Resources, to.Resources); d != "" {
			t.Errorf("%s: resources: %s", name, d)
		}
		if is.Spec.PriorityClassName != "mine" || is.Spec.Affinity == nil || is.Spec.Affinity.NodeAffinity != nil {
			t.Errorf("%s: class %q, affinity %v", name, is.Spec.PriorityClassName, is.Spec.Affinity)
		}
		tolerations := append(slices.Clone(was.Spec.Tolerations), corev1.Toleration{Key: "pool"})
		if name == "podgrace-nodeenforcer" { // it tolerates all: its value is there to say less
			tolerations = tolerations[1:]
		}
		if d := cmp.Diff(tolerations, is.Spec.Tolerations); d != "" {
			t.Errorf("%s: tolerations: %s", name, d)
		}
	}
	d, _ := webhookOf(t, "webhook.priorityClassName=")
	if got := d.Spec.Template.Spec.PriorityClassName; got != "" {
		t.Errorf("without a class: %q", got)
	}
}

// All programs log in the format of logFormat, but for what has its own; with the defaults no flag says so. The decision log and the bound of the metrics are
// the webhook's.
func TestLogs(t *testing.T) {
	base := []string{enforcing, "fencer.enabled=true", "volumeLock.enabled=true", "nodeEnforcer.selfFence.enabled=true"}
	logs := []string{"--log-format=json"}
	for _, tc := range []struct {
		values                          []string
		webhook, enforcer, fencer, lock []string
	}{
		{nil, nil, nil, nil, nil},
		{[]string{"logFormat=json"}, logs, logs, logs, logs},
		{[]string{"logFormat=json", "nodeEnforcer.logFormat=text"}, logs, nil, logs, logs},
		{[]string{"fencer.logFormat=json"}, nil, nil, logs, nil},
		{[]string{"volumeLock.logFormat=json"}, nil, nil, nil, logs},
		{[]string{"webhook.decisionLog.enabled=false", "webhook.decisionLog.allowedPercent=0", "webhook.metricsNamespaces=0"}, []string{"--decision-log=false", "--decision-log-allowed-percent=0", "--metrics-namespaces=0"}, nil, nil, nil},
		{[]string{"webhook.decisionLog.allowedPercent=50", "webhook.metricsNamespaces=1000"}, []string{"--decision-log-allowed-percent=50", "--metrics-namespaces=1000"}, nil, nil, nil},
	} {
		before, after := variant{values: base}.templated(t, namespace), variant{values: append(slices.Clone(base), tc.values...)}.templated(t, namespace)
		for name, want := range map[string][]string{"podgrace-webhook": tc.webhook, "podgrace-fencer": tc.fencer, "podgrace-volumelock": tc.lock, "podgrace-nodeenforcer": tc.enforcer} {
			kind := "Deployment"
			if name == "podgrace-nodeenforcer" {
				kind = "DaemonSet"
			}
			was, is := typed[appsv1.DaemonSet](t, asDaemonSet(find(t, before, kind, name))).Spec.Template.Spec.Containers, typed[appsv1.DaemonSet](t, asDaemonSet(find(t, after, kind, name))).Spec.Template.Spec.Containers
			for i := range was {
				if want := append(slices.Clone(was[i].Args), want...); !slices.Equal(is[i].Args, want) {
					t.Errorf("%v: %s of %s has %q, want %q", tc.values, is[i].Name, name, is[i].Args, want)
				}
			}
		}
	}
}

// asDaemonSet gives a Deployment the kind that has no more fields than what all workloads have.
func asDaemonSet(o *unstructured.Unstructured) *unstructured.Unstructured {
	only := &unstructured.Unstructured{Object: map[string]any{"metadata": o.Object["metadata"]}}
	template, _, _ := unstructured.NestedFieldNoCopy(o.Object, "spec", "template")
	only.Object["spec"] = map[string]any{"template": template}
	return only
}

// The node enforcer goes to machines alone: nodes of Fargate and of virtual-kubelet have the labels by which it stays away.
func TestNoEnforcerWhereThereIsNoMachine(t *testing.T) {
	pod := typed[appsv1.DaemonSet](t, find(t, withEnforcer.kustomized(t), "DaemonSet", "podgrace-nodeenforcer")).Spec.Template.Spec
	required, err := nodeaffinity.NewNodeSelector(pod.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
	if err != nil {
		t.Fatal(err)
	}
	for label, want := range map[string]bool{"eks.amazonaws.com/compute-type=fargate": false, "type=virtual-kubelet": false, "eks.amazonaws.com/compute-type=ec2": true, "type=large": true, "a=b": true} {
		name, value, _ := strings.Cut(label, "=")
		if got := required.Match(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{name: value}}}); got != want {
			t.Errorf("a node with %s: got %v", label, got)
		}
	}
}

// digits are a digest's.
var digits = strings.Repeat("0a", 32)

// An image by its digest is that one, whatever the tag.
func TestImagesByDigest(t *testing.T) {
	all := variant{values: []string{enforcing, "images.registry=registry.example/", "images.tag=v9", "webhook.digest=sha256:" + digits}}.templated(t, namespace)
	for o, want := range map[*unstructured.Unstructured]string{
		find(t, all, "Deployment", "podgrace-webhook"):     "registry.example/podgrace/webhook@sha256:" + digits,
		find(t, all, "DaemonSet", "podgrace-nodeenforcer"): "registry.example/podgrace/nodeenforcer:v9",
	} {
		if text, _ := o.MarshalJSON(); !strings.Contains(string(text), `"image":"`+want+`"`) {
			t.Errorf("%s: no image %s", o.GetName(), want)
		}
	}
	other := variant{values: []string{enforcing, "nodeEnforcer.digest=sha256:" + digits}}.templated(t, namespace)
	if text, _ := find(t, other, "DaemonSet", "podgrace-nodeenforcer").MarshalJSON(); !strings.Contains(string(text), `"image":"registry.invalid/podgrace/nodeenforcer@sha256:`+digits+`"`) {
		t.Errorf("the node enforcer: %s", text)
	}
}

// Nobody has published the images: without a registry the chart makes nothing, and says what to do, whichever workload is asked for. Who
// means Docker Hub says so; a registry in a repository, or of a parent chart, is one as well, and the chart's own comes first.
func TestRegistryIsRequired(t *testing.T) {
	for _, values := range [][]string{{}, {"images.registry="}, {enforcing}, {"webhook.digest=sha256:" + digits, "nodeEnforcer.digest=sha256:" + digits}, {enforcing, "webhook.repository=registry.example/webhook"}, {"global.imageRegistry="}, {"global.imageRegistry=null"}} {
		_, err := helm(t, append([]string{"template", "podgrace", chart, "--namespace", namespace}, set(values)...)...)
		if err == nil || !strings.Contains(err.Error(), "images.registry is required: without a registry, nodes would pull podgrace/") || !strings.Contains(err.Error(), "--set images.registry=registry.example.com/") {
			t.Errorf("%v: got %v", values, err)
		}
	}
	for values, want := range map[string][2]string{
		"images.registry=docker.io/":                                           {"docker.io/podgrace/webhook", "docker.io/podgrace/nodeenforcer"},
		"global.imageRegistry=mirror.example":                                  {"mirror.example/podgrace/webhook", "mirror.example/podgrace/nodeenforcer"},
		"global.imageRegistry=mirror.example:5000/hub/":                        {"mirror.example:5000/hub/podgrace/webhook", "mirror.example:5000/hub/podgrace/nodeenforcer"},
		"global.imageRegistry=mirror.example,images.registry=own.example/":     {"own.example/podgrace/webhook", "own.example/podgrace/nodeenforcer"},
		"global.imageRegistry=mirror.example,webhook.repository=own.example/w": {"own.example/w", "mirror.example/podgrace/nodeenforcer"},
		"images.registry=mirror.example/,webhook.repository=own.example/w":     {"mirror.example/own.example/w", "mirror.example/podgrace/nodeenforcer"},
		"webhook.repository=localhost/w,nodeEnforcer.repository=host:5000/n":   {"localhost/w", "host:5000/n"},
	} {
		out, err := helm(t, "template", "podgrace", chart, "--namespace", namespace, "--set", enforcing, "--set", values)
		if err != nil {
			t.Errorf("%s: %v", values, err)
			continue
		}
		all := objects(t, []byte(out))
		webhook, enforcer := typed[appsv1.Deployment](t, find(t, all, "Deployment", "podgrace-webhook")), typed[appsv1.DaemonSet](t, find(t, all, "DaemonSet", "podgrace-nodeenforcer"))
		got := [2]string{webhook.Spec.Template.Spec.Containers[0].Image, enforcer.Spec.Template.Spec.Containers[0].Image}
		if want = [2]string{want[0] + ":v0.1.0", want[1] + ":v0.1.0"}; got != want {
			t.Errorf("%s: got %v", values, got)
		}
	}
}

// The images of kustomizations without an overlay of one's own are nobody's.
func TestKustomizeNamesNoRegistry(t *testing.T) {
	for _, v := range variants {
		for _, o := range v.kustomized(t) {
			containers, _, _ := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "containers")
			for _, c := range containers {
				if image := c.(map[string]any)["image"].(string); !strings.HasPrefix(image, "registry.invalid/podgrace/") || !strings.HasSuffix(image, ":v0.1.0") {
					t.Errorf("%s: %s has the image %s", v.name, key(o), image)
				}
			}
		}
	}
}

// The overlay of the docs replaces all of them.
func TestImagesOfTheDocs(t *testing.T) {
	text, err := os.ReadFile("../../docs/install.md")
	if err != nil {
		t.Fatal(err)
	}
	images := regexp.MustCompile("(?m)^images:\n(- .*\n)+").Find(text)
	v := variant{overlay: "selfmanaged", components: []string{"nodeenforcer", "fencer", "self-fence", "volumelock"}}
	dir := v.folder(t)
	file := filepath.Join(dir, "kustomization.yaml")
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, append(before, images...), 0o600); err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, o := range build(t, dir) {
		containers, _, _ := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "containers")
		for _, c := range containers {
			seen++
			if image := c.(map[string]any)["image"].(string); !strings.HasPrefix(image, "registry.example.com/podgrace/") || !strings.HasSuffix(image, ":v0.1.0") {
				t.Errorf("%s has the image %s", key(o), image)
			}
		}
	}
	if seen != 5 {
		t.Errorf("%d containers", seen)
	}
}

// The webhook configurations have the annotations of the values, AKS' by default, and cert-manager's where it makes the certificates.
func TestConfigurationAnnotations(t *testing.T) {
	const enforcer, inject = "admissions.enforcer/disabled", "cert-manager.io/inject-ca-from"
	injected := namespace + "/podgrace-webhook"
	for values, want := range map[string]map[string]string{
		"webhook.replicas=2":             {enforcer: "true"},
		"certificates.mode=cert-manager": {enforcer: "true", inject: injected},
		"certificates.mode=cert-manager,webhook.configurationAnnotations.a=b": {enforcer: "true", inject: injected, "a": "b"},
		`webhook.configurationAnnotations.admissions\.enforcer/disabled=null`: nil,
	} {
		all := variant{values: []string{values}}.templated(t, namespace)
		for _, kind := range []string{"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"} {
			if d := cmp.Diff(want, orNil(find(t, all, kind, "podgrace").GetAnnotations())); d != "" {
				t.Errorf("%s: %s: %s", values, kind, d)
			}
		}
	}
}

// The credentials of a parent chart are taken where there are none of the chart's own.
func TestPullSecrets(t *testing.T) {
	for values, want := range map[string][]corev1.LocalObjectReference{
		"global.imagePullSecrets={a,b}":                         {{Name: "a"}, {Name: "b"}},
		"global.imagePullSecrets[0].name=a":                     {{Name: "a"}},
		"global.imagePullSecrets={a},images.pullSecrets={mine}": {{Name: "mine"}},
		"global.imagePullSecrets=null":                          nil,
	} {
		all := variant{values: []string{enforcing, values}}.templated(t, namespace)
		for _, got := range [][]corev1.LocalObjectReference{
			typed[appsv1.Deployment](t, find(t, all, "Deployment", "podgrace-webhook")).Spec.Template.Spec.ImagePullSecrets,
			typed[appsv1.DaemonSet](t, find(t, all, "DaemonSet", "podgrace-nodeenforcer")).Spec.Template.Spec.ImagePullSecrets,
		} {
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("%s: %s", values, d)
			}
		}
	}
}

// null, which takes a default away, is refused for every section and value, and breaks no template.
func TestNullValues(t *testing.T) {
	text, err := os.ReadFile(chart + "/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var sections map[string]any
	if err := yaml.Unmarshal(text, &sections); err != nil {
		t.Fatal(err)
	}
	var values []string
	for section, of := range sections {
		values = append(values, section)
		within, _ := of.(map[string]any)
		for value := range within {
			values = append(values, section+"."+value)
		}
	}
	if len(values) < 35 {
		t.Errorf("only %d values", len(values))
	}
	for _, value := range values {
		name := value[strings.LastIndex(value, ".")+1:]
		if _, err := helm(t, "template", "podgrace", chart, "--namespace", namespace, "--set", value+"=null"); err == nil || !strings.Contains(err.Error(), "missing property '"+name+"'") {
			t.Errorf("%s: got %v", value, err)
		}
	}
}

// A value that is misspelt or of the wrong kind is refused, and not passed over.
func TestBadValues(t *testing.T) {
	for _, value := range []string{
		"webhok.replicas=3", "webhook.replica=3", "webhook.replicas=0", "webhook.replicas=two", "certificates.mode=acme", "images.pullPolicy=Sometimes",
		"images.registry=registry.example", "nodeEnforcer.enabled=perhaps", "crds.keep=1", "monitoring.enable=true", "webhook.resources.cpu=1",
		"firstPolicy=true", "webhook.verbosity=11", "logFormat=", "logFormat=yaml", "fencer.logFormat=JSON", "webhook.decisionLog.allowedPercent=101", "webhook.decisionLog.enabled=1", "webhook.metricsNamespaces=-1", "images.tag=sha256:" + digits, "images.tag=v1@sha256:" + digits, "images.tag=-v1",
		"webhook.digest=" + digits, "nodeEnforcer.digest=sha256:abc", "nodeEnforcer.kubeletRoot=var/lib/kubelet", "nodeEnforcer.imageRoot=/data/",
		"nodeEnforcer.kubeletRoot=", "monitoring.labels.a.b=c", "monitoring.clusterLabel=", "monitoring.clusterLabel=a-b", "monitoring.jobs.fencers=a", `monitoring.jobs.webhook=a"b`, "monitoring.scrape.interval=2m", "monitoring.interval=30s",
		"monitoring.rules.runbooks=wiki", "monitoring.rules.disabled={Other}", "monitoring.rules.alerts.Other.for=5m", "monitoring.rules.alerts.PodgraceEvictions.fro=5m", "monitoring.rules.alerts.PodgraceEvictions.for=long", "monitoring.rules.alerts.PodgraceEvictions.threshold=many",
		"monitoring.rules.objectives.answers=1", "monitoring.rules.objectives.answers=0.3", "monitoring.rules.objectives.other=0.9", "monitoring.dashboard.labels.a=1", "monitoring.dashboard=true",
		"networkPolicy.enabled=true", "networkPolicy.apiServers[0].cidr=192.0.2.10/32",
		"webhook.clientCA.allowedNames={a}", "webhook.clientCA.configMap=a,webhook.clientCA.secret=b", "webhook.clientCA.configMap=a,webhook.clientCA.key=",
		"webhook.ports.https=443", "webhook.ports.https=70000", "webhook.ports.http=9443", "webhook.hostNetwork=yes", "webhook.dnsPolicy=None", "webhook.configurationAnnotations.a=true",
		"webhook.extraArgs={port=1}", "fencer.extraArgs=--v", "webhook.env[0].value=a", "nodeEnforcer.env[0].name=a,nodeEnforcer.env[0].value=1",
		"volumeLock.enabled=true,volumeLock.replicas=0", "volumeLock.enabled=true,volumeLock.drivers=nfs.csi.k8s.io", `volumeLock.enabled=true,volumeLock.drivers={a'b}`, "volumeLock.enabled=true,volumeLock.drivers={a,a}",
		"nodeEnforcer.tolerations=a", "fencer.podLabels.a=true", "commonLabels.a=1", "webhook.priorityClassName=1",
		"global.imageRegistry=3", "global.imageRegistry=/", "global.imagePullSecrets=a", "global.imagePullSecrets[0].nam=a",
		"webhook.clientCA.secret=null", `webhook.clientCA.secret=a,webhook.clientCA.allowedNames={a\,b}`,
		"certificates.mode=secret", "certificates.mode=secret,certificates.secret=a,certificates.caBundle=pem", "certificates.issuerRef.namespace=a", "webhook.tls.minVersion=VersionTLS11",
		// Nothing would come of these, and who says them relies on it.
		"certificates.secret=a", "certificates.issuerRef.name=a", "certificates.mode=cert-manager,certificates.secret=a",
		"certificates.mode=secret,certificates.secret=a,certificates.issuerRef.name=a", "webhook.tls.minVersion=VersionTLS13,webhook.tls.cipherSuites={TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256}",
		"fencer.networkFence=true", "volumeLock.drivers={nfs.csi.k8s.io}", "nodeEnforcer.enabled=false,nodeEnforcer.selfFence.enabled=true",
	} {
		if _, err := helm(t, "template", "podgrace", chart, "--namespace", namespace, "--set", value); err == nil || !strings.Contains(err.Error(), "values don't meet the specifications of the schema") {
			t.Errorf("%s: got %v", value, err)
		}
	}
}

func TestHelmLint(t *testing.T) {
	if out, err := helm(t, "lint", "--strict", chart, "--set", noRegistry); err != nil {
		t.Error(err, out)
	}
}

// Everything that is installed can be listed by one label, but for CustomResourceDefinitions, which a clean-up by that label must not take: the policies would go with
// them. By Helm each says of which release and version it is.
func TestLabels(t *testing.T) {
	const partOf = "app.kubernetes.io/part-of"
	for _, v := range variants {
		for _, o := range v.kustomized(t) {
			want := "podgrace"
			if o.GetKind() == "CustomResourceDefinition" {
				want = ""
			}
			if got := o.GetLabels()[partOf]; got != want {
				t.Errorf("%s: %s: part of %q", v.name, key(o), got)
			}
		}
		for _, o := range v.templated(t, namespace) {
			if l := o.GetLabels(); l["app.kubernetes.io/instance"] != "podgrace" || l["app.kubernetes.io/version"] != "v0.1.0" {
				t.Errorf("%s: %s: %v", v.name, key(o), l)
			}
		}
	}
}
