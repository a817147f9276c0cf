package deploy

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/certs"
	"github.com/podgrace/podgrace/e2e/suite"
)

// helmIn runs Helm on the world's cluster.
func (w *world) helmIn(t *testing.T, command string, args ...string) {
	t.Helper()
	args = append([]string{command, "podgrace", "--kubeconfig", w.Kubeconfig, "--namespace", namespace}, args...)
	if command == "install" {
		args = append(args, "--set", noRegistry)
	}
	if out, err := helm(t, args...); err != nil {
		t.Fatal(err, out)
	}
	w.goesOn(t, "helm "+command)
}

func (w *world) kubectl(t *testing.T, args ...string) {
	t.Helper()
	if out, problems, err := w.Kubectl(t.Context(), args...); err != nil {
		t.Fatal(err, out, problems)
	} else if problems = sortingNote.ReplaceAllString(problems, ""); problems != "" {
		t.Errorf("kubectl %s warns: %s", strings.Join(args, " "), problems)
	}
	w.goesOn(t, "kubectl "+args[0])
}

// sortingNote is what kubectl says of every kustomization that has an order of its own: kubectl itself sets the flag.
var sortingNote = regexp.MustCompile(`(?m)^.*Warning: Sorting order is set both in 'kustomization.yaml'.*\n`)

// olderChart is the chart with an older CustomResourceDefinition, which lacks PodPolicy's section removal.
func olderChart(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(chart)); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "files", "crds", "podgrace.dev_podpolicies.yaml")
	crd := readFiles(t, file)[0]
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	unstructured.RemoveNestedField(versions[0].(map[string]any), specOf("removal")...)
	unstructured.RemoveNestedField(versions[0].(map[string]any), "schema", "openAPIV3Schema", "properties", "spec", "x-kubernetes-validations")
	if err := unstructured.SetNestedSlice(crd.Object, versions, "spec", "versions"); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(crd.Object) // JSON is YAML
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func specOf(field string) []string {
	return []string{"schema", "openAPIV3Schema", "properties", "spec", "properties", field}
}

// writeCABundle does what the webhook's leader does.
func (w *world) writeCABundle(t *testing.T) {
	t.Helper()
	var configuration admissionregistrationv1.ValidatingWebhookConfiguration
	if err := w.kube.Get(t.Context(), client.ObjectKey{Name: certs.ConfigurationName}, &configuration); err != nil {
		t.Fatal(err)
	}
	var hooks []any
	for _, h := range configuration.Webhooks {
		hooks = append(hooks, map[string]any{"name": h.Name, "clientConfig": map[string]any{"caBundle": "eA=="}})
	}
	apply := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
		"metadata": map[string]any{"name": certs.ConfigurationName}, "webhooks": hooks,
	}}
	if err := w.kube.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(apply), client.FieldOwner("podgrace-cabundle"), client.ForceOwnership); err != nil {
		t.Fatal(err)
	}
}

func (w *world) wantCABundle(t *testing.T, after string) {
	t.Helper()
	var configuration admissionregistrationv1.ValidatingWebhookConfiguration
	if err := w.kube.Get(t.Context(), client.ObjectKey{Name: certs.ConfigurationName}, &configuration); err != nil {
		t.Fatal(err)
	}
	if slices.ContainsFunc(configuration.Webhooks, func(h admissionregistrationv1.ValidatingWebhook) bool { return string(h.ClientConfig.CABundle) != "x" }) {
		t.Errorf("after %s a webhook has lost its caBundle", after)
	}
}

