package vmnode

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/yaml"
)

func TestKubeletConfig(t *testing.T) {
	text, err := kubeletConfig([]corev1.Taint{{Key: "a", Effect: corev1.TaintEffectNoSchedule}}, func(config *kubeletv1beta1.KubeletConfiguration) {
		config.EvictionHard = map[string]string{"memory.available": "600Mi"}
		config.EvictionPressureTransitionPeriod = metav1.Duration{Duration: time.Second}
	})
	if err != nil {
		t.Fatal(err)
	}
	var got kubeletv1beta1.KubeletConfiguration
	if err := yaml.UnmarshalStrict(text, &got); err != nil { // as the kubelet reads it
		t.Fatal(err)
	}
	if got.Kind != "KubeletConfiguration" || got.CgroupDriver != "systemd" || len(got.RegisterWithTaints) != 1 {
		t.Errorf("got\n%s", text)
	}
	if got.EvictionHard["memory.available"] != "600Mi" || got.EvictionPressureTransitionPeriod.Duration != time.Second {
		t.Errorf("the change is lost:\n%s", text)
	}
}

func TestAPIServerPort(t *testing.T) {
	for _, host := range []string{"127.0.0.1:6443", "https://127.0.0.1:6443", "https://127.0.0.1:6443/"} {
		config := &rest.Config{Host: host, TLSClientConfig: rest.TLSClientConfig{CAData: []byte("x")}}
		if got, err := apiServerPort(config); got != "6443" || err != nil {
			t.Errorf("%s: got %q, %v", host, got, err)
		}
	}
}

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
