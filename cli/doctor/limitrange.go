package doctor

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/podgrace/podgrace/internal/console"
)

// limitRange: no LimitRange of a namespace of Podgrace refuses or bends what the pods ask for.
func limitRange(s *Snapshot) (found []Finding) {
	for _, l := range s.LimitRanges {
		about, refused := "LimitRange "+l.Name, map[string][]string{}
		for _, item := range l.Spec.Limits {
			for name, pod := range ownPods(s, l.Namespace) {
				for _, why := range refusals(item, pod) {
					refused[why] = append(refused[why], name)
				}
			}
			if _, is := item.Default[corev1.ResourceCPU]; is && item.Type == corev1.LimitTypeContainer {
				found = append(found, Finding{Severity: Warning, About: about, Message: "it gives containers a CPU limit: a webhook that is throttled holds up every pod that is created", Remedy: "take the LimitRange out of this namespace"})
			}
		}
		for _, why := range slices.Sorted(maps.Keys(refused)) {
			slices.Sort(refused[why])
			names := slices.Compact(refused[why])
			found = append(found, Finding{Severity: Error, About: about, Message: fmt.Sprintf("it wants of a %s; the next pod of %s is refused", why, console.Some(names, 4, ", ")), Remedy: "change it, or take it out of this namespace"})
		}
	}
	return found
}

// ownPods are the pods of what is installed in a namespace, by the workload's name.
func ownPods(s *Snapshot, namespace string) map[string]*corev1.PodSpec {
	pods := map[string]*corev1.PodSpec{}
	for _, name := range []string{webhookName, fencerName, volumeLockName} {
		if d := s.deployment(name); d != nil && d.Namespace == namespace {
			pods[name] = &d.Spec.Template.Spec
		}
	}
	if set := s.enforcer(); set != nil && set.Namespace == namespace {
		pods[set.Name] = &set.Spec.Template.Spec
	}
	return pods
}

// refusals are why a LimitRange refuses a pod, as the API server judges (plugin/pkg/admission/limitranger/admission.go PodValidateLimitFunc, 1.36.3).
func refusals(item corev1.LimitRangeItem, pod *corev1.PodSpec) (why []string) {
	sum := corev1.ResourceRequirements{Requests: corev1.ResourceList{}, Limits: corev1.ResourceList{}}
	for _, c := range pod.Containers {
		r := withDefaults(item, c.Resources)
		if item.Type == corev1.LimitTypeContainer {
			why = append(why, refusalsOf("container", item, r)...)
		}
		add(sum.Requests, r.Requests)
		add(sum.Limits, r.Limits)
	}
	if item.Type == corev1.LimitTypePod {
		why = refusalsOf("pod", item, sum)
	}
	return why
}

func add(sum, more corev1.ResourceList) {
	for name, q := range more {
		have := sum[name]
		have.Add(q)
		sum[name] = have
	}
}

// withDefaults has what the API server adds: a request as the limit is, and what the item gives by default.
func withDefaults(item corev1.LimitRangeItem, r corev1.ResourceRequirements) corev1.ResourceRequirements {
	over := func(lists ...corev1.ResourceList) corev1.ResourceList {
		all := corev1.ResourceList{}
		for _, list := range lists {
			maps.Copy(all, list)
		}
		return all
	}
	return corev1.ResourceRequirements{Requests: over(item.DefaultRequest, r.Limits, r.Requests), Limits: over(item.Default, r.Limits)}
}

func refusalsOf(what string, item corev1.LimitRangeItem, r corev1.ResourceRequirements) (why []string) {
	for name, least := range item.Min {
		request, asked := r.Requests[name]
		limit, limited := r.Limits[name]
		if !asked || request.Cmp(least) < 0 || limited && limit.Cmp(least) < 0 {
			why = append(why, fmt.Sprintf("%s at least %s of %s, and it has %s", what, least.String(), name, request.String()))
		}
	}
	for name, most := range item.Max {
		request := r.Requests[name]
		switch limit, limited := r.Limits[name]; {
		case !limited:
			why = append(why, fmt.Sprintf("%s a limit of %s, and it has none", what, name))
		case limit.Cmp(most) > 0 || request.Cmp(most) > 0:
			why = append(why, fmt.Sprintf("%s at most %s of %s, and it has %s", what, most.String(), name, limit.String()))
		}
	}
	for name, most := range item.MaxLimitRequestRatio {
		request, limit := r.Requests[name], r.Limits[name]
		if request.IsZero() || limit.IsZero() || limit.AsApproximateFloat64()/request.AsApproximateFloat64() > most.AsApproximateFloat64() {
			why = append(why, fmt.Sprintf("%s a limit of %s that is at most %s times its request, and it has %s and %s", what, name, most.String(), limit.String(), request.String()))
		}
	}
	return why
}
