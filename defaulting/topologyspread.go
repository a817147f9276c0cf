package defaulting

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/policy"
)

// SpreadPath is where the constraints of a pod are.
const SpreadPath = "/spec/topologySpreadConstraints"

// applyTopologySpread gives the policy's constraints to a pod that has none.
func applyTopologySpread(req policy.Request, e *Effective, facts Facts, out *Result) {
	if !e.spread.given() || wantsSpread(req.Pod, e) != "" {
		return
	}
	section := e.spread.value
	selector, why := deriveSelector(req.Pod, section.OwnerRules, facts)
	if selector == nil {
		out.Unspread = fmt.Sprintf("PodPolicy %s: no topology spread constraints added, no selector can be derived for this pod: %s", e.spread.name(), why)
		if !saysNothing(req.Pod, section) {
			out.warn(NoSelector, e.spread.name(), "%s", out.Unspread)
		}
		return
	}
	without, keys := splitRevision(req.Pod, section, selector)
	constraints := build(req.Pod, section, without, keys)
	if len(keys) == 0 {
		selector = without // else the API server merges the revision back
	}
	warnOfOwnLabels(req.Pod, e, constraints, out)
	if slices.ContainsFunc(constraints, isHard) {
		var problems map[int]string
		problems, out.Unjudged = infeasible(req.Pod, constraints, facts)
		if out.Unjudged == TooDear {
			out.warn(becauseSpreadUnjudged, e.spread.name(), "PodPolicy %s: it was not looked at whether its hard topology spread constraints can be met now: the pod's node affinity and tolerations would have to be compared with nodes %d times", e.spread.name(), comparisons(req.Pod, facts.Nodes.Len()))
		}
		if len(problems) > 0 {
			constraints = onInfeasible(e, constraints, problems, out)
		}
		if len(problems) == 0 || e.spread.value.OnInfeasible == v1alpha1.InfeasibleSoften {
			constraints = onContradiction(req.Pod, e, constraints, facts, out)
		}
	}
	if len(out.Denials) > 0 {
		return
	}
	out.change(Change{Section: string(v1alpha1.SectionTopologySpread), Policy: e.spread.name(), Path: SpreadPath, Value: constraints,
		Why: "PodPolicy " + e.spread.name() + ": the pod has no constraints; selector " + metav1.FormatLabelSelector(selector)})
}

// saysNothing reports whether it is no concern of whoever creates a pod that no selector can be derived for it: it has no controller, which is most often a pod
// that is alone, or one of a kind from which no selector follows and for which the policy has no rule. Only the policy can name the labels of such pods.
func saysNothing(pod *corev1.Pod, section *v1alpha1.TopologySpreadSection) bool {
	owner := controllerOf(pod)
	return owner == nil || !OwnerHasSelector(owner) && !slices.ContainsFunc(section.OwnerRules, func(r v1alpha1.OwnerRule) bool { return isOf(owner, r) })
}

// ownLabels are those of which each pod of a StatefulSet has a value of its own (pkg/controller/statefulset/stateful_set_utils.go
// updateIdentity, 1.36.3).
var ownLabels = []string{appsv1.StatefulSetPodNameLabel, appsv1.PodIndexLabel}

// warnOfOwnLabels warns about constraints whose selector selects this pod alone, so that nothing is spread. The scheduler derives the same selector
// where a Service is for a single pod of a StatefulSet.
func warnOfOwnLabels(pod *corev1.Pod, e *Effective, constraints []corev1.TopologySpreadConstraint, out *Result) {
	var said []string
	for _, c := range constraints {
		for _, key := range ownLabels {
			if !slices.Contains(said, key) && wantsValue(pod, c, key) {
				said = append(said, key)
				out.warn(becauseSpreadsNothing, e.spread.name(), "PodPolicy %s: the topology spread constraints spread nothing: they count only the pods with this pod's own %s, which a Service that selects it, its controller or matchLabelKeys name", e.spread.name(), key)
			}
		}
	}
}

// wantsValue reports whether a constraint counts only pods with one value of a label.
func wantsValue(pod *corev1.Pod, c corev1.TopologySpreadConstraint, key string) bool {
	if _, ok := pod.Labels[key]; ok && slices.Contains(c.MatchLabelKeys, key) {
		return true
	}
	_, wants := c.LabelSelector.MatchLabels[key]
	return wants || slices.ContainsFunc(c.LabelSelector.MatchExpressions, func(r metav1.LabelSelectorRequirement) bool {
		return r.Key == key && r.Operator == metav1.LabelSelectorOpIn && len(r.Values) == 1
	})
}

