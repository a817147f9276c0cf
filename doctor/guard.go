package doctor

import (
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/podgrace/podgrace/policy"
)

// guardState: the guard is armed if a policy needs it. That it is armed is also proof that the API server reached the webhook once.
func guardState(s *Snapshot) []Finding {
	i := slices.IndexFunc(s.RoleBindings, func(b rbacv1.RoleBinding) bool { return b.Name == GuardBinding })
	needed := policy.InForce(s.PodPolicies).RemovalOfAll().Guards()
	on := []string{fmt.Sprintf("kubectl -n %s annotate rolebinding %s %s-", s.OwnNamespace, GuardBinding, AnnotationGuard)}
	about := "RoleBinding " + GuardBinding
	switch {
	case i < 0:
		return []Finding{{Severity: Error, About: about, Message: "it is gone, so that the guard can't be armed: no removal is judged", Remedy: again}}
	case s.RoleBindings[i].Annotations[AnnotationGuard] == GuardOff:
		return []Finding{{Severity: Warning, About: about, Message: "somebody has switched the removal guard off: removals go on as if no policy guarded them", Remedy: "if that was long ago, switch it on again", Commands: on}}
	case needed && len(s.RoleBindings[i].Subjects) == 0:
		return []Finding{{
			Severity: Error, About: about, Message: "a policy denies or warns about removals, and the guard is not armed: no replica has answered the API server yet, so that nothing is judged",
			Remedy: "if it stays so, the API server can't reach the webhook's pods: docs/install.md, Network", Commands: []string{fmt.Sprintf("kubectl -n %s logs -l app.kubernetes.io/name=%s --tail=50", s.OwnNamespace, webhookName)},
		}}
	}
	return nil
}
