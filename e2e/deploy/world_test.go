package deploy

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/e2e/suite"
)

// shop is a user's namespace.
const shop = "shop"

// world is a cluster in which somebody works while Podgrace comes and goes. Its webhook never runs here: every call fails.
type world struct {
	*cluster.Cluster
	kube client.Client
	// kubelet is a node's own user.
	kubelet client.Client
	steps   int
	// armed: the guard is, and nobody answers for it, so that no Node can be deleted.
	armed bool
}

func newWorld(t *testing.T, c *cluster.Cluster) *world {
	t.Helper()
	kube, err := suite.NewClient(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	if err := certificatesv1.AddToScheme(kube.Scheme()); err != nil {
		t.Fatal(err)
	}
	config, err := c.User("system:node:n1", "system:nodes")
	if err != nil {
		t.Fatal(err)
	}
	kubelet, err := suite.NewClient(config)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{Cluster: c, kube: kube, kubelet: kubelet}
	for _, o := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: shop}},
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}},
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: "web"}, Spec: appsv1.DeploymentSpec{
			Replicas: new(int32), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}}, Spec: podSpec()},
		}},
	} {
		if err := kube.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	for _, ns := range []string{shop, "kube-system"} {
		suite.Eventually(t, "the service account of "+ns, func(ctx context.Context) (bool, error) {
			err := kube.Get(ctx, client.ObjectKey{Namespace: ns, Name: "default"}, &corev1.ServiceAccount{})
			return err == nil, client.IgnoreNotFound(err)
		})
	}
	return w
}

func podSpec() corev1.PodSpec {
	return corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "localhost/none:1"}}}
}

// goesOn does what a cluster does all day, and fails where any of it does.
func (w *world) goesOn(t *testing.T, after string) {
	t.Helper()
	w.steps++
	ctx := t.Context()
	for what, attempt := range map[string]func() error{
		"a user's pod":               func() error { return w.comesAndGoes(ctx, w.kube, w.pod(shop), false) },
		"a pod that runs":            func() error { return w.comesAndGoes(ctx, w.kube, w.pod(shop), true) },
		"a pod of kube-system":       func() error { return w.comesAndGoes(ctx, w.kube, w.pod("kube-system"), true) },
		"a static pod":               func() error { return w.comesAndGoes(ctx, w.kubelet, w.static(shop), false) },
		"a static pod of its own":    func() error { return w.comesAndGoes(ctx, w.kubelet, w.static("kube-system"), false) },
		"an update of a workload":    func() error { return w.updates(ctx) },
		"a node that comes and goes": func() error { return w.joins(ctx) },
	} {
		if w.armed && what == "a node that comes and goes" {
			continue
		}
		if err := attempt(); err != nil {
			t.Fatalf("after %s: %s: %v", after, what, err)
		}
	}
}

// goesOnAfter is goesOn after one object changed. Podgrace's own rights change nothing for others.
func (w *world) goesOnAfter(t *testing.T, verb string, o *unstructured.Unstructured) {
	t.Helper()
	switch o.GetKind() {
	case "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "ServiceAccount":
		return
	}
	w.goesOn(t, verb+" "+key(o))
}

func (w *world) pod(ns string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, GenerateName: "p-"}, Spec: podSpec()}
}

// static is a static pod's mirror, as a kubelet makes it.
func (w *world) static(ns string) *corev1.Pod {
	p := w.pod(ns)
	p.GenerateName, p.Name = "", fmt.Sprintf("static-%d-n1", w.steps)
	p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
	p.Spec.NodeName = "n1"
	var node corev1.Node
	if err := w.kube.Get(context.Background(), client.ObjectKey{Name: "n1"}, &node); err == nil {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "n1", UID: node.UID, Controller: new(true)}}
	}
	return p
}