// A release: installed with an older chart, upgraded, removed. The CustomResourceDefinitions are upgraded and outlive it with the
// policies; caBundle outlives an upgrade; the webhook configurations go first.
func TestHelmRelease(t *testing.T) {
	w := empty(t)
	w.helmIn(t, "install", olderChart(t), "--create-namespace")
	w.writeCABundle(t)
	first := readFiles(t, manifests+"/policies/first.yaml")[0]
	if err := w.strictDryRun(t.Context(), first); err == nil || !strings.Contains(err.Error(), ".spec.removal: field not declared in schema") {
		t.Errorf("the older CustomResourceDefinition: got %v", err)
	}
	w.helmIn(t, "upgrade", chart, "--set", noRegistry, "--set", "webhook.replicas=3", "--set", "firstPolicy.create=true")
	w.wantCABundle(t, "helm upgrade")
	var policies unstructured.UnstructuredList
	policies.SetAPIVersion("podgrace.dev/v1alpha1")
	policies.SetKind("PodPolicyList")
	if err := w.kube.List(t.Context(), &policies); err != nil || len(policies.Items) != 1 || policies.Items[0].Object["spec"].(map[string]any)["removal"] == nil {
		t.Errorf("the first policy: %v %v", policies.Items, err)
	}
	order := w.watchDeletions(t)
	w.helmIn(t, "uninstall")
	order.wantConfigurationsFirst(t)
	if err := w.kube.List(t.Context(), &policies); err != nil {
		t.Errorf("the CustomResourceDefinition is gone: %v", err)
	}
	w.helmIn(t, "install", chart) // again, over what was kept
	w.wantTakeOver(t)
}

// Helm 3 deletes the webhook configurations last.
func TestUninstallByHelm3(t *testing.T) {
	w := empty(t)
	w.helmIn(t, "install", chart, "--create-namespace")
	w.writeCABundle(t)
	if out, err := helmOf(t, helm3Program, "uninstall", "podgrace", "--kubeconfig", w.Kubeconfig, "--namespace", namespace); err != nil {
		t.Fatal(err, out)
	}
	w.goesOn(t, "helm uninstall by Helm 3")
	w.wantNoWebhooks(t)
}

// Another version by kubectl, over the CustomResourceDefinitions that Helm has kept: client-side as it is, server-side only with the flag that the installation's text names.
func TestFromHelmToKubectl(t *testing.T) {
	w := empty(t)
	dir := variants[0].folder(t)
	w.helmIn(t, "install", olderChart(t), "--create-namespace")
	w.helmIn(t, "uninstall")
	if out, problems, err := w.Kubectl(t.Context(), "apply", "-k", dir, "--dry-run=server"); err != nil {
		t.Error(err, out, problems)
	}
	serverSide := []string{"apply", "--server-side", "-k", dir}
	if _, problems, err := w.Kubectl(t.Context(), serverSide...); err == nil || !strings.Contains(problems, `conflict with "helm"`) {
		t.Errorf("server-side: got %v %s", err, problems)
	}
	w.kubectl(t, append(serverSide, "--force-conflicts")...)
	w.kubectl(t, serverSide...) // Helm owns nothing any more in which they differ
	w.kubectl(t, "delete", "-k", dir)
	w.gone(t, variants[0].kustomized(t))
}

// wantNoWebhooks fails where the API server is still told to call a webhook.
func (w *world) wantNoWebhooks(t *testing.T) {
	t.Helper()
	for _, kind := range []string{"ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"} {
		left := &metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{APIVersion: "admissionregistration.k8s.io/v1", Kind: kind + "List"}}
		if err := w.kube.List(t.Context(), left); err != nil || len(left.Items) > 0 {
			t.Errorf("%ss: %d left, %v", kind, len(left.Items), err)
		}
	}
}

// wantTakeOver fails where Helm does not keep what kubectl has applied, with the flag that its notes name, or does without.
func (w *world) wantTakeOver(t *testing.T) {
	t.Helper()
	w.kubectl(t, "apply", "-f", manifests+"/policies/first.yaml")
	upgrade := []string{"upgrade", "podgrace", chart, "--kubeconfig", w.Kubeconfig, "--namespace", namespace, "--reset-then-reuse-values", "--set", "firstPolicy.create=true"}
	if _, err := helm(t, upgrade...); err == nil || !strings.Contains(err.Error(), "invalid ownership metadata") {
		t.Errorf("over what kubectl has applied: got %v", err)
	}
	if out, err := helm(t, append(upgrade, "--take-ownership")...); err != nil {
		t.Error(err, out)
	}
}

