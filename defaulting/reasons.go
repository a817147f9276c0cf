package defaulting

import (
	"github.com/podgrace/podgrace/policy"
)

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

// PriorityRefused is the reason of the API server's own Priority plugin.
var PriorityRefused = policy.Reason{Code: "Priority", Short: "The API server refuses the pod's priority", Help: "Its Priority plugin does, before any webhook: name a PriorityClass that exists, and leave spec.priority out."}

// The reasons of warnings; what could be refused as well is warned about for the reason of its refusal.
var (
	// NoSelector: nothing says which pods belong together.
	NoSelector = policy.Reason{Code: "NoSelector", Short: "No selector can be derived for topology spread constraints",
		Help: "Have a Service or a controller with a selector, or ownerRules in the policy."}
	// ConditionFailed: whether a policy is for the pod is uncertain.
	ConditionFailed = policy.Reason{Code: "ConditionFailed", Short: "A match condition could not be evaluated",
		Help: "Write the policy's match condition so that it can be evaluated for every pod."}
	becauseNamespaceUnknown = policy.Reason{Code: "NamespaceUnknown", Short: "The namespace could not be looked up",
		Help: "Policies that select by its labels were left out. Create the pod again."}
	becauseSkipRefused = policy.Reason{Code: "SkipRefused", Short: "The pod may not decline this default",
		Help: "Only sections in the policy's allowSkip can be declined by annotation."}
	becauseAnnotationReserved = policy.Reason{Code: "AnnotationReserved", Short: "An annotation that only Podgrace writes was in the manifest",
		Help: "Remove the annotation from the manifest."}
	becauseNotMutated = policy.Reason{Code: "NotMutated", Short: "The mutating webhook was not called",
		Help: "See why it was not: the pod lacks what the policies give it."}
	becauseExcepted = policy.Reason{Code: "Excepted", Short: "A PolicyException lifts limits for the pod",
		Help: "Mend the workload before the exception ends."}
	becauseClassUnknown = policy.Reason{Code: "PriorityClassUnknown", Short: "Whether the PriorityClass exists is not known",
		Help: "Give the PriorityClass with the cluster's state."}
	becauseNoSuchClass = policy.Reason{Code: "NoPriorityClass", Short: "The PriorityClass does not exist",
		Help: "Create it, or name another one in the policy."}
	becauseSystemClass = policy.Reason{Code: "SystemPriorityClass", Short: "The PriorityClass is the system's",
		Help: "Name a class of at most 1000000000 in the policy."}
	becauseSpreadUnjudged = policy.Reason{Code: "SpreadUnjudged", Short: "Whether the constraints can be met was not looked at",
		Help: "Shorten the pod's node affinity and tolerations."}
	becauseSpreadContradicts = policy.Reason{Code: "SpreadContradiction", Short: "Hard topology spread constraints of the pod's own leave it no node",
		Help: "Raise maxSkew, use another topologyKey or whenUnsatisfiable: ScheduleAnyway."}
	becauseSpreadsNothing = policy.Reason{Code: "SpreadsNothing", Short: "Constraints or affinity do not spread the workload's pods",
		Help: "Select labels that all pods of the workload share and no others have, and use a topologyKey that nodes have."}
	becauseAffinityToLower = policy.Reason{Code: "AffinityToLowerPriority", Short: "The pod must be beside pods of lower priority, which it can't preempt",
		Help: "Give the pods that it depends on the same priority, or make the affinity preferred."}
	becausePreStop = policy.Reason{Code: "PreStop", Short: "preStop leaves too little of the grace period, or an unknown part of it",
		Help: "Shorten preStop, or raise the grace period."}
	becauseProbeLonger = policy.Reason{Code: "ProbeGracePeriodLonger", Short: "A failed probe stops the pod more slowly than a delete",
		Help: "Lower the probe's terminationGracePeriodSeconds."}
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

// The words of the limits, as formats of package fmt. What the API server refuses by itself while the webhook is away
// (package limits) is refused in the same words, so that both are made from these.
const (
	WordsClass       = "PriorityClass %q is not allowed here: %s %s. Name one of these in spec.priorityClassName, or ask the owner of the policy%s"
	WordsOneAllows   = "PodPolicy %s allows"
	WordsAllAllow    = "PodPolicies %s allow"
	WordsNothing     = "none (the policies' lists have nothing in common)"
	WordsDefault     = " (the class is the cluster's globalDefault, which the API server gives to pods that name none)"
	WordsSleep       = "%s sleeps %s, but PodPolicy %s allows a grace period of at most %s. Shorten the sleep"
	WordsBounds      = "terminationGracePeriodSeconds is %d but must be %d (%s). Podgrace sets that itself; it was not called, or another webhook changed the pod after it. Set it to %d, or try again"
	WordsProbe       = "terminationGracePeriodSeconds of %s is %d but must be %d (%s%s). Podgrace sets that itself; it was not called, or another webhook changed the pod after it. Set it to %d, or try again"
	WordsMinimum     = "PodPolicy %s: minimum %s"
	WordsMaximum     = "PodPolicy %s: maximum %s"
	WordsMargin      = "PodPolicy %s: %s plus a margin of %s"
	WordsStop        = "preStop of container %s takes %s"
	WordsStopAtLeast = "preStop of container %s takes at least %s"
	WordsSeconds     = "%d s"
	WordsProtects    = "PodPolicy %s protects all pods"
	WordsZeroDenied  = "terminationGracePeriodSeconds is 0, so every delete of this pod would be a force delete, which may leave it running twice; PodPolicy %s refuses that (%s). Set it to at least 1, better to what the pod needs to stop"
	WordsZeroRaised  = "terminationGracePeriodSeconds is 0, so every delete of this pod would be a force delete, which may leave it running twice; PodPolicy %s has it raised (%s). Podgrace does that itself; it was not called, or another webhook changed the pod after it. Set it to what the pod needs to stop, or try again"

	WordsProbeOf     = " of container "
	WordsAnotherLike = "; and another probe's likewise"
	WordsOthersLike  = "; and %d other probes' likewise"

	WordsPreStopOf  = "preStop of container "
	WordsPostStarts = "postStart of container "
	WordsAnd        = " and "
	WordsBut        = ", but "
	WordsAlthough   = ", although "
)

// The words of what the API server does not refuse by itself.
const (
	wordsEnforcementUngiven = "annotation %s is written by Podgrace only, and no PodPolicy gives node settings to this pod. Remove the annotation; if a policy was being changed this moment, try again"
	wordsEnforcementOther   = "annotation %s does not hold what PodPolicy %s gives (%s). Remove it and create the pod again; if the policy was being changed this moment, try again"
	wordsPriority           = "spec.priority is %d but PriorityClass %q has value %d: something changed the pod after the API server resolved its class. Leave spec.priority out"
	wordsPreemptionPolicy   = "spec.preemptionPolicy is %q but PriorityClass %q says %q: something changed the pod after the API server resolved its class. Leave spec.preemptionPolicy out"
	wordsPodGroupClass      = "PriorityClass %q is not allowed here: PodPolicy %s allows %s. A PodGroup's class counts in place of its pods'. Name one of these in its priorityClassName, or ask the owner of the policy"
	wordsProtectedOther     = "annotation %s is written by Podgrace only, and does not name the controller of this pod. Remove it and create the pod again"
	wordsSpread             = "PodPolicy %s: the hard spread constraint over %s can't be met now: %s. Make room (a node with that label, in enough domains), or give the pod constraints of its own"
	wordsSpreads            = "PodPolicy %s: the hard spread constraints over %s. Make room (another node, in another domain), or give the pod constraints of its own"
)

// wordsDomainsFull is why a constraint with minDomains can't be met.
const wordsDomainsFull = "minDomains is %d, only %d domain(s) exist, and each already has maxSkew (%d) pods"

// RefusalWords are the formats of all refusals, for the documentation, which explains each.
func RefusalWords() []string {
	return []string{
		WordsClass, WordsSleep, WordsBounds, WordsProbe, WordsZeroDenied, WordsZeroRaised, wordsEnforcementUngiven, wordsEnforcementOther, wordsPriority, wordsPreemptionPolicy, wordsPodGroupClass, wordsProtectedOther, wordsSpread, wordsSpreads,
	}
}
