package graceperiod_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/podgrace/podgrace/graceperiod"
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

// The bounds of what is known to be a sleep; its spellings are tested where they show, in defaulting.
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
		"exec of a week":          {exec("604800"), 604800, true},
		"exec of more":            {exec("604801"), 604801, false},
		"action of no time":       {action(0), 0, true},
		"action of a week":        {action(604800), 604800, true},
		"action of more":          {action(604801), 604801, false},
		"action of negative time": {action(-1), -1, false},
	} {
		t.Run(name, func(t *testing.T) {
			if took, known := graceperiod.PreStop(tc.hook); took != tc.took || known != tc.known {
				t.Errorf("got %d %v, want %d %v", took, known, tc.took, tc.known)
			}
		})
	}
}
