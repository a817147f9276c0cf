package vm

import (
	"path"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// CgroupRoot is where cgroup v2 is mounted in the guest.
const CgroupRoot = "/sys/fs/cgroup"

// Kubepods is the cgroup that all pods are in. The names below it are those of the kubelet's systemd driver
// (pkg/kubelet/cm/cgroup_manager_linux.go and pod_container_manager_linux.go in 1.36.3) and of containerd.
const Kubepods = CgroupRoot + "/kubepods.slice"

// PodCgroup is a running pod's cgroup. Its status says the QoS class.
func PodCgroup(pod *corev1.Pod) string {
	uid := strings.ReplaceAll(string(pod.UID), "-", "_")
	if pod.Status.QOSClass == corev1.PodQOSGuaranteed {
		return path.Join(Kubepods, "kubepods-pod"+uid+".slice")
	}
	class := "kubepods-" + strings.ToLower(string(pod.Status.QOSClass))
	return path.Join(Kubepods, class+".slice", class+"-pod"+uid+".slice")
}

// ContainerCgroup is the cgroup of a pod's running container, or empty if the pod's status has none of that name.
func ContainerCgroup(pod *corev1.Pod, name string) string {
	for _, container := range pod.Status.ContainerStatuses {
		if _, id, ok := strings.Cut(container.ContainerID, "://"); ok && container.Name == name {
			return path.Join(PodCgroup(pod), "cri-containerd-"+id+".scope")
		}
	}
	return ""
}
