package controllers_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/webhook"
	"github.com/podgrace/podgrace/webhook/controllers"
)

// Only actors pass without a call whom all policies allow that deny or warn: of the others the webhook has to say something.
func TestAllowedActorsOfSeveralPolicies(t *testing.T) {
	const name, both = "podgrace", `!(request.userInfo.username in ["b"])`
	removal := func(policy string, forceDelete v1alpha1.RemovalAction, actors ...string) client.Object {
		return &v1alpha1.PodPolicy{ObjectMeta: metav1.ObjectMeta{Name: policy}, Spec: v1alpha1.PodPolicySpec{Removal: &v1alpha1.RemovalSection{ForceDelete: forceDelete, AllowedActors: actors}}}
	}
	denies := removal("denies", v1alpha1.RemovalDeny, "a", "b")
	for what, tc := range map[string]struct {
		policies []client.Object
		want     string
	}{
		"no policy":                   {nil, ""},
		"two that deny":               {[]client.Object{denies, removal("other", "", "b", "c")}, both},
		"one that warns beside":       {[]client.Object{denies, removal("other", v1alpha1.RemovalWarn, "b", "c")}, both},
		"one that warns of everybody": {[]client.Object{denies, removal("other", v1alpha1.RemovalWarn)}, ""},
		"one that allows beside":      {[]client.Object{denies, removal("other", v1alpha1.RemovalAllow)}, `!(request.userInfo.username in ["a", "b"])`},
	} {
		t.Run(what, func(t *testing.T) {
			configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name}, Webhooks: []admissionregistrationv1.ValidatingWebhook{
				{Name: "delete.removal.podgrace.dev"}, {Name: "enforcer.removal.podgrace.dev"}, {Name: "pods.podgrace.dev"},
			}}
			c := fake.NewClientBuilder().WithScheme(webhook.NewScheme()).WithObjects(append(tc.policies, configuration)...).Build()
			a := controllers.AllowedActors{Client: c, Configuration: name}
			if _, err := a.Reconcile(t.Context(), reconcile.Request{}); err != nil {
				t.Fatal(err)
			}
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(configuration), configuration); err != nil {
				t.Fatal(err)
			}
			got := map[string]string{}
			for _, w := range configuration.Webhooks {
				for _, condition := range w.MatchConditions {
					got[w.Name] = condition.Expression
				}
			}
			want := map[string]string{}
			if tc.want != "" {
				want["delete.removal.podgrace.dev"] = tc.want
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
