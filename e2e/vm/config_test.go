package vm

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestCgroupNames(t *testing.T) {
	pod := func(class corev1.PodQOSClass) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{UID: types.UID("1-2")},
			Status: corev1.PodStatus{
				QOSClass:          class,
				ContainerStatuses: []corev1.ContainerStatus{{Name: "waiting"}, {Name: "main", ContainerID: "containerd://abc"}},
			},
		}
	}
	for class, want := range map[corev1.PodQOSClass]string{
		corev1.PodQOSGuaranteed: "/sys/fs/cgroup/kubepods.slice/kubepods-pod1_2.slice",
		corev1.PodQOSBurstable:  "/sys/fs/cgroup/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1_2.slice",
		corev1.PodQOSBestEffort: "/sys/fs/cgroup/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod1_2.slice",
	} {
		if got := PodCgroup(pod(class)); got != want {
			t.Errorf("%s: got %s", class, got)
		}
		if got := ContainerCgroup(pod(class), "main"); got != want+"/cri-containerd-abc.scope" {
			t.Errorf("%s: got %s", class, got)
		}
		if got := ContainerCgroup(pod(class), "waiting"); got != "" {
			t.Errorf("%s: a container that does not run has %s", class, got)
		}
	}
}
