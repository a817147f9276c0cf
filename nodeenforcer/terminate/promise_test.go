package terminate_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podgrace/podgrace/nodeenforcer/terminate"
)

func preStop(h *corev1.LifecycleHandler) *corev1.Lifecycle { return &corev1.Lifecycle{PreStop: h} }

func TestKubeletTime(t *testing.T) {
	sleep := preStop(&corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 5}})
	unknown := preStop(&corev1.LifecycleHandler{HTTPGet: &corev1.HTTPGetAction{}})
	always := new(corev1.ContainerRestartPolicyAlways)
	for name, tc := range map[string]struct {
		main, init corev1.Container
		grace      int64
		want       time.Duration
	}{
		"the floor":                        {grace: 1, want: 2 * time.Second},
		"the grace period":                 {grace: 30, want: 30 * time.Second},
		"a hook within it":                 {main: corev1.Container{Lifecycle: sleep}, grace: 30, want: 30 * time.Second},
		"a hook cut off, and the floor":    {main: corev1.Container{Lifecycle: sleep}, grace: 1, want: 3 * time.Second},
		"a hook of unknown length":         {main: corev1.Container{Lifecycle: unknown}, grace: 30, want: 32 * time.Second},
		"a sidecar waits its turn":         {init: corev1.Container{RestartPolicy: always}, grace: 1, want: 3 * time.Second},
		"a sidecar with a hook":            {init: corev1.Container{RestartPolicy: always, Lifecycle: unknown}, grace: 1, want: 4 * time.Second},
		"an init container does not":       {init: corev1.Container{}, grace: 1, want: 2 * time.Second},
		"the longest of all counts":        {main: corev1.Container{Lifecycle: unknown}, init: corev1.Container{RestartPolicy: always}, grace: 9, want: 11 * time.Second},
		"an init container may have hooks": {init: corev1.Container{Lifecycle: sleep}, grace: 1, want: 3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{tc.main}, InitContainers: []corev1.Container{tc.init}}}
			if got := terminate.KubeletTime(pod, tc.grace); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}
