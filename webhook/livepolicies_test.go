package webhook_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/webhook"
)

// A replica whose informers are behind, or that can't read the policies at all, lets no force delete pass: what it let pass
// would be stored, and the next replica could not refuse it any more.
func TestReplicaThatIsBehind(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	guarding := podPolicy("p", v1alpha1.PodPolicySpec{Removal: &v1alpha1.RemovalSection{Protect: v1alpha1.ProtectAll}})
	warning := podPolicy("p", v1alpha1.PodPolicySpec{Removal: &v1alpha1.RemovalSection{Protect: v1alpha1.ProtectAll, ForceDelete: v1alpha1.RemovalWarn}})
	dropped := podPolicy("p", v1alpha1.PodPolicySpec{})
	dropped.ManagedFields = []metav1.ManagedFieldsEntry{{APIVersion: v1alpha1.GroupVersion.String(), FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:removal":{"f:forceDelete":{}}}}`)}}
	withDropped := interceptor.NewClient(cluster(namespace("shop"), node), interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
		if policies, ok := list.(*v1alpha1.PodPolicyList); ok {
			policies.Items = []v1alpha1.PodPolicy{*dropped} // the fake client returns no managed fields
			return nil
		}
		return c.List(ctx, list, options...)
	}})
	away := interceptor.NewClient(cluster(namespace("shop"), node), interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
		return errors.New("connection refused")
	}})
	force := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		UID: "1", Kind: pods, Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"}, Namespace: "shop", Name: "db-0", Operation: admissionv1.Delete,
		OldObject: runtime.RawExtension{Raw: []byte(`{"metadata":{"namespace":"shop","name":"db-0","uid":"u"},"spec":{"nodeName":"n1"}}`)},
		Options:   runtime.RawExtension{Raw: []byte(`{"gracePeriodSeconds":0}`)},
	}}
	for name, tc := range map[string]struct {
		live    client.Reader
		allowed bool
		says    string
		behind  []*v1alpha1.PodPolicy
	}{
		"nothing guards it in truth": {cluster(namespace("shop"), node), true, "", nil},
		"a policy is newer":          {cluster(namespace("shop"), node, guarding), false, "(PodPolicy p)", nil},
		"a policy is stricter now":   {cluster(namespace("shop"), node, guarding), false, "(PodPolicy p)", []*v1alpha1.PodPolicy{warning}},
		"its section was dropped":    {withDropped, false, "(PodPolicy p; until spec.removal of p can be read, it protects all pods and lets nobody through by name)", nil},
		"warned, and can't be read":  {away, false, "which policies guard it could not be read", []*v1alpha1.PodPolicy{warning}},
		"denied, and can't be read":  {away, false, "(PodPolicy p)", []*v1alpha1.PodPolicy{guarding}},
		"the policies can't be read": {away, false, "which policies guard it could not be read", nil},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEngine(t, cluster(namespace("shop")), tc.live, tc.behind...)
			e.LivePolicies = webhook.Read(tc.live)
			got := webhook.Handler(e.ValidateRemoval).Handle(t.Context(), force)
			if got.Allowed != tc.allowed || !strings.Contains(message(got), tc.says) {
				t.Errorf("got %v, %q", got.Allowed, message(got))
			}
		})
	}
}
