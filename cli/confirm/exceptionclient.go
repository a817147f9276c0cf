package confirm

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podgrace/podgrace/api/v1alpha1"
)

// ExceptionClient is a Client that reads and grants exceptions.
type ExceptionClient struct {
	*Client
}

var _ Granter = (*ExceptionClient)(nil)

var (
	exceptions = v1alpha1.GroupVersion.WithResource("policyexceptions")
	policies   = v1alpha1.GroupVersion.WithResource("podpolicies")
	receipts   = v1alpha1.GroupVersion.WithResource("fencereceipts")
	fences     = v1alpha1.GroupVersion.WithResource("fences")
)

// Exception is of Granter. Who may grant need not be allowed to read policies.
func (c *ExceptionClient) Exception(ctx context.Context, namespace, name string) (f ExceptionFacts, err error) {
	u, err := c.Dynamic.Resource(exceptions).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return f, fmt.Errorf("there is no PolicyException %s/%s", namespace, name)
	}
	if err != nil {
		return f, fmt.Errorf("read PolicyException %s/%s: %w", namespace, name, err)
	}
	f = ExceptionFacts{Now: c.Clock.Now(), Exception: &v1alpha1.PolicyException{}, Asked: asked(u.GetManagedFields())}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, f.Exception); err != nil {
		return f, fmt.Errorf("decode PolicyException %s/%s: %w", namespace, name, err)
	}
	p, err := c.Dynamic.Resource(policies).Get(ctx, f.Exception.Spec.Policy, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		f.PolicyUnknown = why(err)
	default:
		f.Policy = &v1alpha1.PodPolicy{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(p.Object, f.Policy); err != nil {
			f.Policy, f.PolicyUnknown = nil, err.Error()
		}
	}
	return f, nil
}

// asked names the program that wrote the object last: the API server records no user.
func asked(managed []metav1.ManagedFieldsEntry) string {
	var last *metav1.ManagedFieldsEntry
	for i, m := range managed {
		if m.Subresource == "" && m.Time != nil && (last == nil || last.Time.Before(m.Time)) {
			last = &managed[i]
		}
	}
	if last == nil {
		return ""
	}
	return fmt.Sprintf("the API server's audit log has the user; written by %s at %s", last.Manager, last.Time.UTC().Format("2006-01-02 15:04:05 UTC"))
}

// Grant is of Granter.
func (c *ExceptionClient) Grant(ctx context.Context, x *v1alpha1.PolicyException, by string) error {
	patch, err := json.Marshal(map[string]any{
		"status": map[string]any{"grant": v1alpha1.Grant{By: by, UID: x.UID, Generation: x.Generation}},
	})
	if err != nil {
		return fmt.Errorf("make the patch: %w", err)
	}
	_, err = c.Dynamic.Resource(exceptions).Namespace(x.Namespace).Patch(ctx, x.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager}, "status")
	switch {
	case err == nil:
		c.note(ctx, corev1.ObjectReference{APIVersion: v1alpha1.GroupVersion.String(), Kind: "PolicyException", Namespace: x.Namespace, Name: x.Name, UID: x.UID},
			"ExceptionGranted", fmt.Sprintf("%s granted generation %d: limits of PodPolicy %s are lifted until %s", by, x.Generation, x.Spec.Policy, x.Spec.Until))
		return nil
	case apierrors.IsNotFound(err):
		return fmt.Errorf("exception %s/%s is gone meanwhile: nothing was granted", x.Namespace, x.Name)
	}
	return fmt.Errorf("write the grant of exception %s/%s, nothing was granted: %w", x.Namespace, x.Name, err)
}
