package apiserver

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ValidatePodSpec is what the API server's validation says of the fields that Podgrace is about: the class, hooks, the grace periods of probes and spread constraints
// (pkg/apis/core/validation/validation.go ValidatePodSpec, 1.36.3). The spec has its defaults. It validates templates before there is a pod, and pods after mutation.
func ValidatePodSpec(spec *corev1.PodSpec, path *field.Path) (errs field.ErrorList) {
	if name := spec.PriorityClassName; name != "" {
		for _, message := range validation.IsDNS1123Subdomain(name) {
			errs = append(errs, field.Invalid(path.Child("priorityClassName"), name, message))
		}
	}
	for i := range spec.InitContainers {
		c := &spec.InitContainers[i]
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways { // others may have neither hooks nor probes
			errs = append(errs, validateContainer(c, spec.TerminationGracePeriodSeconds, path.Child("initContainers").Index(i))...)
		}
	}
	for i := range spec.Containers {
		errs = append(errs, validateContainer(&spec.Containers[i], spec.TerminationGracePeriodSeconds, path.Child("containers").Index(i))...)
	}
	for i := range spec.TopologySpreadConstraints {
		errs = append(errs, validateConstraint(spec.TopologySpreadConstraints, i, path.Child("topologySpreadConstraints").Index(i))...)
	}
	return errs
}

func validateContainer(c *corev1.Container, grace *int64, path *field.Path) (errs field.ErrorList) {
	if l := c.Lifecycle; l != nil {
		errs = append(errs, validateSleep(l.PostStart, grace, path.Child("lifecycle", "postStart"))...)
		errs = append(errs, validateSleep(l.PreStop, grace, path.Child("lifecycle", "preStop"))...)
	}
	errs = append(errs, validateProbe(c.LivenessProbe, path.Child("livenessProbe"))...)
	if p := c.ReadinessProbe; p != nil && p.TerminationGracePeriodSeconds != nil {
		errs = append(errs, validateProbe(p, path.Child("readinessProbe"))...)
		errs = append(errs, field.Invalid(path.Child("readinessProbe", "terminationGracePeriodSeconds"), *p.TerminationGracePeriodSeconds, "must not be set for readinessProbes"))
	}
	return append(errs, validateProbe(c.StartupProbe, path.Child("startupProbe"))...)
}

// validateSleep is validateSleepAction.
func validateSleep(hook *corev1.LifecycleHandler, grace *int64, path *field.Path) field.ErrorList {
	if hook == nil || hook.Sleep == nil || grace == nil || hook.Sleep.Seconds >= 0 && hook.Sleep.Seconds <= *grace {
		return nil
	}
	return field.ErrorList{field.Invalid(path.Child("sleep"), hook.Sleep.Seconds, fmt.Sprintf("must be non-negative and less than terminationGracePeriodSeconds (%d)", *grace))}
}

func validateProbe(p *corev1.Probe, path *field.Path) field.ErrorList {
	if p == nil || p.TerminationGracePeriodSeconds == nil || *p.TerminationGracePeriodSeconds > 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(path.Child("terminationGracePeriodSeconds"), *p.TerminationGracePeriodSeconds, "must be greater than 0")}
}

var (
	actions  = []corev1.UnsatisfiableConstraintAction{corev1.DoNotSchedule, corev1.ScheduleAnyway}
	includes = []corev1.NodeInclusionPolicy{corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore}
)

// validateConstraint is validateTopologySpreadConstraints for one of them.
func validateConstraint(all []corev1.TopologySpreadConstraint, i int, path *field.Path) (errs field.ErrorList) {
	c := &all[i]
	errs = append(errs, validatePositive(c.MaxSkew, path.Child("maxSkew"))...)
	if c.TopologyKey == "" {
		errs = append(errs, field.Required(path.Child("topologyKey"), "can not be empty"))
	}
	if !slices.Contains(actions, c.WhenUnsatisfiable) {
		errs = append(errs, field.NotSupported(path.Child("whenUnsatisfiable"), c.WhenUnsatisfiable, actions))
	}
	if slices.ContainsFunc(all[i+1:], func(other corev1.TopologySpreadConstraint) bool {
		return other.TopologyKey == c.TopologyKey && other.WhenUnsatisfiable == c.WhenUnsatisfiable
	}) {
		errs = append(errs, field.Duplicate(path.Child("{topologyKey, whenUnsatisfiable}"), fmt.Sprintf("{%v, %v}", c.TopologyKey, c.WhenUnsatisfiable)))
	}
	if c.MinDomains != nil {
		errs = append(errs, validatePositive(*c.MinDomains, path.Child("minDomains"))...)
		if c.WhenUnsatisfiable != corev1.DoNotSchedule {
			errs = append(errs, field.Invalid(path.Child("minDomains"), *c.MinDomains, fmt.Sprintf("can only use minDomains if whenUnsatisfiable=%s, not %s", corev1.DoNotSchedule, c.WhenUnsatisfiable)))
		}
	}
	for _, p := range []struct {
		name  string
		value *corev1.NodeInclusionPolicy
	}{{"nodeAffinityPolicy", c.NodeAffinityPolicy}, {"nodeTaintsPolicy", c.NodeTaintsPolicy}} {
		if p.value != nil && !slices.Contains(includes, *p.value) {
			errs = append(errs, field.NotSupported(path.Child(p.name), *p.value, includes))
		}
	}
	errs = append(errs, validateMatchLabelKeys(c, path)...)
	return append(errs, metavalidation.ValidateLabelSelector(c.LabelSelector, metavalidation.LabelSelectorValidationOptions{}, path.Child("labelSelector"))...)
}

// validateMatchLabelKeys is ValidateMatchLabelKeysAndMismatchLabelKeys. Of a stored pod the keys have been merged into the expressions of the selector.
func validateMatchLabelKeys(c *corev1.TopologySpreadConstraint, path *field.Path) (errs field.ErrorList) {
	keys := path.Child("matchLabelKeys")
	switch {
	case len(c.MatchLabelKeys) == 0:
		return nil
	case c.LabelSelector == nil:
		return field.ErrorList{field.Forbidden(keys, "must not be specified when labelSelector is not set")}
	}
	for i, key := range c.MatchLabelKeys {
		errs = append(errs, metavalidation.ValidateLabelName(key, keys.Index(i))...)
	}
	seen := sets.KeySet(c.LabelSelector.MatchLabels)
	for _, r := range c.LabelSelector.MatchExpressions {
		if i := slices.Index(c.MatchLabelKeys, r.Key); i >= 0 && seen.Has(r.Key) {
			errs = append(errs, field.Invalid(path.Index(i), r.Key, "exists in both matchLabelKeys and labelSelector"))
		}
		seen.Insert(r.Key)
	}
	return errs
}

func validatePositive(value int32, path *field.Path) field.ErrorList {
	if value > 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(path, value, "must be greater than zero")}
}
