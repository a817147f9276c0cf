package graceperiod_test

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/podgrace/podgrace/graceperiod"
)

func commandHook(words ...string) *corev1.LifecycleHandler {
	return &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: words}}
}

func TestAtLeast(t *testing.T) {
	for _, tc := range []struct {
		command []string
		want    int64
	}{
		{[]string{"sleep", "30"}, 30},
		{[]string{"sleep", "1m"}, 60},
		{[]string{"sleep", "1.5m"}, 90},
		{[]string{"sleep", "1h"}, 3600},
		{[]string{"sleep", "7d"}, 604800},
		{[]string{"sleep", "8d"}, 0},
		{[]string{"sleep", "30.9"}, 30},
		{[]string{"sleep", ".5"}, 0},
		{[]string{"sleep", "."}, 0},
		{[]string{"sleep", "1e9"}, 0},
		{[]string{"sleep", "0x10"}, 0},
		{[]string{"sleep", strings.Repeat("9", 400)}, 0},
		{[]string{"sleep", "infinity"}, 0},
		{[]string{"sleep", "5ms"}, 0},
		{[]string{"sleep", "-5"}, 0},
		{[]string{"sleep", "5", "6"}, 0},
		{[]string{"/opt/sleep", "5m"}, 0},
		{[]string{"sh", "-c", "sleep 30 && nginx -s quit"}, 30},
		{[]string{"sh", "-c", "sleep 30; nginx -s quit"}, 30},
		{[]string{"sh", "-c", "sleep 30\nnginx -s quit"}, 30},
		{[]string{"sh", "-c", "sleep 30&&nginx -s quit"}, 30},
		{[]string{"sh", "-c", "sleep 30 || true"}, 30},
		{[]string{"sh", "-c", "sleep 30 # until the load balancer knows"}, 30},
		{[]string{"sh", "-c", "sleep 30#5"}, 0},
		{[]string{"sh", "-c", " \n\texec /bin/sleep 2m ;"}, 120},
		{[]string{"sh", "-c", "sleep 5; sleep 5"}, 5},
		{[]string{"bash", "-ec", "sleep 30"}, 30},
		{[]string{"bash", "-ce", "sleep 30"}, 30},
		{[]string{"bash", "-eu", "-xc", "sleep 30"}, 30},
		{[]string{"/bin/bash", "-c", "sleep 30", "name", "argument"}, 30},
		{[]string{"bash", "-nc", "sleep 30 && x"}, 0},
		{[]string{"bash", "-lc", "sleep 30 && x"}, 0},
		{[]string{"bash", "-e", "sleep 30 && x"}, 0},
		{[]string{"bash", "-c"}, 0},
		{[]string{"bash"}, 0},
		{[]string{"python", "-c", "sleep 30 && x"}, 0},
		{[]string{"sh", "-c", "sleep 30 &"}, 0},
		{[]string{"sh", "-c", "sleep 30 & wait"}, 0},
		{[]string{"sh", "-c", "sleep 30 && nginx -s quit &"}, 0},
		{[]string{"sh", "-c", "sleep 30 || true & exit"}, 0},
		{[]string{"sh", "-c", "sleep 30 && echo 'a & b'"}, 0},
		{[]string{"sh", "-c", "sleep 30 && a && b >/dev/null 2>&1 || c"}, 30},
		{[]string{"sh", "-c", "sleep 30 && a &>/dev/null"}, 0}, // a background in dash
		{[]string{"sh", "-c", "sleep 30 && a >&& b"}, 0},
		{[]string{"sh", "-c", "sleep 30; x &"}, 30},
		{[]string{"sh", "-c", "sleep 30 | true"}, 0},
		{[]string{"sh", "-c", "sleep 30 >/nowhere/at/all"}, 0},
		{[]string{"sh", "-c", "sleep $N && x"}, 0},
		{[]string{"sh", "-c", "sleep 5 6 && x"}, 0},
		{[]string{"sh", "-c", "exit; sleep 30"}, 0},
		{[]string{"sh", "-c", "nosleep 30 && x"}, 0},
		{[]string{""}, 0},
		{nil, 0},
	} {
		t.Run(fmt.Sprintf("%.60q", tc.command), func(t *testing.T) {
			if got := graceperiod.AtLeast(commandHook(tc.command...)); got != tc.want {
				t.Errorf("got %d, want %d", got, tc.want)
			}
			agree(t, tc.command)
		})
	}
	for name, tc := range map[string]struct {
		hook *corev1.LifecycleHandler
		want int64
	}{
		"action":    {&corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 5}}, 5},
		"negative":  {&corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: -5}}, 0},
		"too long":  {&corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 604801}}, 0},
		"HTTP":      {&corev1.LifecycleHandler{HTTPGet: &corev1.HTTPGetAction{}}, 0},
		"no action": {&corev1.LifecycleHandler{}, 0},
	} {
		if got := graceperiod.AtLeast(tc.hook); got != tc.want {
			t.Errorf("%s: got %d, want %d", name, got, tc.want)
		}
	}
}

