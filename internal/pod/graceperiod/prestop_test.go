package graceperiod_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/podgrace/podgrace/internal/pod/graceperiod"
)

func TestStoppable(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		InitContainers: []corev1.Container{
			{Name: "setup"}, {Name: "retried", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyOnFailure)},
			{Name: "mesh", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)},
		},
		Containers: []corev1.Container{{Name: "a"}, {Name: "b"}},
	}}
	var names []string
	for _, c := range graceperiod.Stoppable(pod) {
		names = append(names, c.Name)
	}
	if diff := cmp.Diff([]string{"mesh", "a", "b"}, names); diff != "" {
		t.Error(diff)
	}
}

// The bounds of what is known to be a sleep.
func TestPreStop(t *testing.T) {
	exec := func(n string) *corev1.LifecycleHandler {
		return &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"sleep", n}}}
	}
	action := func(n int64) *corev1.LifecycleHandler {
		return &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: n}}
	}
	for name, tc := range map[string]struct {
		hook  *corev1.LifecycleHandler
		took  int64
		known bool
	}{
		"exec of no time":         {exec("0"), 0, true},
		"exec of a week less 1 s": {exec("604799"), 604799, true},
		"exec of a week":          {exec("604800"), 604800, false},
		"exec of more":            {exec("604801"), 604800, false},
		"exec of an hour":         {exec("1h"), 3600, true},
		"action of no time":       {action(0), 0, true},
		"action of a week":        {action(604800), 604800, false},
		"action of more":          {action(604801), 604800, false},
		"action of negative time": {action(-1), 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			if took, known := graceperiod.PreStop(tc.hook); took != tc.took || known != tc.known {
				t.Errorf("got %d %v, want %d %v", took, known, tc.took, tc.known)
			}
		})
	}
}

// Which commands only sleep.
func TestPreStopOfCommands(t *testing.T) {
	for known, commands := range map[bool][][]string{
		true: {
			{"sleep", "5"}, {"sleep", "5s"}, {"/bin/sleep", "05"}, {"/opt/sleep", "5"}, {"env", "sleep", "5"}, {"timeout", "5", "sleep", "9"},
			{"sh", "-c", "sleep 5"}, {"/bin/sh", "-c", "sleep 5"}, {"/usr/bin/bash", "-c", "exec sleep 5"}, {"ash", "-c", "sleep 5s;"}, {"dash", "-c", "  /bin/sleep\t5 ; \n"},
			{"sh", "-c", "set -e; sleep 5"}, {"sh", "-c", "# drain\nsleep 5\n"},
		},
		false: {
			{"sleep", "5ss"}, {"sleep", "-5"}, {"sleep", "infinity"}, {"sleep", ""}, {"sleep"}, {"sleep", "5", "6"}, {"sh", "-c", "sleep 5 &"}, {"sh", "-c", "sleep 5; quit"}, {"sh", "-c", "sleep $N"}, {"sh", "-c", "sleep 5 6"},
			{"sh", "-c", "/usrsleep 5"}, {"sh", "-c", "sleep\n5"}, {"sh", "-c", "nosleep 5"}, {"sh", "sleep 5"}, {"python", "-c", "sleep 5"}, {"bash", "-ec", "sleep 5"}, {""}, nil,
		},
	} {
		for _, command := range commands {
			if took, got := graceperiod.PreStop(commandHook(command...)); got != known || known && took != 5 {
				t.Errorf("%q: got %d %v", command, took, got)
			}
		}
	}
}
