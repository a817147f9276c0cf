package explain

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/defaulting"
	"github.com/podgrace/podgrace/policy/enforcement"
)

// today is what today's policies would decide otherwise if the pod were recreated as it is, without its node. A manifest was decided
// today.
func today(v *view) (out []string) {
	if !v.created() || v.in.PoliciesUnknown {
		return nil
	}
	pod := v.recreated()
	result := v.apply(pod)
	for _, c := range result.Changes {
		if text := v.difference(c); text != "" {
			out = append(out, text)
		}
	}
	denials := result.Denials
	if len(denials) == 0 {
		denials = v.validate(defaulting.Patch(pod, result.Changes))
	}
	for _, d := range denials {
		out = append(out, "it would be refused: "+d.Message)
	}
	return out
}

// refused is why a manifest would be: what the review says, and what the last webhook says of the pod that comes out of it.
func refused(v *view) (out []string) {
	if v.created() {
		return nil
	}
	if v.in.Invalid != "" {
		out = append(out, v.in.Invalid)
	}
	var denials []defaulting.Denial
	if v.in.Review != nil {
		denials = v.in.Review.Denials
	}
	for _, d := range append(slices.Clone(denials), v.validate(v.pod)...) {
		if !slices.Contains(out, d.Message) {
			out = append(out, d.Message)
		}
	}
	return out
}

// validate judges a pod as the last webhook does.
func (v *view) validate(p *corev1.Pod) []defaulting.Denial {
	request := v.asking(p)
	return defaulting.For(v.in.Policies, request, v.in.Exempt).Validate(request, v.in.Facts).Denials
}

// difference says what one change comes to. The priority's value and preemption policy come with its class.
func (v *view) difference(c defaulting.Change) string {
	switch {
	case c.Path == "/spec/priorityClassName":
		return fmt.Sprintf("priority class: it has %s, recreated it would get %v (%s)", orNone(c.Before), c.Value, c.Why)
	case c.Path == defaulting.SpreadPath:
		if v.in.SelectorsUnknown {
			return ""
		}
		return fmt.Sprintf("topology spread: it has no constraints, recreated it would get some (%s)", c.Why)
	case c.Path == gracePath:
		return fmt.Sprintf("grace period: recreated it would get %v s (%s)", c.Value, c.Why)
	case c.Section == "removal":
		return fmt.Sprintf("record of its controller: recreated it would be %s (%s)", c.Text(), c.Why)
	case c.Section == "node":
		return v.contractDifference(c)
	}
	if probe, ok := defaulting.ProbeOf(c.Path); ok {
		return fmt.Sprintf("grace period of %s: recreated it would get %v s (%s)", probe, c.Value, c.Why)
	}
	return ""
}

// orNone is what a field has.
func orNone(before any) any {
	if before == nil {
		return "none"
	}
	return before
}

// contractDifference names the fields that differ.
func (v *view) contractDifference(c defaulting.Change) string {
	var have, want []string
	if e, err := enforcement.Parse(v.pod.Annotations[v1alpha1.AnnotationEnforcement]); err == nil {
		have = fields(e)
	}
	if giver := v.contractGiver(); giver != nil {
		want = fields(giver.Spec.Node)
	}
	if c.Operation == defaulting.OperationRemove {
		return fmt.Sprintf("contract: recreated it would have none (%s)", c.Why)
	}
	gone, added := without(have, want), without(want, have)
	if len(gone)+len(added) == 0 {
		return fmt.Sprintf("contract: recreated it would be written in another form (%s)", c.Why)
	}
	return fmt.Sprintf("contract: it has %s, recreated: %s (%s)", or(strings.Join(gone, ", "), "nothing of it"), or(strings.Join(added, ", "), "nothing of it"), c.Why)
}

func without(list, others []string) (out []string) {
	seen := map[string]bool{}
	for _, o := range others {
		seen[o] = true
	}
	for _, s := range list {
		if !seen[s] {
			out = append(out, s)
		}
	}
	return out
}
