package suite

import (
	"context"
	"slices"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
)

// UncheckedPolicies does something while the API server does not ask the webhook about policies, as while it is away: a policy that can't
// work is stored then.
func (s *Suite) UncheckedPolicies(t testing.TB, do func()) {
	t.Helper()
	const checks = "policies.validate.podgrace.dev"
	never := admissionregistrationv1.MatchCondition{Name: "never", Expression: "false"}
	edit := func(change func([]admissionregistrationv1.MatchCondition) []admissionregistrationv1.MatchCondition) {
		t.Helper()
		configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{}
		if err := s.Client.Get(t.Context(), client.ObjectKey{Name: "podgrace"}, configuration); err != nil {
			t.Fatal(err)
		}
		patch := client.StrategicMergeFrom(configuration.DeepCopy())
		i := slices.IndexFunc(configuration.Webhooks, func(w admissionregistrationv1.ValidatingWebhook) bool {
			return w.Name == checks
		})
		configuration.Webhooks[i].MatchConditions = change(configuration.Webhooks[i].MatchConditions)
		if err := s.Client.Patch(t.Context(), configuration, patch); err != nil {
			t.Fatal(err)
		}
	}
	broken := &v1alpha1.PodPolicy{ObjectMeta: metav1.ObjectMeta{GenerateName: "unchecked-"}, Spec: v1alpha1.PodPolicySpec{
		Match: &v1alpha1.PodMatch{MatchConditions: []admissionregistrationv1.MatchCondition{{Name: "no-bool", Expression: "1"}}}}}
	create := func(ctx context.Context) error { return s.Client.Create(ctx, broken.DeepCopy(), client.DryRunAll) }
	edit(func(conditions []admissionregistrationv1.MatchCondition) []admissionregistrationv1.MatchCondition {
		return append(slices.Clone(conditions), never)
	})
	OutOfForce(t, checks, create)
	do()
	edit(func(conditions []admissionregistrationv1.MatchCondition) []admissionregistrationv1.MatchCondition {
		return slices.DeleteFunc(slices.Clone(conditions), func(c admissionregistrationv1.MatchCondition) bool { return c.Name == never.Name })
	})
	InForce(t, checks, create)
}