// comesAndGoes creates a pod, has it run, and deletes it as its owner does and then, where it runs, as its kubelet does.
func (w *world) comesAndGoes(ctx context.Context, by client.Client, p *corev1.Pod, runs bool) error {
	if runs {
		p.Spec.NodeName = "n1"
	}
	if err := by.Create(ctx, p); err != nil {
		return fmt.Errorf("create: %w", err)
	}
	if runs {
		running := client.RawPatch("application/merge-patch+json", []byte(`{"status":{"phase":"Running"}}`))
		if err := w.kubelet.Status().Patch(ctx, p, running); err != nil {
			return fmt.Errorf("run: %w", err)
		}
	}
	if by != w.kubelet {
		if err := by.Delete(ctx, p); err != nil {
			return fmt.Errorf("delete: %w", err)
		}
	}
	if p.Spec.NodeName == "" {
		return nil
	}
	return w.kubeletDeletes(ctx, p)
}

// kubeletDeletes removes a pod as its kubelet does. The API server's plugin NodeRestriction looks the pod up in a cache, and says that
// it is not found as long as that has not seen it.
func (w *world) kubeletDeletes(ctx context.Context, p *corev1.Pod) error {
	return wait.PollUntilContextTimeout(ctx, 5*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		if err := w.kubelet.Delete(ctx, p.DeepCopy(), client.GracePeriodSeconds(0)); client.IgnoreNotFound(err) != nil {
			return false, fmt.Errorf("delete, as its kubelet: %w", err)
		}
		err := w.kube.Get(ctx, client.ObjectKeyFromObject(p), &corev1.Pod{})
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
}

// updates changes a workload's template, for the workloads webhook and the policies.
func (w *world) updates(ctx context.Context) error {
	patch := fmt.Sprintf(`{"spec":{"template":{"metadata":{"annotations":{"step":"%d"}}}}}`, w.steps)
	return w.kube.Patch(ctx, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: "web"}}, client.RawPatch("application/merge-patch+json", []byte(patch)))
}

