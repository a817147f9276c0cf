package doctor

import (
	"fmt"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
)

// guardState: if there is a policy, the API server asks the webhook. That it does is also proof that the API server reached the webhook once.
func guardState(s *Snapshot) []Finding {
	role, bound := s.inForce()
	about := "Role " + InForce
	switch {
	case role == nil:
		return []Finding{{Severity: Error, About: about, Message: "it is gone, so the API server asks the webhook nothing: no policy is in force", Remedy: again}}
	case !bound:
		return []Finding{{Severity: Error, About: "RoleBinding " + InForce, Message: "it is gone or names another account, so the API server asks the webhook nothing: no policy is in force", Remedy: again}}
	case role.Annotations[AnnotationGuard] == GuardOff:
		on := []string{fmt.Sprintf("kubectl -n %s annotate role %s %s-", s.OwnNamespace, InForce, AnnotationGuard)}
		return []Finding{{Severity: Warning, About: about, Message: "a person has switched the removal guard off: removals are allowed as if no policy guarded them, and limits that are to fail closed don't", Remedy: "if that was long ago, switch it on again", Commands: on}}
	case len(s.PodPolicies) > 0 && len(role.Rules) == 0:
		return []Finding{{
			Severity: Error, About: about, Message: "there is a policy, and it is not in force: no replica has answered the API server yet, so nothing is judged",
			Remedy: "if it stays so, the API server can't reach the webhook's pods: docs/install.md, Network", Commands: []string{fmt.Sprintf("kubectl -n %s logs -l app.kubernetes.io/name=%s --tail=50", s.OwnNamespace, webhookName)},
		}}
	}
	return nil
}

// inForce returns the Role by which the API server asks the webhook, nil if it is missing, and reports whether its RoleBinding names the right account.
func (s *Snapshot) inForce() (role *rbacv1.Role, bound bool) {
	if i := slices.IndexFunc(s.Roles, func(r rbacv1.Role) bool { return r.Name == InForce }); i >= 0 {
		role = &s.Roles[i]
	}
	us := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: s.OwnNamespace, Name: InForce}
	return role, slices.ContainsFunc(s.RoleBindings, func(b rbacv1.RoleBinding) bool { return b.Name == InForce && slices.Contains(b.Subjects, us) })
}

// closedLimits: limits that are to fail closed are armed. Until they are the API server does not ask the webhook for them, whether a replica runs or not.
func closedLimits(s *Snapshot) []Finding {
	role, _ := s.inForce()
	// An older version's manifests have other conditions, and arm by themselves.
	closed := slices.ContainsFunc(s.ownHooks(), func(h hook) bool {
		return isClosed(h, s.OwnNamespace) && slices.ContainsFunc(h.Conditions, func(c admissionregistrationv1.MatchCondition) bool { return c.Name == "armed" })
	})
	armed := role != nil && slices.ContainsFunc(role.Rules, func(r rbacv1.PolicyRule) bool { return slices.Contains(r.Resources, "closedlimits") })
	// What guardState reports is not repeated.
	if !closed || armed || len(s.PodPolicies) == 0 || role == nil || len(role.Rules) == 0 || role.Annotations[AnnotationGuard] == GuardOff {
		return nil
	}
	return []Finding{{Severity: Error, About: "Role " + InForce, Message: "limits are to fail closed, there is a policy, and they are not armed: only the limits hold that the API server judges itself", Remedy: again}}
}
