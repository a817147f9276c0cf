package graceperiod_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/podgrace/podgrace/internal/pod/graceperiod"
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
		{[]string{"sleep", "8d"}, 604800},
		{[]string{"sleep", "30.9"}, 30},
		{[]string{"sleep", ".5"}, 0},
		{[]string{"sleep", "."}, 0},
		{[]string{"sleep", "1e9"}, 0},
		{[]string{"sleep", "0x10"}, 0},
		{[]string{"sleep", strings.Repeat("9", 400)}, 604800},
		{[]string{"sleep", "infinity"}, 604800},
		{[]string{"sleep", "5ms"}, 0},
		{[]string{"sleep", "-5"}, 0},
		{[]string{"sleep", "5", "6"}, 0},
		{[]string{"/opt/sleep", "5m"}, 300},
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
		{[]string{"sh", "-c", "set -e; sleep 40"}, 40},
		{[]string{"sh", "-c", "set -eu\nset -x && exec sleep 40\nquit"}, 40},
		{[]string{"sh", "-c", "set -e | sleep 40"}, 0},
		{[]string{"sh", "-c", "# drain.\nsleep 40\n"}, 40},
		{[]string{"sh", "-c", "#!/bin/sh\n\n  # the load balancer\n  sleep 40 && quit"}, 40},
		{[]string{"sh", "-c", "# sleep 5\nsleep 40"}, 0}, // the digits of a comment could be taken for the operand
		{[]string{"/busybox/sh", "-c", "sleep 40"}, 40},
		{[]string{"/opt/busybox-1.36/ash", "-c", "/opt/v2/sleep 40"}, 40},
		{[]string{"bin/sh", "-c", "sleep 40"}, 0},
		{[]string{"/usr/bin/env", "sleep", "40"}, 40},
		{[]string{"env", "sh", "-c", "sleep 40; quit"}, 40},
		{[]string{"env", "A=b", "sleep", "40"}, 0},
		{[]string{"timeout", "40", "sleep", "100"}, 40},
		{[]string{"timeout", "1m", "sleep", "40"}, 40},
		{[]string{"/usr/bin/timeout", "30", "sh", "-c", "sleep 40; quit"}, 30},
		{[]string{"timeout", "-s", "KILL", "40", "sleep", "100"}, 0},
		{[]string{"bash", "-c", "-e", "sleep 40"}, 40},
		{[]string{"bash", "-c", "-o", "pipefail", "sleep 40"}, 0},
		{[]string{"sh", "-c", "sleep infinity"}, 604800},
		{[]string{"sleep", "inf"}, 604800},
		{[]string{"sleep", "information"}, 0},
		{[]string{""}, 0},
		{nil, 0},
	} {
		t.Run(fmt.Sprintf("%.60q", tc.command), func(t *testing.T) {
			if got := graceperiod.AtLeast(commandHook(tc.command...)); got != tc.want {
				t.Errorf("got %d, want %d", got, tc.want)
			}
		})
	}
	for name, tc := range map[string]struct {
		hook *corev1.LifecycleHandler
		want int64
	}{
		"action":    {&corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 5}}, 5},
		"negative":  {&corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: -5}}, 0},
		"too long":  {&corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 604801}}, 604800},
		"HTTP":      {&corev1.LifecycleHandler{HTTPGet: &corev1.HTTPGetAction{}}, 0},
		"no action": {&corev1.LifecycleHandler{}, 0},
	} {
		if got := graceperiod.AtLeast(tc.hook); got != tc.want {
			t.Errorf("%s: got %d, want %d", name, got, tc.want)
		}
	}
}