// Where the length is known, the bound is the length.
func TestAtLeastIsWhatIsKnown(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seconds := rapid.Int64Range(0, 700_000).Draw(t, "seconds")
		form := rapid.SampledFrom([][]string{{"sleep", "%d"}, {"/bin/sleep", "%ds"}, {"sh", "-c", "sleep %d"}, {"bash", "-c", "exec sleep %ds ;"}}).Draw(t, "form")
		var words []string
		for _, w := range form {
			words = append(words, strings.ReplaceAll(w, "%d", strconv.FormatInt(seconds, 10)))
		}
		took, known := graceperiod.PreStop(commandHook(words...))
		if got := graceperiod.AtLeast(commandHook(words...)); known && got != took || !known && got != 0 {
			t.Fatalf("%q takes %d (%t), at least %d", words, took, known, got)
		}
	})
}

// FuzzAtLeast: a bound is claimed only of a command whose first word that does something is sleep, and never one of more than it says.
func FuzzAtLeast(f *testing.F) {
	for _, command := range []string{
		"sleep\x005m", "sleep\x00.5", "sh\x00-c\x00sleep 5 && x", "sh\x00-ec\x00sleep 1.5h;x", "sh\x00-c\x00sleep 5 && x &", "bash\x00-e\x00-c\x00exec sleep 5 # x\x00a", "sh\x00-c\x00sleep 5|x", "sleep\x00" + strings.Repeat("9", 330),
	} {
		f.Add(command)
	}
	f.Fuzz(func(t *testing.T, text string) {
		command := strings.Split(text, "\x00")
		got := graceperiod.AtLeast(commandHook(command...))
		if took, known := graceperiod.PreStop(commandHook(command...)); known && got != took {
			t.Fatalf("%q: %d, although it takes %d", command, got, took)
		}
		if got == 0 {
			return
		}
		words := command
		for i, w := range command {
			if i > 0 && strings.HasPrefix(w, "-") && strings.Contains(w, "c") && i+1 < len(command) {
				words = strings.FieldsFunc(strings.TrimPrefix(strings.TrimLeft(command[i+1], " \t\n"), "exec"), func(r rune) bool { return strings.ContainsRune(" \t\n;&|", r) })
				break
			}
		}
		if len(words) < 2 || words[0] != "sleep" && words[0] != "/bin/sleep" && words[0] != "/usr/bin/sleep" {
			t.Fatalf("%q is said to sleep %d s", command, got)
		}
		number := strings.TrimRight(words[1], "smhd")
		says, err := strconv.ParseFloat(number, 64)
		says *= map[string]float64{"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}[words[1][len(number):]]
		if err != nil || float64(got) != math.Floor(says) || got > 7*24*3600 {
			t.Fatalf("%q is said to sleep %d s: %v, %v", command, got, says, err)
		}
	})
}
