package controlplane

import (
	"context"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/e2e/suite"
)

// A policy whose namespaceSelector can't be read was stored before the schema refused it. Its removal section is in force in every
// namespace, and its status says so: a typo switches no guard off.
func TestPolicyFromBeforeTheSchema(t *testing.T) {
	s := start(t)
	ns := s.Namespace(t)
	p := &v1alpha1.PodPolicy{ObjectMeta: metav1.ObjectMeta{GenerateName: "typo-"}, Spec: v1alpha1.PodPolicySpec{
		Match: &v1alpha1.PodMatch{NamespaceSelector: &v1alpha1.LabelSelector{MatchExpressions: []v1alpha1.LabelSelectorRequirement{
			{Key: "kubernetes.io/metadata.name", Operator: "in", Values: []string{ns}}}}},
		Removal: &v1alpha1.RemovalSection{},
	}}
	if err := s.Client.Create(t.Context(), p.DeepCopy(), client.DryRunAll); err == nil || !strings.Contains(err.Error(), `spec.match.namespaceSelector.matchExpressions[0].operator: Unsupported value: "in"`) {
		t.Fatalf("the schema lets it pass: %v", err)
	}
	s.UncheckedPolicies(t, func() { underTheOldSchema(t, s, func() { s.Create(t, p) }) })
	s.WaitInForce(t, p)

	pod := protected(t, s, ns)
	wantRefused(t, s.Client.Delete(t.Context(), pod, client.GracePeriodSeconds(0)), "PodPolicy "+p.Name)
	suite.Eventually(t, "the status", func(ctx context.Context) (bool, error) {
		err := s.Client.Get(ctx, client.ObjectKeyFromObject(p), p)
		return slices.ContainsFunc(p.Status.Conditions, func(c metav1.Condition) bool {
			return c.Status == metav1.ConditionFalse && strings.HasPrefix(c.Message, "not in force, but for removal, which holds in every namespace until the selector can be read: ") && strings.Contains(c.Message, "namespaceSelector")
		}), err
	})
}

// underTheOldSchema does something while the CustomResourceDefinition does not look into selectors, as it did not at first.
func underTheOldSchema(t *testing.T, s *suite.Suite, do func()) {
	t.Helper()
	crd := &unstructured.Unstructured{}
	crd.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	edit := func(change func(selector map[string]any)) {
		if err := s.Client.Get(t.Context(), client.ObjectKey{Name: "podpolicies.podgrace.dev"}, crd); err != nil {
			t.Fatal(err)
		}
		versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
		if err != nil {
			t.Fatal(err)
		}
		at := versions[0]
		for _, step := range []string{"schema", "openAPIV3Schema", "properties", "spec", "properties", "match", "properties"} {
			at = at.(map[string]any)[step]
		}
		change(at.(map[string]any))
		if err := unstructured.SetNestedSlice(crd.Object, versions, "spec", "versions"); err != nil {
			t.Fatal(err)
		}
		if err := s.Client.Update(t.Context(), crd); err != nil {
			t.Fatal(err)
		}
	}
	var strict any
	edit(func(match map[string]any) {
		strict = match["namespaceSelector"]
		match["namespaceSelector"] = map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
	})
	typo := &v1alpha1.PodPolicy{ObjectMeta: metav1.ObjectMeta{GenerateName: "probe-"}, Spec: v1alpha1.PodPolicySpec{
		Match: &v1alpha1.PodMatch{NamespaceSelector: v1alpha1.SetAsLabelSelector(map[string]string{"a": "b c"})}}}
	suite.Eventually(t, "the old schema", func(ctx context.Context) (bool, error) {
		return s.Client.Create(ctx, typo.DeepCopy(), client.DryRunAll) == nil, nil
	})
	do()
	edit(func(match map[string]any) { match["namespaceSelector"] = strict })
	suite.Eventually(t, "the new schema", func(ctx context.Context) (bool, error) {
		return s.Client.Create(ctx, typo.DeepCopy(), client.DryRunAll) != nil, nil
	})
}
