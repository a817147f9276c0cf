package doctor

import (
	"fmt"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/podgrace/podgrace/policy"
)

// guardState: the guard is armed if a policy needs it. That it is armed is also proof that the API server reached the webhook once.
func guardState(s *Snapshot) []Finding {
	return s.arming(GuardBinding, policy.InForce(s.PodPolicies).RemovalOfAll().Guards(), arming{
		gone:    "it is gone, so that the guard can't be armed: no removal is judged",
		off:     "somebody has switched the removal guard off: removals go on as if no policy guarded them",
		waiting: "a policy denies or warns about removals, and the guard is not armed",
	})
}

// closedLimits: limits that are to fail closed are armed. Until they are the API server does not ask the webhook for them, be there a replica or not.
func closedLimits(s *Snapshot) []Finding {
	// An older version's manifests have other conditions, and arm by themselves.
	if !slices.ContainsFunc(s.ownHooks(), func(h hook) bool {
		return isClosed(h, s.OwnNamespace) && slices.ContainsFunc(h.Conditions, func(c admissionregistrationv1.MatchCondition) bool { return c.Name == "armed" })
	}) {
		return nil
	}
	return s.arming(LimitsBinding, len(s.PodPolicies) > 0, arming{
		gone:    "it is gone, so that limits that are to fail closed can't be armed: only those hold that the API server judges by itself",
		off:     "somebody has switched limits off that are to fail closed: only those hold that the API server judges by itself",
		waiting: "limits are to fail closed, there is a policy, and they are not armed",
	})
}

// arming is what is said of what the leader arms by a RoleBinding: that this is gone, that somebody switched it off, or that it is not armed.
type arming struct{ gone, off, waiting string }

func (s *Snapshot) arming(binding string, needed bool, says arming) []Finding {
	i := slices.IndexFunc(s.RoleBindings, func(b rbacv1.RoleBinding) bool { return b.Name == binding })
	about := "RoleBinding " + binding
	switch {
	case i < 0:
		return []Finding{{Severity: Error, About: about, Message: says.gone, Remedy: again}}
	case s.RoleBindings[i].Annotations[AnnotationGuard] == GuardOff:
		on := []string{fmt.Sprintf("kubectl -n %s annotate rolebinding %s %s-", s.OwnNamespace, binding, AnnotationGuard)}
		return []Finding{{Severity: Warning, About: about, Message: says.off, Remedy: "if that was long ago, switch it on again", Commands: on}}
	case needed && len(s.RoleBindings[i].Subjects) == 0:
		return []Finding{{
			Severity: Error, About: about, Message: says.waiting + ": no replica has answered the API server yet, so that nothing is judged",
			Remedy: "if it stays so, the API server can't reach the webhook's pods: docs/install.md, Network", Commands: []string{fmt.Sprintf("kubectl -n %s logs -l app.kubernetes.io/name=%s --tail=50", s.OwnNamespace, webhookName)},
		}}
	}
	return nil
}
