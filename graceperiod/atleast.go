package graceperiod

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// length is the operand of sleep as GNU's, BusyBox' and toybox' take it: a number, perhaps with a fraction and a unit.
const length = `([0-9]+(?:\.[0-9]*)?|\.[0-9]+)([smhd]?)`

var (
	sleepLength = regexp.MustCompile(`^` + length + `$`)
	// firstSleep is what a script begins with, and what follows it: the end, or what the shell does when the sleep is over.
	firstSleep = regexp.MustCompile(`^` + beforeOperand + length + `[ \t]*(\z|\n|;|&&|\|\||[ \t]#)`)
	// scriptFlags are those of a shell that do not change when it begins: -e, -u, -x and, for the script, -c.
	scriptFlags = regexp.MustCompile(`^-[eux]*(c?)[eux]*$`)
)

// UnitSeconds of a length.
var UnitSeconds = map[string]float64{"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}

// AtLeast returns how many whole seconds a hook surely takes: as many as PreStop knows, or those of the sleep with which its command
// begins, whatever comes then; 0 where nothing can be said. A grace period of no more is too short: SIGTERM never comes in it.
func AtLeast(h *corev1.LifecycleHandler) int64 {
	if took, known := PreStop(h); known {
		return took
	}
	if h.Exec == nil {
		return 0
	}
	command := h.Exec.Command
	if len(command) == 2 && slices.Contains(sleepers, command[0]) {
		return wholeSeconds(sleepLength.FindStringSubmatch(command[1]))
	}
	text, ok := script(command)
	if !ok {
		return 0
	}
	m := firstSleep.FindStringSubmatch(text)
	if m == nil || inBackground(text[len(m[0]):], m[3]) {
		return 0
	}
	return wholeSeconds(m)
}

// script is what a command has a shell do.
func script(command []string) (string, bool) {
	if len(command) == 0 || !slices.Contains(shells, command[0]) {
		return "", false
	}
	for i, flag := range command[1:] {
		m := scriptFlags.FindStringSubmatch(flag)
		if m == nil {
			return "", false
		}
		if m[1] != "" && i+2 < len(command) {
			return command[i+2], true
		}
	}
	return "", false
}

// inBackground says whether the sleep may be one that the shell does not wait for: "sleep 30 && quit &". An & that is
// quoted counts, too: what is said of a hook must be sure.
func inBackground(rest, end string) bool {
	if end != "&&" && end != "||" {
		return false
	}
	rest = strings.NewReplacer("&&", "", ">&", "").Replace(rest)
	return strings.Contains(rest, "&")
}

// wholeSeconds is a length that was matched; 0 for none, and for one that is not believed.
func wholeSeconds(m []string) int64 {
	if m == nil {
		return 0
	}
	number, err := strconv.ParseFloat(m[1], 64)
	if seconds := number * UnitSeconds[m[2]]; err == nil && seconds <= float64(MaxPreStop) {
		return int64(seconds)
	}
	return 0
}