// An upgrade keeps the values of the release before, also by a chart that has sections and values more: as the notes say it. Helm's
// other way, --reuse-values, is refused with the names of what is missing.
func TestUpgradeFromFewerValues(t *testing.T) {
	w := empty(t)
	older := t.TempDir()
	if err := os.CopyFS(older, os.DirFS(chart)); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"values.yaml": "webhook: {replicas: 2}\n", "values.schema.json": "{}"} {
		if err := os.WriteFile(filepath.Join(older, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.RemoveAll(filepath.Join(older, "templates")); err != nil {
		t.Fatal(err)
	}
	w.helmIn(t, "install", older, "--create-namespace", "--set", "webhook.replicas=5")
	_, err := helm(t, "upgrade", "podgrace", chart, "--kubeconfig", w.Kubeconfig, "--namespace", namespace, "--reuse-values")
	if err == nil || !strings.Contains(err.Error(), "missing properties") || !strings.Contains(err.Error(), "'nodeEnforcer'") {
		t.Errorf("--reuse-values: got %v", err)
	}
	w.helmIn(t, "upgrade", chart, "--reset-then-reuse-values")
	var d appsv1.Deployment
	if err := w.kube.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "podgrace-webhook"}, &d); err != nil || *d.Spec.Replicas != 5 {
		t.Errorf("replicas %v, %v", d.Spec.Replicas, err)
	}
}

// While volumes are held an upgrade does not leave out the volume lock, or their driver, unless it is told to; an uninstallation can't ask, and leaves VolumeLocks and VolumeAttachments as they
// are, for whoever installs it again.
func TestHeldVolumesAreNotLeftByAnUpgrade(t *testing.T) {
	w := empty(t)
	const drivers, held = "volumeLock.drivers={nfs.csi.k8s.io,iscsi.csi.k8s.io}", "volumeLock: 1 volumes of driver nfs.csi.k8s.io are held"
	w.helmIn(t, "install", chart, "--create-namespace", "--set", "volumeLock.enabled=true", "--set", drivers)
	lock := &v1alpha1.VolumeLock{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "VolumeLock"}, ObjectMeta: metav1.ObjectMeta{Name: "volume-1"},
		Spec: v1alpha1.VolumeLockSpec{
			Driver: "nfs.csi.k8s.io", Volume: "v", VolumeHandle: "v", Identity: v1alpha1.VolumeByHandle, PersistentVolume: "pv", Adopted: true,
			Node: v1alpha1.BootReference{Name: "n1", UID: "u", BootID: "b"}, Attachment: v1alpha1.AttachmentReference{Name: "a"},
		},
	}
	attachment := &storagev1.VolumeAttachment{
		TypeMeta: metav1.TypeMeta{APIVersion: "storage.k8s.io/v1", Kind: "VolumeAttachment"}, ObjectMeta: metav1.ObjectMeta{Name: "a", Finalizers: []string{v1alpha1.FinalizerVolumeLock}},
		Spec: storagev1.VolumeAttachmentSpec{Attacher: "nfs.csi.k8s.io", NodeName: "n1", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: new("pv")}},
	}
	there := []*unstructured.Unstructured{}
	for _, o := range []any{lock, attachment} {
		object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
		if err != nil {
			t.Fatal(err)
		}
		there = append(there, &unstructured.Unstructured{Object: object})
		if err := w.kube.Create(t.Context(), there[len(there)-1]); err != nil {
			t.Fatal(err)
		}
	}
	upgrade := []string{"upgrade", "podgrace", chart, "--kubeconfig", w.Kubeconfig, "--namespace", namespace, "--reset-then-reuse-values", "--set-json"}
	for _, values := range []string{`volumeLock.drivers=["iscsi.csi.k8s.io"]`, `volumeLock.enabled=false,volumeLock.drivers=[]`} {
		if out, err := helm(t, append(slices.Clone(upgrade), values)...); err == nil || !strings.Contains(err.Error(), held) {
			t.Errorf("%s: got %v %s", values, err, out)
		}
	}
	for _, values := range []string{`volumeLock.drivers=["nfs.csi.k8s.io"]`, `volumeLock.enabled=false,volumeLock.drivers=[],volumeLock.leaveHeld=true`} {
		if out, err := helm(t, append(slices.Clone(upgrade), values)...); err != nil {
			t.Errorf("%s: %v %s", values, err, out)
		}
	}
	w.helmIn(t, "uninstall")
	w.wantKept(t, there)
	w.helmIn(t, "install", chart, "--set", "volumeLock.enabled=true", "--set", drivers)
	w.wantKept(t, there)
}

