package defaulting

import "github.com/podgrace/podgrace/policy"

// The reasons for which pods are refused.
var (
	becauseEnforcementForged = policy.Reason{Code: "EnforcementForged", Short: "The enforcement annotation is not the policies'",
		Help: "Podgrace alone writes podgrace.dev/enforcement. Remove the annotation from the manifest."}
	becauseProtectionForged = policy.Reason{Code: "ProtectionForged", Short: "The protected annotation does not name the pod's controller",
		Help: "Podgrace alone writes podgrace.dev/protected. Remove the annotation from the manifest."}
	becauseGracePeriodOutOfBounds = policy.Reason{Code: "GracePeriodOutOfBounds", Short: "The grace period is outside of the policies' limits",
		Help: "Set terminationGracePeriodSeconds within gracePeriod.minSeconds and maxSeconds of the policies that match, or leave it out."}
	becauseSleepTooLong = policy.Reason{Code: "SleepTooLong", Short: "A hook sleeps longer than the longest grace period",
		Help: "Shorten the sleep action of preStop or postStart, or raise gracePeriod.maxSeconds of the policy."}
	becauseZeroGracePeriod = policy.Reason{Code: "ZeroGracePeriod", Short: "Every delete of the pod would be a force delete",
		Help: "With a terminationGracePeriodSeconds of 0 the pod may run twice. Set it to what the pod needs to stop."}
	becausePriorityClassNotAllowed = policy.Reason{Code: "PriorityClassNotAllowed", Short: "The PriorityClass is not allowed here",
		Help: "Name one of priority.allowedClassNames of the policies that match, or ask their owner."}
	becausePriorityMismatch = policy.Reason{Code: "PriorityMismatch", Short: "The pod's priority is not that of its class",
		Help: "Leave spec.priority out: the API server sets it from the PriorityClass."}
	becausePreemptionPolicyMismatch = policy.Reason{Code: "PreemptionPolicyMismatch", Short: "The pod's preemptionPolicy is not that of its class",
		Help: "Leave spec.preemptionPolicy out: the API server sets it from the PriorityClass."}
	becauseSpreadInfeasible = policy.Reason{Code: "SpreadInfeasible", Short: "A hard topology spread constraint can't be met",
		Help: "Make room in enough topology domains, or give the pod constraints of its own."}
)

// Refusals are all reasons for which pods are refused.
func Refusals() []policy.Reason {
	return []policy.Reason{
		becauseEnforcementForged,
		becauseProtectionForged,
		becauseGracePeriodOutOfBounds,
		becauseSleepTooLong,
		becauseZeroGracePeriod,
		becausePriorityClassNotAllowed,
		becausePriorityMismatch,
		becausePreemptionPolicyMismatch,
		becauseSpreadInfeasible,
	}
}