// joins is a node's own bootstrap: a certificate, the Node and its status, a lease, a cordon; and its end by an autoscaler.
func (w *world) joins(ctx context.Context) error {
	name := fmt.Sprintf("joining-%d", w.steps)
	config, err := w.User("system:node:"+name, "system:nodes")
	if err != nil {
		return err
	}
	kubelet, err := suite.NewClient(config)
	if err != nil {
		return err
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-node-lease", Name: name}}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	request, err := cert.MakeCSR(key, &pkix.Name{CommonName: "system:node:" + name, Organization: []string{"system:nodes"}}, nil, nil)
	if err != nil {
		return err
	}
	signing := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{GenerateName: "node-"}, Spec: certificatesv1.CertificateSigningRequestSpec{
		Request: request, SignerName: certificatesv1.KubeAPIServerClientKubeletSignerName, Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
	}}
	for _, step := range []func() error{
		func() error { return w.kube.Create(ctx, signing) },
		func() error { return kubelet.Create(ctx, node) },
		func() error { return kubelet.Create(ctx, lease) },
		func() error {
			ready := `{"status":{"conditions":[{"type":"Ready","status":"True","reason":"Ready"}]}}`
			return kubelet.Status().Patch(ctx, node, client.RawPatch("application/strategic-merge-patch+json", []byte(ready)))
		},
		func() error {
			return w.kube.Patch(ctx, node, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"unschedulable":true}}`)))
		},
		func() error { return kubelet.Delete(ctx, lease) },
		func() error { return w.kube.Delete(ctx, node) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// install applies objects in their order.
func (w *world) install(t *testing.T, all []*unstructured.Unstructured) {
	t.Helper()
	for _, o := range all {
		if o.GetKind() == "SecurityContextConstraints" { // no module that is used here has OpenShift's definition
			continue
		}
		if err := w.kube.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(o.DeepCopy()), client.FieldOwner("installer"), client.ForceOwnership); err != nil {
			t.Fatalf("%s: %v", key(o), err)
		}
		w.established(t, o)
	}
}

// apply applies one object by server-side apply, first as a dry run.
func (w *world) apply(ctx context.Context, o *unstructured.Unstructured) error {
	for _, options := range [][]client.ApplyOption{{client.DryRunAll}, nil} {
		options = append(options, client.FieldOwner("installer"), client.ForceOwnership)
		if err := w.kube.Apply(ctx, client.ApplyConfigurationFromUnstructured(o.DeepCopy()), options...); err != nil {
			return err
		}
	}
	return nil
}

// waits says that an error is about something which is not there yet: a kind, or the namespace.
func waits(err error) bool { return meta.IsNoMatchError(err) || apierrors.IsNotFound(err) }

// applyAll applies objects in their order, again and again until all are there, and has the cluster go on after each.
func (w *world) applyAll(t *testing.T, all []*unstructured.Unstructured) {
	t.Helper()
	for pass := 0; len(all) > 0; pass++ {
		var left []*unstructured.Unstructured
		var last error
		for _, o := range all {
			if err := w.apply(t.Context(), o); waits(err) {
				left, last = append(left, o), err
				continue
			} else if err != nil {
				t.Fatalf("apply %s: %v", key(o), err)
			}
			w.goesOnAfter(t, "apply", o)
			w.established(t, o)
		}
		if len(left) == len(all) {
			t.Fatalf("pass %d applied nothing of %d: %v", pass, len(left), last)
		}
		all = left
	}
}

// established waits until a CustomResourceDefinition is served, so that the next pass can find its kind.
func (w *world) established(t *testing.T, o *unstructured.Unstructured) {
	t.Helper()
	if o.GetKind() != "CustomResourceDefinition" {
		return
	}
	suite.Eventually(t, o.GetName()+" served", func(ctx context.Context) (bool, error) {
		group, _, _ := unstructured.NestedString(o.Object, "spec", "group")
		kind, _, _ := unstructured.NestedString(o.Object, "spec", "names", "listKind")
		version, _, _ := unstructured.NestedSlice(o.Object, "spec", "versions")
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion(group + "/" + version[0].(map[string]any)["name"].(string))
		list.SetKind(kind)
		err := w.kube.List(ctx, list)
		if waits(err) {
			return false, nil
		}
		return err == nil, err
	})
}

// deleteAll deletes objects in their order, and has the cluster go on after each.
func (w *world) deleteAll(t *testing.T, all []*unstructured.Unstructured) {
	t.Helper()
	for _, o := range all {
		if err := w.kube.Delete(t.Context(), o.DeepCopy(), client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil && !waits(err) {
			t.Fatalf("delete %s: %v", key(o), err)
		}
		w.goesOnAfter(t, "delete", o)
	}
	w.gone(t, all)
}

// gone waits until nothing of it is left.
func (w *world) gone(t *testing.T, all []*unstructured.Unstructured) {
	t.Helper()
	for _, o := range all {
		suite.Eventually(t, key(o)+" gone", func(ctx context.Context) (bool, error) {
			err := w.kube.Get(ctx, client.ObjectKeyFromObject(o), o.DeepCopy())
			if waits(err) {
				return true, nil
			}
			return false, err
		})
	}
}

// certManagerCRDs are those of the module that this repository uses.
func certManagerCRDs(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/cert-manager/cert-manager").Output()
	if err != nil {
		t.Fatal(errors.Join(err, errors.New("find the module of cert-manager")))
	}
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(out)), "deploy", "crds", "cert-manager.io_*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("find the CustomResourceDefinitions of cert-manager: %v %v", files, err)
	}
	return readFiles(t, files...)
}

// prometheusCRDs are those of the Prometheus operator that the component monitoring uses, made from its types (e2e/monitoring pins them)
// as the operator's own build makes them.
func prometheusCRDs(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	dir := t.TempDir()
	generate := exec.CommandContext(t.Context(), "go", "tool", "-modfile=../../tools/go.mod", "controller-gen", "crd",
		"paths=github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1", "output:dir="+dir)
	generate.Dir = "../monitoring"
	if out, err := generate.CombinedOutput(); err != nil {
		t.Fatalf("make the CustomResourceDefinitions of the Prometheus operator: %v: %s", err, out)
	}
	return readFiles(t, filepath.Join(dir, "monitoring.coreos.com_podmonitors.yaml"), filepath.Join(dir, "monitoring.coreos.com_prometheusrules.yaml"))
}

// strictDryRun asks the API server what it thinks of an object; an unknown or doubled field is an error.
func (w *world) strictDryRun(ctx context.Context, o *unstructured.Unstructured) error {
	strict := client.WithFieldValidation(w.kube, metav1.FieldValidationStrict)
	return strict.Apply(ctx, client.ApplyConfigurationFromUnstructured(o.DeepCopy()), client.DryRunAll, client.FieldOwner("dry"), client.ForceOwnership)
}