// The same with kubectl and the overlays' folders, in both modes, as the installation's text says.
func TestKubectlWithAFolder(t *testing.T) {
	w := empty(t)
	w.install(t, certManagerCRDs(t))
	for _, v := range variants[:4] {
		t.Run(v.name, func(t *testing.T) {
			dir := v.folder(t)
			w.kubectl(t, "apply", "-k", dir)
			for _, o := range v.kustomized(t) {
				w.established(t, o)
			}
			w.kubectl(t, "apply", "-f", manifests+"/policies/first.yaml")
			w.writeCABundle(t)
			w.kubectl(t, "apply", "-k", dir)
			w.wantCABundle(t, "kubectl apply")
			order := w.watchDeletions(t)
			w.kubectl(t, "delete", "-k", dir)
			order.wantConfigurationsFirst(t)
			w.gone(t, v.kustomized(t))
		})
	}
}

// deletions is in which order objects went: their resource versions are of one etcd.
type deletions struct {
	mu    sync.Mutex
	first map[string]uint64
	last  map[string]uint64
}

// watchDeletions watches what the webhook consists of, until the test ends.
func (w *world) watchDeletions(t *testing.T) *deletions {
	t.Helper()
	kube, err := client.NewWithWatch(w.Config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	d := &deletions{first: map[string]uint64{}, last: map[string]uint64{}}
	for kind, version := range map[string]string{
		"ValidatingWebhookConfiguration": "admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration": "admissionregistration.k8s.io/v1",
		"Service": "v1", "ServiceAccount": "v1", "Deployment": "apps/v1", "ClusterRole": "rbac.authorization.k8s.io/v1", "RoleBinding": "rbac.authorization.k8s.io/v1",
	} {
		list := &metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{APIVersion: version, Kind: kind + "List"}}
		if err := kube.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		events, err := kube.Watch(t.Context(), list, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.ResourceVersion}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(events.Stop)
		go d.record(kind, events.ResultChan())
	}
	return d
}

func (d *deletions) record(kind string, events <-chan watch.Event) {
	for event := range events {
		o, ok := event.Object.(*metav1.PartialObjectMetadata)
		if !ok || event.Type != watch.Deleted || !strings.HasPrefix(o.Name, "podgrace") {
			continue
		}
		version, err := strconv.ParseUint(o.ResourceVersion, 10, 64)
		if err != nil {
			continue
		}
		d.mu.Lock()
		if d.first[kind] == 0 {
			d.first[kind] = version
		}
		d.last[kind] = version
		d.mu.Unlock()
	}
}

// wantConfigurationsFirst fails where anything that the webhook needs went before the API server was told not to call it.
func (d *deletions) wantConfigurationsFirst(t *testing.T) {
	t.Helper()
	suite.Eventually(t, "all deletions", func(context.Context) (bool, error) {
		d.mu.Lock()
		defer d.mu.Unlock()
		return len(d.first) == 7, nil
	})
	d.mu.Lock()
	defer d.mu.Unlock()
	configurations := max(d.last["ValidatingWebhookConfiguration"], d.last["MutatingWebhookConfiguration"])
	for kind, version := range d.first {
		if !strings.HasSuffix(kind, "WebhookConfiguration") && version < configurations {
			t.Errorf("a %s went at %d, the webhook configurations at %d", kind, version, configurations)
		}
	}
}
