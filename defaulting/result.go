package defaulting

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/podgrace/podgrace/internal/console"
	"github.com/podgrace/podgrace/internal/fieldpath"
	"github.com/podgrace/podgrace/policy"
)

// Result is what was decided about one pod. It is carried as it is to whoever tells it: the webhook's answer, its metrics, the offline review.
type Result struct {
	Changes  []Change
	Warnings []Warning
	Denials  []Denial
	// Unspread is why a policy's topology spread constraints were not added, if no selector can be derived for the pod; empty: they were, or there are none.
	Unspread string
	// Unjudged is why it was not checked whether hard constraints are feasible; empty: it was, or there are none.
	Unjudged Unjudged
	// Policies that hold for the pod, the heaviest first.
	Policies []string
	// Exceptions that made a difference: without them the pod would be refused, or changed otherwise.
	Exceptions []Lifted
}

// Operation is what a Change does, in the words of JSON patch (RFC 6902).
type Operation string

// The operations of a Change. OperationAdd also replaces a field that is there.
const (
	OperationAdd    Operation = "add"
	OperationRemove Operation = "remove"
)

// Change is one field of the object that is to be changed.
type Change struct {
	// Section of the policy that the change follows from: priority, topologySpread, gracePeriod, node or removal.
	Section string
	// Policy that it follows from, the one that has the last word of several; empty: none gives what is taken away.
	Policy string
	// Operation to do at Path.
	Operation Operation
	// Path is the JSON pointer (RFC 6901) of the field.
	Path string
	// Before is what is there; nil: nothing.
	Before any
	// Value to put there, as encoding/json marshals it; nil for OperationRemove.
	Value any
	// Why, for a person: the policy and the reason.
	Why string
}

// Name of the field, that of an annotation, whatever level of it is written, or that of a probe whose grace period it is.
func (c Change) Name() string {
	if probe, ok := ProbeOf(c.Path); ok {
		return probe
	}
	switch c.Section {
	case sectionNode:
		return "enforcement"
	case sectionRemoval:
		return "protected"
	}
	return c.Path[strings.LastIndex(c.Path, "/")+1:]
}

// Text is the value for a person: a text as it is, all else as JSON.
func (c Change) Text() string {
	switch value := c.Value.(type) {
	case nil:
		return "removed"
	case string:
		return value
	}
	text, err := json.Marshal(c.Value)
	if err != nil {
		panic(err) // core types, strings and numbers can be marshalled
	}
	return string(text)
}

// Warning is a remark for the person who creates the pod.
type Warning struct {
	// Reason is the rule that warns.
	Reason policy.Reason
	// Policy that it follows from, the heaviest of several; empty: none.
	Policy string
	// Message by the rules of the API server's warnings: one line, at most 256 bytes.
	Message string
}

// Denial says why a pod is refused.
type Denial struct {
	// Reason is the rule that decided.
	Reason policy.Reason
	// Policy that it follows from, the heaviest of several; empty: none.
	Policy string
	// Message for the person: what is wrong, by which policy, and what to do instead.
	Message string
}

// change notes a change: one without a value takes the field away.
func (r *Result) change(c Change) {
	c.Operation = OperationAdd
	if c.Value == nil {
		c.Operation = OperationRemove
	}
	r.Changes = append(r.Changes, c)
}

func (r *Result) warn(reason policy.Reason, by, format string, args ...any) {
	w := Warning{Reason: reason, Policy: by, Message: Shorten(fmt.Sprintf(format, args...))}
	if !slices.ContainsFunc(r.Warnings, func(said Warning) bool { return said.Message == w.Message }) {
		r.Warnings = append(r.Warnings, w)
	}
}

func (r *Result) deny(reason policy.Reason, by, format string, args ...any) {
	r.Denials = append(r.Denials, Denial{Reason: reason, Policy: by, Message: fmt.Sprintf(format, args...)})
}

// MaxWarning is the length in bytes over which the API server truncates a warning
// (apiserver/pkg/admission/plugin/webhook: AdmissionResponse.warnings).
const MaxWarning = 256

// Shorten makes a warning that the API server neither truncates nor drops: it drops one that has a control character or is
// not UTF-8 (apimachinery/pkg/util/net/http.go NewWarningHeader, 0.36.3). Characters that reverse or hide text are
// replaced.
func Shorten(s string) string { return console.Bounded(s, MaxWarning) }

const annotationsPath = "/metadata/annotations"

// annotationPath is the JSON pointer of an annotation.
func annotationPath(key string) string {
	return fieldpath.Path{"metadata", "annotations", key}.Pointer()
}

// annotate sets an annotation that only Podgrace may set, and overwrites what the user put there.
func (r *Result) annotate(pod *corev1.Pod, section, key string, want from[string]) {
	have, present := pod.Annotations[key]
	if present && have == want.value {
		return
	}
	if present {
		r.warn(becauseAnnotationReserved, "", "annotation %s is written by Podgrace only: it was replaced", key)
	}
	// JSON patch adds nothing to a missing map: it is added first, unless another annotation has done so.
	made := slices.ContainsFunc(r.Changes, func(c Change) bool { return c.Path == annotationsPath })
	c := Change{Section: section, Policy: want.name(), Path: annotationPath(key), Value: want.value, Why: "PodPolicy " + want.name()}
	if present {
		c.Before = have
	}
	if len(pod.Annotations) == 0 && !made {
		c.Path, c.Value = annotationsPath, map[string]string{key: want.value}
	}
	r.change(c)
}

// unannotate removes an annotation that only Podgrace may set, from a pod that gets none.
func (r *Result) unannotate(pod *corev1.Pod, section, key, why string) {
	if have, present := pod.Annotations[key]; present {
		r.change(Change{Section: section, Path: annotationPath(key), Before: have, Why: why})
		r.warn(becauseAnnotationReserved, "", "annotation %s is written by Podgrace only: it was removed", key)
	}
}

// patchAnnotations makes a change of annotate or unannotate.
func patchAnnotations(pod *corev1.Pod, c Change) {
	if c.Path == annotationsPath {
		pod.Annotations = maps.Clone(c.Value.(map[string]string))
		return
	}
	if !strings.HasPrefix(c.Path, annotationsPath+"/") {
		return
	}
	key := fieldpath.OfPointer(c.Path)[2]
	delete(pod.Annotations, key)
	if c.Operation == OperationAdd {
		pod.Annotations[key] = c.Value.(string)
	}
}

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
