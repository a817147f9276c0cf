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

// Actors pass what fails closed without a call if all policies that deny allow them, and what fails open if all that warn do, too: about others the webhook has
// to say something.
func TestAllowedActorsOfSeveralPolicies(t *testing.T) {
	const name, both, all = "podgrace", `!(request.userInfo.username in ["b"])`, `!(request.userInfo.username in ["a", "b"])`
	removal := func(policy string, forceDelete v1alpha1.RemovalAction, actors ...string) client.Object {
		return &v1alpha1.PodPolicy{ObjectMeta: metav1.ObjectMeta{Name: policy}, Spec: v1alpha1.PodPolicySpec{Removal: &v1alpha1.RemovalSection{ForceDelete: forceDelete, AllowedActors: actors}}}
	}
	denies := removal("denies", v1alpha1.RemovalDeny, "a", "b")
	for what, tc := range map[string]struct {
		policies     []client.Object
		closed, open string
	}{
		"no policy":                   {nil, "", ""},
		"two that deny":               {[]client.Object{denies, removal("other", "", "b", "c")}, both, both},
		"one that warns beside":       {[]client.Object{denies, removal("other", v1alpha1.RemovalWarn, "b", "c")}, all, both},
		"one that warns of everybody": {[]client.Object{denies, removal("other", v1alpha1.RemovalWarn)}, all, ""},
		"one that warns":              {[]client.Object{removal("other", v1alpha1.RemovalWarn, "b")}, "", both},
		"one that allows beside":      {[]client.Object{denies, removal("other", v1alpha1.RemovalAllow)}, all, all},
	} {
		t.Run(what, func(t *testing.T) {
			configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name}, Webhooks: []admissionregistrationv1.ValidatingWebhook{
				{Name: "delete.removal.podgrace.dev"}, {Name: "open-delete.removal.podgrace.dev"}, {Name: "enforcer.removal.podgrace.dev"}, {Name: "pods.podgrace.dev"},
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
			if tc.closed != "" {
				want["delete.removal.podgrace.dev"] = tc.closed
			}
			if tc.open != "" {
				want["open-delete.removal.podgrace.dev"] = tc.open
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