// wantsSpread returns why a pod gets no constraints; empty: it gets them.
func wantsSpread(pod *corev1.Pod, e *Effective) string {
	owner := controllerOf(pod)
	switch {
	case e.skip[v1alpha1.SectionTopologySpread]:
		return "skipped by annotation"
	case len(pod.Spec.TopologySpreadConstraints) > 0:
		return "has constraints of its own"
	case pod.Spec.NodeName != "":
		return "bound to a node already"
	case isDaemon(owner):
		return "pinned to its node by a DaemonSet"
	}
	return ""
}

// build writes the constraints as core types, with the derived selector, and keys for matchLabelKeys.
func build(pod *corev1.Pod, section *v1alpha1.TopologySpreadSection, selector *metav1.LabelSelector, keys []string) []corev1.TopologySpreadConstraint {
	constraints := make([]corev1.TopologySpreadConstraint, 0, len(section.Constraints))
	for _, c := range section.Constraints {
		own, ownKeys := selector, slices.Clone(keys)
		for _, key := range c.MatchLabelKeys {
			stripped, ok := stripKey(own, pod, key)
			if ok {
				own = stripped
			}
			// A key that the selector names otherwise can't be in matchLabelKeys as well.
			if !slices.Contains(ownKeys, key) && !names(own, key) {
				ownKeys = append(ownKeys, key)
			}
		}
		constraints = append(constraints, corev1.TopologySpreadConstraint{
			MaxSkew:            c.MaxSkew,
			TopologyKey:        c.TopologyKey,
			WhenUnsatisfiable:  c.WhenUnsatisfiable,
			LabelSelector:      own.DeepCopy(),
			MinDomains:         c.MinDomains,
			NodeAffinityPolicy: c.NodeAffinityPolicy,
			NodeTaintsPolicy:   c.NodeTaintsPolicy,
			MatchLabelKeys:     ownKeys,
		})
	}
	return constraints
}

// isDaemon reports whether a controller is a DaemonSet of Kubernetes or OpenKruise, which ties each of its pods to one node
// (https://github.com/openkruise/kruise: pkg/controller/daemonset).
func isDaemon(owner *metav1.OwnerReference) bool {
	if owner == nil || owner.Kind != "DaemonSet" {
		return false
	}
	group := schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind).Group
	return group == appsv1.GroupName || group == "apps.kruise.io"
}

// RolloutRevisionLabel is for the ReplicaSets of an Argo Rollout what pod-template-hash is for those of a Deployment
// (https://github.com/argoproj/argo-rollouts: pkg/apis/rollouts/v1alpha1/types.go DefaultRolloutUniqueLabelKey).
const RolloutRevisionLabel = "rollouts-pod-template-hash"

// revisionLabels tell the ReplicaSets of one workload from each other.
var revisionLabels = []string{appsv1.DefaultDeploymentUniqueLabelKey, RolloutRevisionLabel}

// splitRevision takes the revision out of the selector of a ReplicaSet's pod. With revisionAware it goes into
// matchLabelKeys, which the API server merges back, so that the outcome is the scheduler's own default selector.
func splitRevision(pod *corev1.Pod, section *v1alpha1.TopologySpreadSection, selector *metav1.LabelSelector) (*metav1.LabelSelector, []string) {
	owner := controllerOf(pod)
	if owner == nil || owner.Kind != "ReplicaSet" {
		return selector, nil
	}
	stripped, keys := selector, []string(nil)
	for _, key := range revisionLabels {
		if without, ok := stripKey(stripped, pod, key); ok {
			stripped, keys = without, append(keys, key)
		}
	}
	switch {
	case len(stripped.MatchLabels)+len(stripped.MatchExpressions) == 0:
		return selector, nil // the revision is all there is: without it the selector would match the whole namespace
	case ptr.Deref(section.RevisionAware, true):
		return stripped, keys
	}
	return stripped, nil
}

func names(selector *metav1.LabelSelector, key string) bool {
	_, ok := selector.MatchLabels[key]
	return ok || slices.ContainsFunc(selector.MatchExpressions, func(r metav1.LabelSelectorRequirement) bool { return r.Key == key })
}

