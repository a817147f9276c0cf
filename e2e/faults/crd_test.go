package faults

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/e2e/podgrace"
	"github.com/podgrace/podgrace/e2e/suite"
)

const podPolicies = "podpolicies.podgrace.dev"

// A later version's CustomResourceDefinition has a field that this program does not know: the rest of the policy is in force, and its
// status tells what is not.
func TestNewerField(t *testing.T) {
	g := newGround(t)
	definitions := g.definitions(t)
	old := definition(t, definitions)
	newer := old.DeepCopy()
	spec := newer.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	spec.Properties["surge"] = apiextensionsv1.JSONSchemaProps{Type: "boolean"}
	newer.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"] = spec
	if err := definitions.Update(t.Context(), newer); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		old.ResourceVersion = definition(t, definitions).ResourceVersion
		if err := definitions.Update(context.Background(), old); err != nil {
			t.Error(err)
		}
	})
	policy := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": "PodPolicy", "metadata": map[string]any{"name": g.namespace + "-newer"},
		"spec": map[string]any{
			"surge": true, "weight": int64(7), "gracePeriod": map[string]any{"minSeconds": int64(77)},
			"match": map[string]any{"namespaceSelector": map[string]any{"matchLabels": map[string]any{"kubernetes.io/metadata.name": g.namespace}}},
		},
	}}
	suite.Eventually(t, "a policy with the new field", func(ctx context.Context) (bool, error) { // until the API server has the new schema
		p := policy.DeepCopy()
		err := g.Client.Create(ctx, p, client.FieldValidation("Strict"))
		return err == nil, err
	})
	t.Cleanup(func() {
		if err := g.Client.Delete(context.Background(), policy); err != nil {
			t.Error(err)
		}
	})
	suite.Eventually(t, "the rest of it in force", func(ctx context.Context) (bool, error) {
		p := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
		p.Namespace, p.Name = g.namespace, "probe"
		err := g.Client.Create(ctx, p, client.DryRunAll)
		return err == nil && *p.Spec.TerminationGracePeriodSeconds == 77, err
	})
	suite.Eventually(t, "the status that tells it", func(ctx context.Context) (bool, error) {
		var now v1alpha1.PodPolicy
		err := g.Client.Get(ctx, client.ObjectKeyFromObject(policy), &now)
		return strings.Contains(strings.Join(now.Status.Warnings, "\n"), "does not know spec.surge"), err
	})
}

// definitions is a client for CustomResourceDefinitions.
func (g *ground) definitions(t *testing.T) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := apiextensionsv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(g.Config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func definition(t *testing.T, c client.Client) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	var d apiextensionsv1.CustomResourceDefinition
	if err := c.Get(context.Background(), client.ObjectKey{Name: podPolicies}, &d); err != nil {
		t.Fatal(err)
	}
	return &d
}

// Without the CustomResourceDefinition a new replica ends and says why, pods are created as if there were no policy, and an old one
// goes on: it refuses removals, because no policy can be read, and when the definition is there, it follows the policies without being
// started again.
func TestDefinitionMissing(t *testing.T) {
	g := newGround(t)
	node := g.node(t, "definition-missing")
	guarded := g.runs(t, node, "guarded")
	root, err := cluster.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	definitions := g.definitions(t)
	if err := definitions.Delete(t.Context(), definition(t, definitions)); err != nil {
		t.Fatal(err)
	}
	suite.Eventually(t, "the end of the definition", func(ctx context.Context) (bool, error) {
		err := definitions.Get(ctx, client.ObjectKey{Name: podPolicies}, &apiextensionsv1.CustomResourceDefinition{})
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
	restore := sync.OnceFunc(func() {
		if _, err := envtest.InstallCRDs(g.Config, envtest.CRDInstallOptions{Paths: podgrace.Definitions(root), MaxTime: time.Minute}); err != nil {
			t.Error(err)
		}
	})
	defer restore()
	fresh, err := podgrace.Start(t.Context(), g.Cluster, filepath.Join(g.Dir, "bin", "webhook"), podgrace.Options{Unready: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = fresh.Stop() }()
	suite.Eventually(t, "the end of the new replica, and why", func(context.Context) (bool, error) {
		text, err := os.ReadFile(fresh.LogPath)
		return strings.Contains(string(text), "CustomResourceDefinition "+podPolicies+" is not there (kubectl apply"), err
	})
	suite.Eventually(t, "no policy that could be read", func(ctx context.Context) (bool, error) {
		err := g.Client.List(ctx, &v1alpha1.PodPolicyList{})
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
	suite.Eventually(t, "no policy in force at the old replica", func(ctx context.Context) (bool, error) {
		text, err := g.Metrics(ctx)
		return !strings.Contains(text, `podgrace_pod_policy_in_force_generation{policy="`+g.namespace+"-"), err
	})
	suite.Eventually(t, "the count that PodgraceWebhookBlind stands on", func(ctx context.Context) (bool, error) {
		text, err := g.Metrics(ctx)
		return strings.Contains(text, `podgrace_webhook_watch_failures_total{type="*v1alpha1.PodPolicy"}`), err
	})
	suite.Eventually(t, "the old replica's log, which tells of it", func(context.Context) (bool, error) {
		text, err := os.ReadFile(g.Webhook.LogPath)
		return strings.Contains(string(text), "failed to list *v1alpha1.PodPolicy: the server could not find the requested resource (get "+podPolicies+")"), err
	})
	if code, text, err := get(t.Context(), g.Webhook.HealthURL+"/readyz?verbose"); err != nil || code != http.StatusOK {
		t.Errorf("/readyz of the old replica: %d %s, %v", code, text, err)
	}
	created := g.runs(t, node, "created")
	if got := *created.Spec.TerminationGracePeriodSeconds; got != 30 {
		t.Errorf("there is no policy, but a new pod has a grace period of %d s", got)
	}
	for _, p := range []*corev1.Pod{guarded, created} {
		var err error
		suite.Eventually(t, "the node's state to be read", func(ctx context.Context) (bool, error) { // each refusal here says that the policies could not be
			err = g.Client.Delete(ctx, p, client.GracePeriodSeconds(0))
			return err == nil || !strings.Contains(err.Error(), "(whose state could not be read)"), nil
		})
		wantRefused(t, "a force delete of "+p.Name, err,
			"pod "+g.namespace+"/"+p.Name+" may still run on "+node+" (ready)", "which policies guard it could not be read", "(the policies could not be read)")
	}
	if err := g.Client.Delete(t.Context(), created); err != nil {
		t.Errorf("an ordinary delete: %v", err)
	}
	restore()
	g.Policy(t, g.namespace, v1alpha1.PodPolicySpec{GracePeriod: &v1alpha1.GracePeriodSection{DefaultSeconds: new(int64(45))}})
	g.back(t)
	g.replica(t) // is ready now
}
