package deploy

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/e2e/suite"
)

// limited is what GKE's API server is configured with: pods of these classes only where a quota names the class.
const limited = `apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: ResourceQuota
  configuration:
    apiVersion: apiserver.config.k8s.io/v1
    kind: ResourceQuotaConfiguration
    limitedResources:
    - resource: pods
      matchScopes:
      - {scopeName: PriorityClass, operator: In, values: [system-node-critical, system-cluster-critical]}
`

// Where pods of the classes that Podgrace's have need a quota, their namespaces have one, in every variant.
func TestQuotaOfCriticalPods(t *testing.T) {
	file := filepath.Join(t.TempDir(), "admission.yaml")
	if err := os.WriteFile(file, []byte(limited), 0o600); err != nil {
		t.Fatal(err)
	}
	w := empty(t, "--admission-control-config-file="+file)
	for _, name := range []string{namespace, nodeNamespace} {
		// Without its labels: the quota is what is tested, and not the Pod Security level.
		if err := w.kube.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			t.Fatal(err)
		}
		suite.Eventually(t, "the service account of "+name, func(ctx context.Context) (bool, error) {
			err := w.kube.Get(ctx, client.ObjectKey{Namespace: name, Name: "default"}, &corev1.ServiceAccount{})
			return err == nil, client.IgnoreNotFound(err)
		})
	}
	create := func(ctx context.Context, namespace, class string) error {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "p-"}, Spec: podSpec()}
		p.Spec.PriorityClassName = class
		return w.kube.Create(ctx, p, client.DryRunAll)
	}
	refused := func(err error) bool {
		return err != nil && strings.Contains(err.Error(), "insufficient quota to match these scopes")
	}
	for _, v := range variants[:4] {
		for from, all := range map[string][]*unstructured.Unstructured{"kustomize": v.kustomized(t), "Helm": v.templated(t, namespace)} {
			for _, o := range all {
				if kind := o.GetKind(); kind != "Deployment" && kind != "DaemonSet" {
					continue
				}
				class, _, _ := unstructured.NestedString(o.Object, "spec", "template", "spec", "priorityClassName")
				if err := create(t.Context(), o.GetNamespace(), class); !refused(err) {
					t.Fatalf("without the quota, %s in %s: got %v", class, o.GetNamespace(), err)
				}
				i := slices.IndexFunc(all, func(q *unstructured.Unstructured) bool {
					return q.GetKind() == "ResourceQuota" && q.GetNamespace() == o.GetNamespace()
				})
				if i < 0 {
					t.Fatalf("%s by %s: no ResourceQuota in %s", v.name, from, o.GetNamespace())
				}
				if err := w.kube.Create(t.Context(), all[i]); err != nil {
					t.Fatal(err)
				}
				suite.Eventually(t, v.name+" by "+from+": a pod of class "+class, func(ctx context.Context) (bool, error) {
					err := create(ctx, o.GetNamespace(), class) // the quota's controller has to count first
					return err == nil, err
				})
				if err := w.kube.Delete(t.Context(), all[i]); err != nil {
					t.Fatal(err)
				}
				suite.Eventually(t, "the quota gone", func(ctx context.Context) (bool, error) {
					return refused(create(ctx, o.GetNamespace(), class)), nil
				})
			}
		}
	}
}
