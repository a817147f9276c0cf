package state

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/internal/pod/graceperiod"
	"github.com/podgrace/podgrace/policy/enforcement"
)

// What is kept of a pod is bounded: the API server stores 1.5 MiB for each, a node runs hundreds, and whoever may make pods must not be able
// to end the enforcer of a node by its memory limit. So only fields are kept that the enforcer reads, and of lists no more than any real pod has.
const (
	// maxContainers is how many containers a pod is known by. One that has more is kept as if it were a single one (folded).
	maxContainers = 64
	maxVolumes    = 256
	// maxHugePages is how many sizes of huge pages are kept of one list of resources. A machine has four at most (arm64).
	maxHugePages = 8
	maxText      = 256 // of names that the API server does not bound
)

// slim drops fields that the enforcer does not read.
func slim(o any) (any, error) {
	if p, ok := o.(*corev1.Pod); ok {
		slimPod(p)
	}
	if _, is := o.(*v1alpha1.NodePolicy); is { // by its managed fields it is known what is not read of it
		return o, nil
	}
	if of, err := meta.Accessor(o); err == nil {
		of.SetManagedFields(nil)
	}
	return o, nil
}

// slimPod replaces a pod by what is kept of it. Doing it twice changes nothing. What must not be in the checkpoint is not kept either:
// environments and commands hold secrets.
func slimPod(p *corev1.Pod) {
	small := corev1.Pod{TypeMeta: p.TypeMeta, ObjectMeta: slimMeta(p)}
	small.Status.Phase, small.Status.QOSClass = p.Status.Phase, p.Status.QOSClass
	if !graceperiod.Finished(p) { // of one that is over it counts only that it is
		small.Spec, small.Status = slimSpec(&p.Spec), slimStatus(&p.Status)
		if len(p.Spec.Containers)+len(p.Spec.InitContainers)+len(p.Spec.EphemeralContainers) > maxContainers {
			fold(p, &small)
		}
	}
	*p = small
}

// annotations are those that are read: of admission, and of the kubelet's static pods.
var annotations = []string{v1alpha1.AnnotationEnforcement, corev1.MirrorPodAnnotationKey, "kubernetes.io/config.hash"}

func slimMeta(p *corev1.Pod) metav1.ObjectMeta {
	m := metav1.ObjectMeta{
		Namespace: p.Namespace, Name: p.Name, UID: p.UID, ResourceVersion: p.ResourceVersion, Generation: p.Generation,
		DeletionTimestamp: p.DeletionTimestamp, DeletionGracePeriodSeconds: p.DeletionGracePeriodSeconds,
	}
	for _, name := range annotations {
		if text, ok := p.Annotations[name]; ok {
			if m.Annotations == nil {
				m.Annotations = map[string]string{}
			}
			m.Annotations[name] = cut(text, enforcement.MaxAnnotation+1) // still too long to be parsed
		}
	}
	for _, o := range p.OwnerReferences {
		if o.Controller != nil && *o.Controller { // the Node of a mirror pod is one; a pod has no two (ValidateOwnerReferences)
			m.OwnerReferences = []metav1.OwnerReference{o}
		}
	}
	return m
}

// cut copies what is kept, or all of it would stay in memory.
func cut(text string, most int) string { return strings.Clone(text[:min(len(text), most)]) }

