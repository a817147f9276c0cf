package limits

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiservercel "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/defaulting"
)

// What the API server does with a policy it does four times for each request: for its match conditions, its validations, the messages of all of them,
// whether they are needed or not, and its audit annotations, of which there need be none. Each time it makes maps of the object and of the request, and of
// each variable an entry that is evaluated once it is read (k8s.io/apiserver/pkg/admission/plugin/policy/validating/validator.go Validate and
// pkg/admission/plugin/cel/activation.go newActivation, 0.36.3). So a pod that keeps the limits should be known by a match condition: that is the first of
// the four, and for most pods the last one.

// beyond is true for a pod that may be beyond a limit, while the limits are in force for it. All match conditions are evaluated each time, so that what is
// asked of few stands in one of them behind what most pods settle: the right is looked for in all of a cluster's bindings.
func (b *builder) beyond() string {
	mirror := fmt.Sprintf("%s in object.metadata.?annotations.orValue({}) && %s in request.userInfo.?groups.orValue([])", text(corev1.MirrorPodAnnotationKey), text(user.NodesGroup))
	// They end with the namespace, when nobody is left who would keep them.
	kept := fmt.Sprintf("authorizer.serviceAccount(%[1]s, %[2]s).group(%[3]s).resource(%[4]s).namespace(%[1]s).check(%[5]s).allowed()",
		text(b.cluster.Exempt.Own()), text(b.cluster.ServiceAccount), text(v1alpha1.GroupVersion.Group), text(Resource), text(HoldVerb))
	may := fmt.Sprintf("!(%s) && %s", mirror, kept)
	env, err := untyped()
	if beyond := fmt.Sprintf("!(%s) && %s", b.keeps(), may); err == nil && costOf(env, beyond, ofOurs) <= apiservercel.PerCallLimit/2 {
		return beyond
	}
	return may // of so many policies that only variables can tell, each of which has a limit of its own
}

// keeps is true for most pods that keep all limits that are compiled, and for no other. Match conditions know neither variables nor the namespace's labels, so
// that a limit is taken to be for a pod unless the pod itself or the namespace's name says otherwise, and no exception is looked at. It can't fail to evaluate.
func (b *builder) keeps() string {
	var parts []string
	// What is for all pods is one comparison, however many policies say it.
	each := func(limited []*subject, within func([]*subject) string) {
		var all []*subject
		for _, s := range limited {
			if len(s.elsewhere) == 0 {
				all = append(all, s)
				continue
			}
			parts = append(parts, "("+within([]*subject{s})+" || "+strings.Join(s.elsewhere, " || ")+")")
		}
		if len(all) > 0 {
			parts = append([]string{within(all)}, parts...)
		}
	}
	each(b.having(AllowedClasses), func(of []*subject) string { return class + " in " + texts(append([]string{""}, allowedByAll(of)...)) })
	// Less than 0 stands for 1, and is looked at by the validations.
	each(b.having(ZeroGrace), func([]*subject) string { return stored + " >= 1" })
	bounded := b.having(GraceBounds)
	each(bounded, func(of []*subject) string {
		bounds := strictestOf(of)
		within := stored + " >= " + number(bounds.least)
		if bounds.most != noMost {
			within += " && " + stored + " <= " + number(bounds.most)
		}
		return within
	})
	if len(bounded) > 0 {
		parts = append(parts, "dyn(object.spec.containers) != null", // as in a pod that is refused later, for having none
			fmt.Sprintf("size(object.spec.containers) + size(%s) <= %d", initContainers, MaxItems),
			"(object.spec.containers + "+initContainers+").all(c, "+strictestOf(bounded).keepsContainer()+")")
	}
	return strings.Join(parts, " && ")
}

// bounds of the grace period.
type bounds struct{ least, most, margin int64 }

// strictestOf are the strictest bounds of policies, as if all of them were for a pod and none lifted another's.
func strictestOf(bounded []*subject) bounds {
	strictest := bounds{least: 0, most: noMost, margin: noLeast}
	for _, s := range bounded {
		if low := minOf(s); low != nil {
			strictest.least = max(strictest.least, *low)
		}
		if high := maxOf(s); high != nil {
			strictest.most = min(strictest.most, *high)
		}
		if margin := marginOf(s); margin != nil {
			strictest.margin = max(strictest.margin, *margin)
		}
	}
	return strictest
}

// keepsContainer is true if neither a hook of container c nor a probe's own grace period has anything to do with the bounds of the pod's.
func (b bounds) keepsContainer() string {
	var hooks []string
	if b.most != noMost {
		hooks = append(hooks, preStop+" <= "+number(b.most), postStart+" <= "+number(b.most))
	}
	if b.margin != noLeast {
		hooks = append(hooks, stored+" >= 0", preStop+" <= "+stored+" - "+number(b.margin), "!c.?lifecycle.?preStop.?exec.hasValue()")
	}
	var parts []string
	if len(hooks) > 0 {
		parts = append(parts, "(!has(c.lifecycle) || "+all(hooks)+")")
	}
	for _, probe := range []string{defaulting.LivenessProbe, defaulting.StartupProbe} {
		parts = append(parts, fmt.Sprintf("(!has(c.%s) || %s < 1)", probe, probeGrace(probe)))
	}
	return strings.Join(parts, " && ")
}

// allowedByAll are the classes that each of the policies allows.
func allowedByAll(limited []*subject) []string {
	names := slices.Compact(slices.Sorted(slices.Values(limited[0].Spec.Priority.AllowedClassNames)))
	return slices.DeleteFunc(names, func(name string) bool {
		return slices.ContainsFunc(limited[1:], func(s *subject) bool { return !slices.Contains(s.Spec.Priority.AllowedClassNames, name) })
	})
}
