package terminate

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
)

func TestContainerID(t *testing.T) {
	for cgroup, want := range map[string]string{
		"cri-containerd-0a1b.scope": "0a1b",
		"crio-0a1b.scope":           "0a1b",
		"crio-0a1b":                 "0a1b",
		"0a1b":                      "0a1b",
		"crio-conmon-0a1b.scope":    "",
		"crio-conmon-0a1b":          "",
	} {
		if got := containerID(cgroup); got != want {
			t.Errorf("%s: got %q, want %q", cgroup, got, want)
		}
	}
}

func TestSignalNumber(t *testing.T) {
	for name, want := range map[corev1.Signal]unix.Signal{
		corev1.SIGQUIT: unix.SIGQUIT, corev1.SIGRTMIN: 34, corev1.SIGRTMINPLUS3: 37, corev1.SIGRTMAX: 64, corev1.SIGRTMAXMINUS2: 62,
		"": unix.SIGTERM, "SIGNONE": unix.SIGTERM, "SIGRTMIN+x": unix.SIGTERM,
	} {
		if got := signalNumber(name); got != want {
			t.Errorf("%s: got %d, want %d", name, got, want)
		}
	}
}

// Sidecars stop after the others, the last one first; the signal is the status's, else the spec's.
func TestMembers(t *testing.T) {
	sidecar := func(name string) corev1.Container {
		return corev1.Container{Name: name, RestartPolicy: new(corev1.ContainerRestartPolicyAlways)}
	}
	is := func(name string) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: name, ContainerID: "containerd://" + name}
	}
	quits := is("quits")
	quits.StopSignal = new(corev1.SIGQUIT)
	pod := &corev1.Pod{
		Spec: corev1.PodSpec{
			InitContainers: []corev1.Container{sidecar("first"), {Name: "once"}, sidecar("second")},
			Containers:     []corev1.Container{{Name: "main", Lifecycle: &corev1.Lifecycle{StopSignal: new(corev1.SIGINT)}}, {Name: "quits"}},
		},
		Status: corev1.PodStatus{
			InitContainerStatuses:      []corev1.ContainerStatus{is("first"), is("once"), is("second")},
			ContainerStatuses:          []corev1.ContainerStatus{is("main"), quits, {Name: "waits"}},
			EphemeralContainerStatuses: []corev1.ContainerStatus{is("debug")},
		},
	}
	want := map[string]member{
		"first": {order: 3, signal: unix.SIGTERM}, "once": {signal: unix.SIGTERM}, "second": {order: 1, signal: unix.SIGTERM},
		"main": {signal: unix.SIGINT}, "quits": {signal: unix.SIGQUIT}, "debug": {signal: unix.SIGTERM},
	}
	if diff := cmp.Diff(want, members(pod), cmp.AllowUnexported(member{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
