package apiserver

import (
	"context"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/e2e/suite"
)

// The API server itself keeps the contract annotation as it was decided, whichever way it is written. It may be removed, and not be put back.
func TestEnforcementIsImmutable(t *testing.T) {
	s := shared.Get(t)
	ns := s.Namespace(t)
	s.Policy(t, ns, v1alpha1.PodPolicySpec{Node: &v1alpha1.Enforcement{OOM: &v1alpha1.OOMEnforcement{Rank: 50}}})
	p, _ := mustCreate(t, s, newPod(ns))
	patch := func(text string) client.Patch { return client.RawPatch("application/merge-patch+json", []byte(text)) }
	suite.InForce(t, "enforcement.podgrace.dev", func(ctx context.Context) error {
		return s.Client.Patch(ctx, p.DeepCopy(), patch(`{"metadata":{"annotations":{"podgrace.dev/enforcement":"{}"}}}`), client.DryRunAll)
	}, "records what was decided when the pod was created")
	for name, attempt := range map[string]func() error{
		"changed": func() error {
			return s.Client.Patch(t.Context(), p.DeepCopy(), patch(`{"metadata":{"annotations":{"podgrace.dev/enforcement":"{\"oom\":{\"rank\":0}}"}}}`))
		},
		"emptied": func() error {
			return s.Client.Patch(t.Context(), p.DeepCopy(), patch(`{"metadata":{"annotations":{"podgrace.dev/enforcement":""}}}`))
		},
		"by the status": func() error {
			return s.Client.Status().Patch(t.Context(), p.DeepCopy(), patch(`{"metadata":{"annotations":{"podgrace.dev/enforcement":"{}"}}}`))
		},
	} {
		if err := attempt(); err == nil {
			t.Errorf("%s: it went through", name)
		}
	}
	if err := s.Client.Patch(t.Context(), p, patch(`{"metadata":{"annotations":{"mine":"x"},"labels":{"a":"b"}}}`)); err != nil {
		t.Errorf("other annotations and labels: %v", err)
	}
	decided := p.Annotations[v1alpha1.AnnotationEnforcement]
	if err := s.Client.Patch(t.Context(), p, patch(`{"metadata":{"annotations":{"podgrace.dev/enforcement":null}}}`)); err != nil || decided == "" || p.Annotations[v1alpha1.AnnotationEnforcement] != "" {
		t.Errorf("removed from %q to %q: %v", decided, p.Annotations[v1alpha1.AnnotationEnforcement], err)
	}
	for _, text := range []string{decided, "{}"} {
		if err := s.Client.Patch(t.Context(), p.DeepCopy(), patch(fmt.Sprintf(`{"metadata":{"annotations":{"podgrace.dev/enforcement":%q}}}`, text))); err == nil {
			t.Errorf("%s was put back", text)
		}
	}
}

