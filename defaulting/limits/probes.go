package limits

import (
	"fmt"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/podgrace/podgrace/defaulting"
)

// probeGrace is the grace period that a probe of container c has of its own, 0: none. Less is the API server's to refuse.
func probeGrace(probe string) string {
	return "c.?" + probe + ".?terminationGracePeriodSeconds.orValue(0)"
}

// probeVariables are probesOf of package defaulting: for each container that has a probe with a grace period of its own that of its liveness
// probe [0], that of its startup probe [1], and what its preStop takes [2], where that counts.
func (b *builder) probeVariables() []admissionregistrationv1.Variable {
	liveness, startup, took := probeGrace(defaulting.LivenessProbe), probeGrace(defaulting.StartupProbe), "dyn(0)"
	if b.margins() {
		took = tookOf
	}
	graces := func(i int) string { return fmt.Sprintf("variables.probes.map(p, p[%d]).filter(v, v > 0)", i) }
	spare := func(i int) string {
		return fmt.Sprintf("variables.probes.filter(p, p[2] > 0 && p[%[1]d] > 0 && p[%[1]d] < variables.lowestMost).map(p, p[%[1]d] - p[2])", i)
	}
	most := each(settled(b.bounding(maxOf)), func(s *subject) string { return whereMay(s, liftMax, number(*maxOf(s)), number(noMost)) })
	return []admissionregistrationv1.Variable{
		{Name: "probed", Expression: few + "(" + initContainers + " + object.spec.containers).filter(c, " + liveness + " > 0 || " + startup + " > 0)"},
		{Name: "probes", Expression: fmt.Sprintf("variables.probed.map(c, [%s, %s, %s])", liveness, startup, took)},
		{Name: "graces", Expression: graces(0) + " + " + graces(1)},
		{Name: "shortest", Expression: "(variables.graces + [" + number(noMost) + "]).min()"},
		{Name: "longest", Expression: "(variables.graces + [0]).max()"},
		{Name: "lowestMost", Expression: "[" + strings.Join(append(most, number(noMost)), ", ") + "].min()"},
		// The least that is left after preStop, of those that are below every maximum.
		{Name: "spare", Expression: "(" + spare(0) + " + " + spare(1) + " + [" + number(noMost) + "]).min()"},
	}
}

// leavesProbes is leaves for the grace periods of probes.
func leavesProbes(s *subject) string {
	margin := number(*marginOf(s))
	high := maxOf(s)
	if high == nil || !s.condition { // its own maximum is one of those that spare knows
		return "variables.spare >= " + margin
	}
	enough := func(i int) string {
		most := s.unlifted(liftMax, fmt.Sprintf("p[%d] >= %d", i, *high))
		return fmt.Sprintf("p[%[1]d] < 1 || p[%[1]d] >= variables.lowestMost || %[2]s || p[%[1]d] - p[2] >= %[3]s", i, most, margin)
	}
	return "variables.probes.all(p, p[2] == 0 || (" + enough(0) + ") && (" + enough(1) + "))"
}

// probeWords are what the words about probes are made of: of the first whose grace period is out of bounds, and how many there are.
func (b *builder) probeWords() []admissionregistrationv1.Variable {
	wrong := func(i int) string {
		return fmt.Sprintf("p[%[1]d] > 0 && (p[%[1]d] < l || p[%[1]d] < variables.minimum || p[%[1]d] > variables.maximum && p[%[1]d] > variables.minimum)", i)
	}
	least := func(expression string) string { return let("l", leastOf(b.needs("p[2]")), expression) }
	const first = "variables.wrong[0]"
	return []admissionregistrationv1.Variable{
		{Name: "wrong", Expression: "variables.probes.filter(p, " + least("("+wrong(0)+") || ("+wrong(1)+")") + ")"},
		{Name: "wrongs", Expression: "size(variables.wrong.filter(p, " + least(wrong(0)) + ")) + size(variables.wrong.filter(p, " + least(wrong(1)) + "))"},
		{Name: "wrongNeeds", Expression: b.needs(first + "[2]")},
		{Name: "wrongLeast", Expression: leastOf("variables.wrongNeeds")},
		{Name: "wrongLiveness", Expression: let("p", first, least(wrong(0)))},
		{Name: "wrongHave", Expression: "variables.wrongLiveness ? " + first + "[0] : " + first + "[1]"},
		{Name: "wrongOf", Expression: "variables.probed[variables.probes.indexOf(" + first + ")]"},
		{Name: "wrongStop", Expression: stopOf("variables.wrongOf", first+"[2]")},
	}
}

// probeMessage says what validateProbes says.
func (b *builder) probeMessage() string {
	whose := fmt.Sprintf("(variables.wrongLiveness ? %s : %s) + variables.wrongOf.name", text(defaulting.LivenessProbe+defaulting.WordsProbeOf), text(defaulting.StartupProbe+defaulting.WordsProbeOf))
	others := "variables.wrongs == 1 ? '' : variables.wrongs == 2 ? " + text(defaulting.WordsAnotherLike) + " : " + say(defaulting.WordsOthersLike, "variables.wrongs - 1")
	return b.boundsMessage(judged{"variables.wrongHave", "variables.wrongNeeds", "variables.wrongLeast", "variables.wrongStop"}, func(want, why string) string {
		return say(defaulting.WordsProbe, whose, "variables.wrongHave", want, why, others, want)
	})
}
