package graceperiod

import (
	"regexp"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// MaxPreStop is the longest time in seconds that is told from a longer one, a week, as in PodPolicy: beyond it arithmetic could overflow.
const MaxPreStop = int64(7 * 24 * 3600)

// UnitSeconds of an operand of sleep, as GNU's, BusyBox' and toybox' take it.
var UnitSeconds = map[string]float64{"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}

// Parts of the patterns below, which are asked of a command as those of CEL are.
const (
	folder = `(/[^ \t\n;&|` + Separator + `]*/)?`
	within = folder + `(env` + Separator + folder + `)?(timeout` + Separator + anyLength + Separator + folder + `)?`
	// begins is what a script has before the operand of its first sleep: comments without digits, and options of the shell.
	begins = `([ \t\n]|#[^\n0-9]*\n|set -[eux]+[ \t]*(;|\n|&&))*(exec[ \t]+)?` + folder + `sleep[ \t]+`
	length = `(` + anyLength + `|inf(inity)?)`
)

var (
	// sleepsOnly is a command that sleeps, and does nothing else; sleepsFirst one that begins with a sleep, for which a shell waits before it does what follows.
	sleepsOnly  = regexp.MustCompile(`^` + within + `(sleep` + Separator + length + `|` + anyShell + Separator + `-c` + Separator + begins + length + `[ \t]*;?[ \t\n]*)$`)
	sleepsFirst = regexp.MustCompile(`^` + within + `(sleep` + Separator + length + `$|` +
		anyShell + `(` + Separator + `-[eux]*)*` + Separator + `-[eux]*c[eux]*(` + Separator + `-[eux]+)*` + Separator + begins + length +
		`[ \t]*($|` + Separator + `|\n|;|[ \t]#|(&&|\|\|)` + waits + `($|` + Separator + `)))`)
	// operand matches the first sleep of such a command, and timeout the time after which timeout(1) ends it.
	operand = regexp.MustCompile(`sleep[ \t` + Separator + `]+` + length)
	timeout = regexp.MustCompile(`timeout` + Separator + anyLength)
	number  = regexp.MustCompile(Number)
)

// AtLeast returns how many whole seconds a hook surely takes: those of a sleep action, or of the sleep with which its command begins, whatever comes then; 0 if nothing can be said, and
// MaxPreStop for any longer time. A grace period of no more is too short: SIGTERM never comes in it.
func AtLeast(h *corev1.LifecycleHandler) int64 {
	switch {
	case h.Sleep != nil:
		return min(max(h.Sleep.Seconds, 0), MaxPreStop)
	case h.Exec == nil:
		return 0
	}
	command := strings.Join(h.Exec.Command, Separator)
	if !sleepsFirst.MatchString(command) {
		return 0
	}
	took := secondsOf(operand.FindString(command))
	if limit := timeout.FindString(command); limit != "" {
		took = min(took, secondsOf(limit))
	}
	return took
}

// PreStop returns how many seconds a hook takes, and whether that can be known: of a sleep action or of a command that only sleeps, for less than MaxPreStop.
func PreStop(h *corev1.LifecycleHandler) (took int64, known bool) {
	took = AtLeast(h)
	only := h.Sleep != nil && h.Sleep.Seconds >= 0 || h.Exec != nil && sleepsOnly.MatchString(strings.Join(h.Exec.Command, Separator))
	return took, only && took < MaxPreStop
}

// secondsOf is what an operand says in whole seconds.
func secondsOf(operand string) int64 {
	digits := number.FindString(operand)
	if digits == "" { // for ever
		return MaxPreStop
	}
	_, unit, _ := strings.Cut(operand, digits)
	n, err := strconv.ParseFloat(digits, 64)
	if seconds := n * UnitSeconds[unit]; err == nil && seconds < float64(MaxPreStop) {
		return int64(seconds)
	}
	return MaxPreStop
}