// So does it keep the record of a pod's controller, also where there is none. Only who may confirm a force delete of the pod may remove it.
func TestRecordIsImmutable(t *testing.T) {
	s := shared.Get(t)
	ns := s.Namespace(t)
	s.Policy(t, ns, v1alpha1.PodPolicySpec{Removal: &v1alpha1.RemovalSection{Owners: []v1alpha1.ProtectedOwner{{Group: "example.org", Kind: "Set"}}}})
	of := func(p *corev1.Pod) { // a kind that nobody serves, or the garbage collector would miss the owner
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "example.org/v1", Kind: "Set", Name: "db", UID: "1", Controller: new(true)}}
	}
	const record = "Set.example.org/db"
	owned, warnings := mustCreate(t, s, newPod(ns, of, func(p *corev1.Pod) {
		p.Annotations = map[string]string{v1alpha1.AnnotationProtected: "mine"}
	}))
	wantWarning(t, warnings, "annotation podgrace.dev/protected is written by Podgrace only: it was replaced")
	if got := owned.Annotations[v1alpha1.AnnotationProtected]; got != record {
		t.Errorf("recorded is %q", got)
	}
	free, _ := mustCreate(t, s, newPod(ns, func(p *corev1.Pod) { p.Name = "free" }))
	kube := s.Client
	patch := func(p *corev1.Pod, text string) error {
		return kube.Patch(t.Context(), p.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"annotations":{"podgrace.dev/protected":`+text+`}}}`)), client.DryRunAll)
	}
	const says = "records whose pod this was when it was created"
	suite.InForce(t, "enforcement.podgrace.dev", func(context.Context) error { return patch(owned, `"Job.batch/x"`) }, says)
	s.Grant(t, rbacv1.UserKind, "editor", ns, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"*"}})
	editor, _ := s.Warned(t, "editor")
	for who, c := range map[string]client.Client{"an editor": editor, "an administrator": s.Client} {
		kube = c
		attempts := map[string]error{"emptied": patch(owned, `""`), "written later": patch(free, `"`+record+`"`)}
		if c == editor {
			attempts["removed"] = patch(owned, "null")
		} else if err := patch(owned, "null"); err != nil {
			t.Errorf("%s, removed: %v", who, err)
		}
		for name, err := range attempts {
			if err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%s, %s: got %v", who, name, err)
			}
		}
		if err := patch(owned, `"`+record+`"`); err != nil {
			t.Errorf("%s, left as it is: %v", who, err)
		}
	}
}

func statefulSet(ns, name string, seconds int64) *appsv1.StatefulSet {
	labels := map[string]string{"app": name}
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name},
		Spec: appsv1.StatefulSetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: newPod(ns, grace(seconds)).Spec,
		}},
	}
}

// A stateful template without grace is refused when it is applied, in the namespaces of the policy that refuses it and in no
// others, by the API server alone.
func TestZeroGraceTemplate(t *testing.T) {
	s := shared.Get(t)
	guarded, other := s.Namespace(t), s.Namespace(t)
	s.Policy(t, guarded, v1alpha1.PodPolicySpec{Removal: &v1alpha1.RemovalSection{ZeroGrace: v1alpha1.ZeroGraceDeny}})
	create := func(ns, name string, grace int64) error {
		return s.Client.Create(t.Context(), statefulSet(ns, name, grace), client.DryRunAll)
	}
	const rule = "zero-grace.podgrace.dev"
	suite.InForce(t, rule, func(context.Context) error { return create(guarded, "probe", 0) }, "terminationGracePeriodSeconds is 0 in the template of StatefulSet probe")
	if err := create(guarded, "graceful", 10); err != nil {
		t.Errorf("with grace: %v", err)
	}
	if err := create(other, "db", 0); err != nil {
		t.Errorf("in a namespace that the policy is not for: %v", err)
	}
	for i, tc := range []struct {
		selector v1alpha1.LabelSelectorRequirement
		refused  bool
	}{
		{v1alpha1.LabelSelectorRequirement{Key: corev1.LabelMetadataName, Operator: "In", Values: []string{"x", other}}, true},
		{v1alpha1.LabelSelectorRequirement{Key: corev1.LabelMetadataName, Operator: "NotIn", Values: []string{other}}, false},
		{v1alpha1.LabelSelectorRequirement{Key: "absent", Operator: "NotIn", Values: []string{"x"}}, true},
		{v1alpha1.LabelSelectorRequirement{Key: corev1.LabelMetadataName, Operator: "Exists"}, true},
		{v1alpha1.LabelSelectorRequirement{Key: "absent", Operator: "Exists"}, false},
		{v1alpha1.LabelSelectorRequirement{Key: "absent", Operator: "DoesNotExist"}, true},
	} {
		t.Run(fmt.Sprint(tc.selector), func(t *testing.T) {
			p := &v1alpha1.PodPolicy{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", other, i)}, Spec: v1alpha1.PodPolicySpec{
				Match:   &v1alpha1.PodMatch{NamespaceSelector: &v1alpha1.LabelSelector{MatchExpressions: []v1alpha1.LabelSelectorRequirement{tc.selector}}},
				Removal: &v1alpha1.RemovalSection{ZeroGrace: v1alpha1.ZeroGraceDeny},
			}}
			s.Create(t, p)
			s.WaitInForce(t, p)
			zero := func(context.Context) error { return create(other, "db", 0) }
			if tc.refused {
				suite.InForce(t, rule, zero)
			} else if err := zero(t.Context()); err != nil {
				t.Errorf("refused: %v", err)
			}
			if err := s.Client.Delete(t.Context(), p); err != nil {
				t.Fatal(err)
			}
			suite.OutOfForce(t, rule, zero)
		})
	}
}
