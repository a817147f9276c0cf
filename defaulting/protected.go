package defaulting

import "github.com/podgrace/podgrace/guard"

// isProtected says whether running the pod twice could harm: it has an identity or exclusive storage, or the policy
// protects all. A claim that is not known counts as exclusive.
func isProtected(req Request, e *Effective, facts Facts) bool {
	return protectedBecause(req, e, facts) != ""
}

func protectedBecause(req Request, e *Effective, facts Facts) string {
	if e.removal.protectAll.given() {
		return "PodPolicy " + e.removal.protectAll.name() + " protects all pods"
	}
	return guard.Protected(req.Pod, facts.Claims)
}