func slimSpec(s *corev1.PodSpec) corev1.PodSpec {
	out := corev1.PodSpec{
		NodeName: s.NodeName, Priority: s.Priority, PriorityClassName: s.PriorityClassName, TerminationGracePeriodSeconds: s.TerminationGracePeriodSeconds,
		Overhead: slimList(s.Overhead), Resources: slimResources(s.Resources),
	}
	for i := range s.Volumes {
		if v := &s.Volumes[i]; OnDisk(v) && len(out.Volumes) < maxVolumes {
			out.Volumes = append(out.Volumes, corev1.Volume{Name: v.Name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
		}
	}
	if len(s.Containers)+len(s.InitContainers)+len(s.EphemeralContainers) > maxContainers {
		return out
	}
	for i := range s.Containers {
		out.Containers = append(out.Containers, slimContainer(&s.Containers[i]))
	}
	for i := range s.InitContainers {
		out.InitContainers = append(out.InitContainers, slimContainer(&s.InitContainers[i]))
	}
	for i := range s.EphemeralContainers {
		c := corev1.Container(s.EphemeralContainers[i].EphemeralContainerCommon)
		out.EphemeralContainers = append(out.EphemeralContainers, corev1.EphemeralContainer{EphemeralContainerCommon: corev1.EphemeralContainerCommon(slimContainer(&c))})
	}
	return out
}

func slimContainer(c *corev1.Container) corev1.Container {
	out := corev1.Container{Name: c.Name, RestartPolicy: c.RestartPolicy, Resources: *slimResources(&c.Resources)}
	if l := c.Lifecycle; l != nil && (l.PreStop != nil || l.StopSignal != nil) {
		out.Lifecycle = &corev1.Lifecycle{StopSignal: l.StopSignal}
		if l.PreStop != nil {
			out.Lifecycle.PreStop = slimHook(l.PreStop)
		}
	}
	return out
}

// slimHook keeps of what kind a hook is, and how long it takes where that can be known (graceperiod.PreStop).
func slimHook(h *corev1.LifecycleHandler) *corev1.LifecycleHandler {
	out := &corev1.LifecycleHandler{Sleep: h.Sleep}
	switch {
	case h.Exec != nil:
		out.Exec = &corev1.ExecAction{}
		if seconds, known := graceperiod.PreStop(h); known && h.Sleep == nil {
			out.Exec.Command = []string{"sleep", strconv.FormatInt(seconds, 10)}
		}
	case h.HTTPGet != nil:
		out.HTTPGet = &corev1.HTTPGetAction{}
	case h.TCPSocket != nil:
		out.TCPSocket = &corev1.TCPSocketAction{}
	}
	return out
}

func slimResources(r *corev1.ResourceRequirements) *corev1.ResourceRequirements {
	if r == nil {
		return nil
	}
	return &corev1.ResourceRequirements{Requests: slimList(r.Requests), Limits: slimList(r.Limits)}
}

// slimList keeps the resources that cgroups, QoS classes and rankings know.
func slimList(list corev1.ResourceList) corev1.ResourceList {
	if list == nil {
		return nil
	}
	out := corev1.ResourceList{}
	var huge []corev1.ResourceName
	for name, q := range list {
		switch {
		case name == corev1.ResourceCPU, name == corev1.ResourceMemory, name == corev1.ResourceEphemeralStorage:
			out[name] = q
		case strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) && len(name) <= maxText:
			huge = append(huge, name)
		}
	}
	slices.Sort(huge)
	for _, name := range huge[:min(len(huge), maxHugePages)] {
		out[name] = list[name]
	}
	return out
}

func slimStatus(s *corev1.PodStatus) corev1.PodStatus {
	out := corev1.PodStatus{
		Phase: s.Phase, QOSClass: s.QOSClass, StartTime: s.StartTime, ObservedGeneration: s.ObservedGeneration,
		Resources: slimResources(s.Resources), AllocatedResources: slimList(s.AllocatedResources),
	}
	for _, c := range s.Conditions {
		if (c.Type == corev1.PodResizePending || c.Type == corev1.PodResizeInProgress) && len(out.Conditions) < 2 { // the only ones that are read
			out.Conditions = append(out.Conditions, corev1.PodCondition{Type: c.Type, Status: c.Status, Reason: cut(c.Reason, maxText)})
		}
	}
	if len(s.ContainerStatuses)+len(s.InitContainerStatuses)+len(s.EphemeralContainerStatuses) <= maxContainers {
		out.ContainerStatuses, out.InitContainerStatuses, out.EphemeralContainerStatuses =
			slimStatuses(s.ContainerStatuses), slimStatuses(s.InitContainerStatuses), slimStatuses(s.EphemeralContainerStatuses)
	}
	return out
}

func slimStatuses(list []corev1.ContainerStatus) (out []corev1.ContainerStatus) {
	for i := range list {
		s := &list[i]
		out = append(out, corev1.ContainerStatus{
			Name: s.Name, ContainerID: cut(s.ContainerID, maxText), State: slimState(s.State), LastTerminationState: slimState(s.LastTerminationState),
			Resources: slimResources(s.Resources), AllocatedResources: slimList(s.AllocatedResources), StopSignal: s.StopSignal,
		})
	}
	return out
}

func slimState(s corev1.ContainerState) (out corev1.ContainerState) {
	out.Running = s.Running
	if s.Terminated != nil {
		out.Terminated = &corev1.ContainerStateTerminated{}
	}
	return out
}

// fold keeps all containers of a pod as one: with what they request together, and, as the kubelet counts, with the limit that all of them have
// (helpers_linux.go ResourceConfigForPod, 1.36.3). So the pod's own cgroup, those above it and its rank are what they would be; its containers'
// cgroups are not planned.
func fold(p, small *corev1.Pod) {
	options := resourcehelper.PodResourcesOptions{ExcludeOverhead: true, SkipPodLevelResources: true}
	requests := resourcehelper.PodRequests(p, options)
	limited := map[corev1.ResourceName]bool{corev1.ResourceCPU: true, corev1.ResourceMemory: true}
	options.ContainerFn = func(list corev1.ResourceList, _ resourcehelper.ContainerType) {
		for name := range limited {
			if q := list[name]; q.IsZero() {
				delete(limited, name)
			}
		}
	}
	limits := resourcehelper.PodLimits(p, options)
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if !limited[name] {
			delete(limits, name)
		}
	}
	small.Spec.InitContainers, small.Spec.EphemeralContainers = nil, nil
	small.Spec.Containers = []corev1.Container{{
		Name:      fmt.Sprintf("all %d containers", len(p.Spec.Containers)+len(p.Spec.InitContainers)+len(p.Spec.EphemeralContainers)),
		Resources: corev1.ResourceRequirements{Requests: slimList(requests), Limits: slimList(limits)},
	}}
	small.Status.ContainerStatuses, small.Status.InitContainerStatuses, small.Status.EphemeralContainerStatuses = nil, nil, nil
}

// OnDisk reports whether a pod can fill the node's disk through a volume (pkg/volume/util/util.go IsLocalEphemeralVolume, 1.36.3, has
// the ConfigMaps as well, which nobody can fill).
func OnDisk(v *corev1.Volume) bool {
	return v.EmptyDir != nil && v.EmptyDir.Medium == corev1.StorageMediumDefault
}
