package suite

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// refusals are how an API server begins a refusal by a ValidatingAdmissionPolicy, by a webhook that answers, and by one that does not answer and fails closed.
var refusals = []string{"ValidatingAdmissionPolicy '%s' with binding '", `admission webhook "%s" denied the request: `, `failed calling webhook "%s": `}

// RefusedBy reports whether an API server refused a request because of the ValidatingAdmissionPolicy or the webhook of this name, and whether the refusal contains all the words.
// The words alone do not tell: the webhook refuses in the words of the compiled limits, and RBAC refuses as well.
func RefusedBy(err error, name string, words ...string) bool {
	if err == nil || !slices.ContainsFunc(refusals, func(r string) bool { return strings.Contains(err.Error(), fmt.Sprintf(r, name)) }) {
		return false
	}
	return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(err.Error(), w) })
}

// InForce returns when the API server itself acts by the ValidatingAdmissionPolicy or the webhook of this name: when it refuses the request because of it, with all the words in the refusal.
// An object that is stored is not in force yet. The API server learns of configurations, policies, bindings and parameters by a watch each, and it compiles policies once a second.
// The request is a dry run: each one before is let through.
func InForce(t testing.TB, name string, request func(context.Context) error, words ...string) {
	t.Helper()
	Eventually(t, strings.Join(append([]string{name + " in force"}, words...), ": "), func(ctx context.Context) (bool, error) {
		err := request(ctx)
		if RefusedBy(err, name, words...) {
			return true, nil
		}
		return false, err
	})
}

// OutOfForce returns when the API server lets a request through, a dry run that the object of this name refused.
func OutOfForce(t testing.TB, name string, request func(context.Context) error) {
	t.Helper()
	Eventually(t, name+" out of force", func(ctx context.Context) (bool, error) {
		err := request(ctx)
		return err == nil, err
	})
}

// Bind binds a ClusterRole to a user or a group (kind) until the test ends: in one namespace, or in the whole cluster if that is empty. It returns when the API server authorizes by it, as
// a SubjectAccessReview tells for every rule: the authorizer learns of roles and of bindings by a watch each.
func (s *Suite) Bind(t testing.TB, kind, name, namespace, role string) {
	t.Helper()
	made := metav1.ObjectMeta{Namespace: namespace, GenerateName: "e2e-"}
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}
	subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: kind, Name: name}}
	if namespace == "" {
		s.Create(t, &rbacv1.ClusterRoleBinding{ObjectMeta: made, RoleRef: ref, Subjects: subjects})
	} else {
		s.Create(t, &rbacv1.RoleBinding{ObjectMeta: made, RoleRef: ref, Subjects: subjects})
	}
	spec := authorizationv1.SubjectAccessReviewSpec{User: name}
	if kind == rbacv1.GroupKind {
		spec.User, spec.Groups = "", []string{name}
	}
	var rights rbacv1.ClusterRole
	Eventually(t, "the rights of "+name+" by ClusterRole "+role, func(ctx context.Context) (bool, error) {
		if err := s.Client.Get(ctx, client.ObjectKey{Name: role}, &rights); err != nil {
			return false, err
		}
		for _, r := range rights.Rules {
			if len(r.Resources) == 0 {
				continue // of URLs
			}
			resource, subresource, _ := strings.Cut(r.Resources[0], "/")
			review := &authorizationv1.SubjectAccessReview{Spec: spec}
			review.Spec.ResourceAttributes = &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: r.Verbs[0], Group: r.APIGroups[0], Resource: resource, Subresource: subresource}
			if len(r.ResourceNames) > 0 {
				review.Spec.ResourceAttributes.Name = r.ResourceNames[0]
			}
			if err := s.Client.Create(ctx, review); err != nil || !review.Status.Allowed {
				return false, err
			}
		}
		return len(rights.Rules) > 0, nil
	})
}

// Grant is Bind for a ClusterRole of the test's own.
func (s *Suite) Grant(t testing.TB, kind, name, namespace string, rules ...rbacv1.PolicyRule) {
	t.Helper()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{GenerateName: "e2e-"}, Rules: rules}
	s.Create(t, role)
	s.Bind(t, kind, name, namespace, role.Name)
}
