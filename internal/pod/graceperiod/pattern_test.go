package graceperiod_test

import (
	"errors"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/podgrace/podgrace/internal/pod/graceperiod"
)

var (
	sleepsOnly  = regexp.MustCompile(graceperiod.SleepsOnly)
	sleepsFirst = regexp.MustCompile(graceperiod.SleepsFirst)
	operand     = regexp.MustCompile(graceperiod.Operand)
	number      = regexp.MustCompile(graceperiod.Number)
)

// byPatterns is what the patterns say of a command: what it takes at least, and whether it takes just that.
func byPatterns(command []string) (took int64, known bool) {
	text := strings.Join(command, graceperiod.Separator)
	if !sleepsFirst.MatchString(text) {
		return 0, false
	}
	word := operand.FindString(text)
	digits := number.FindString(word)
	seconds, err := strconv.ParseFloat(digits, 64)
	if errors.Is(err, strconv.ErrRange) {
		return graceperiod.MaxPreStop, false
	} else if err != nil {
		return 0, false
	}
	seconds *= graceperiod.UnitSeconds[word[len(digits):]]
	if seconds >= float64(graceperiod.MaxPreStop) {
		return graceperiod.MaxPreStop, false
	}
	return int64(seconds), sleepsOnly.MatchString(text)
}

func agree(t interface{ Fatalf(string, ...any) }, command []string) {
	least := graceperiod.AtLeast(commandHook(command...))
	_, known := graceperiod.PreStop(commandHook(command...))
	if got, only := byPatterns(command); got > 0 && got != least || only && !known {
		t.Fatalf("%q: by the patterns at least %d (just that: %t), else %d (%t)", command, got, only, least, known)
	}
}

// What the patterns say of any command, AtLeast and PreStop say too. The words are such that many nearly match.
func TestPatternsAgree(t *testing.T) {
	program := rapid.SampledFrom([]string{"sleep", "/bin/sleep", "/usr/bin/sleep", "/usr/sleep", "sh", "/bin/bash", "dash", "/usr/bin/ash", "ksh", "bsh"})
	flag := rapid.SampledFrom([]string{"-c", "-e", "-", "-eu", "-ec", "-cx", "-cc", "-l", "c"})
	length := rapid.SampledFrom([]string{"5", "05", "5s", "1.5m", ".5h", "5.", "7d", "8d", "604800", "604801", ".", "1.2.3", "5x", "-5", "", strings.Repeat("9", 320)})
	before := rapid.SampledFrom([]string{"sleep ", " \n\tsleep\t ", "exec sleep ", "exec /bin/sleep ", "/usr/bin/sleep ", "sleep", "nosleep ", "a; sleep "})
	after := rapid.StringOf(rapid.SampledFrom([]rune("&&&&||>>>;# \t\na5\"")))
	rapid.Check(t, func(t *rapid.T) {
		command := []string{program.Draw(t, "program")}
		command = append(command, rapid.SliceOfN(flag, 0, 3).Draw(t, "flags")...)
		switch rapid.IntRange(0, 3).Draw(t, "last") {
		case 0:
			command = append(command, length.Draw(t, "length"))
		default:
			command = append(command, before.Draw(t, "before")+length.Draw(t, "length")+after.Draw(t, "after"))
		}
		if rapid.Bool().Draw(t, "argument") {
			command = append(command, after.Draw(t, "argument"))
		}
		agree(t, command)
	})
}
