package deploy

import (
	"compress/gzip"
	"context"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/fluxcd/cli-utils/pkg/kstatus/polling"
	"github.com/fluxcd/pkg/ssa"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/e2e/podgrace"
	"github.com/podgrace/podgrace/e2e/suite"
	"github.com/podgrace/podgrace/webhook/controllers"
)

// flux applies objects as Flux' kustomize-controller does (internal/controller/kustomization_controller.go, 1.9.6): by server-side apply, after it
// has taken over, and so undone, whatever kubectl has written. It returns what it has changed.
func flux(t *testing.T, s *suite.Suite, all []*unstructured.Unstructured) []ssa.ChangeSetEntry {
	t.Helper()
	kube, err := client.New(s.Config, client.Options{Scheme: s.Client.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	poller := polling.NewStatusPoller(kube, kube.RESTMapper(), polling.Options{})
	manager := ssa.NewResourceManager(kube, poller, ssa.Owner{Field: "kustomize-controller", Group: "kustomize.toolkit.fluxcd.io"})
	options := ssa.DefaultApplyOptions()
	options.Cleanup = ssa.ApplyCleanupOptions{
		Annotations: []string{corev1.LastAppliedConfigAnnotation},
		FieldManagers: []ssa.FieldManager{
			{Name: "kubectl", OperationType: metav1.ManagedFieldsOperationApply},
			{Name: "kubectl", OperationType: metav1.ManagedFieldsOperationUpdate},
			{Name: "before-first-apply", OperationType: metav1.ManagedFieldsOperationUpdate},
			{Name: "kustomize-controller", OperationType: metav1.ManagedFieldsOperationUpdate},
		},
	}
	copies := make([]*unstructured.Unstructured, 0, len(all))
	for _, o := range all {
		copies = append(copies, o.DeepCopy())
	}
	changes, err := manager.ApplyAllStaged(t.Context(), copies, options)
	if err != nil {
		t.Fatal(err)
	}
	var changed []ssa.ChangeSetEntry
	for _, entry := range changes.Entries {
		if entry.Action != ssa.UnchangedAction {
			changed = append(changed, entry)
		}
	}
	return changed
}

// Flux comes to rest beside the leader, and neither undoes what that writes nor that the guard was switched off by the command that the docs have, although it
// undoes what kubectl writes under its own name.
func TestFlux(t *testing.T) {
	s := shared.Get(t)
	all := localised(t, s)
	s.Policy(t, s.Namespace(t), v1alpha1.PodPolicySpec{Removal: &v1alpha1.RemovalSection{AllowedActors: []string{"system:serviceaccount:ops:repair"}}})
	armed := func(ctx context.Context) (bool, error) {
		r, err := inForce(ctx, s)
		return controllers.AskedBy(r.Rules).Nodes, err
	}
	suite.Eventually(t, "the guard to be armed", armed)
	flux(t, s, all)
	if changed := flux(t, s, all); len(changed) > 0 {
		t.Errorf("the second time there was something left to apply: %v", changed)
	}
	if ok, err := armed(t.Context()); !ok {
		t.Errorf("applied, and the guard is not armed any more: %v", err)
	}

	t.Cleanup(func() {
		back := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"podgrace.dev/guard":null}}}`))
		if err := s.Client.Patch(context.Background(), &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: controllers.InForce}}, back); err != nil {
			t.Error(err)
		}
	})
	if _, _, err := s.Kubectl(t.Context(), switchOff(t)...); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Kubectl(t.Context(), "-n", namespace, "annotate", "role", controllers.InForce, "example.org/by-hand=yes"); err != nil {
		t.Fatal(err)
	}
	flux(t, s, all)
	r, err := inForce(t.Context(), s)
	if err != nil || r.Annotations[controllers.AnnotationGuard] != controllers.GuardOff || controllers.AskedBy(r.Rules).Closes() {
		t.Errorf("switched off, and Flux has undone it: %v %v %v", r.Annotations, r.Rules, err)
	}
	if r.Annotations["example.org/by-hand"] != "" {
		t.Error("Flux does not undo what kubectl writes any more: is the flag that the docs have still needed?")
	}
}

// localised are Podgrace's objects, as they are in this cluster.
func localised(t *testing.T, s *suite.Suite) []*unstructured.Unstructured {
	t.Helper()
	var all []*unstructured.Unstructured
	for _, file := range []string{"webhook/rbac.yaml", "webhook/configurations.yaml", "webhook/policies.yaml", "webhook/fencing.yaml", "components/selfmanaged/rbac.yaml", "components/selfmanaged/policies.yaml"} {
		objects, err := podgrace.Manifest(manifests+"/"+file, s.Webhook)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, objects...)
	}
	return all
}

func inForce(ctx context.Context, s *suite.Suite) (*rbacv1.Role, error) {
	r := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: controllers.InForce}}
	return r, s.Client.Get(ctx, client.ObjectKeyFromObject(r), r)
}

// switchOff are the arguments of the command of operations.md.
func switchOff(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	command := regexp.MustCompile(`(?m)^kubectl (-n podgrace-system patch role podgrace-in-force .*) -p '(.*)'$`).FindStringSubmatch(string(text))
	if command == nil {
		t.Fatal("operations.md has no command that switches the guard off")
	}
	return append(strings.Fields(command[1]), "-p", command[2])
}

// The objects of docs/gitops.md are what the tools' CustomResourceDefinitions say (testdata: Argo CD's own file, and those of Flux made of its types by controller-gen,
// compressed), and the chart takes their values.
func TestObjectsOfGitOpsTools(t *testing.T) {
	w := empty(t)
	files, err := filepath.Glob("testdata/*.yaml.gz")
	if err != nil || len(files) != 4 {
		t.Fatalf("the tools' CustomResourceDefinitions: %v %v", files, err)
	}
	for _, file := range files {
		w.install(t, objects(t, unzipped(t, file)))
	}
	for _, ns := range []string{"argocd", "flux-system"} {
		if err := w.kube.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile("../../docs/gitops.md")
	if err != nil {
		t.Fatal(err)
	}
	rendered := 0
	for _, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(text, -1) {
		for _, o := range objects(t, block[1]) {
			if err := w.strictDryRun(t.Context(), o); err != nil {
				t.Errorf("%s: %v", key(o), err)
			}
			values, found := chartOf(o)
			if !found {
				continue
			}
			file := filepath.Join(t.TempDir(), "values.yaml")
			text, err := yaml.Marshal(values)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, text, 0o600); err != nil {
				t.Fatal(err)
			}
			if out, err := helm(t, "template", "podgrace", chart, "--namespace", namespace, "--values", file); err != nil {
				t.Errorf("%s: %v %s", key(o), err, out)
			}
			rendered++
		}
	}
	if rendered != 2 {
		t.Errorf("%d of the objects have values for the chart", rendered)
	}
}

// chartOf returns the values of an object that installs the chart.
func chartOf(o *unstructured.Unstructured) (values map[string]any, found bool) {
	for _, at := range []struct{ chart, values []string }{
		{[]string{"spec", "source", "path"}, []string{"spec", "source", "helm", "valuesObject"}},
		{[]string{"spec", "chart", "spec", "chart"}, []string{"spec", "values"}},
	} {
		if path, _, _ := unstructured.NestedString(o.Object, at.chart...); path == "deploy/chart/podgrace" {
			values, _, _ = unstructured.NestedMap(o.Object, at.values...)
			return values, true
		}
	}
	return nil, false
}

func unzipped(t *testing.T, file string) []byte {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	unzip, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(unzip)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
