package explain

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/policy"
)

// systemCritical is the lowest priority of critical pods (pkg/apis/scheduling/types.go SystemCriticalPriority, 1.36.3).
const systemCritical = int32(2_000_000_000)

func priority(v *view) Priority {
	spec := &v.pod.Spec
	p := Priority{
		ClassName: spec.PriorityClassName, Value: ptr.Deref(spec.Priority, 0), PreemptionPolicy: ptr.Deref(spec.PreemptionPolicy, ""),
		Source: v.classSource(), Limits: v.classLimits(),
	}
	if spec.Priority == nil && spec.PriorityClassName != "" {
		if class := v.in.Facts.PriorityClasses[spec.PriorityClassName]; class != nil {
			p.Value = class.Value
		} else {
			v.note("the priority is not resolved: class %s is not known", spec.PriorityClassName)
		}
	}
	p.Means = meansPriority(v, p)
	return p
}

func (v *view) classGiver() *policy.Policy {
	return v.giver(func(s *v1alpha1.PodPolicySpec) bool { return s.Priority != nil && s.Priority.ClassName != "" })
}

// classSource says where the class is from. The API server fills in the globalDefault class before anybody sees the pod.
func (v *view) classSource() Source {
	name, giver := v.pod.Spec.PriorityClassName, v.classGiver()
	global := v.in.Facts.GlobalDefault
	if c := v.reviewed("/spec/priorityClassName"); c != nil {
		return Source{OriginPolicy, nameOf(giver), c.Why}
	}
	switch {
	case name == "":
		return v.noClass(giver)
	case v.created() && !v.classKnown(name):
		return Source{OriginUnknown, nameOf(giver), "its own choice, a policy's or the cluster's globalDefault: the classes are not known here"}
	case global != nil && global.Name == name:
		return Source{OriginCluster, nameOf(giver), "the cluster's globalDefault, which counts as none chosen" + v.notGiven(giver)}
	case v.created() && giver != nil && giver.Spec.Priority.ClassName == name:
		return Source{OriginPodOrPolicy, giver.Name, fmt.Sprintf("PodPolicy %s gives it to pods that name none; or it is its own choice: a pod does not record which", giver.Name)}
	case giver != nil && giver.Spec.Priority.ClassName != name:
		return v.chosen(giver, fmt.Sprintf("; PodPolicy %s gives %s only to pods that name none", giver.Name, giver.Spec.Priority.ClassName))
	}
	return v.chosen(nil, "")
}

// noClass: to a manifest the API server may still give a globalDefault that is not known here; a pod that exists would have it.
func (v *view) noClass(giver *policy.Policy) Source {
	facts, why := v.in.Facts, "it names no class"+v.notGiven(giver)
	if !v.created() && facts.GlobalDefault == nil && (facts.Partial || facts.PriorityClasses == nil) {
		return Source{OriginUnknown, nameOf(giver), why + "; whether the cluster has a globalDefault is not known here"}
	}
	return Source{OriginNone, nameOf(giver), why}
}

// classKnown reports whether it can be told if a class is the globalDefault.
func (v *view) classKnown(name string) bool {
	facts := v.in.Facts
	return facts.PriorityClasses[name] != nil || facts.PriorityClasses != nil && (!facts.Partial || facts.GlobalDefault != nil)
}

// notGiven says why a policy's class was not given.
func (v *view) notGiven(giver *policy.Policy) string {
	switch {
	case giver == nil:
		return ", and " + v.nobody("one")
	case v.declines(giver, v1alpha1.SectionPriority):
		return "; " + declined(giver)
	case changed(v.settled, "/spec/priorityClassName") != nil:
		return fmt.Sprintf("; PodPolicy %s gives %s to pods like it, and was not there or not asked when it was made", giver.Name, giver.Spec.Priority.ClassName)
	case giver.Spec.Priority.ClassName == v.pod.Spec.PriorityClassName:
		return fmt.Sprintf(", and what PodPolicy %s gives too", giver.Name)
	}
	return fmt.Sprintf("; PodPolicy %s would give %s and can't (see the warnings)", giver.Name, giver.Spec.Priority.ClassName)
}

func nameOf(p *policy.Policy) string {
	if p == nil {
		return ""
	}
	return p.Name
}

// meansPriority says whom it displaces and who displaces it. Only pods of lower priority are preempted, and only by a pod that has no
// node yet (pkg/scheduler/framework/preemption, 1.36.3).
func meansPriority(v *view, p Priority) string {
	var text string
	switch {
	case v.pod.Spec.NodeName != "":
		text = "It has its node and preempts nobody any more"
	case p.PreemptionPolicy == corev1.PreemptNever:
		text = "It preempts nobody: it waits for room, ahead of pods of lower priority"
	default:
		text = fmt.Sprintf("Where there is no room it preempts pods of a priority below %d", p.Value)
	}
	if p.Value >= systemCritical {
		return text + "; it is critical for the system: it is never evicted for want of resources"
	}
	return text + fmt.Sprintf("; pods above %d may preempt it", p.Value)
}
