package defaulting

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
