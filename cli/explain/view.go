package explain

import (
	"fmt"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/defaulting"
	"github.com/podgrace/podgrace/nodeenforcer/plan"
	"github.com/podgrace/podgrace/policy"
)

// view is the input, and what all sections ask for.
type view struct {
	in  Input
	pod *corev1.Pod
	// effective is what the policies say of the pod as it is, settled what they would still change in it.
	effective *defaulting.Effective
	settled   defaulting.Result
	// limiting are the policies whose limits hold, giving those whose defaults hold as well; the heaviest first.
	limiting, giving policy.Policies

	unknown []string
}

func newView(in Input) *view {
	v := &view{in: in, pod: in.Pod}
	if v.pod == nil {
		v.pod = &corev1.Pod{}
	}
	if in.PoliciesUnknown {
		v.in.Policies = nil
		v.note("which policies there are could not be read")
	}
	if in.ExceptionsUnknown {
		v.note("exceptions of namespace %s could not be read: limits are told as if there were none", v.pod.Namespace)
	}
	switch {
	case in.Facts.PriorityClasses == nil:
		v.note("the cluster's PriorityClasses are not known")
	case in.Facts.Partial:
		v.note("not all of the cluster's PriorityClasses are known")
	}
	if in.Namespace.Unknown && v.doubtful() {
		v.note("namespace %s could not be looked up: policies that select by its labels are left out, but for removals, where they hold", in.Namespace.Name)
	}
	v.effective = defaulting.For(v.in.Policies, v.asking(v.pod), in.Exempt).Settled(v.asking(v.pod), in.Facts)
	v.settled = v.effective.Apply(v.asking(v.pod), in.Facts)
	for _, p := range v.in.Policies {
		if slices.Contains(v.effective.Policies, p.Name) {
			v.limiting = append(v.limiting, p)
			if v.certain(p) {
				v.giving = append(v.giving, p)
			}
		}
	}
	return v
}

// note says once what is not known.
func (v *view) note(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(v.unknown, text) {
		v.unknown = append(v.unknown, text)
	}
}

func (v *view) unknowns() []string { return v.unknown }

// asking is the request by which a pod is created.
func (v *view) asking(p *corev1.Pod) policy.Request {
	creator := v.in.Creator
	if v.in.Created && plan.IsMirror(p) { // its kubelet made it, which policies leave alone
		creator = authenticationv1.UserInfo{Groups: []string{"system:nodes"}}
	}
	return policy.Request{Pod: p, Namespace: v.in.Namespace, User: creator}
}

// recreated is the pod as it would be made again: it has no node. A manifest that names its node keeps it.
func (v *view) recreated() *corev1.Pod {
	p := v.pod.DeepCopy()
	if v.in.Created {
		p.Spec.NodeName = ""
	}
	return p
}

// unspread is the pod as it would be made again if it had no constraints of its own: what a policy's are compared with.
func (v *view) unspread() *corev1.Pod {
	p := v.recreated()
	p.Spec.TopologySpreadConstraints = nil
	return p
}

// apply says what today's policies would change in a pod.
func (v *view) apply(p *corev1.Pod) defaulting.Result {
	return defaulting.For(v.in.Policies, v.asking(p), v.in.Exempt).Apply(v.asking(p), v.in.Facts)
}

// reviewed returns what the review changed at a path, or nil.
func (v *view) reviewed(path string) *defaulting.Change {
	if v.in.Review == nil {
		return nil
	}
	return changed(*v.in.Review, path)
}

func changed(r defaulting.Result, path string) *defaulting.Change {
	for i := range r.Changes {
		if r.Changes[i].Path == path {
			return &r.Changes[i]
		}
	}
	return nil
}

// giver returns the policy that gives a default, the heaviest that has it; nil where none has.
func (v *view) giver(has func(*v1alpha1.PodPolicySpec) bool) *policy.Policy {
	for _, p := range v.giving {
		if has(p.Spec) {
			return p
		}
	}
	return nil
}

// declines reports whether the pod declines a default by annotation, and its giver permits that.
func (v *view) declines(giver *policy.Policy, section v1alpha1.Section) bool {
	if giver == nil || !slices.Contains(giver.Spec.AllowSkip, section) {
		return false
	}
	for part := range strings.SplitSeq(v.pod.Annotations[v1alpha1.AnnotationSkip], ",") {
		if v1alpha1.Section(strings.TrimSpace(part)) == section {
			return true
		}
	}
	return false
}

func declined(giver *policy.Policy) string {
	return fmt.Sprintf("it declines what PodPolicy %s would give, by annotation %s", giver.Name, v1alpha1.AnnotationSkip)
}

func (v *view) created() bool { return v.in.Created }

// nobody says that no policy gives something, as far as that is known.
func (v *view) nobody(what string) string {
	if v.doubtful() {
		return "whether a policy gives " + what + " is not known"
	}
	return "no matching policy gives " + what
}

// doubtful reports whether a policy may be for the pod of which that can't be told.
func (v *view) doubtful() bool {
	return v.in.PoliciesUnknown || v.in.Policies.Undecided(v.in.Namespace)
}

// chosen is the source of what no policy is known to have given. A policy that is no more may have given what an existing pod has.
func (v *view) chosen(giver *policy.Policy, more string) Source {
	switch {
	case !v.created():
		return Source{OriginPod, nameOf(giver), "its own choice" + more}
	case v.doubtful():
		return Source{OriginUnknown, nameOf(giver), "its own choice or a policy's: not all policies are known here" + more}
	}
	return Source{OriginPodOrPolicy, nameOf(giver), "its own choice, or an earlier policy's" + more}
}
