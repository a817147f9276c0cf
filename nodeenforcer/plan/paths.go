package plan

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	kubepods    = "kubepods"
	podPrefix   = "pod"
	sliceSuffix = ".slice"
	// maxName is a bound on what becomes part of a file's name; the kernel's is 255 with what is added to it.
	maxName = 128
)

// cgroupName is a cgroup's name in the kubelet's own form, from the top (pkg/kubelet/cm/cgroup_manager_linux.go CgroupName, 1.36.3).
type cgroupName []string

// rootName is the name of kubepods: below the kubelet's cgroupRoot, which is a path as the cgroupfs driver's, whatever the driver.
func rootName(cgroupRoot string) cgroupName {
	var root cgroupName
	if trimmed := strings.TrimPrefix(cgroupRoot, "/"); trimmed != "" {
		root = strings.Split(trimmed, "/")
	}
	return append(root, kubepods)
}

func (n cgroupName) child(component string) cgroupName {
	return append(slices.Clip(n), component)
}

// path is the name as the driver writes it (CgroupName.ToCgroupfs and ToSystemd).
func (n cgroupName) path(d Driver) (string, error) {
	for _, part := range n {
		if part == "." || part == ".." || strings.ContainsRune(part, 0) {
			return "", fmt.Errorf("cgroup name %q: %q is no name", []string(n), part)
		}
	}
	if d != Systemd {
		return "/" + path.Join(n...), nil
	}
	// Within a component systemd's own separator is escaped; then every prefix is a slice of its own.
	var expanded, prefix string
	for _, part := range n {
		if part == "" {
			return "", fmt.Errorf("cgroup name %q: an empty component is no slice", []string(n))
		}
		part = strings.ReplaceAll(part, "-", "_")
		expanded += "/" + prefix + part + sliceSuffix
		prefix += part + "-"
	}
	return expanded, nil
}

// pod is the name of a pod's cgroup (pkg/kubelet/cm/pod_container_manager_linux.go GetPodContainerName, 1.36.3): Guaranteed pods
// are directly below kubepods. The uid is the kubelet's.
func (n cgroupName) pod(class corev1.PodQOSClass, uid string) (cgroupName, error) {
	if !plainName(uid, "-.:") {
		return nil, fmt.Errorf("its UID %q can be no cgroup's name", uid)
	}
	return n.class(class).child(podPrefix + uid), nil
}

func (n cgroupName) class(class corev1.PodQOSClass) cgroupName {
	if class == corev1.PodQOSGuaranteed {
		return n
	}
	return n.child(strings.ToLower(string(class)))
}

// containerName is the last component of a container's cgroup, from the id in its status, as containerd
// (internal/cri/server/podsandbox/helpers.go getCgroupsPath) and CRI-O (internal/config/cgmgr systemd_linux.go and
// cgroupfs_linux.go, ContainerCgroupAbsolutePath) make it.
func containerName(d Driver, containerID string) (string, error) {
	runtime, id, ok := strings.Cut(containerID, "://")
	if !ok {
		return "", errors.New("its container id has no runtime")
	}
	if !plainName(id, "-._") || id[0] == '.' {
		return "", fmt.Errorf("container id %q can be no cgroup's name", id)
	}
	switch {
	case runtime == "containerd" && d == Systemd:
		return "cri-containerd-" + id + ".scope", nil
	case runtime == "containerd":
		return id, nil
	case runtime == "cri-o" && d == Systemd:
		return "crio-" + id + ".scope", nil
	case runtime == "cri-o":
		return "crio-" + id, nil
	default:
		return "", fmt.Errorf("container runtime %q is not known", runtime)
	}
}

// plainName reports whether a string has only letters, digits and the others, and is not too long. What comes from outside becomes
// part of a path only then.
func plainName(s, others string) bool {
	if s == "" || len(s) > maxName {
		return false
	}
	for _, r := range s {
		if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune(others, r) {
			return false
		}
	}
	return true
}

// The kubelet's annotation of static pods and their mirrors (pkg/kubelet/types/pod_update.go, 1.36.3).
const annotationConfigHash = "kubernetes.io/config.hash"

// kubeletUID is the pod's UID for the kubelet. A static pod's is the hash of its manifest (pkg/kubelet/config/common.go
// applyDefaults); the mirror pod that stands for it in the API has a UID of its own, and the hash as an annotation
// (pkg/kubelet/pod/mirror_client.go).
func kubeletUID(pod *corev1.Pod) string {
	if hash := pod.Annotations[annotationConfigHash]; IsMirror(pod) && hash != "" {
		return hash
	}
	return string(pod.UID)
}

// IsMirror reports whether a pod of the API stands for a static pod. Anybody may write the annotation, so the owner counts too: the
// kubelet makes its Node the controller of a mirror pod.
func IsMirror(pod *corev1.Pod) bool {
	if _, annotated := pod.Annotations[corev1.MirrorPodAnnotationKey]; !annotated {
		return false
	}
	o := metav1.GetControllerOfNoCopy(pod)
	return o != nil && o.Kind == "Node" && o.APIVersion == "v1" && o.Name == pod.Spec.NodeName
}
