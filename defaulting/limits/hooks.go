package limits

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/podgrace/podgrace/defaulting"
	"github.com/podgrace/podgrace/internal/pod/graceperiod"
)

// What a hook of container c sleeps by a sleep action, and the command of its preStop as one text.
const (
	preStop   = "c.?lifecycle.?preStop.?sleep.?seconds.orValue(0)"
	postStart = "c.?lifecycle.?postStart.?sleep.?seconds.orValue(0)"
	// initContainers of the pod.
	initContainers = "object.spec.?initContainers.orValue([])"
	actions        = "c.?lifecycle.?preStop.?sleep.hasValue()"
)

var command = "c.?lifecycle.?preStop.?exec.?command.orValue([]).join(" + text(graceperiod.Separator) + ")"

// hookVariables are stopsOf of package defaulting.
func hookVariables() []admissionregistrationv1.Variable {
	return []admissionregistrationv1.Variable{
		{Name: "hooked", Expression: few + "" + initContainers + ".filter(c, c.?restartPolicy.orValue('') == 'Always' && has(c.lifecycle)) + object.spec.containers.filter(c, has(c.lifecycle))"},
		{Name: "sleep", Expression: "(variables.hooked.map(c, " + preStop + ") + variables.hooked.map(c, " + postStart + ") + [0]).max()"},
		{Name: "sleeper", Expression: "variables.hooked.filter(c, " + preStop + " == variables.sleep || " + postStart + " == variables.sleep)" +
			".map(c, (" + preStop + " == variables.sleep ? " + text(defaulting.WordsPreStopOf) + " : " + text(defaulting.WordsPostStarts) + ") + c.name)[0]"},
		{Name: "took", Expression: "variables.hooked.map(c, " + tookOf + ")"},
		{Name: "known", Expression: "(variables.took + [0]).max()"},
		{Name: "stop", Expression: stopOf("variables.hooked[variables.took.indexOf(variables.known)]", "variables.known")},
	}
}

// few is before a list of containers, which is empty where there are too many.
var few = fmt.Sprintf("size(object.spec.containers) + size(%s) > %d ? [] : ", initContainers, MaxItems)

// tookOf is graceperiod.AtLeast for the preStop of container c.
var tookOf = fmt.Sprintf("(%s ? (%[2]s < 0 ? 0 : %[2]s < %[3]d ? %[2]s : %[3]d) : %[4]s)", actions, preStop, graceperiod.MaxPreStop,
	let("n", let("o", let("t", command,
		fmt.Sprintf("size(t) <= %d && t.matches(%s) ? t.find(%s) : ''", MaxCommand, text(graceperiod.SleepsFirst), text(graceperiod.Operand))),
		fmt.Sprintf("o == '' ? 0.0 : double(o.find(%s)) * (%s)", text(graceperiod.Number), unitOf())),
		fmt.Sprintf("n < %d.0 ? int(n) : %[1]d", graceperiod.MaxPreStop)))

// unitOf is the unit of operand o in seconds.
func unitOf() string {
	var expression strings.Builder
	for _, unit := range slices.Sorted(maps.Keys(graceperiod.UnitSeconds)) {
		if unit != "" {
			fmt.Fprintf(&expression, "o.endsWith(%s) ? %.1f : ", text(unit), graceperiod.UnitSeconds[unit])
		}
	}
	return expression.String() + "1.0"
}

// stopOf is preStops.describe for a container whose preStop takes so many seconds.
func stopOf(container, took string) string {
	words := func(of string) string { return say(of, "c.name", say(defaulting.WordsSeconds, took)) }
	return let("c", container, fmt.Sprintf("%s < %d && (%s || %s.matches(%s)) ? %s : %s", took, graceperiod.MaxPreStop, actions, command, text(graceperiod.SleepsOnly), words(defaulting.WordsStop), words(defaulting.WordsStopAtLeast)))
}
