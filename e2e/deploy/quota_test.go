package deploy

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// Where pods of the classes that Podgrace's have need a quota, its namespace has one, in every variant.
func TestQuotaOfCriticalPods(t *testing.T) {
	file := filepath.Join(t.TempDir(), "admission.yaml")
	if err := os.WriteFile(file, []byte(limited), 0o600); err != nil {
		t.Fatal(err)
	}
	w := empty(t, "--admission-control-config-file="+file)
	if err := w.apply(t.Context(), find(t, variants[0].kustomized(t), "Namespace", namespace)); err != nil {
		t.Fatal(err)
	}
	suite.Eventually(t, "the namespace's service account", func(ctx context.Context) (bool, error) {
		err := w.kube.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "default"}, &corev1.ServiceAccount{})
		return err == nil, client.IgnoreNotFound(err)
	})
	classes := []string{"system-cluster-critical", "system-node-critical"}
	create := func(ctx context.Context, class string) error {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "p-"}, Spec: podSpec()}
		p.Spec.PriorityClassName = class
		return w.kube.Create(ctx, p, client.DryRunAll)
	}
	for _, v := range variants[:4] {
		for from, quota := range map[string]client.Object{
			"kustomize": find(t, v.kustomized(t), "ResourceQuota", "podgrace-critical-pods"), "Helm": find(t, v.templated(t, namespace), "ResourceQuota", "podgrace-critical-pods"),
		} {
			for _, class := range classes {
				if err := create(t.Context(), class); err == nil || !strings.Contains(err.Error(), "insufficient quota to match these scopes") {
					t.Fatalf("without the quota, %s: got %v", class, err)
				}
			}
			if err := w.kube.Create(t.Context(), quota); err != nil {
				t.Fatal(err)
			}
			for _, class := range classes {
				suite.Eventually(t, v.name+" by "+from+": a pod of class "+class, func(ctx context.Context) (bool, error) {
					err := create(ctx, class) // the quota's controller has to count first
					return err == nil, err
				})
			}
			if err := w.kube.Delete(t.Context(), quota); err != nil {
				t.Fatal(err)
			}
			suite.Eventually(t, "the quota gone", func(ctx context.Context) (bool, error) {
				err := create(ctx, classes[0])
				return err != nil && strings.Contains(err.Error(), "insufficient quota to match these scopes"), nil
			})
		}
	}
}
