package report

import "cmp"

// rule is what a finding is an instance of: a refusal's reason, or one of those below.
type rule struct {
	short, help string
}

// The rules of what is no refusal and has no reason of its own.
const (
	ruleWarning = "Warning"
	ruleUnknown = "Unknown"
	// ruleChanged is no alert, and has a word in annotations only.
	ruleChanged = "Changed"
	// ruleDenied is a refusal without a reason.
	ruleDenied = "Denied"
)

// rules by name. The reasons are those of defaulting, guard and review.
var rules = map[string]rule{
	ruleWarning: {"The policies warn about this", "The request is allowed. The API server passes the warning on to the user."},
	ruleUnknown: {"The decision depends on what is not known", "The cluster's state that was given lacks something that the policies look at, so that the request was judged on the safe side. Give it with --state, or --kubeconfig."},
	ruleDenied:  {"The request is refused", "The message says what to do."},

	"EnforcementForged":        {"The enforcement annotation is not the policies'", "Podgrace alone writes podgrace.dev/enforcement. Remove the annotation from the manifest."},
	"ProtectionForged":         {"The protected annotation does not name the pod's controller", "Podgrace alone writes podgrace.dev/protected. Remove the annotation from the manifest."},
	"GracePeriodOutOfBounds":   {"The grace period is outside of the policies' limits", "Set terminationGracePeriodSeconds within gracePeriod.minSeconds and maxSeconds of the policies that match, or leave it out."},
	"SleepTooLong":             {"A hook sleeps longer than the longest grace period", "Shorten the sleep action of preStop or postStart, or raise gracePeriod.maxSeconds of the policy."},
	"ZeroGracePeriod":          {"Every delete of the pod would be a force delete", "With a terminationGracePeriodSeconds of 0 the pod may run twice. Set it to what the pod needs to stop."},
	"Priority":                 {"The API server refuses the pod's priority", "Its Priority plugin does, before any webhook: name a PriorityClass that exists, and leave spec.priority out."},
	"PriorityClassNotAllowed":  {"The PriorityClass is not allowed here", "Name one of priority.allowedClassNames of the policies that match, or ask their owner."},
	"PriorityMismatch":         {"The pod's priority is not that of its class", "Leave spec.priority out: the API server sets it from the PriorityClass."},
	"PreemptionPolicyMismatch": {"The pod's preemptionPolicy is not that of its class", "Leave spec.preemptionPolicy out: the API server sets it from the PriorityClass."},
	"SpreadInfeasible":         {"A hard topology spread constraint can't be met", "Make room in enough topology domains, or give the pod constraints of its own."},

	"Unsafe":                {"The removal could let the pod run twice, or two nodes write to a volume", "Let the kubelet stop the pod, wait for its node, or confirm: see podgrace confirm --help."},
	"Unprotected":           {"A pod is removed without waiting for its node", "No policy protects the pod: it may go on running on its node while its replacement starts."},
	"EnforcerOfAnotherNode": {"A node enforcer removes a pod of another node", "An enforcer may only end pods of its own node."},
	"Incomplete":            {"The review lacks the object that is removed", "A recorded AdmissionReview of a removal needs oldObject."},
	"UnknownRoad":           {"A removal of a kind that Podgrace does not know", "Check the rules of the webhook configuration that the review was recorded with."},
}

// ruleNamed has a word for every reason, also one that came later.
func ruleNamed(id string) rule {
	r := rules[id]
	r.short = cmp.Or(r.short, id)
	r.help = cmp.Or(r.help, "The message says what to do.")
	return r
}