// onInfeasible applies the policy's onInfeasible to hard constraints that no node can meet now.
func onInfeasible(e *Effective, constraints []corev1.TopologySpreadConstraint, problems map[int]string, out *Result) []corev1.TopologySpreadConstraint {
	action := e.spread.value.OnInfeasible
	kept := make([]corev1.TopologySpreadConstraint, 0, len(constraints))
	for i, c := range constraints {
		problem, bad := problems[i]
		if bad && action == v1alpha1.InfeasibleDeny {
			out.deny(becauseSpreadInfeasible, e.spread.name(), wordsSpread, e.spread.name(), c.TopologyKey, problem)
			return nil
		}
		if bad && action == v1alpha1.InfeasibleSoften {
			out.warn(becauseSpreadInfeasible, e.spread.name(), "PodPolicy %s: the hard spread constraint over %s can't be met now (%s): it was softened to ScheduleAnyway", e.spread.name(), c.TopologyKey, problem)
			var unique bool
			if c, unique = softened(c, constraints); !unique {
				continue
			}
		} else if bad {
			out.warn(becauseSpreadInfeasible, e.spread.name(), "PodPolicy %s: the hard spread constraint over %s can't be met now: %s; the pod stays Pending until it can", e.spread.name(), c.TopologyKey, problem)
		}
		kept = append(kept, c)
	}
	return kept
}

// onContradiction applies the policy's onInfeasible to hard constraints that can each be met now, and together can't. The pods that run have to be counted
// for it, so that a pod of a controller, to which Warn says nothing that anybody reads, is not asked about.
func onContradiction(pod *corev1.Pod, e *Effective, constraints []corev1.TopologySpreadConstraint, facts Facts, out *Result) []corev1.TopologySpreadConstraint {
	action := e.spread.value.OnInfeasible
	soften := action == v1alpha1.InfeasibleSoften
	if !soften && action != v1alpha1.InfeasibleDeny && !facts.Told {
		return constraints
	}
	for {
		hard := hardOnes(constraints) // those which no node can meet by themselves are soft by now
		if len(hard) < 2 {
			return constraints
		}
		c := contradictionOf(pod, constraints, hard, facts)
		if c == nil || len(c.of) < 2 {
			return constraints
		}
		switch {
		case action == v1alpha1.InfeasibleDeny:
			out.deny(becauseSpreadInfeasible, e.spread.name(), wordsSpreads, e.spread.name(), c.says(constraints, maxNamed))
			return nil
		case !soften:
			out.warn(becauseSpreadInfeasible, e.spread.name(), "%s", bounded(func(names int) string {
				return fmt.Sprintf("PodPolicy %s: hard spread constraints over %s; the pod stays Pending until they can", e.spread.name(), c.says(constraints, names))
			}))
			return constraints
		}
		last := c.of[len(c.of)-1]
		out.warn(becauseSpreadInfeasible, e.spread.name(), "%s", bounded(func(names int) string {
			return fmt.Sprintf("PodPolicy %s: hard spread constraints over %s: the last was softened to ScheduleAnyway", e.spread.name(), c.says(constraints, names))
		}))
		wish, unique := softened(constraints[last], constraints)
		if constraints = slices.Delete(constraints, last, last+1); unique {
			constraints = slices.Insert(constraints, last, wish)
		}
	}
}

// softened is a constraint as ScheduleAnyway; false: there is one like it already, and the pair of key and whenUnsatisfiable must be unique in a pod.
func softened(c corev1.TopologySpreadConstraint, among []corev1.TopologySpreadConstraint) (wish corev1.TopologySpreadConstraint, unique bool) {
	c.WhenUnsatisfiable, c.MinDomains = corev1.ScheduleAnyway, nil
	return c, !slices.ContainsFunc(among, func(o corev1.TopologySpreadConstraint) bool {
		return o.TopologyKey == c.TopologyKey && o.WhenUnsatisfiable == corev1.ScheduleAnyway
	})
}

func isHard(c corev1.TopologySpreadConstraint) bool {
	return c.WhenUnsatisfiable == corev1.DoNotSchedule
}

// alike reports whether a constraint of a pod is one that a policy gave it, perhaps softened, as far as can be seen.
func alike(given v1alpha1.TopologySpreadConstraint, c corev1.TopologySpreadConstraint) bool {
	if c.WhenUnsatisfiable == corev1.ScheduleAnyway && given.WhenUnsatisfiable == corev1.DoNotSchedule {
		given.WhenUnsatisfiable, given.MinDomains = c.WhenUnsatisfiable, nil
	}
	return given.MaxSkew == c.MaxSkew && given.TopologyKey == c.TopologyKey && given.WhenUnsatisfiable == c.WhenUnsatisfiable && ptr.Equal(given.MinDomains, c.MinDomains)
}
